#!/usr/bin/python3
"""Trains a draft model for the demo: a Llama of 0.6M parameters with the demo's vocabulary, on the same plays, written as GGUF.

    train_draft_model.py --text plays.txt --kvik build/kvik --out draft.gguf      # some minutes on one core
    kvik run demo --draft draft.gguf --stats -p "ROMEO:"

Two layers, dim 128, 2 query heads of 64 and one KV head, FFN 320, tied embedding. The forward and backward passes are
written in numpy, which suffices for such a small model; OpenBLAS (Debian: libopenblas0-pthread) makes it ten times
faster. AdamW with a cosine schedule; the last twentieth of the plays is held out.
"""
import argparse
import math
import subprocess
import time

import numpy as np

import oracle_path  # noqa: F401
from gguf_file import F as FLOAT, FILE_TYPE, STR, TYPES, U32, encode, read_metadata, write_gguf

N_LAYERS, DIM, N_HEADS, HD, FFN, CTX, EPS = 2, 128, 2, 64, 320, 1024, 1e-5


def parameters(rng, n_vocab):
    mat = lambda *shape: rng.normal(0, 0.04, shape).astype(np.float32)
    p = {"embed": mat(n_vocab, DIM), "norm": np.ones(DIM, np.float32)}
    for i in range(N_LAYERS):
        p.update({f"{i}.attn_norm": np.ones(DIM, np.float32), f"{i}.ffn_norm": np.ones(DIM, np.float32), f"{i}.q": mat(N_HEADS * HD, DIM),
                  f"{i}.k": mat(HD, DIM), f"{i}.v": mat(HD, DIM), f"{i}.o": mat(DIM, N_HEADS * HD), f"{i}.gate": mat(FFN, DIM),
                  f"{i}.up": mat(FFN, DIM), f"{i}.down": mat(DIM, FFN)})
    return p


def norm(x, w):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
    return x * r * w, (x, r, w)


def norm_back(dy, saved):
    x, r, w = saved
    dw = (dy * x * r).reshape(-1, DIM).sum(0)
    g = dy * w
    return r * g - x * r ** 3 * (g * x).mean(-1, keepdims=True), dw


def rope(x, cos, sin):
    """Rotates x [B, heads, T, HD], interleaved pairs as in llama GGUF files; -sin gives the inverse."""
    a, b = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = a * cos - b * sin, a * sin + b * cos
    return out


class Step:
    """Computes loss and gradients of one batch of ids [B, T + 1]."""

    def __init__(self, p, length):
        self.p = p
        angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, HD, 2) / HD)
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        self.mask = np.triu(np.full((length, length), -1e9, np.float32), 1)

    def heads(self, x, n):
        return x.reshape(*x.shape[:2], n, HD).transpose(0, 2, 1, 3)

    def attention(self, i, h):
        p = self.p
        q = rope(self.heads(h @ p[f"{i}.q"].T, N_HEADS), self.cos, self.sin)
        k = rope(self.heads(h @ p[f"{i}.k"].T, 1), self.cos, self.sin)
        v = self.heads(h @ p[f"{i}.v"].T, 1)
        s = q @ k.transpose(0, 1, 3, 2) / math.sqrt(HD) + self.mask
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        a = (s @ v).transpose(0, 2, 1, 3).reshape(*h.shape[:2], -1)
        return a @ p[f"{i}.o"].T, (h, q, k, v, s, a)

    def attention_back(self, i, d, saved, grads):
        p, (h, q, k, v, s, a) = self.p, saved
        grads[f"{i}.o"] = flat(d).T @ flat(a)
        da = self.heads(d @ p[f"{i}.o"], N_HEADS)
        ds = da @ v.transpose(0, 1, 3, 2)
        ds = s * (ds - (ds * s).sum(-1, keepdims=True)) / math.sqrt(HD)
        dq = rope(ds @ k, self.cos, -self.sin)
        dk = rope((ds.transpose(0, 1, 3, 2) @ q).sum(1, keepdims=True), self.cos, -self.sin)
        dv = (s.transpose(0, 1, 3, 2) @ da).sum(1, keepdims=True)
        back = 0
        for name, x in (("q", dq), ("k", dk), ("v", dv)):
            x = x.transpose(0, 2, 1, 3).reshape(*h.shape[:2], -1)
            grads[f"{i}.{name}"] = flat(x).T @ flat(h)
            back = back + x @ p[f"{i}.{name}"]
        return back

    def mlp(self, i, h):
        p = self.p
        g, u = h @ p[f"{i}.gate"].T, h @ p[f"{i}.up"].T
        sig = 1 / (1 + np.exp(-g))
        return (g * sig * u) @ p[f"{i}.down"].T, (h, g, u, sig)

    def mlp_back(self, i, d, saved, grads):
        p, (h, g, u, sig) = self.p, saved
        grads[f"{i}.down"] = flat(d).T @ flat(g * sig * u)
        da = d @ p[f"{i}.down"]
        du, dg = da * g * sig, da * u * sig * (1 + g * (1 - sig))
        grads[f"{i}.gate"], grads[f"{i}.up"] = flat(dg).T @ flat(h), flat(du).T @ flat(h)
        return dg @ p[f"{i}.gate"] + du @ p[f"{i}.up"]

    def loss(self, ids, wants_grads=True):
        p, x, saved = self.p, self.p["embed"][ids[:, :-1]], []
        for i in range(N_LAYERS):
            h, n1 = norm(x, p[f"{i}.attn_norm"])
            a, at = self.attention(i, h)
            x = x + a
            h, n2 = norm(x, p[f"{i}.ffn_norm"])
            m, ml = self.mlp(i, h)
            x = x + m
            saved.append((n1, at, n2, ml))
        h, last = norm(x, p["norm"])
        logits = flat(h) @ p["embed"].T
        logits -= logits.max(-1, keepdims=True)
        probs = np.exp(logits)
        probs /= probs.sum(-1, keepdims=True)
        rows, targets = np.arange(len(probs)), ids[:, 1:].ravel()
        loss = -np.log(probs[rows, targets] + 1e-12).mean()
        return loss, self.gradients(ids, probs, rows, targets, h, last, saved) if wants_grads else None

    def gradients(self, ids, probs, rows, targets, h, last, saved):
        p, grads = self.p, {}
        probs[rows, targets] -= 1
        probs /= len(rows)
        grads["embed"] = probs.T @ flat(h)
        d, grads["norm"] = norm_back((probs @ p["embed"]).reshape(h.shape), last)
        for i in reversed(range(N_LAYERS)):
            n1, at, n2, ml = saved[i]
            back, grads[f"{i}.ffn_norm"] = norm_back(self.mlp_back(i, d, ml, grads), n2)
            d = d + back
            back, grads[f"{i}.attn_norm"] = norm_back(self.attention_back(i, d, at, grads), n1)
            d = d + back
        np.add.at(grads["embed"], ids[:, :-1].ravel(), flat(d))
        return grads


