"""Encodes and decodes the GGUF block formats of ik_llama.cpp in numpy: IQ2_K to IQ6_K, and with a scale per row IQ2_KS to IQ5_KS, IQ4_KSS, IQ2_KL.

A sub-block has an integer factor and a table of levels, which may be shifted up. Encoding shifts the table where the sum of a sub-block is
negative, and takes the nearest levels of factors that reach the peaks. Every operation is a float32 operation, so that
src/tensor/round_tables.cpp gives the same bytes. Decoding is in float64, after the scale of a sub-block, which is a float32.
"""
import numpy as np

from small_quants import F, IQ4_LEVELS, _bytes_of, _divide, _half, _levels_of_pairs, _nearest, _pairs, _peak

IQ2_LEVELS = np.array([-31, -13, 1, 17])
IQ3_LEVELS = np.array([-63, -40, -23, -10, 1, 13, 28, 47])
IQ5_LEVELS = np.array([-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6,
                       -1, 5, 11, 17, 23, 29, 36, 43, 51, 59, 68, 77, 87, 97, 109, 121])
IQ6_LEVELS = np.array([-127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54,
                       -51, -47, -44, -40, -37, -34, -31, -28, -25, -22, -19, -16, -13, -11, -8, -5,
                       -2, 0, 3, 6, 9, 12, 14, 17, 20, 23, 27, 30, 33, 36, 40, 44,
                       47, 51, 55, 59, 63, 68, 72, 77, 82, 87, 92, 98, 103, 109, 115, 121])


