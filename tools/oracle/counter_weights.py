"""Generates weights from a tensor's name and shape, so that two programs have the same model without a weight file.

Each value comes from a counter (SplitMix64, Steele et al. 2014, seeded with the SHA-256 of the name) and is m · 2^e with a signed
integer m of at most 7 bits, so that float32, bfloat16 and float16 represent it exactly. The spread is that of a trained layer: a
matrix preserves the variance of its input, and norms are near 1.
"""
import hashlib
import math

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(name, n):
    """Returns n counters of the tensor, each mixed to 64 random bits."""
    seed = np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))
    with np.errstate(over="ignore"):
        z = seed + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def spread(name, shape):
    """Returns (center, half width) of a tensor's values; the width is a power of two."""
    leaf = name.removesuffix(".weight").rsplit(".", 1)[-1]
    if leaf == "A_log":
        return 1.0, 1.0  # decays of exp(-1) to exp(-7.4) for a time step of 1
    if leaf == "dt_bias":
        return -1.0, 1.0
    if leaf in ("bias", "sinks", "alpha", "s") or leaf.endswith("_bias"):  # "s": the scale of SSMax
        return 0.0, 0.25
    if len(shape) < 2:
        return 1.0, 0.25  # norms, scales, D
    if "embed" in name:
        return 0.0, 1.0
    gain = 4.0 if leaf in ("gate", "router", "layer") or "router" in name else 1.5  # routers, so that no two experts have nearly equal scores
    return 0.0, 2.0 ** round(math.log2(gain * math.sqrt(3 / shape[-1])))


def weights(name, shape):
    """Returns float32 values in the tensor's shape."""
    center, width = spread(name, shape)
    m = (_mixed(name, math.prod(shape)) >> np.uint64(57)).astype(np.float32) - np.float32(64)  # -64 … 63
    return (np.float32(center) + m * np.float32(width / 64)).reshape(shape)


NUMPY = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "U8": "u1", "I8": "i1", "F8_E4M3": "u1", "F8_E8M0": "u1", "I32": "<i4", "I64": "<i8"}


def stored(name, dtype, shape, fill="weights", **how):
    """Returns the array of a tensor as stored in a safetensors file: BF16 and F8_E4M3 as their bits.

    fill: "weights" as above; "bits", any bits except E4M3's NaN; "powers", n powers of two beginning with `first`; "bytes", n byte values
    beginning with `first`; "order", the group of each column in an order of the columns; "values", as given.
    """
    if fill == "values":
        return np.array(how["values"], NUMPY[dtype]).reshape(shape)
    n = math.prod(shape)
    if fill == "weights":
        numbers = weights(name, shape)
    elif fill == "powers":
        numbers = np.ldexp(np.float32(1), how["first"] + (_mixed(name, n) % np.uint64(how["n"])).astype(np.int32))
    elif fill == "bytes":
        return (how["first"] + _mixed(name, n) % np.uint64(how["n"])).astype(NUMPY[dtype]).reshape(shape)
    elif fill == "order":
        return (np.argsort(np.argsort(_mixed(name, n))) // how["group"]).astype(NUMPY[dtype]).reshape(shape)
    else:
        bits = (_mixed(name, n) >> np.uint64(32)).astype(np.uint32)
        if dtype == "F8_E4M3":
            bits -= (bits & 127) == 127
        return bits.astype("<u4" if dtype == "I32" else "u1").view(NUMPY[dtype]).reshape(shape)
    if dtype == "BF16":
        return (numbers.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype("<u2").reshape(shape)
    return numbers.astype(NUMPY[dtype]).reshape(shape)