def flat(x):
    return x.reshape(-1, x.shape[-1])


class AdamW:
    def __init__(self, p):
        self.p, self.t = p, 0
        self.m = {k: np.zeros_like(v) for k, v in p.items()}
        self.v = {k: np.zeros_like(v) for k, v in p.items()}

    def step(self, grads, lr, decay=0.05, b1=0.9, b2=0.97):
        self.t += 1
        size = math.sqrt(sum(float((g * g).sum()) for g in grads.values()))
        for k, g in grads.items():
            g = g * min(1, 1 / size)
            self.m[k] += (1 - b1) * (g - self.m[k])
            self.v[k] += (1 - b2) * (g * g - self.v[k])
            step = self.m[k] / (1 - b1 ** self.t) / (np.sqrt(self.v[k] / (1 - b2 ** self.t)) + 1e-8)
            self.p[k] -= lr * (step + (decay * self.p[k] if self.p[k].ndim == 2 else 0))


def save(path, p, demo, kind):
    qt, vocab = TYPES[kind], {k: v for k, v in read_metadata(demo).items() if k.startswith("tokenizer.")}
    kv = {"general.architecture": (STR, "llama"), "general.name": (STR, "kvik-demo-draft"), "general.file_type": (U32, FILE_TYPE[kind]),
          "llama.block_count": (U32, N_LAYERS), "llama.context_length": (U32, CTX), "llama.embedding_length": (U32, DIM),
          "llama.feed_forward_length": (U32, FFN), "llama.attention.head_count": (U32, N_HEADS), "llama.attention.head_count_kv": (U32, 1),
          "llama.attention.key_length": (U32, HD), "llama.attention.value_length": (U32, HD),
          "llama.attention.layer_norm_rms_epsilon": (FLOAT, EPS), "llama.rope.freq_base": (FLOAT, 1e4),
          "llama.rope.dimension_count": (U32, HD), "llama.vocab_size": (U32, len(p["embed"])), **vocab}
    names = {"embed": "token_embd", "norm": "output_norm"}
    parts = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output",
             "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
    tensors = []
    for name, x in p.items():
        layer, _, part = name.partition(".")
        tensors.append(((f"blk.{layer}.{parts[part]}" if part else names[name]) + ".weight", x.shape, qt if x.ndim == 2 else 0,
                        lambda x=x: encode(x, qt if x.ndim == 2 else 0)))
    write_gguf(path, kv, tensors)


def tokens_of(kvik, demo, text):
    speeches = [s.strip() for s in text.split("\n\n") if s.strip()]
    marked = "".join(s + "<|end|>\n" for s in speeches)
    done = subprocess.run([kvik, "tokenize", demo, "--no-bos", "--parse-special", "-"], input=marked.encode(), capture_output=True, check=True)
    return np.array(done.stdout.split(), dtype=np.int64)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--text", required=True, help="the plays: one speech after the other, blank lines between")
    ap.add_argument("--kvik", default="build/kvik", help="the program, which cuts the text into tokens")
    ap.add_argument("--demo", default="models/demo.gguf")
    ap.add_argument("--out", required=True)
    ap.add_argument("--type", choices=TYPES, default="q8_0")
    ap.add_argument("--steps", type=int, default=600)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--length", type=int, default=96)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    rng = np.random.default_rng(a.seed)
    with open(a.text, encoding="utf-8") as f:
        data = tokens_of(a.kvik, a.demo, f.read())
    train, held = data[:-len(data) // 20], data[-len(data) // 20:]
    p = parameters(rng, len(read_metadata(a.demo)["tokenizer.ggml.tokens"][1][1]))
    print(f"{len(data)} tokens, {sum(x.size for x in p.values()) / 1e6:.2f}M parameters", flush=True)
    step, adam, begun = Step(p, a.length), AdamW(p), time.time()
    batch = lambda src, n: np.stack([src[i:i + a.length + 1] for i in rng.integers(0, len(src) - a.length - 1, n)])
    for t in range(a.steps):
        loss, grads = step.loss(batch(train, a.batch))
        adam.step(grads, a.lr * min(1, (t + 1) / 40) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * t / a.steps))))
        if t % 50 == 49:
            kept = np.mean([step.loss(batch(held, 16), wants_grads=False)[0] for _ in range(4)])
            print(f"step {t + 1:5d}  loss {loss:.3f}  held back {kept:.3f}  {time.time() - begun:.0f} s", flush=True)
            save(a.out, p, a.demo, a.type)
    save(a.out, p, a.demo, a.type)


if __name__ == "__main__":
    main()
