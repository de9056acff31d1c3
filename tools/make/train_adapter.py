#!/usr/bin/python3
"""Trains a LoRA adapter on the demo's quantized weights, so that it writes another author's text (a small QLoRA).

    train_adapter.py --text other.txt --kvik build/kvik --out adapter/        # a PEFT folder; *.gguf: llama.cpp's format
    kvik run demo --adapter adapter/ -p "The "

Adapts all seven projections of each layer; the base weights are the dequantized ones and do not change. The forward and backward passes
are written in numpy. The last tenth of the text is held out, and its loss is printed before and after. Any Llama of make_model.py's
kind can replace the demo if it fits in memory as f32.
"""
import argparse
import math
import time

import numpy as np

import oracle_path  # noqa: F401
import make_adapter
import reference_logits
from train_draft_model import AdamW, flat, rope, tokens_of

PROJECTIONS = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}


class Model:
    """Computes the loss of a batch of ids [B, T + 1] and the gradients of the adapter's matrices."""

    def __init__(self, path, rank, scale, length, seed):
        meta, weights = reference_logits.load(path)
        g = lambda key: meta[f"llama.{key}"]
        self.w = {name: x.astype(np.float32) for name, x in weights.items()}
        self.n_layers, self.n_heads, self.n_kv = g("block_count"), g("attention.head_count"), g("attention.head_count_kv")
        self.hd, self.eps, self.scale = g("attention.key_length"), g("attention.layer_norm_rms_epsilon"), scale
        self.head = self.w.get("output.weight", self.w["token_embd.weight"])
        angles = np.arange(length)[:, None] * g("rope.freq_base") ** (-np.arange(0, self.hd, 2) / self.hd)
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        self.mask = np.triu(np.full((length, length), -1e9, np.float32), 1)
        rng, self.p = np.random.default_rng(seed), {}
        for i in range(self.n_layers):
            for part in PROJECTIONS.values():
                n, k = self.w[f"blk.{i}.{part}.weight"].shape
                self.p[f"blk.{i}.{part}.a"] = (rng.standard_normal((rank, k)) / math.sqrt(k)).astype(np.float32)
                self.p[f"blk.{i}.{part}.b"] = np.zeros((n, rank), np.float32)

    def linear(self, i, short, x):
        name = f"blk.{i}.{PROJECTIONS[short]}"
        low = x @ self.p[name + ".a"].T
        return x @ self.w[name + ".weight"].T + self.scale * (low @ self.p[name + ".b"].T), (name, x, low)

    def linear_back(self, d, saved, grads):
        name, x, low = saved
        d_low = self.scale * (d @ self.p[name + ".b"])
        grads[name + ".b"] = self.scale * (flat(d).T @ flat(low))
        grads[name + ".a"] = flat(d_low).T @ flat(x)
        return d @ self.w[name + ".weight"] + d_low @ self.p[name + ".a"]

    def norm(self, x, name):
        r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps)
        return x * r * self.w[name], (x, r, self.w[name])

    @staticmethod
    def norm_back(d, saved):
        x, r, w = saved
        g = d * w
        return r * g - x * r ** 3 * (g * x).mean(-1, keepdims=True)

    def heads(self, x, n):
        return x.reshape(*x.shape[:2], n, self.hd).transpose(0, 2, 1, 3)

    def attention(self, i, h):
        (q, sq), (k, sk), (v, sv) = (self.linear(i, short, h) for short in "qkv")
        group = self.n_heads // self.n_kv
        q = rope(self.heads(q, self.n_heads), self.cos, self.sin)
        k = np.repeat(rope(self.heads(k, self.n_kv), self.cos, self.sin), group, 1)
        v = np.repeat(self.heads(v, self.n_kv), group, 1)
        s = q @ k.transpose(0, 1, 3, 2) / math.sqrt(self.hd) + self.mask
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        out, so = self.linear(i, "o", (s @ v).transpose(0, 2, 1, 3).reshape(*h.shape[:2], -1))
        return out, (q, k, v, s, sq, sk, sv, so)

    def attention_back(self, d, saved, grads):
        q, k, v, s, sq, sk, sv, so = saved
        d = self.heads(self.linear_back(d, so, grads), self.n_heads)
        ds = d @ v.transpose(0, 1, 3, 2)
        ds = s * (ds - (ds * s).sum(-1, keepdims=True)) / math.sqrt(self.hd)
        shared = lambda x: x.reshape(x.shape[0], self.n_kv, -1, *x.shape[2:]).sum(2)
        dq = rope(ds @ k, self.cos, -self.sin)
        dk = rope(shared(ds.transpose(0, 1, 3, 2) @ q), self.cos, -self.sin)
        dv = shared(s.transpose(0, 1, 3, 2) @ d)
        rows = lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)
        return sum(self.linear_back(rows(x), saved, grads) for x, saved in ((dq, sq), (dk, sk), (dv, sv)))

    def mlp(self, i, h):
        (g, sg), (u, su) = self.linear(i, "gate", h), self.linear(i, "up", h)
        sig = 1 / (1 + np.exp(-g))
        out, sd = self.linear(i, "down", g * sig * u)
        return out, (g, u, sig, sg, su, sd)

    def mlp_back(self, d, saved, grads):
        g, u, sig, sg, su, sd = saved
        d = self.linear_back(d, sd, grads)
        return self.linear_back(d * u * sig * (1 + g * (1 - sig)), sg, grads) + self.linear_back(d * g * sig, su, grads)

    def loss(self, ids, wants_grads=True):
        x, saved = self.w["token_embd.weight"][ids[:, :-1]], []
        for i in range(self.n_layers):
            h, n1 = self.norm(x, f"blk.{i}.attn_norm.weight")
            a, at = self.attention(i, h)
            h, n2 = self.norm(x + a, f"blk.{i}.ffn_norm.weight")
            m, ml = self.mlp(i, h)
            x = x + a + m
            saved.append((n1, at, n2, ml))
        h, last = self.norm(x, "output_norm.weight")
        probs = flat(h) @ self.head.T
        probs = np.exp(probs - probs.max(-1, keepdims=True))
        probs /= probs.sum(-1, keepdims=True)
        rows, targets = np.arange(len(probs)), ids[:, 1:].ravel()
        loss = -np.log(probs[rows, targets] + 1e-12).mean()
        if not wants_grads:
            return loss, None
        probs[rows, targets] -= 1
        grads, d = {}, self.norm_back((probs / len(rows) @ self.head).reshape(h.shape), last)
        for n1, at, n2, ml in reversed(saved):
            d = d + self.norm_back(self.mlp_back(d, ml, grads), n2)
            d = d + self.norm_back(self.attention_back(d, at, grads), n1)
        return loss, grads

    def pairs(self):
        return {f"{name}.weight": (self.p[name + ".a"], self.p[name + ".b"]) for name in (n.removesuffix(".a") for n in self.p if n.endswith(".a"))}


