"""Reads and writes GGUF files in parts, so that a test can corrupt any part."""
import struct

import kvik
from gguf_file import ARR, BOOL, F, I32, STR, U32, U64, nbytes, pack_str, pack_value, read_metadata  # noqa: F401

ALIGNMENT = 32


class Gguf:
    """metadata: [(key, type, value)]; tensors: [[name, dims fastest first, element type, offset]]; data: bytes."""

    def __init__(self, path):
        with open(path, "rb") as f:
            raw = f.read()
        self.version = 3
        self.metadata = [(k, t, v) for k, (t, v) in read_metadata(path).items()]
        self.tensors = []
        at = len(self.head())
        for _ in range(struct.unpack_from("<Q", raw, 8)[0]):
            n = struct.unpack_from("<Q", raw, at)[0]
            name, at = raw[at + 8:at + 8 + n].decode(), at + 8 + n
            rank = struct.unpack_from("<I", raw, at)[0]
            dims = list(struct.unpack_from(f"<{rank}Q", raw, at + 4))
            element_type, offset = struct.unpack_from("<IQ", raw, at + 4 + 8 * rank)
            self.tensors.append([name, dims, element_type, offset])
            at += 16 + 8 * rank
        self.data = raw[at + -at % ALIGNMENT:]
        assert self.bytes() == raw

    def head(self, n_tensors=None, n_metadata=None):
        """Returns the bytes up to the tensor table; the counts may be false."""
        counts = (len(self.tensors) if n_tensors is None else n_tensors, len(self.metadata) if n_metadata is None else n_metadata)
        out = b"GGUF" + struct.pack("<IQQ", self.version, *counts)
        return out + b"".join(pack_str(k) + struct.pack("<I", t) + pack_value(t, v) for k, t, v in self.metadata)

    def table(self):
        return b"".join(pack_str(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", t, offset)
                        for name, dims, t, offset in self.tensors)

    def bytes(self, **counts):
        out = self.head(**counts) + self.table()
        return out + b"\0" * (-len(out) % ALIGNMENT) + self.data

    def header_bytes(self):
        return len(self.head()) + len(self.table())

    def get(self, key):
        return next(v for k, _, v in self.metadata if k == key)

    def set(self, key, value_type, value):
        self.metadata = [m for m in self.metadata if m[0] != key] + [(key, value_type, value)]
        return self

    def drop(self, key):
        self.metadata = [m for m in self.metadata if m[0] != key]
        return self

    def tensor(self, name):
        return next(t for t in self.tensors if t[0] == name)

    def without_tensor(self, name):
        self.tensors = [t for t in self.tensors if t[0] != name]
        return self


def tiny():
    return Gguf(kvik.preset("test-llama"))
