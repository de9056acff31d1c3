#!/usr/bin/python3
"""Answers a file of prompts in one call of an engine's Python package, and prints the time as JSON. Run by batch.py, in the engine's environment.

Each answer has exactly --tokens tokens, chosen greedily. Loading the model and a first prompt are not timed.
"""
import argparse
import json
import os
import time


class Kvik:
    def __init__(self, options):
        import kvik
        self.llm = kvik.LLM(options.model, ctx=2048, threads=options.threads)
        self.system = f"{kvik.__version__} {self.llm.info['backend']} {self.llm.info['kv_type']}"

    def run(self, prompts, n):
        answers = self.llm.generate(prompts, max_tokens=n, temperature=0, ignore_eos=True)
        return [answer.usage["completion_tokens"] for answer in answers]


class LlamaCppPython:
    """It has no call for several prompts: they are answered one after the other, as its users do. Its prefix cache is the state of the prompt before."""

    def __init__(self, options):
        import llama_cpp
        self.llm = llama_cpp.Llama(options.model, n_ctx=2048, n_threads=options.threads, n_threads_batch=options.threads, verbose=False)
        self.never = {str(self.llm.token_eos()): -100.0}
        self.system = f"{llama_cpp.__version__} {llama_cpp.llama_print_system_info().decode()}"

    def run(self, prompts, n):
        answers = [self.llm.create_completion(prompt, max_tokens=n, temperature=0, logit_bias=self.never) for prompt in prompts]
        return [answer["usage"]["completion_tokens"] for answer in answers]


class CTranslate2:
    """--model is a folder of ct2-transformers-converter; tokenizer.json is beside its files."""

    def __init__(self, options):
        import ctranslate2
        import tokenizers
        self.generator = ctranslate2.Generator(options.model, device="cpu", intra_threads=options.threads, compute_type=options.type or "default")
        self.tokenizer = tokenizers.Tokenizer.from_file(os.path.join(options.model, "tokenizer.json"))
        self.batch = options.batch
        self.system = f"{ctranslate2.__version__} {self.generator.compute_type}"

    def run(self, prompts, n):
        tokens = [self.tokenizer.encode(prompt).tokens for prompt in prompts]
        results = self.generator.generate_batch(tokens, max_length=n, min_length=n, include_prompt_in_result=False, max_batch_size=self.batch)
        return [len(result.sequences[0]) for result in results]


class Vllm:
    """--model is a folder in Hugging Face's format. Its documents advise to preload libtcmalloc and libiomp5."""

    def __init__(self, options):
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{options.threads - 1}")  # by default it leaves one processor unused
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")  # GiB
        import vllm
        self.params = vllm.SamplingParams
        self.llm = vllm.LLM(options.model, dtype=options.type or "bfloat16", max_model_len=2048, disable_log_stats=True)
        self.system = vllm.__version__

    def run(self, prompts, n):
        outputs = self.llm.generate(prompts, self.params(max_tokens=n, temperature=0, ignore_eos=True), use_tqdm=False)
        return [len(output.outputs[0].token_ids) for output in outputs]

    def close(self):
        self.llm.llm_engine.engine_core.shutdown()  # its processes would outlive this one


ENGINES = {"kvik": Kvik, "llama-cpp-python": LlamaCppPython, "ctranslate2": CTranslate2, "vllm": Vllm}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("model")
    parser.add_argument("prompts", help="a JSON list of texts")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--type", help="of the computation, in the engine's words (ctranslate2, vllm)")
    parser.add_argument("--batch", type=int, default=32, help="prompts in a batch (ctranslate2)")
    options = parser.parse_args()
    with open(options.prompts, encoding="utf-8") as f:
        prompts = json.load(f)
    engine = ENGINES[options.engine](options)
    engine.run(["Once upon a time"], 2)
    begin = time.perf_counter()
    n_tokens = engine.run(prompts, options.tokens)
    seconds = time.perf_counter() - begin
    if set(n_tokens) != {options.tokens}:
        raise SystemExit(f"answers have {sorted(set(n_tokens))} tokens, expected {options.tokens} each")
    if hasattr(engine, "close"):
        engine.close()
    print(json.dumps({"seconds": seconds, "tokens": sum(n_tokens), "system": str(getattr(engine, "system", ""))}), flush=True)
    os._exit(0)  # some engines' threads do not end


if __name__ == "__main__":
    main()
