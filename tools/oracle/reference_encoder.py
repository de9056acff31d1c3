#!/usr/bin/python3
"""Computes the forward pass of an encoder's GGUF file in float64: BERT (Devlin et al. 2019) with learned positions, nomic-bert with RoPE and
a gated MLP, ModernBERT (Warner et al. 2024) with windows and norms before each half of a layer, and EmbeddingGemma (Vera et al. 2025), which is
Gemma 3 with attention and windows on both sides and two matrices after pooling.

    reference_encoder.py model.gguf 2 15 27 3                  # hidden states, one token per line
    reference_encoder.py model.gguf --second-segment 2 2 15 27 3   # the scores of a classifier too

This is the oracle of the tests of encoders. Needs numpy only.
"""
import argparse
import math

import numpy as np

import reference_logits


def layer_norm(x, weight, bias, eps):
    centered = x - x.mean(-1, keepdims=True)
    y = centered / np.sqrt((centered ** 2).mean(-1, keepdims=True) + eps) * weight
    return y if bias is None else y + bias


def rms_norm(x, weight, eps):
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + eps) * weight


def gelu_tanh(x):
    return x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rotated(x, base):
    """Applies RoPE to x, [n_heads, n, head_dim], in pairs half a head apart."""
    n, half = x.shape[1], x.shape[2] // 2
    angles = np.arange(n)[:, None] * base ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)], -1)


class Encoder:
    def __init__(self, path):
        self.meta, self.weights = reference_logits.load(path)
        self.family = self.meta["general.architecture"].decode()
        self.is_gemma = self.family == "gemma-embedding"
        self.eps = self.key("attention.layer_norm_rms_epsilon" if self.is_gemma else "attention.layer_norm_epsilon")

    def key(self, name, otherwise=None):
        return self.meta.get(f"{self.family}.{name}", otherwise)

    def get(self, name):
        found = self.weights.get(name)
        return None if found is None else np.asarray(found, np.float64)

    def linear(self, x, name):
        y = x @ self.get(name + ".weight").T
        bias = self.get(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, x, name):
        weight = self.get(name + ".weight")
        if self.is_gemma:
            return rms_norm(x, weight, self.eps)
        return x if weight is None else layer_norm(x, weight, self.get(name + ".bias"), self.eps)

    def attention(self, x, layer):
        n_heads = self.key("attention.head_count")
        if f"blk.{layer}.attn_qkv.weight" in self.weights:
            parts = np.split(self.linear(x, f"blk.{layer}.attn_qkv"), 3, -1)
        else:
            parts = [self.linear(x, f"blk.{layer}.attn_{part}") for part in "qkv"]
        n_kv_heads = self.key("attention.head_count_kv", n_heads)
        q, k, v = (p.reshape(len(x), n, -1).transpose(1, 0, 2) for p, n in zip(parts, (n_heads, n_kv_heads, n_kv_heads)))
        is_windowed = layer % 6 != 5 if self.is_gemma else layer % 3 != 0
        window = self.key("attention.sliding_window", 0) if is_windowed else 0
        if self.is_gemma:
            q, k = self.norm(q, f"blk.{layer}.attn_q_norm"), self.norm(k, f"blk.{layer}.attn_k_norm")
        if self.family != "bert":
            base = self.key("rope.freq_base_swa", 1e4) if window else self.key("rope.freq_base", 1e4)
            q, k = rotated(q, base), rotated(k, base)
        k, v = (np.repeat(p, n_heads // n_kv_heads, 0) for p in (k, v))
        scores = q @ k.transpose(0, 2, 1) * self.key("attention.scale", 1 / math.sqrt(q.shape[-1]))
        if window:
            distance = np.abs(np.arange(len(x))[:, None] - np.arange(len(x)))
            scores = np.where(distance <= window // 2, scores, -np.inf)
        return self.linear((softmax(scores) @ v).transpose(1, 0, 2).reshape(len(x), -1), f"blk.{layer}.attn_output")

    def mlp(self, x, layer):
        up = self.linear(x, f"blk.{layer}.ffn_up")
        if self.family == "bert":
            inner = gelu(up)
        elif self.family == "modern-bert":
            first, second = np.split(up, 2, -1)
            inner = gelu(first) * second
        else:
            gate = self.linear(x, f"blk.{layer}.ffn_gate")
            inner = (gelu_tanh(gate) if self.is_gemma else gate / (1 + np.exp(-gate))) * up
        return self.linear(inner, f"blk.{layer}.ffn_down")

    def states(self, tokens, second_segment=None):
        """Returns the states after the last layer, [n_tokens, model_dim]."""
        n = len(tokens)
        x = self.get("token_embd.weight")[tokens]
        types = self.get("token_types.weight")
        if types is not None:
            second = n if second_segment is None or len(types) == 1 else second_segment
            x = x + types[[int(i >= second) for i in range(n)]]
        positions = self.get("position_embd.weight")
        if positions is not None:
            x = x + positions[:n]
        x = x * math.sqrt(x.shape[-1]) if self.is_gemma else self.norm(x, "token_embd_norm")
        for layer in range(self.key("block_count")):
            if self.is_gemma:
                x = x + self.norm(self.attention(self.norm(x, f"blk.{layer}.attn_norm"), layer), f"blk.{layer}.post_attention_norm")
                x = x + self.norm(self.mlp(self.norm(x, f"blk.{layer}.ffn_norm"), layer), f"blk.{layer}.post_ffw_norm")
            elif self.family == "modern-bert":
                x = x + self.attention(self.norm(x, f"blk.{layer}.attn_norm"), layer)
                x = x + self.mlp(self.norm(x, f"blk.{layer}.ffn_norm"), layer)
            else:
                x = self.norm(x + self.attention(x, layer), f"blk.{layer}.attn_output_norm")
                x = self.norm(x + self.mlp(x, layer), f"blk.{layer}.layer_output_norm")
        return self.norm(x, "output_norm")

    def embedding(self, tokens):
        """Returns the mean of the states, mapped by the matrices after pooling."""
        mean = self.states(tokens).mean(0)
        for name in ("dense_2", "dense_3"):
            if name + ".weight" in self.weights:
                mean = self.linear(mean, name)
        return mean

    def scores(self, tokens, second_segment=None):
        """Returns the scores of the classifier, [n_labels]."""
        first = self.states(tokens, second_segment)[0]
        if "cls.weight" in self.weights:
            first = np.tanh(self.linear(first, "cls"))
        return self.linear(first, "cls.output")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--second-segment", type=int, help="index of the first token of the second text")
    parser.add_argument("tokens", type=int, nargs="+")
    args = parser.parse_args()
    encoder = Encoder(args.model)
    for state in encoder.states(args.tokens, args.second_segment):
        print(*state)
    if "cls.output.weight" in encoder.weights:
        print("scores", *encoder.scores(args.tokens, args.second_segment))


if __name__ == "__main__":
    main()
