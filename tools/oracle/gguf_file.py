"""Reads and writes GGUF files: element types and their blocks, metadata values, whole files.

Needs numpy only. Names and formats follow the GGUF specification (ggml, docs/gguf.md).
"""
import os
import re
import struct
import sys
import numpy as np

import code_quants
import k_quants
import small_quants
import table_quants

# --- element types ---


def weight_types():
    """Returns {name: (GGUF type id, block, file type)} of Kvik's weight types, and {GGUF type id: bytes before a row}, read from Kvik's sources. A
    block is (elements, bytes). The id is None if no GGUF file holds the type."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/tensor/element_enum.h")
    with open(path) as f:
        rows = re.findall(r'row\(k\w+, "(\w+)", (\w+), (\d+), (\d+), (\d+|kGuessedFileType)(?:, (\d+))?\)', f.read())
    types = {name: (int(number) if number.isdigit() else None, (int(n), int(size)), int(file_type) if file_type.isdigit() else 1024)
             for name, number, n, size, file_type, _ in rows}
    return types, {int(number): int(header) for _, number, _, _, _, header in rows if header}


WEIGHT_TYPES, ROW_HEADER = weight_types()
IN_FILES = {name: row for name, row in WEIGHT_TYPES.items() if row[0] is not None}
TYPES = {name: number for name, (number, _, _) in IN_FILES.items()}
BLOCK = {number: block for number, block, _ in IN_FILES.values()}
NUMBERS = 26  # i32
BLOCK[NUMBERS] = (1, 4)
MIXES = {"q4_k_m": (TYPES["q4_k"], TYPES["q6_k"]), "q5_k_m": (TYPES["q5_k"], TYPES["q6_k"])}  # type of most matrices, and of the more important ones
FILE_TYPE = {**{name: file_type for name, (_, _, file_type) in IN_FILES.items()}, "q4_k_m": 15, "q5_k_m": 17}
F32, F16, BF16, Q4_0, Q8_0, MXFP4, NVFP4 = (TYPES[name] for name in ("f32", "f16", "bf16", "q4_0", "q8_0", "mxfp4", "nvfp4"))


def to_bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def quantize_q8_0(x):
    """Encodes [..., n] f32 as blocks of 32: f16 scale, 32 x int8."""
    b = x.reshape(-1, 32)
    d = np.abs(b).max(1) / 127.0
    q = np.where(d[:, None] > 0, np.round(b / np.where(d == 0, 1, d)[:, None]), 0).astype(np.int8)
    out = np.empty((b.shape[0], 34), np.uint8)
    out[:, :2] = d.astype(np.float16).view(np.uint8).reshape(-1, 2)
    out[:, 2:] = q.view(np.uint8)
    return out


def quantize_q4_0(x):
    """Encodes [..., n] f32 as blocks of 32: f16 scale, 16 bytes with element j in the low and j + 16 in the high nibble."""
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
    rows = (-1, x.shape[-1]) if t in ROW_HEADER else -1
    return QUANTIZE[t](np.ascontiguousarray(x, np.float32).reshape(rows)).tobytes()


QUANTIZE = {t: functions[f"quantize_{name}"] for name, t in TYPES.items()
            for functions in (globals(), vars(k_quants), vars(small_quants), vars(code_quants), vars(table_quants)) if f"quantize_{name}" in functions}


def nbytes(shape, t):
    elements, size = BLOCK[t]
    return int(np.prod(shape)) // elements * size + int(np.prod(shape[:-1])) * ROW_HEADER.get(t, 0)


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
    """Returns {key: (type, value)} of a GGUF file; strings remain bytes."""
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
