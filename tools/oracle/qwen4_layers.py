"""Hyper-connections, n-grams and attention to selected blocks (qwen4exp) in float64, for reference_logits.py; the numbers of n-grams for make_model.py."""
import numpy as np

from basic_layers import rms_norm, rope
from state_layers import convolution, sigmoid, silu

WORD, STEP = 2**64 - 1, 0x9E3779B97F4A7C15


def multipliers(n, n_vocab, seed=1234):
    """Returns the multipliers of the hash of n-grams of up to n tokens: mixed counters (SplitMix64, Steele et al. 2014)."""
    def mixed(x):
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
        x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
        return x ^ x >> 31
    return [2 * (mixed(seed + (i + 2) * STEP & WORD) % ((2**63 - 1) // n_vocab // 2)) + 1 for i in range(n)]


def primes(base, n):
    """Returns the first n primes that are at least `base`."""
    found = []
    while len(found) < n:
        if all(base % divisor for divisor in range(2, int(base**0.5) + 1)):
            found.append(base)
        base += 1
    return found


def ngram_embeddings(g, table, tokens):
    """Returns [T, heads · columns], the rows of the n-grams that end at each token. Nothing before an earlier end token is seen."""
    end, sizes, offsets, factors = g("ple.eos_token_id"), *(g(f"ple.{name}")[1] for name in ("head_vocab_sizes", "head_offsets", "layer_multipliers"))
    rows = []
    for t in range(len(tokens)):
        begin = max([i + 1 for i in range(t) if tokens[i] == end], default=0)
        value, head = tokens[t] * factors[0], 0
        for n in range(1, g("ple.ngram_size")):
            value ^= (tokens[t - n] if t - n >= begin else end) * factors[n]
            for _ in range(g("ple.heads_per_ngram")):
                rows.append(value % sizes[head] + offsets[head])
                head += 1
    return table[rows].reshape(len(tokens), -1)


class HyperConnections:
    """The residual streams, [T, n, dim]."""

    def __init__(self, g, w, x, tokens):
        self.g, self.w, self.eps, self.n = g, w, g("attention.layer_norm_rms_epsilon"), g("hyper_connection.count")
        self.streams = np.repeat(x[:, None], self.n, 1)
        self.ngrams = ngram_embeddings(g, w["per_layer_token_embd.weight"], tokens) if g("ple.layers") else None

    def norm(self, streams, weights):
        return rms_norm(streams, weights.reshape(self.n, -1), self.eps)

    def mix(self, part):
        """Returns the mix of the streams, and the normed streams as rows."""
        h = self.norm(self.streams, part("norm"))
        rows = h.reshape(len(h), -1)
        weights = sigmoid(silu(rows @ part("down").T / self.n) @ part("up").T)
        return (weights.reshape(h.shape) * h).mean(1), rows

    def half(self, part, f):
        x, rows = self.mix(part)
        self.streams = self.streams + 2 * sigmoid(rows @ part("inject").T / self.n)[..., None] * f(x)[:, None]

    def layer(self, L, mixer, feed_forward):
        if L("ple_key.weight") is not None:
            self.add_ngrams(L)
        self.half(lambda part: L(f"hc_attn_{part}.weight"), mixer)
        self.half(lambda part: L(f"hc_ffn_{part}.weight"), feed_forward)

    def add_ngrams(self, L):
        T, dim = len(self.streams), self.streams.shape[2]
        keys = self.norm((self.ngrams @ L("ple_key.weight").T).reshape(T, self.n, dim), L("ple_norm_key.weight"))
        score = (keys * self.norm(self.streams, L("ple_norm_query.weight"))).sum(-1) / np.sqrt(dim)
        gate = sigmoid(np.sign(score) * np.sqrt(np.maximum(np.abs(score), 1e-6)))
        value = gate[..., None] * (self.ngrams @ L("ple_value.weight").T)[:, None]
        distance, kernel = self.g("ple.ngram_size"), L("ple_conv1d.weight")
        spread = np.zeros((len(kernel), (kernel.shape[1] - 1) * distance + 1))
        spread[:, ::distance] = kernel
        mixed = silu(convolution(self.norm(value, L("ple_norm_conv.weight")).reshape(T, -1), spread))
        self.streams = self.streams + value + mixed.reshape(value.shape)

    def begin_mtp_layer(self, L, embedded):
        """Makes the streams of an MTP layer from the embeddings of all tokens but the first and the streams of those before them."""
        hidden, weights = self.streams[:-1], L("nextn.hnorm.weight")
        if self.g("mtp.norms_streams_together"):
            normed = rms_norm(hidden.reshape(len(hidden), -1), weights, self.eps).reshape(hidden.shape)
        else:
            normed = self.norm(hidden, weights)
        embedded = np.repeat(rms_norm(embedded, L("nextn.enorm.weight"), self.eps)[:, None], self.n, 1)
        self.streams = np.concatenate([embedded, normed], -1) @ L("nextn.eh_proj.weight").T

    def output(self, part_of="output_hc_"):
        return self.mix(lambda part: self.w[f"{part_of}{part}.weight"])[0]


def visible_tokens(g, L, h, layer, freqs, magnitude):
    """Returns which tokens each row attends to, [T, T]: the blocks with the highest scores Σh max(q[h] · k, 0), where k is the mean of a block's keys,
    normed and rotated to its first position, and the tokens after the last whole block. Among equal scores, the earlier blocks come first."""
    T, eps, dim, block = len(h), g("attention.layer_norm_rms_epsilon"), g("attention.indexer.key_length"), g("attention.compress_ratios")
    block = block[1][layer] if isinstance(block, tuple) else block
    if block == 0:
        return np.tri(T, dtype=bool)
    turn = lambda y, pos: np.concatenate([rope(y[..., :2 * len(freqs)], pos[:, None] * freqs, magnitude, False), y[..., 2 * len(freqs):]], -1)
    q = rms_norm((h @ L("indexer.q_proj.weight").T).reshape(T, -1, dim), L("indexer.q_norm.weight"), eps)
    q = turn(q, np.arange(T))
    means = (h @ L("indexer.k_proj.weight").T)[:T // block * block].reshape(-1, block, dim).mean(1)
    k = turn(rms_norm(means, L("indexer.k_norm.weight"), eps)[:, None], block * np.arange(T // block))[:, 0]
    scores = np.maximum(np.einsum("thd,bd->thb", q, k), 0).sum(1)
    is_visible = np.zeros((T, T), bool)
    for t in range(T):
        n = (t + 1) // block
        for b in np.argsort(-scores[t, :n], kind="stable")[:g("attention.indexer.top_k") // block]:
            is_visible[t, b * block:(b + 1) * block] = True
        is_visible[t, n * block:t + 1] = True
    return is_visible