def _encode(x, levels, shift, n_values, low, high, odd=False, unit_type=np.float16, of_rows=False):
    """Returns the units [blocks] or [rows], factors [blocks, subs], whether the tables are shifted [blocks, subs], levels [blocks, 256]."""
    x = x.reshape(len(x), -1, 256) if of_rows else x.reshape(-1, 1, 256)
    n_units, x = len(x), x.reshape(-1, 256 // n_values, n_values)
    is_shifted = np.cumsum(x, 2, dtype=F)[..., -1] < 0
    offset = np.where(is_shifted, F(shift), F(0))
    steps = _peak(x) / (F(levels[0]) + offset)
    units = (_peak(steps.reshape(n_units, -1)) / F(low)).astype(unit_type)
    unit = np.repeat(units.astype(F), len(x) // n_units)[:, None]
    number = _divide(steps, np.broadcast_to(unit, steps.shape))
    factors = 2 * _nearest((number - F(1)) * F(0.5), (low - 1) / 2, (high - 1) / 2) + F(1) if odd else _nearest(number, low, high)
    level = _divide(x, np.broadcast_to((unit * factors)[..., None], x.shape)) - offset[..., None]
    middles = ((levels[1:] + levels[:-1]) / 2).astype(F)
    return units, factors.astype(np.int64), is_shifted.astype(np.uint8), np.searchsorted(middles, level).astype(np.uint8).reshape(-1, 256)


def _words(bits):
    """Packs up to sixteen bits [n, m], lowest first, into two bytes."""
    return np.packbits(np.concatenate([bits, np.zeros((len(bits), 16 - bits.shape[1]), np.uint8)], 1), axis=1, bitorder="little")


def _bits(b, at=0, n=16):
    return np.unpackbits(b, axis=1, bitorder="little")[:, at:at + n].astype(np.int64)


def _halves(s):
    return (s[:, 0::2] & 15 | (s[:, 1::2] & 15) << 4).astype(np.uint8)


def _split_halves(b):
    return np.stack([b & 15, b >> 4], 2).reshape(len(b), -1).astype(np.int64)


def _nibbles(q, run):
    """Packs low four bits: in each run of bytes, the low halves are the first values and the high halves the next."""
    q = q.reshape(len(q), -1, 2, run) & 15
    return (q[:, :, 0] | q[:, :, 1] << 4).reshape(len(q), -1)


def _of_nibbles(b, run):
    b = b.reshape(len(b), -1, 1, run)
    return np.concatenate([b & 15, b >> 4], 2).reshape(len(b), -1)


def _planes(bits):
    """Packs single bits [n, 256]: bit s of byte i is that of value 32 s + i."""
    return np.packbits(bits.reshape(-1, 8, 32), axis=1, bitorder="little").reshape(-1, 32)


def _of_planes(b):
    return np.unpackbits(b.reshape(-1, 1, 32), axis=1, bitorder="little").reshape(-1, 256)


def _quads(s):
    """Packs the upper two bits of sixteen numbers of six."""
    s = s.reshape(len(s), -1, 4) >> 4
    return (s[..., 0] | s[..., 1] << 2 | s[..., 2] << 4 | s[..., 3] << 6).astype(np.uint8)


def _of_quads(b):
    return (b[..., None] >> np.array([0, 2, 4, 6], np.uint8) & 3).reshape(len(b), -1).astype(np.int64)


def _values(units, factors, is_shifted, q, levels, shift):
    table = levels[q].reshape(len(q), factors.shape[1], -1) + shift * is_shifted[..., None]
    steps = (units * factors).astype(F).astype(np.float64)  # exact unless the unit is an f32
    return (steps[..., None] * table).reshape(-1, 256)


def quantize_iq2_k(x):
    d, s, is_shifted, q = _encode(x, IQ2_LEVELS, 5, 16, -8, 7)
    return np.concatenate([_bytes_of(d), _words(is_shifted), _halves(s + 8), _pairs(q)], 1)


def dequantize_iq2_k(raw):
    b = raw.reshape(-1, 76)
    return _values(_half(b[:, :2]), _split_halves(b[:, 4:12]) - 8, _bits(b[:, 2:4]), _levels_of_pairs(b[:, 12:]), IQ2_LEVELS, 5)


def quantize_iq3_k(x):
    d, s, is_shifted, q = _encode(x, IQ3_LEVELS, 4, 16, -31, 31, odd=True)
    signs = _words((s < 0).astype(np.uint8))
    return np.concatenate([_bytes_of(d), _words(is_shifted), signs, _halves(np.abs(s) // 2), _pairs(q & 3), _planes(q >> 2)], 1)


def dequantize_iq3_k(raw):
    b = raw.reshape(-1, 110)
    s = (2 * _split_halves(b[:, 6:14]) + 1) * (1 - 2 * _bits(b[:, 4:6]))
    return _values(_half(b[:, :2]), s, _bits(b[:, 2:4]), _levels_of_pairs(b[:, 14:78]) | _of_planes(b[:, 78:]) << 2, IQ3_LEVELS, 4)


def quantize_iq4_k(x):
    d, s, is_shifted, q = _encode(x, IQ4_LEVELS, 4, 16, -32, 31)
    return np.concatenate([_bytes_of(d), _words(is_shifted), _quads(s + 32), _halves(s + 32), _nibbles(q, 16)], 1)


def dequantize_iq4_k(raw):
    b = raw.reshape(-1, 144)
    s = (_split_halves(b[:, 8:16]) | _of_quads(b[:, 4:8]) << 4) - 32
    return _values(_half(b[:, :2]), s, _bits(b[:, 2:4]), _of_nibbles(b[:, 16:], 16), IQ4_LEVELS, 4)


def quantize_iq5_k(x):
    d, s, is_shifted, q = _encode(x, IQ5_LEVELS, 2, 16, -32, 31)
    return np.concatenate([_bytes_of(d), _words(is_shifted), _quads(s + 32), _halves(s + 32), _nibbles(q, 32), _planes(q >> 4)], 1)


def dequantize_iq5_k(raw):
    b = raw.reshape(-1, 176)
    s = (_split_halves(b[:, 8:16]) | _of_quads(b[:, 4:8]) << 4) - 32
    return _values(_half(b[:, :2]), s, _bits(b[:, 2:4]), _of_nibbles(b[:, 16:144], 32) | _of_planes(b[:, 144:]) << 4, IQ5_LEVELS, 2)


def quantize_iq6_k(x):
    d, s, is_shifted, q = _encode(x, IQ6_LEVELS, 1, 16, -128, 127)
    return np.concatenate([_bytes_of(d), _words(is_shifted), s.astype(np.int8).view(np.uint8), _nibbles(q, 32), _pairs(q >> 4)], 1)


def dequantize_iq6_k(raw):
    b = raw.reshape(-1, 212)
    q = _of_nibbles(b[:, 20:148], 32) | _levels_of_pairs(b[:, 148:]) << 4
    return _values(_half(b[:, :2]), b[:, 4:20].view(np.int8).astype(np.int64), _bits(b[:, 2:4]), q, IQ6_LEVELS, 1)


# With a scale per row, of f16 or f32.

def _rows(units, blocks):
    """Joins the units [rows] and blocks [rows · n, bytes] to rows."""
    headers = units.view(np.uint8).reshape(len(units), -1)
    return np.concatenate([headers, blocks.reshape(len(units), -1)], 1)


def _split_rows(raw, size, unit_type):
    """Returns the units of blocks [n, 1] and the blocks [n, size] of rows."""
    n = np.dtype(unit_type).itemsize
    blocks = np.ascontiguousarray(raw[:, n:]).reshape(-1, size)
    units = np.ascontiguousarray(raw[:, :n]).view(unit_type).astype(np.float64)
    return np.repeat(units, len(blocks) // len(raw), 0), blocks


def quantize_iq4_ks(x):
    d, s, is_shifted, q = _encode(x, IQ4_LEVELS, 4, 32, -127, 127, odd=True, unit_type=np.float32, of_rows=True)
    return _rows(d, np.concatenate([(s + 127).astype(np.uint8) | is_shifted, _nibbles(q, 16)], 1))


def dequantize_iq4_ks(raw):
    d, b = _split_rows(raw, 136, np.float32)
    return _values(d, (b[:, :8] & 254).astype(np.int64) - 127, b[:, :8] & 1, _of_nibbles(b[:, 8:], 16), IQ4_LEVELS, 4)


def quantize_iq4_kss(x):
    d, s, is_shifted, q = _encode(x, IQ4_LEVELS, 4, 32, -127, 127, odd=True, unit_type=np.float32, of_rows=True)
    words = _nibbles(q, 16).view(np.uint16)
    for down in (1, 2, 4, 8):
        words = words ^ words >> down
    bits = np.unpackbits((s + 127).astype(np.uint8) | is_shifted, axis=1, bitorder="little")
    return _rows(d, (words & 0xFFFE | bits).view(np.uint8))


def dequantize_iq4_kss(raw):
    d, b = _split_rows(raw, 128, np.float32)
    words = b.view(np.uint16)
    byte = np.packbits((words & 1).astype(np.uint8), axis=1, bitorder="little")
    words = words & 0xFFFE
    q = _of_nibbles((words ^ words >> 1).view(np.uint8), 16)
    return _values(d, (byte & 254).astype(np.int64) - 127, byte & 1, q, IQ4_LEVELS, 4)


def quantize_iq5_ks(x):
    d, s, is_shifted, q = _encode(x, IQ5_LEVELS, 2, 32, -127, 127, odd=True, unit_type=np.float32, of_rows=True)
    return _rows(d, np.concatenate([(s + 127).astype(np.uint8) | is_shifted, _nibbles(q, 32), _planes(q >> 4)], 1))


def dequantize_iq5_ks(raw):
    d, b = _split_rows(raw, 168, np.float32)
    q = _of_nibbles(b[:, 8:136], 32) | _of_planes(b[:, 136:]) << 4
    return _values(d, (b[:, :8] & 254).astype(np.int64) - 127, b[:, :8] & 1, q, IQ5_LEVELS, 2)


def quantize_iq2_ks(x):
    d, s, is_shifted, q = _encode(x, IQ2_LEVELS, 5, 32, -16, 15, of_rows=True)
    bits = _words(np.concatenate([is_shifted, (s + 16 >> 4).astype(np.uint8)], 1))
    return _rows(d, np.concatenate([bits, _halves(s + 16), _pairs(q)], 1))


def dequantize_iq2_ks(raw):
    d, b = _split_rows(raw, 70, np.float16)
    s = (_split_halves(b[:, 2:6]) | _bits(b[:, :2], 8, 8) << 4) - 16
    return _values(d, s, _bits(b[:, :2], 0, 8), _levels_of_pairs(b[:, 6:]), IQ2_LEVELS, 5)


PAIRS = np.array([(-63, -23), (-63, 13), (-40, -63), (-40, -10), (-40, 13), (-40, 47), (-23, -40), (-23, -23), (-23, 1), (-23, 13), (-23, 28),
                  (-10, -63), (-10, 1), (-10, 13), (-10, 47), (1, -23), (1, -10), (1, 1), (1, 13), (1, 28), (13, -40), (13, -23), (13, -10),
                  (13, 1), (13, 13), (28, -63), (28, -23), (28, 1), (28, 28), (28, 47), (47, -23), (47, 13)])


def quantize_iq2_kl(x):
    d, s, _, _ = _encode(x, PAIRS[:1, 0], 0, 32, -32, 31, of_rows=True)
    x = x.reshape(-1, 8, 32)
    step = np.repeat(d.astype(F), len(x) // len(d))[:, None] * s.astype(F)
    level = _divide(x, np.broadcast_to(step[..., None], x.shape)).reshape(-1, 8, 16, 2, 1)
    distance = (level[..., 0, :] - PAIRS[:, 0].astype(F)) ** 2 + (level[..., 1, :] - PAIRS[:, 1].astype(F)) ** 2
    q = distance.argmin(-1).astype(np.uint8)
    s = s + 32
    scales = (s[:, :4] & 15 | (s[:, 4:] & 15) << 4).astype(np.uint8)
    high = _quads(s)
    fifths = np.packbits(q >> 4, axis=1, bitorder="little")[:, 0]
    return _rows(d, np.concatenate([high, scales, _nibbles(q.reshape(-1, 128), 16), fifths], 1))


def dequantize_iq2_kl(raw):
    d, b = _split_rows(raw, 86, np.float16)
    s = (np.concatenate([b[:, 2:6] & 15, b[:, 2:6] >> 4], 1).astype(np.int64) | _of_quads(b[:, :2]) << 4) - 32
    fifths = np.unpackbits(b[:, None, 70:], axis=1, bitorder="little")
    q = _of_nibbles(b[:, 6:70], 16).reshape(-1, 8, 16) | fifths << 4
    return ((d * s)[..., None] * PAIRS[q].reshape(len(b), 8, 32)).reshape(-1, 256)


def quantize_iq3_ks(x):
    d, s, is_shifted, q = _encode(x, IQ3_LEVELS, 4, 32, -16, 15, of_rows=True)
    s = s + 16
    bits = _words(np.concatenate([(s >> 4).astype(np.uint8), is_shifted], 1))
    scales = (s[:, :4] & 15 | (s[:, 4:] & 15) << 4).astype(np.uint8)
    return _rows(d, np.concatenate([bits, scales, _pairs(q & 3), _planes(q >> 2)], 1))


def dequantize_iq3_ks(raw):
    d, b = _split_rows(raw, 102, np.float16)
    s = (np.concatenate([b[:, 2:6] & 15, b[:, 2:6] >> 4], 1).astype(np.int64) | _bits(b[:, :2], 0, 8) << 4) - 16
    return _values(d, s, _bits(b[:, :2], 8, 8), _levels_of_pairs(b[:, 6:70]) | _of_planes(b[:, 70:]) << 2, IQ3_LEVELS, 4)
