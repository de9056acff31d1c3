#!/usr/bin/python3
"""Embeds a file of documents with one engine, and prints the time and the embeddings as JSON. Run by encode.py, in the engine's environment.

Loading the model and a first document are not timed; tokenization is, and for a server HTTP is, too.
"""
import argparse
import json
import os
import shlex
import socket
import subprocess
import time
import urllib.request


class Server:
    """The arguments: the command of a server with /v1/embeddings, which ends with its port. A request has 100 documents."""

    def __init__(self, options):
        self.port = int(options.arguments[-1])
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", self.port)) == 0:
                raise SystemExit(f"port {self.port} is in use")
        self.process = subprocess.Popen(options.arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.system = shlex.join(options.arguments)
        while True:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.system}: exit code {self.process.returncode}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health")
                return
            except OSError:
                time.sleep(0.1)

    def run(self, documents):
        vectors = []
        for i in range(0, len(documents), 100):
            body = {"input": documents[i:i + 100]}
            request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/embeddings", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            vectors += [entry["embedding"] for entry in json.load(urllib.request.urlopen(request))["data"]]
        return vectors

    def close(self):
        self.process.kill()
        self.process.wait()


class OnnxRuntime:
    """The argument is a folder with tokenizer.json and a model that onnx_encoder.py has made. Documents are sorted by length and padded to the
    longest of their batch of 32."""

    def __init__(self, options):
        import onnxruntime
        import tokenizers
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        folder, name = options.arguments
        self.session = onnxruntime.InferenceSession(os.path.join(folder, name), settings, providers=["CPUExecutionProvider"])
        self.tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.enable_padding()
        self.system = onnxruntime.__version__

    def run(self, documents):
        import numpy
        order = sorted(range(len(documents)), key=lambda i: len(documents[i]))
        vectors = [None] * len(documents)
        for i in range(0, len(order), 32):
            batch = self.tokenizer.encode_batch([documents[j] for j in order[i:i + 32]])
            mask = numpy.array([text.attention_mask for text in batch], dtype=numpy.int64)
            ids = numpy.array([text.ids for text in batch], dtype=numpy.int64)
            states, = self.session.run(None, {"input_ids": ids, "attention_mask": mask})
            weights = mask[..., None].astype(numpy.float32)
            means = (states * weights).sum(axis=1) / weights.sum(axis=1)
            for j, mean in zip(order[i:i + 32], means / numpy.linalg.norm(means, axis=1, keepdims=True)):
                vectors[j] = mean.tolist()
        return vectors


class LlamaCppPython:
    """The argument is a GGUF file. Its embed() puts as many documents into a batch of 512 tokens as fit."""

    def __init__(self, options):
        import llama_cpp
        self.llm = llama_cpp.Llama(options.arguments[0], embedding=True, n_ctx=512, n_batch=512, n_ubatch=512, n_threads=options.threads,
                                   n_threads_batch=options.threads, verbose=False)
        self.system = llama_cpp.__version__

    def run(self, documents):
        return self.llm.embed(documents, normalize=True)


ENGINES = {"kvik": Server, "server": Server, "onnxruntime": OnnxRuntime, "llama-cpp-python": LlamaCppPython}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("documents", help="a JSON list of texts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("arguments", nargs="+")
    options = parser.parse_args()
    with open(options.documents, encoding="utf-8") as f:
        documents = json.load(f)
    engine = ENGINES[options.engine](options)
    try:
        engine.run(documents[:1])
        begin = time.perf_counter()
        vectors = engine.run(documents)
        seconds = time.perf_counter() - begin
    finally:
        if hasattr(engine, "close"):
            engine.close()
    print(json.dumps({"seconds": seconds, "system": engine.system, "embeddings": vectors}))


if __name__ == "__main__":
    main()
