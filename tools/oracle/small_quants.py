"""Encodes and decodes further GGUF block formats in numpy: Q4_1, Q5_0, Q5_1, Q2_0, Q1_0, IQ4_NL, Q2_K, Q3_K, IQ4_XS, MXFP4, NVFP4.

Encoding rounds to the nearest level of scales that reach each block's peak. Every operation is a float32 operation, so that
src/tensor/round.cpp gives the same bytes. Decoding is in float64.
"""
import numpy as np

F = np.float32
IQ4_LEVELS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])
IQ4_MIDDLES = ((IQ4_LEVELS[1:] + IQ4_LEVELS[:-1]) / 2).astype(F)

FP4_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 12])  # twice the values of E2M1
FP4_LEVELS = np.concatenate([FP4_SIZES, -FP4_SIZES])
FP4_MIDDLES = ((FP4_SIZES[1:] + FP4_SIZES[:-1]) / 2).astype(F)


def _half(b):
    """Decodes f16 bytes [n, 2] to [n, 1] float64."""
    return b.copy().view(np.float16).astype(np.float64)


def _bytes_of(values):
    """Encodes [n] as f16 bytes [n, 2]."""
    return values.astype(np.float16).view(np.uint8).reshape(-1, 2)


def _inverse(scale):
    return np.where(scale == 0, F(0), F(1) / np.where(scale == 0, F(1), scale)).astype(F)


def _divide(a, b):
    return np.where(b == 0, F(0), a / np.where(b == 0, F(1), b)).astype(F)


def _nearest(values, low, high):
    return np.minimum(np.maximum(np.rint(values), F(low)), F(high))


def _peak(x):
    """Returns the first value of largest magnitude along the last axis, with its sign."""
    return np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)[..., 0]


# Blocks of 32: element i is in the low half of byte i, and i + 16 in the high half; fifth bits are in four separate bytes.

def _nibbles(q):
    return q[:, :16] & 15 | (q[:, 16:] & 15) << 4


def _fifths(q):
    return np.packbits(q >> 4 & 1, axis=1, bitorder="little")


def _levels(pairs, fifths=None):
    q = np.concatenate([pairs & 15, pairs >> 4], 1)
    return q if fifths is None else q | np.unpackbits(fifths, axis=1, bitorder="little") << 4


def _quantize_around(x, zero):
    x = x.reshape(-1, 32)
    scale = _peak(x) / F(-zero)
    q = np.clip(x * _inverse(scale)[:, None] + F(zero + 0.5), 0, 2 * zero - 1).astype(np.uint8)
    return scale, q


def _quantize_with_minimum(x, top):
    x = x.reshape(-1, 32)
    low = x.min(1)
    scale = (x.max(1) - low) / F(top)
    q = np.clip((x - low[:, None]) * _inverse(scale)[:, None] + F(0.5), 0, top).astype(np.uint8)
    return scale, low, q


def quantize_q4_1(x):
    scale, low, q = _quantize_with_minimum(x, 15)
    return np.concatenate([_bytes_of(scale), _bytes_of(low), _nibbles(q)], 1)


def quantize_q5_0(x):
    scale, q = _quantize_around(x, 16)
    return np.concatenate([_bytes_of(scale), _fifths(q), _nibbles(q)], 1)


def quantize_q5_1(x):
    scale, low, q = _quantize_with_minimum(x, 31)
    return np.concatenate([_bytes_of(scale), _bytes_of(low), _fifths(q), _nibbles(q)], 1)


def quantize_iq4_nl(x):
    x = x.reshape(-1, 32)
    scale = _peak(x) / F(-127)
    q = np.searchsorted(IQ4_MIDDLES, x * _inverse(scale)[:, None]).astype(np.uint8)
    return np.concatenate([_bytes_of(scale), _nibbles(q)], 1)


def dequantize_q4_1(raw):
    b = raw.reshape(-1, 20)
    return _half(b[:, :2]) * _levels(b[:, 4:]) + _half(b[:, 2:4])


def dequantize_q5_0(raw):
    b = raw.reshape(-1, 22)
    return _half(b[:, :2]) * (_levels(b[:, 6:], b[:, 2:6]).astype(np.float64) - 16)


def dequantize_q5_1(raw):
    b = raw.reshape(-1, 24)
    return _half(b[:, :2]) * _levels(b[:, 8:], b[:, 4:8]) + _half(b[:, 2:4])


def dequantize_iq4_nl(raw):
    b = raw.reshape(-1, 18)
    return _half(b[:, :2]) * IQ4_LEVELS[_levels(b[:, 2:])]


# Blocks of 64 and 128: two bits or one bit of each value, lowest first.

