"""GGUF files as the tools read and write them: element types and their blocks, values of the metadata, whole files.

Needs numpy only. Names and formats follow the GGUF specification (ggml, docs/gguf.md).
"""
import struct
import sys
import numpy as np

import k_quants
import small_quants

# --- element types ---

F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, BF16, MXFP4, NVFP4 = \
    0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 30, 39, 40
TYPES = {"f32": F32, "f16": F16, "q4_0": Q4_0, "q4_1": Q4_1, "q5_0": Q5_0, "q5_1": Q5_1, "q8_0": Q8_0, "q2_k": Q2_K, "q3_k": Q3_K,
         "q4_k": Q4_K, "q5_k": Q5_K, "q6_k": Q6_K, "iq4_nl": IQ4_NL, "iq4_xs": IQ4_XS, "bf16": BF16, "mxfp4": MXFP4, "nvfp4": NVFP4}
MIXES = {"q4_k_m": (Q4_K, Q6_K), "q5_k_m": (Q5_K, Q6_K)}  # most matrices, and those that matter more
FILE_TYPE = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k": 11, "q4_k": 14, "q4_k_m": 15,
             "q5_k": 16, "q5_k_m": 17, "q6_k": 18, "iq4_nl": 25, "iq4_xs": 30, "bf16": 32, "mxfp4": 38, "nvfp4": 39}
BLOCK = {F32: (1, 4), F16: (1, 2), BF16: (1, 2), Q4_0: (32, 18), Q4_1: (32, 20), Q5_0: (32, 22), Q5_1: (32, 24), Q8_0: (32, 34),
         IQ4_NL: (32, 18), Q2_K: (256, 84), Q3_K: (256, 110), Q4_K: (256, 144), Q5_K: (256, 176), Q6_K: (256, 210), IQ4_XS: (256, 136), MXFP4: (32, 17), NVFP4: (64, 36)}


def to_bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def quantize_q8_0(x):
    """[..., n] f32 -> blocks of 32: f16 scale, 32 x int8."""
    b = x.reshape(-1, 32)
    d = np.abs(b).max(1) / 127.0
    q = np.where(d[:, None] > 0, np.round(b / np.where(d == 0, 1, d)[:, None]), 0).astype(np.int8)
    out = np.empty((b.shape[0], 34), np.uint8)
    out[:, :2] = d.astype(np.float16).view(np.uint8).reshape(-1, 2)
    out[:, 2:] = q.view(np.uint8)
    return out


def quantize_q4_0(x):
    """[..., n] f32 -> blocks of 32: f16 scale, 16 bytes; element j in the low, j + 16 in the high nibble."""
    b = x.reshape(-1, 32)
    peak = b[np.arange(b.shape[0]), np.abs(b).argmax(1)]
    d = peak / -8.0
    inv = np.where(d == 0, 0, 1 / np.where(d == 0, 1, d))
    q = np.clip(np.floor(b * inv[:, None] + 8.5), 0, 15).astype(np.uint8)
    out = np.empty((b.shape[0], 18), np.uint8)
    out[:, :2] = d.astype(np.float16).view(np.uint8).reshape(-1, 2)
    out[:, 2:] = q[:, :16] | (q[:, 16:] << 4)
    return out


def encode(x, t):
    if t == F32:
        return np.ascontiguousarray(x, np.float32).tobytes()
    if t == F16:
        return x.astype(np.float16).tobytes()
    if t == BF16:
        return to_bf16(x).tobytes()
    quantize = {Q8_0: quantize_q8_0, Q4_0: quantize_q4_0, Q4_K: k_quants.quantize_q4_k, Q5_K: k_quants.quantize_q5_k,
                Q6_K: k_quants.quantize_q6_k, Q4_1: small_quants.quantize_q4_1, Q5_0: small_quants.quantize_q5_0,
                Q5_1: small_quants.quantize_q5_1, IQ4_NL: small_quants.quantize_iq4_nl, Q2_K: small_quants.quantize_q2_k,
                Q3_K: small_quants.quantize_q3_k, IQ4_XS: small_quants.quantize_iq4_xs, MXFP4: small_quants.quantize_mxfp4, NVFP4: small_quants.quantize_nvfp4}[t]
    return quantize(np.ascontiguousarray(x, np.float32).reshape(-1)).tobytes()


def nbytes(shape, t):
    elements, size = BLOCK[t]
    return int(np.prod(shape)) // elements * size


# --- GGUF values: (type id, python value) ---
U8, I8, U16, I16, U32, I32, F, BOOL, STR, ARR, U64, I64, F64 = range(13)
FMT = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F: "<f", BOOL: "<?", U64: "<Q", I64: "<q", F64: "<d"}


def pack_str(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(b)) + b


def pack_value(t, v):
    if t == STR:
        return pack_str(v)
    if t == ARR:
        et, items = v
        return struct.pack("<IQ", et, len(items)) + b"".join(pack_value(et, i) for i in items)
    return struct.pack(FMT[t], v)


def read_metadata(path):
    """Key -> (type, value) of a GGUF file; strings stay bytes."""
    with open(path, "rb") as f:
        assert f.read(4) == b"GGUF", f"{path} is no GGUF file"
        _, _, n_kv = struct.unpack("<IQQ", f.read(20))

        def string():
            return f.read(struct.unpack("<Q", f.read(8))[0])

        def value(t):
            if t == STR:
                return string()
            if t == ARR:
                et, n = struct.unpack("<IQ", f.read(12))
                return (et, [value(et) for _ in range(n)])
            return struct.unpack(FMT[t], f.read(struct.calcsize(FMT[t])))[0]

        out = {}
        for _ in range(n_kv):
            k = string().decode()
            t = struct.unpack("<I", f.read(4))[0]
            out[k] = (t, value(t))
    return out


def write_gguf(path, kv, tensors):
    ALIGN = 32
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(kv)))
        for k, (t, v) in kv.items():
            f.write(pack_str(k) + struct.pack("<I", t) + pack_value(t, v))
        offset = 0
        for name, shape, t, _ in tensors:
            f.write(pack_str(name) + struct.pack("<I", len(shape)))
            f.write(b"".join(struct.pack("<Q", d) for d in reversed(shape)))
            f.write(struct.pack("<IQ", t, offset))
            offset += -(-nbytes(shape, t) // ALIGN) * ALIGN
        f.write(b"\0" * (-f.tell() % ALIGN))
        for name, shape, t, make in tensors:
            data = make()
            assert len(data) == nbytes(shape, t), name
            f.write(data + b"\0" * (-len(data) % ALIGN))
            if sys.stderr.isatty():
                print(f"\r{f.tell() / 2**20:8.0f} MiB  {name:<40}", end="", file=sys.stderr)
