#!/usr/bin/python3
"""Compares the greedy tokens of Kvik and llama.cpp on f32 files of every family, with K and V as f32.
    agree.py --node-modules /path/to/node_modules     # has node-llama-cpp, see README.md

The test presets have random weights. The contexts exceed the windows of 32 and 60 tokens, except for Mistral's and Phi-3's, which
llama.cpp does not implement. Granite Switch is left out, because llama.cpp averages the adapters of several control tokens. Prints one
line per family. For a first difference it gives the distance of the two largest logits as a share of the largest, and whose token the
float64 oracle chooses there. A family that llama.cpp does not load is named as such. Needs numpy.
"""
import argparse
import json
import os
import sys
import zlib

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
import kvik  # noqa: E402
from node_script import run_node  # noqa: E402

FAMILIES = tuple(name for name in kvik.PRESETS if name not in ("test-dense-first", "test-granitemoe", "test-graniteswitch"))
N_VOCAB = 260
WITHIN_WINDOW = {"test-mistral": (8, 20), "test-phi3": (16, 40)}  # tokens of the prompt and tokens generated

def settings(*values):
    return tuple(part for value in values for part in ("--set", value))


# Flags of make_model.py for what llama.cpp requires, what it does not read, and what is fixed in it: keys and tensors without effect; factors
# that its files have in their weights; the chunks and temperatures of Llama 4; windows of EXAONE 4, and norms of Q and K of Command R+, in
# models of 64 layers alone; as many KV heads as heads in OLMoE; the widths of Gemma 3n, which of its gates are cut off, and which layers share
# K and V.
MORE_FLAGS = {
    "test-gemma3n": ("--all-kv", "--per-layer", 256, "--laurel", 64,
                     *settings("attention.shared_kv_layers=0", f"activation_sparsity_scale={[1.6448533535] * 6}")),
    "test-olmoe": ("--kv-heads", 4), "test-exaone4": settings("attention.sliding_window=null"),
    "test-ernie45moe": settings("interleave_moe_layer_step=1"), "test-dots1": settings("expert_shared_count=2"),
    "test-afmoe": settings("expert_shared_count=2"), "test-bailingmoe2": settings("expert_shared_count=1"),
    "test-cohere2moe": settings("expert_shared_count=1"), "test-commandrplus": ("--layers", 64),
    "test-llama4": settings("attention.sliding_window=8192", "attention.temperature_length=8192"),
    "test-step35": settings("attention.sliding_window_pattern=[false,true,true,true,false]"),
    "test-falconh1": settings("logit_scale=null", "attention.value_scale=null", "ssm.in_scales=null", "ssm.out_scale=null",
                              "feed_forward.gate_scale=null", "feed_forward.scale=null"),
    "test-gptneox": settings("use_parallel_residual=true"), "test-mistral4": settings("attention.temperature_length=32"),
    "test-granitehybrid": settings("rope.scaling.finetuned=false"), "test-hyv3": ("--bare-bias",),
    "test-deepseek32": ("--index-dim", 64), "test-glmdsa": ("--index-dim", 64),
    "test-glm5next": ("--mixed-streams", 4, "--index-dim", 64),
    "test-deepseek4": ("--entry-tokens", 128, "--index-dim", 64, *settings("expert_shared_count=1")),
    **dict.fromkeys(("test-minimaxm3", "test-minimaxm3-small"), settings("expert_shared_count=1", "expert_gating_func=2", "expert_weights_norm=true")),
}
FLASH = ("test-minimaxm3", "test-minimaxm3-small")  # llama.cpp selects blocks only with flash attention
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


def model(name, seed, *flags):
    flags += MORE_FLAGS.get(name, ())
    return kvik.made(f"{name}-f32-{seed}{f'-{zlib.crc32(repr(flags).encode()):08x}' if flags else ''}.gguf", "make_model.py", "--preset", name, "--type", "f32",
                     "--seed", seed, *flags)


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
        cases = [{"file": model(name, seed, *vocabulary), "prompts": [kvik.random_tokens(n_prompt + seed, N_VOCAB, seed)], "n": n,
                  "flash": name in FLASH}
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
