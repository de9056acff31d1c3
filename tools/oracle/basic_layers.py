"""Norms, RoPE, softmax and activations in float64, for reference_logits.py."""
import math

import numpy as np


def rms_norm(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def layer_norm(x, w, b, eps):
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered * centered).mean(-1, keepdims=True) + eps) * w + (0 if b is None else b)


def rope(x, angles, magnitude, interleaved):
    """Rotates x [T, heads, head_dim] by angles [T, pairs]; pairs are (2i, 2i+1) if interleaved, else (i, i + pairs). Later dimensions do not
    change."""
    n = 2 * angles.shape[1]
    c, s = magnitude * np.cos(angles)[:, None], magnitude * np.sin(angles)[:, None]
    y = x.copy()
    first, second = (slice(0, n, 2), slice(1, n, 2)) if interleaved else (slice(0, n // 2), slice(n // 2, n))
    a, b = x[..., first], x[..., second]
    y[..., first], y[..., second] = a * c - b * s, a * s + b * c
    return y


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2


def gated(family, a, u, limit=None):
    if family.startswith("gemma"):
        return gelu_tanh(a) * u
    if family in ("gpt-oss", "minimax-m3"):
        a, u = np.minimum(a, 7), np.clip(u, -7, 7) + 1
        return a / (1 + np.exp(-1.702 * a)) * u
    a = np.minimum(a, limit) if limit and family == "glm5-next" else a
    silu = a / (1 + np.exp(-a))
    return np.minimum(silu, limit) * np.clip(u, -limit, limit) if limit else silu * u
