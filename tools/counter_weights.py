"""Weights that follow from a tensor's name and shape alone, so that two programs have the same model without a file of weights.

Each value comes from a counter (SplitMix64, Steele et al. 2014, seeded with the SHA-256 of the name) and is m · 2^e with a
whole m of at most 7 bits and a sign: float32, bfloat16 and float16 hold it exactly. The spread is that of a trained layer: a
matrix keeps the variance of its input, norms are near 1.
"""
import hashlib
import math

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(name, n):
    """n counters of the tensor, mixed to 64 random bits each."""
    seed = np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))
    with np.errstate(over="ignore"):
        z = seed + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def spread(name, shape):
    """(center, half width) of a tensor's values; the width is a power of two."""
    leaf = name.removesuffix(".weight").rsplit(".", 1)[-1]
    if leaf == "A_log":
        return 1.0, 1.0  # decays of exp(-1) to exp(-7.4) in a step of 1
    if leaf == "dt_bias":
        return -1.0, 1.0
    if leaf in ("bias", "sinks") or leaf.endswith("_bias"):
        return 0.0, 0.25
    if len(shape) < 2:
        return 1.0, 0.25  # norms, scales, D
    if "embed" in name:
        return 0.0, 1.0
    gain = 4.0 if leaf in ("gate", "router", "layer") or "router" in name else 1.5  # routers: no two experts nearly equal
    return 0.0, 2.0 ** round(math.log2(gain * math.sqrt(3 / shape[-1])))


def weights(name, shape):
    """float32 values in the tensor's shape."""
    center, width = spread(name, shape)
    m = (_mixed(name, math.prod(shape)) >> np.uint64(57)).astype(np.float32) - np.float32(64)  # -64 … 63
    return (np.float32(center) + m * np.float32(width / 64)).reshape(shape)