def check_gradients(model, ids, rng):
    """Compares some derivatives with finite differences. Returns the largest error relative to the largest derivative."""
    for x in model.p.values():
        x[...] = rng.standard_normal(x.shape) * 0.05
    _, grads = model.loss(ids)
    worst, most = 0.0, max(float(np.abs(g).max()) for g in grads.values())
    for name in rng.choice(sorted(model.p), 8, replace=False):
        at = tuple(rng.integers(0, n) for n in model.p[name].shape)
        losses = []
        for step in (0.02, -0.04):
            model.p[name][at] += step
            losses.append(float(model.loss(ids, wants_grads=False)[0]))
        model.p[name][at] += 0.02
        worst = max(worst, abs((losses[0] - losses[1]) / 0.04 - float(grads[name][at])) / most)
    return worst


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--text", required=True, help="paragraphs with blank lines between")
    ap.add_argument("--kvik", default="build/kvik", help="the program, which cuts the text into tokens")
    ap.add_argument("--demo", default="models/demo.gguf")
    ap.add_argument("--out", required=True, help="a .gguf file, or a folder")
    ap.add_argument("--type", choices=make_adapter.TYPES, default="bf16")
    ap.add_argument("--rank", type=int, default=8)
    ap.add_argument("--steps", type=int, default=150)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--length", type=int, default=96)
    ap.add_argument("--lr", type=float, default=6e-3)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--check-gradients", action="store_true", help="compare the derivatives with differences instead")
    a = ap.parse_args()
    rng = np.random.default_rng(a.seed)
    with open(a.text, encoding="utf-8") as f:
        data = tokens_of(a.kvik, a.demo, f.read())
    train, held = data[:-len(data) // 10], data[-len(data) // 10:]
    model, scale = Model(a.demo, a.rank, 2.0, a.length, a.seed), 2.0
    batch = lambda src, n: np.stack([src[i:i + a.length + 1] for i in rng.integers(0, len(src) - a.length - 1, n)])
    if a.check_gradients:
        print(f"worst {check_gradients(model, batch(train, 2), rng):.2e}")
        return
    kept = [batch(held, 8) for _ in range(3)]
    held_loss = lambda: np.mean([model.loss(ids, wants_grads=False)[0] for ids in kept])
    before, adam, begun = held_loss(), AdamW(model.p), time.time()
    print(f"{len(data)} tokens, {sum(x.size for x in model.p.values()) / 1e3:.0f}k parameters, held back {before:.3f}", flush=True)
    for t in range(a.steps):
        loss, grads = model.loss(batch(train, a.batch))
        adam.step(grads, a.lr * min(1, (t + 1) / 10) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * t / a.steps))), decay=0.0)
        if t % 25 == 24:
            print(f"step {t + 1:5d}  loss {loss:.3f}  {time.time() - begun:.0f} s", flush=True)
    print(f"held back {before:.3f} → {held_loss():.3f}")
    pairs = {name: tuple(make_adapter.rounded(x, a.type) for x in pair) for name, pair in model.pairs().items()}
    if a.out.endswith(".gguf"):
        make_adapter.write_gguf(a.out, a.demo, pairs, scale * a.rank, a.type)
    else:
        make_adapter.write_peft(a.out, a.demo, pairs, a.rank, scale * a.rank, a.type)


if __name__ == "__main__":
    main()