def quantize_q2_0(x):
    """Encodes −1 to 2 times a scale, of which the peak is twice."""
    x = x.reshape(-1, 64)
    scale = _peak(x) / F(2)
    q = (_nearest(_divide(x, np.broadcast_to(scale[:, None], x.shape)), -1, 2) + 1).astype(np.uint8).reshape(-1, 16, 4)
    return np.concatenate([_bytes_of(scale), q[..., 0] | q[..., 1] << 2 | q[..., 2] << 4 | q[..., 3] << 6], 1)


def quantize_q1_0(x):
    """Encodes signs times the mean magnitude."""
    x = x.reshape(-1, 128)
    scale = np.cumsum(np.abs(x), 1, dtype=F)[:, -1] / F(128)
    return np.concatenate([_bytes_of(scale), np.packbits(x >= 0, axis=1, bitorder="little")], 1)


def dequantize_q2_0(raw):
    b = raw.reshape(-1, 18)
    q = b[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    return _half(b[:, :2]) * (q.reshape(-1, 64) - 1.0)


def dequantize_q1_0(raw):
    b = raw.reshape(-1, 18)
    return _half(b[:, :2]) * (2.0 * np.unpackbits(b[:, 2:], axis=1, bitorder="little") - 1)


# Super-blocks of 256.

def _numbers(values, at_peak, low, high):
    """Quantizes [n, subs]: returns the f16 unit [n] and small integers [n, subs] as f32, with values ≈ unit · integer."""
    peak = _peak(values)
    return (peak / F(at_peak)).astype(np.float16), _nearest(_divide(F(at_peak), peak)[:, None] * values, low, high)


def _pairs(q):
    """Packs [n, 256] 2-bit integers into [n, 64]: in each half of 128, byte i holds elements i, 32 + i, 64 + i, 96 + i."""
    q = q.reshape(-1, 2, 4, 32)
    return (q[:, :, 0] | q[:, :, 1] << 2 | q[:, :, 2] << 4 | q[:, :, 3] << 6).reshape(-1, 64)


def _levels_of_pairs(b):
    shifts = np.array([0, 2, 4, 6], np.uint8)[None, None, :, None]
    return (b.reshape(-1, 2, 1, 32) >> shifts & 3).reshape(-1, 256)


def quantize_q2_k(x):
    x = x.reshape(-1, 16, 16)
    low = np.minimum(x.min(2), F(0))
    d, s = _numbers((x.max(2) - low) / F(3), 15, 0, 15)
    dmin, m = _numbers(F(0) - low, 15, 0, 15)
    step, minimum = d.astype(F)[:, None] * s, dmin.astype(F)[:, None] * m
    q = _nearest(_divide(x + minimum[..., None], np.broadcast_to(step[..., None], x.shape)), 0, 3).astype(np.uint8)
    return np.concatenate([s.astype(np.uint8) | m.astype(np.uint8) << 4, _pairs(q), _bytes_of(d), _bytes_of(dmin)], 1)


def quantize_q3_k(x):
    x = x.reshape(-1, 16, 16)
    d, s = _numbers(_peak(x) / F(-4), -32, -32, 31)
    step = d.astype(F)[:, None] * s
    q = (_nearest(_divide(x, np.broadcast_to(step[..., None], x.shape)), -4, 3) + 4).astype(np.uint8).reshape(-1, 256)
    thirds = np.zeros((len(q), 32), np.uint8)
    for j in range(8):
        thirds |= q[:, 32 * j:32 * j + 32] >> 2 << j
    s = (s + 32).astype(np.uint8)
    lows = s[:, :8] & 15 | (s[:, 8:] & 15) << 4
    highs = s[:, :4] >> 4 | s[:, 4:8] >> 4 << 2 | s[:, 8:12] >> 4 << 4 | s[:, 12:] >> 4 << 6
    return np.concatenate([thirds, _pairs(q & 3), lows, highs, _bytes_of(d)], 1)


def quantize_iq4_xs(x):
    x = x.reshape(-1, 8, 32)
    d, s = _numbers(_peak(x) / F(-127), -32, -32, 31)
    step = d.astype(F)[:, None] * s
    q = np.searchsorted(IQ4_MIDDLES, _divide(x, np.broadcast_to(step[..., None], x.shape))).astype(np.uint8)
    s = (s + 32).astype(np.uint8)
    highs = np.zeros(len(s), np.uint16)
    for j in range(8):
        highs |= (s[:, j] >> 4).astype(np.uint16) << 2 * j
    lows = s[:, 0::2] & 15 | (s[:, 1::2] & 15) << 4
    nibbles = _nibbles(q.reshape(-1, 32)).reshape(-1, 128)
    return np.concatenate([_bytes_of(d), highs.view(np.uint8).reshape(-1, 2), lows, nibbles], 1)


def dequantize_q2_k(raw):
    b = raw.reshape(-1, 84)
    s, m = b[:, :16] & 15, b[:, :16] >> 4
    q = _levels_of_pairs(b[:, 16:80]).reshape(-1, 16, 16)
    step, minimum = _half(b[:, 80:82]) * s, _half(b[:, 82:84]) * m
    return (step[..., None] * q - minimum[..., None]).reshape(-1, 256)


def dequantize_q3_k(raw):
    b = raw.reshape(-1, 110)
    thirds = (b[:, None, :32] >> np.arange(8, dtype=np.uint8)[:, None] & 1).reshape(-1, 256)
    q = (_levels_of_pairs(b[:, 32:96]) | thirds << 2).astype(np.float64) - 4
    lows = np.concatenate([b[:, 96:104] & 15, b[:, 96:104] >> 4], 1)
    highs = np.concatenate([b[:, 104:108] >> 2 * j & 3 for j in range(4)], 1)
    s = (lows | highs << 4).astype(np.float64) - 32
    return ((_half(b[:, 108:110]) * s)[..., None] * q.reshape(-1, 16, 16)).reshape(-1, 256)


def dequantize_iq4_xs(raw):
    b = raw.reshape(-1, 136)
    lows = np.stack([b[:, 4:8] & 15, b[:, 4:8] >> 4], 2).reshape(-1, 8)
    highs = b[:, 2:4].copy().view(np.uint16) >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    s = (lows | highs << 4).astype(np.float64) - 32
    values = IQ4_LEVELS[_levels(b[:, 8:].reshape(-1, 16))].reshape(-1, 8, 32)
    return ((_half(b[:, :2]) * s)[..., None] * values).reshape(-1, 256)


def quantize_mxfp4(x):
    """Encodes OCP's microscaling format: the scale is a power of two by which the peak becomes 8 to 12 half steps."""
    x = x.reshape(-1, 32)
    peak = np.abs(x).max(1)
    e = np.where(peak > 0, np.clip(np.frexp(peak)[1] + 124, 0, 254), 0).astype(np.int64)
    with np.errstate(over="ignore", invalid="ignore"):  # zeros times the inverse of the smallest scale
        size = np.where(x == 0, F(0), np.abs(x) * np.ldexp(F(1), (128 - e).astype(np.int32))[:, None].astype(F))
    q = np.searchsorted(FP4_MIDDLES, size).astype(np.uint8)
    q |= ((q > 0) & (x < 0)).astype(np.uint8) << 3
    return np.concatenate([e.astype(np.uint8)[:, None], _nibbles(q)], 1)


def dequantize_mxfp4(raw):
    b = raw.reshape(-1, 17)
    return np.ldexp(1.0, b[:, :1].astype(np.int64) - 128) * FP4_LEVELS[_levels(b[:, 1:])]


# The values of E4M3, by their bits.
E4M3 = np.array([(8 + f) * 2.0 ** (e - 10) if e else f * 2.0**-9 for e in range(16) for f in range(8)][:127], F)


def _nearest_e4m3(x):
    """Returns the bits of the nearest values, ties to even."""
    at = np.clip(np.searchsorted(E4M3, x), 1, 126)
    low, high = E4M3[at - 1], E4M3[at]
    is_low = (x - low < high - x) | ((x - low == high - x) & (at % 2 == 1))
    return (at - is_low).astype(np.uint8)


def quantize_nvfp4(x):
    """Encodes four E4M3 scales, by which the peaks of sixteen values become 12 half steps."""
    x = x.reshape(-1, 4, 16)
    s = _nearest_e4m3(np.minimum(np.abs(x).max(2) / F(6), F(448)))
    size = np.abs(x) * _divide(np.full(s.shape, 2, F), E4M3[s])[..., None]
    q = np.searchsorted(FP4_MIDDLES, size).astype(np.uint8)
    q |= ((q > 0) & (x < 0)).astype(np.uint8) << 3
    return np.concatenate([s, (q[..., :8] | q[..., 8:] << 4).reshape(-1, 32)], 1)


def dequantize_nvfp4(raw):
    b = raw.reshape(-1, 36)
    nibbles = b[:, 4:].reshape(-1, 4, 8)
    levels = FP4_LEVELS[np.concatenate([nibbles & 15, nibbles >> 4], 2)]
    return (E4M3[b[:, :4]].astype(np.float64) / 2)[..., None] * levels
