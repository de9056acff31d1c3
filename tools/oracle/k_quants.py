"""Encodes and decodes GGUF's K-quants (ggml's block_q4_K, block_q5_K, block_q6_K) in numpy.

Super-blocks have 256 values. Q4_K and Q5_K: eight sub-blocks of 32, each with a 6-bit scale and a 6-bit minimum,
value = d · scale · q − dmin · minimum. Q6_K: sixteen sub-blocks of 16, value = d · scale · (q − 32).

The encoders try several scales per sub-block and keep the one with the least squared error. Every operation is a float32
operation and sums run in ascending order, so that src/tensor/round.cpp gives the same bytes.
"""
import numpy as np

BLOCK = 256
F = np.float32


def _levels(values, low, high):
    return np.minimum(np.maximum(np.rint(values), F(low)), F(high))


def _sum(terms):
    """Returns the sum over the first axis in ascending order; numpy uses another order."""
    total = np.zeros(terms.shape[1:], F)
    for term in terms:
        total = total + term
    return total


def _divide(a, b):
    """Returns a / b, or 0 where b is 0."""
    return np.where(b == 0, F(0), a / np.where(b == 0, F(1), b)).astype(F)


def _scale_and_minimum(x, top):
    """Returns scale and offset [n] for x [32, n] ≈ scale · q + offset, with q in 0 … top and offset ≤ 0."""
    low = np.minimum(x.min(0), F(0))
    width = x.max(0) - low
    best = _sum((low - x) * (low - x))
    scale, offset = np.zeros_like(low), low.copy()
    sum_x = _sum(x)
    for step in range(9):
        q = _levels(_divide(F(top - 1 + 0.25 * step), width) * (x - low), 0, top)
        sum_q, sum_qq, sum_qx = _sum(q), _sum(q * q), _sum(q * x)
        det = F(32) * sum_qq - sum_q * sum_q
        s = _divide(F(32) * sum_qx - sum_x * sum_q, det)
        o = _divide(sum_qq * sum_x - sum_q * sum_qx, det)
        s = np.where((o > 0) | (det == 0), _divide(sum_qx, sum_qq), s)  # a line through zero
        o = np.minimum(o, F(0))
        difference = (s * q + o) - x
        error = _sum(difference * difference)
        better = error < best
        best, scale, offset = np.where(better, error, best), np.where(better, s, scale), np.where(better, o, offset)
    return scale, offset


def _six_bit(values):
    """Quantizes [8, n] ≥ 0: returns the f16 unit [n] and 6-bit integers."""
    peak = values.max(0)
    return (peak / F(63)).astype(np.float16), _levels(_divide(F(63), peak) * values, 0, 63)


def _pack_scales(scales, minima):
    """Packs two [8, n] arrays of 6-bit integers into [n, 12] bytes."""
    s, m = scales.astype(np.uint8), minima.astype(np.uint8)
    rows = [s[j] | (s[j + 4] >> 4) << 6 for j in range(4)]
    rows += [m[j] | (m[j + 4] >> 4) << 6 for j in range(4)]
    rows += [(s[j] & 15) | (m[j] & 15) << 4 for j in range(4, 8)]
    return np.stack(rows, 1)


def _unpack_scales(b):
    """Unpacks [n, 12] bytes into scales and minima, [n, 8]."""
    b = b.astype(np.uint8)
    s = np.concatenate([b[:, :4] & 63, (b[:, 8:] & 15) | (b[:, :4] >> 6) << 4], 1)
    m = np.concatenate([b[:, 4:8] & 63, (b[:, 8:] >> 4) | (b[:, 4:8] >> 6) << 4], 1)
    return s, m


def _half(b):
    return b.copy().view(np.float16)


def _quantize_with_minima(x, top):
    """Encodes x [n · 256]: returns d, dmin [n] f16, packed scales [n, 12], levels [n, 8, 32]."""
    x = np.ascontiguousarray(x.reshape(-1, 8, 32).transpose(2, 1, 0))  # [32, 8, n]
    scale, offset = _scale_and_minimum(x.reshape(32, -1), top)
    d, scales = _six_bit(scale.reshape(8, -1))
    dmin, minima = _six_bit(-offset.reshape(8, -1))
    step, minimum = d.astype(F) * scales, dmin.astype(F) * minima
    q = _levels(_divide(x + minimum, np.broadcast_to(step, x.shape)), 0, top)
    return d, dmin, _pack_scales(scales, minima), q.transpose(2, 1, 0).astype(np.uint8)


