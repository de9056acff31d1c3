"""Encodes and decodes GGUF block formats with a codebook, IQ1_S to IQ3_S, and TQ1_0 and TQ2_0, in numpy.

Encoding takes the nearest digits of scales that reach each sub-block's peak, then the nearest point of the grid. Every operation is a float32
operation, so that src/tensor/round_codes.cpp gives the same bytes. Decoding is in float64.
"""
import functools
import os
import re

import numpy as np

from small_quants import F, _bytes_of, _divide, _half, _nearest

DIGITS = {"Iq3Xxs": (4, 12, 20, 28, 36, 44, 52, 62), "Iq3S": (1, 3, 5, 7, 9, 11, 13, 15), "Iq2Xxs": (8, 25, 43), "Iq2Xs": (8, 25, 43),
          "Iq2S": (8, 25, 43), "Iq1": (-8, 0, 8)}


@functools.cache
def grid_digits(name):
    """Returns the digits of a grid's points [n, 4 or 8], read from Kvik's sources: the distances between the points' numbers."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/tensor/grids.cpp")
    with open(path) as f:
        rows = re.search(rf"char k{name}Gaps\[\] =(.*?);\n\n", f.read(), re.S)[1]
    numbers, number = [], -1
    for c in "".join(re.findall(r'"(.*)"', rows)):
        number += ord(c) - ord("#") - (c > "?")
        if c != "[":
            numbers.append(number)
    base = len(DIGITS[name])
    return np.array(numbers)[:, None] // base ** np.arange(4 if base == 8 else 8) % base


@functools.cache
def grid(name):
    return np.array(DIGITS[name])[grid_digits(name)]


@functools.cache
def nearest_codes(name):
    """Returns the code of the nearest point for each number of digits; the first of equally near ones."""
    points = grid(name)
    base, n = len(DIGITS[name]), points.shape[1]
    wanted = np.array(DIGITS[name])[np.arange(base**n)[:, None] // base ** np.arange(n) % base]
    # |a - b|^2 = |a|^2 - 2 a b + |b|^2; the first term is the same for all points.
    return np.argmin((points**2).sum(1)[None] - 2 * wanted @ points.T, 1)


def _codes(name, levels):
    """Returns the codes [...] of levels [..., 4 or 8] that are not rounded yet."""
    digits = np.array(DIGITS[name])
    middles = ((digits[1:] + digits[:-1]) / 2).astype(F)
    base, n = len(digits), levels.shape[-1]
    return nearest_codes(name)[(np.searchsorted(middles, levels) * base ** np.arange(n)).sum(-1)]


def _scales(x, top, max_scale, divisor):
    """Returns the f16 scale [n], s [n, subs] and the steps [n, subs] of sub-blocks x [n, subs, values]."""
    steps = np.abs(x).max(2) / F(top)
    d = (steps.max(1) / F(2 * max_scale + 1) / F(1 / divisor)).astype(np.float16)
    unit = (F(1 / divisor) * d.astype(F))[:, None]
    s = _nearest((_divide(steps, np.broadcast_to(unit, steps.shape)) - F(1)) * F(0.5), 0, max_scale)
    return d, s.astype(np.uint8), unit * (2 * s + 1)


def _negatives(x, even):
    """Returns bits [n, 32] of the negative values of eight."""
    x = x.reshape(len(x), 32, 8)
    is_negative = x < 0
    if even:
        smallest = np.arange(8) == np.abs(x).argmin(2)[..., None]
        is_negative ^= smallest & (is_negative.sum(2) % 2 == 1)[..., None]
    return np.packbits(is_negative, axis=2, bitorder="little")[..., 0]


def _encode(x, name, subs, top, divisor, even):
    """Returns d, s [n, subs], codes [n, 256 / values of a point] and signs [n, 32]."""
    x = x.reshape(-1, subs, 256 // subs)
    d, s, step = _scales(x, top, 15, divisor)
    levels = _divide(np.abs(x), np.broadcast_to(step[..., None], x.shape))
    n_values = grid(name).shape[1]
    return d, s, _codes(name, levels.reshape(len(x), -1, n_values)), _negatives(x, even)


def _encode_shifted(x, subs, n_shifts):
    """Returns d, s, codes [n, 32] and whether each eight values are shifted [n, 32]."""
    x = x.reshape(-1, subs, 256 // subs)
    d, s, step = _scales(x, 9, 7, 8)
    of_shift = x.reshape(len(x), n_shifts, -1)
    is_shifted = np.repeat(np.cumsum(of_shift, 2, dtype=F)[..., -1] < 0, 32 // n_shifts, 1)
    levels = _divide(x, np.broadcast_to(step[..., None], x.shape)).reshape(len(x), 32, 8)
    return d, s, _codes("Iq1", levels - np.where(is_shifted, F(-1), F(1))[..., None]), is_shifted


def _words(signs, s):
    """Packs seven signs of four times eight and s: [n, 8, 4] bytes."""
    sevens = (signs.reshape(-1, 8, 4) & 127).astype(np.uint32) << np.arange(0, 28, 7, dtype=np.uint32)
    return (sevens.sum(2, dtype=np.uint32) | s.astype(np.uint32) << 28).view(np.uint8).reshape(-1, 8, 4)


def _halves(s):
    return s[:, 0::2] | s[:, 1::2] << 4


def _high(codes, bits, per):
    """Packs the bits of codes beyond eight, those of `per` codes together, lowest first."""
    high = (codes >> 8).reshape(len(codes), -1, per).astype(np.uint32) << np.arange(0, bits * per, bits, dtype=np.uint32)
    return high.sum(2, dtype=np.uint32)


def quantize_iq3_xxs(x):
    d, s, codes, signs = _encode(x, "Iq3Xxs", 8, 62, 4, True)
    return np.concatenate([_bytes_of(d), codes.astype(np.uint8), _words(signs, s).reshape(-1, 32)], 1)


def quantize_iq3_s(x):
    d, s, codes, signs = _encode(x, "Iq3S", 8, 15, 1, False)
    return np.concatenate([_bytes_of(d), (codes & 255).astype(np.uint8), _high(codes, 1, 8).astype(np.uint8), signs, _halves(s)], 1)


def quantize_iq2_xxs(x):
    d, s, codes, signs = _encode(x, "Iq2Xxs", 8, 43, 8, True)
    return np.concatenate([_bytes_of(d), np.concatenate([codes.astype(np.uint8).reshape(-1, 8, 4), _words(signs, s)], 2).reshape(-1, 64)], 1)


def quantize_iq2_xs(x):
    d, s, codes, signs = _encode(x, "Iq2Xs", 16, 43, 8, True)
    words = (codes | (signs.astype(np.int64) & 127) << 9).astype(np.uint16)
    return np.concatenate([_bytes_of(d), words.view(np.uint8).reshape(-1, 64), _halves(s)], 1)


def quantize_iq2_s(x):
    d, s, codes, signs = _encode(x, "Iq2S", 16, 43, 8, False)
    return np.concatenate([_bytes_of(d), (codes & 255).astype(np.uint8), signs, _high(codes, 2, 4).astype(np.uint8), _halves(s)], 1)


def quantize_iq1_s(x):
    d, s, codes, is_shifted = _encode_shifted(x, 8, 8)
    high = _high(codes, 3, 4) | s.astype(np.uint32) << 12 | is_shifted[:, ::4].astype(np.uint32) << 15
    return np.concatenate([_bytes_of(d), (codes & 255).astype(np.uint8), high.astype(np.uint16).view(np.uint8).reshape(-1, 16)], 1)


def quantize_iq1_m(x):
    d, s, codes, is_shifted = _encode_shifted(x, 16, 32)
    fours = (codes >> 8 | is_shifted.astype(np.int64) << 3).astype(np.uint8)
    scales = (s.reshape(-1, 4, 4).astype(np.uint32) << np.arange(0, 12, 3, dtype=np.uint32)).sum(2, dtype=np.uint32)
    scales |= (d.view(np.uint16)[:, None] >> np.arange(0, 16, 4, dtype=np.uint16) & 15).astype(np.uint32) << 12
    return np.concatenate([(codes & 255).astype(np.uint8), _halves(fours), scales.astype(np.uint16).view(np.uint8).reshape(-1, 8)], 1)


def _ternary(x):
    x = x.reshape(-1, 256)
    d = np.abs(x).max(1).astype(np.float16)
    return d, (_nearest(_divide(x, np.broadcast_to(d.astype(F)[:, None], x.shape)), -1, 1) + 1).astype(np.uint32)


def quantize_tq1_0(x):
    d, q = _ternary(x)
    groups = (q[:, :160].reshape(-1, 5, 32), q[:, 160:240].reshape(-1, 5, 16), q[:, 240:].reshape(-1, 4, 4))
    numbers = np.concatenate([sum(g[:, j] * 3 ** (4 - j) for j in range(g.shape[1])) for g in groups], 1)
    return np.concatenate([((numbers * 256 + 242) // 243).astype(np.uint8), _bytes_of(d)], 1)


def quantize_tq2_0(x):
    d, q = _ternary(x)
    q = q.reshape(-1, 2, 4, 32).astype(np.uint8)
    pairs = (q[:, :, 0] | q[:, :, 1] << 2 | q[:, :, 2] << 4 | q[:, :, 3] << 6).reshape(-1, 64)
    return np.concatenate([pairs, _bytes_of(d)], 1)


def _values(name, scale, s, codes, signs):
    """Computes values of super-blocks. scale: [n, 1], s: [n, subs], codes: [n, m], signs: negative values [n, 32]"""
    is_negative = np.unpackbits(signs, axis=1, bitorder="little")
    levels = grid(name)[codes].reshape(-1, 256) * np.where(is_negative, -1, 1)
    step = np.repeat(scale * (2.0 * s + 1), 256 // s.shape[1], 1)
    return step * levels


def _shifted_values(scale, s, codes, is_shifted):
    levels = (grid("Iq1")[codes] + np.where(is_shifted, -1, 1)[..., None]).reshape(-1, 256)
    return np.repeat(scale * (2.0 * s + 1), 256 // s.shape[1], 1) * levels


def _split_words(b):
    """Returns the signs [n, 32] and s [n, 8] of _words()."""
    words = b.copy().view(np.uint32).reshape(-1, 8, 1)
    sevens = words >> np.arange(0, 28, 7, dtype=np.uint32) & 127
    return _with_eighth(sevens).reshape(-1, 32), words[..., 0] >> 28


def _with_eighth(sevens):
    ones = np.unpackbits(sevens.astype(np.uint8)[..., None], axis=-1).sum(-1)
    return (sevens | (ones & 1) << 7).astype(np.uint8)


def _split_halves(b):
    return np.stack([b & 15, b >> 4], 2).reshape(len(b), -1).astype(np.float64)


def _with_high(low, high, bits, per):
    return low | (high[..., None].astype(np.int64) >> np.arange(0, bits * per, bits) & (1 << bits) - 1).reshape(low.shape) << 8


def dequantize_iq3_xxs(raw):
    b = raw.reshape(-1, 98)
    signs, s = _split_words(b[:, 66:])
    return _values("Iq3Xxs", _half(b[:, :2]) / 4, s, b[:, 2:66], signs)


def dequantize_iq3_s(raw):
    b = raw.reshape(-1, 110)
    codes = _with_high(b[:, 2:66].astype(np.int64), b[:, 66:74], 1, 8)
    return _values("Iq3S", _half(b[:, :2]), _split_halves(b[:, 106:]), codes, b[:, 74:106])


def dequantize_iq2_xxs(raw):
    b = raw.reshape(-1, 66)
    sub_blocks = b[:, 2:].reshape(-1, 8, 8)
    signs, s = _split_words(sub_blocks[..., 4:])
    return _values("Iq2Xxs", _half(b[:, :2]) / 8, s, sub_blocks[..., :4].reshape(-1, 32), signs)


def dequantize_iq2_xs(raw):
    b = raw.reshape(-1, 74)
    words = b[:, 2:66].copy().view(np.uint16)
    return _values("Iq2Xs", _half(b[:, :2]) / 8, _split_halves(b[:, 66:]), words & 511, _with_eighth(words >> 9))


def dequantize_iq2_s(raw):
    b = raw.reshape(-1, 82)
    codes = _with_high(b[:, 2:34].astype(np.int64), b[:, 66:74], 2, 4)
    return _values("Iq2S", _half(b[:, :2]) / 8, _split_halves(b[:, 74:]), codes, b[:, 34:66])


def dequantize_iq1_s(raw):
    b = raw.reshape(-1, 50)
    high = b[:, 34:].copy().view(np.uint16)
    codes = _with_high(b[:, 2:34].astype(np.int64), high, 3, 4)
    return _shifted_values(_half(b[:, :2]) / 8, high >> 12 & 7, codes, np.repeat(high >> 15, 4, 1))


def dequantize_iq1_m(raw):
    b = raw.reshape(-1, 56)
    scales = b[:, 48:].copy().view(np.uint16)
    d = (scales >> 12 << np.arange(0, 16, 4, dtype=np.uint16)).sum(1, dtype=np.uint16).view(np.float16).astype(np.float64)[:, None]
    s = (scales[..., None] >> np.arange(0, 12, 3, dtype=np.uint16) & 7).reshape(-1, 16)
    high = np.stack([b[:, 32:48] & 15, b[:, 32:48] >> 4], 2).reshape(-1, 32).astype(np.int64)
    return _shifted_values(d / 8, s, b[:, :32] | (high & 7) << 8, high >> 3)


def dequantize_tq1_0(raw):
    b = raw.reshape(-1, 54)
    digits = b[:, None, :52] * np.array([1, 3, 9, 27, 81], np.uint8)[:, None]  # modulo 256
    q = digits.astype(np.int64) * 3 >> 8
    parts = (q[:, :, :32].reshape(-1, 160), q[:, :, 32:48].reshape(-1, 80), q[:, :4, 48:].reshape(-1, 16))
    return _half(b[:, 52:]) * (np.concatenate(parts, 1) - 1.0)


def dequantize_tq2_0(raw):
    b = raw.reshape(-1, 66)
    q = b[:, :64].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    return _half(b[:, 64:]) * (q.reshape(-1, 256) - 1.0)
