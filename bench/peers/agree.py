#!/usr/bin/python3
"""Compares the greedy tokens of Kvik and llama.cpp on f32 files of every family, with K and V as f32.
    agree.py --node-modules /path/to/node_modules     # has node-llama-cpp, see README.md

The test presets have random weights. The contexts exceed the windows of 32 and 60 tokens, except for Mistral's and Phi-3's, which
llama.cpp does not implement. Prints one line per family. For a first difference it gives the distance of the two largest logits as a
share of the largest, and whose token the float64 oracle chooses there. A family that llama.cpp does not load is named as such. Needs numpy.
"""
import argparse
import json
import os
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
import kvik  # noqa: E402
from node_script import run_node  # noqa: E402

FAMILIES = tuple(name for name in kvik.PRESETS if name not in ("test-dense-first", "test-granitemoe"))  # these two are not compared
N_VOCAB = 260
WITHIN_WINDOW = {"test-mistral": (8, 20), "test-phi3": (16, 40)}  # tokens of the prompt and tokens generated
VOCABULARIES = {"test-phi3": "tokenizers/ggml-vocab-phi-3.gguf"}  # llama.cpp requires tokens that the toy vocabulary lacks


def peer_ids(node_modules, cases):
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    return [json.loads(line) for line in run_node(node_modules, "llama_cpp_greedy.mjs", stdin=lines).splitlines()]


def choice_of_oracle(file, tokens, ours, theirs, n_ctx):
    """Says whose token the float64 forward pass chooses."""
    best = int(kvik.reference_logits.forward(*kvik.weights(file), tokens, n_ctx)[-1].argmax())
    return {ours: "Kvik's", theirs: "llama.cpp's"}.get(best, "neither's")


def why_refused(message):
    """Returns the line of the error that says why a file was not loaded."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return next((line for line in lines if "error loading model" in line or "rror: " in line or "ASSERT" in line), lines[-1])


def model(name, seed, *vocabulary):
    return kvik.made(f"{name}-f32-{seed}{'-own-vocabulary' if vocabulary else ''}.gguf", "make_model.py", "--preset", name, "--type", "f32",
                     "--seed", seed, *vocabulary)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--node-modules", required=True)
    ap.add_argument("--seeds", type=int, default=3, help="models of each family")
    ap.add_argument("--prompt", type=int, default=150)
    ap.add_argument("--tokens", type=int, default=40, help="that each continues with")
    ap.add_argument("--families", nargs="+", default=FAMILIES)
    a = ap.parse_args()
    print(f"{a.seeds} models a family, {a.prompt} tokens each and {a.tokens} more")
    for name in a.families:
        vocabulary = ("--vocab", os.path.join(kvik.DATA, VOCABULARIES[name])) if name in VOCABULARIES else ()
        n_prompt, n = WITHIN_WINDOW.get(name, (a.prompt, a.tokens))
        cases = [{"file": model(name, seed, *vocabulary), "prompts": [kvik.random_tokens(n_prompt + seed, N_VOCAB, seed)], "n": n}
                 for seed in range(1, a.seeds + 1)]
        n_same, notes = 0, []
        try:
            found = peer_ids(a.node_modules, cases)
        except SystemExit as error:
            print(f"{name:<14} not loaded by llama.cpp: {why_refused(str(error))}", flush=True)
            continue
        for case, [theirs] in zip(cases, found):
            tokens = case["prompts"][0]
            n_ctx = len(tokens) + n + 8  # the same as llama.cpp's: long RoPE chooses its factors by it
            ours = kvik.greedy(case["file"], tokens, n, kv_type="f32", ctx=n_ctx)
            same = next((i for i, (x, y) in enumerate(zip(ours, theirs)) if x != y), len(ours))
            n_same += same
            if same < n:
                row = np.sort(kvik.logits(case["file"], tokens + ours[:same], kv_type="f32")[-1])
                whose = choice_of_oracle(case["file"], tokens + ours[:same], ours[same], theirs[same], n_ctx)
                notes.append(f"differs at {same}, where the best two are {(row[-1] - row[-2]) / abs(row).max():.1e} apart; float64 chooses {whose}")
        print(f"{name:<14} {n_same:>4} of {a.seeds * n} the same {'; '.join(notes)}", flush=True)


if __name__ == "__main__":
    main()
