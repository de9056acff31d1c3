#!/usr/bin/python3
"""Measures how far Kvik and llama.cpp deviate from the exact model: perplexity and KL divergence, by type of K and V.

    kvik quantize MODEL.gguf EXACT.gguf --type f16               # the values of MODEL's weights
    divergence.py MODEL.gguf --exact EXACT.gguf --text prose.txt --text code.txt --node-modules /path/to/node_modules

The exact distributions are computed by Kvik with F16 weights, f32 activations and f32 pages (docs/reference/reference_values.md
compares those with Transformers). The first --ctx tokens of each text are read and their second half is scored, as in `kvik perplexity`.
All programs get the same ids. KL(exact || program) is in nats, the mean over positions ± its standard error. Needs numpy.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
import kvik  # noqa: E402
from node_script import run_node  # noqa: E402
from quality import log_softmax  # noqa: E402


def kvik_figures(options, text, kv_type):
    """Returns the figures of `kvik perplexity` for one window."""
    return json.loads(kvik.output("perplexity", options.model, text, "--ctx", options.ctx, "--windows", 1, "--kv-type", kv_type, "--against",
                                  options.exact, "--against-kv-type", "f32", "--json", timeout=3600))


def exact_logits(options, tokens):
    """Returns [positions of the second half, n_vocab] as float32."""
    command = kvik.command("logits", options.exact, "--kv-type", "f32", "--all", "--tokens", kvik.joined(tokens))
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=kvik.environment()) as process:
        rows = [np.array(line.split(), np.float32) for i, line in enumerate(process.stdout) if i >= len(tokens) // 2]
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)[:100]}: exit code {process.returncode}")
    return np.array(rows)


def peer_logits(options, tokens, kv_type):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "logits.f32")
        case = {"file": os.path.abspath(options.model), "tokens": tokens, "from": len(tokens) // 2, "kv_type": kv_type, "out": out}
        run_node(options.node_modules, "llama_cpp_logits.mjs", stdin=json.dumps(case))
        return np.fromfile(out, np.float32).reshape(len(tokens) - len(tokens) // 2, -1)


def compare(exact, got, tokens):
    """Returns the perplexity of the exact model, that of the other program, and the KL divergence at each position."""
    followers = tokens[len(tokens) - len(exact) + 1:]
    nll, kl = [], []
    for p, q, token in zip(exact, got, followers):  # the last position has no following token
        p, q = log_softmax(p.astype(np.float64)), log_softmax(q.astype(np.float64))
        nll.append((-p[token], -q[token]))
        kl.append(np.exp(p) @ (p - q))
    return *np.exp(np.mean(nll, axis=0)), np.array(kl)


def row(name, perplexity, exact, kl, error):
    print(f"| {name} | {kl:.6f} ± {error:.6f} | {perplexity:.4f} ({100 * (perplexity / exact - 1):+.2f}%) |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--exact", required=True)
    parser.add_argument("--text", action="append", required=True)
    parser.add_argument("--node-modules", help="has node-llama-cpp; without it Kvik alone is measured")
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--kv-types", default="f32,bf16,int8,int8/int4,int4")
    parser.add_argument("--peer-kv-types", default="F16,Q8_0,Q4_0")
    options = parser.parse_args()
    for text in options.text:
        print(f"{os.path.basename(options.model)}, {os.path.basename(text)}\n| pages | KL | perplexity |\n|---|---|---|")
        for kv_type in options.kv_types.split(","):
            output = kvik_figures(options, text, kv_type)
            row(f"Kvik, {kv_type}", output["perplexity"], output["against_perplexity"], output["kl_mean"], output["kl_mean_error"])
        if not options.node_modules:
            continue
        with open(text, "rb") as f:
            tokens = [int(t) for t in kvik.output("tokenize", options.exact, "-", stdin=f.read()).split()][:options.ctx]
        exact = exact_logits(options, tokens)
        for kv_type in options.peer_kv_types.split(","):
            exact_perplexity, perplexity, kl = compare(exact, peer_logits(options, tokens, kv_type), tokens)
            if abs(exact_perplexity / output["against_perplexity"] - 1) > 1e-4:
                sys.exit(f"the exact perplexity is {exact_perplexity} here and {output['against_perplexity']} there: not the same positions")
            row(f"llama.cpp, {kv_type}", perplexity, exact_perplexity, kl.mean(), kl.std() / len(kl) ** 0.5)


if __name__ == "__main__":
    main()
