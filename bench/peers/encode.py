#!/usr/bin/python3
"""Compares engines on the embeddings of many documents, in alternation (A B C A B C …): documents per second, ratios, and how far the embeddings
are from the first engine's.

    encode.py --text FILE 'kvik=/usr/bin/python3:kvik serve all-MiniLM-L6-v2 --threads 2 --port 8000' \\
        onnxruntime=PYTHON:FOLDER llama-cpp-python=PYTHON:MODEL.gguf

PYTHON is that of an environment with the engine's package. What follows the colon are the arguments of encode_one.py: for `kvik` and `server`
the command of a server, for the others a model. The documents are passages of the text, of 8 to 120 words; each length is as frequent as another
of half its size.
"""
import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile

import batch


def documents_of(text, options):
    words = text.split()
    rng = random.Random(5)
    documents = []
    for _ in range(options.documents):
        n = round(math.exp(rng.uniform(math.log(options.least), math.log(options.most))))
        start = rng.randrange(len(words) - n)
        documents.append(" ".join(words[start:start + n]))
    return documents


def measure(contestant, path, options):
    engine, python, arguments = batch.parts_of(contestant)
    return batch.run_in_environment(python, "encode_one.py", engine, path, "--threads", str(options.threads), "--", *arguments)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contestants", nargs="+", metavar="ENGINE=PYTHON:ARGUMENTS")
    parser.add_argument("--text", required=True)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--least", type=int, default=8, help="words of a document")
    parser.add_argument("--most", type=int, default=120, help="words of a document")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with open(options.text, encoding="utf-8") as f:
        documents = documents_of(f.read(), options)
    speeds = {contestant: [] for contestant in options.contestants}
    vectors = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "documents.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(documents, f)
        for number in range(options.rounds):
            for contestant, found in speeds.items():
                made = measure(contestant, path, options)
                vectors[contestant] = made["embeddings"]
                found.append(len(documents) / made["seconds"])
                print(f"round {number + 1}: {contestant}: {found[-1]:.1f} documents/s {made['system']}", file=sys.stderr, flush=True)
    first = options.contestants[0]
    print("| engine and arguments | documents/s (each round) | first / this | least cosine with the first |\n|---|---|---|---|")
    for contestant, found in speeds.items():
        name, _, arguments = batch.parts_of(contestant)
        label = " ".join((name, *map(os.path.basename, arguments)))
        least = min(cosine(a, b) for a, b in zip(vectors[first], vectors[contestant]))
        ratio = statistics.median(speeds[first]) / statistics.median(found)
        print(f"| {label} | {', '.join(f'{speed:.1f}' for speed in found)} | {ratio:.2f}× | {least:.5f} |")


if __name__ == "__main__":
    main()