def _nibbles(q):
    """Packs [n, 8, 32] levels into [n, 128]: sub-blocks 2j in the low halves, 2j + 1 in the high ones."""
    return ((q[:, 0::2] & 15) | (q[:, 1::2] & 15) << 4).reshape(len(q), 128)


def _bytes_of(halves):
    return halves.view(np.uint8).reshape(-1, 2)


def quantize_q4_k(x):
    d, dmin, scales, q = _quantize_with_minima(x, 15)
    return np.concatenate([_bytes_of(d), _bytes_of(dmin), scales, _nibbles(q)], 1)


def quantize_q5_k(x):
    d, dmin, scales, q = _quantize_with_minima(x, 31)
    fifth = np.zeros((len(q), 32), np.uint8)
    for j in range(8):
        fifth |= (q[:, j] >> 4) << j
    return np.concatenate([_bytes_of(d), _bytes_of(dmin), scales, fifth, _nibbles(q)], 1)


def _scale_of_16(x):
    """Returns the scale [n] for x [16, n] ≈ scale · q, with q in −32 … 31."""
    peak = np.take_along_axis(x, np.abs(x).argmax(0)[None], 0)[0]
    best, scale = np.zeros_like(peak), np.zeros_like(peak)
    for step in range(-4, 5):
        q = _levels(_divide(F(-(32 + 0.25 * step)), peak) * x, -32, 31)
        sum_qx, sum_qq = _sum(q * x), _sum(q * q)
        gain = _divide(sum_qx * sum_qx, sum_qq)
        better = gain > best
        best, scale = np.where(better, gain, best), np.where(better, _divide(sum_qx, sum_qq), scale)
    return scale


def quantize_q6_k(x):
    x = np.ascontiguousarray(x.reshape(-1, 16, 16).transpose(2, 1, 0))  # [16, 16, n]
    n = x.shape[2]
    scale = _scale_of_16(x.reshape(16, -1)).reshape(16, n)
    peak = np.take_along_axis(scale, np.abs(scale).argmax(0)[None], 0)[0]
    d = (peak / F(-128)).astype(np.float16)
    scales = _levels(_divide(np.full_like(peak, -128), peak) * scale, -128, 127)
    q = _levels(_divide(x, np.broadcast_to(d.astype(F) * scales, x.shape)), -32, 31) + F(32)
    q = q.transpose(2, 1, 0).astype(np.uint8).reshape(n, 2, 4, 32)  # halves of 128, quarters
    low = np.stack([(q[:, :, j] & 15) | (q[:, :, j + 2] & 15) << 4 for j in range(2)], 2)
    high = (q[:, :, 0] >> 4) | (q[:, :, 1] >> 4) << 2 | (q[:, :, 2] >> 4) << 4 | (q[:, :, 3] >> 4) << 6
    signed = np.ascontiguousarray(scales.T.astype(np.int8)).view(np.uint8)
    return np.concatenate([low.reshape(n, 128), high.reshape(n, 64), signed, _bytes_of(d)], 1)


def _with_minima(b, q):
    """Decodes b [n, …] blocks with levels q [n, 8, 32] to [n, 256] float64."""
    s, m = _unpack_scales(b[:, 4:16])
    d, dmin = _half(b[:, 0:2]).astype(np.float64), _half(b[:, 2:4]).astype(np.float64)
    return ((d * s)[:, :, None] * q - (dmin * m)[:, :, None]).reshape(-1, BLOCK)


def _levels_of_nibbles(b):
    pairs = b.reshape(-1, 4, 1, 32)
    return np.concatenate([pairs & 15, pairs >> 4], 2).reshape(-1, 8, 32)


def dequantize_q4_k(raw):
    b = raw.reshape(-1, 144)
    return _with_minima(b, _levels_of_nibbles(b[:, 16:]))


def dequantize_q5_k(raw):
    b = raw.reshape(-1, 176)
    fifth = (b[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[None, :, None]) & 1
    return _with_minima(b, _levels_of_nibbles(b[:, 48:]) | fifth << 4)


def dequantize_q6_k(raw):
    b = raw.reshape(-1, 210)
    low, high = b[:, :128].reshape(-1, 2, 2, 32), b[:, 128:192].reshape(-1, 2, 1, 32)
    low = np.concatenate([low & 15, low >> 4], 2)  # [n, 2, 4, 32]
    shifts = np.array([0, 2, 4, 6], np.uint8)[None, None, :, None]
    q = (low | ((high >> shifts) & 3) << 4).astype(np.float64) - 32
    scales = _half(b[:, 208:210]).astype(np.float64) * b[:, 192:208].copy().view(np.int8)
    return (scales[:, :, None] * q.reshape(-1, 16, 16)).reshape(-1, BLOCK)
