#!/usr/bin/env python3
"""Re-encodes the matrices of a GGUF model in another type; vectors and metadata stay as they are.

    convert_gguf.py --type q4_0 models/demo.gguf demo-q4_0.gguf

Needs numpy only. Reads what reference_logits.py reads, writes what make_model.py writes.
"""
import argparse
import struct

import numpy as np

from make_model import F16, F32, FILE_TYPE, Q4_0, Q8_0, TYPES, U32, encode, pack_str, pack_value, read_metadata
from reference_logits import load

ALIGNMENT = 32


def target_type(values, wanted):
    """Vectors stay f32; rows that are not whole blocks become f16, as make_model.py has it."""
    if values.ndim < 2:
        return F32
    return F16 if wanted in (Q4_0, Q8_0) and values.shape[-1] % 32 else wanted


def write(path, metadata, tensors):
    """metadata: key → (type, value); tensors: name → (values, element type)."""
    data = {name: encode(np.asarray(values, np.float32), t) for name, (values, t) in tensors.items()}
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
        for key, (t, value) in metadata.items():
            f.write(pack_str(key) + struct.pack("<I", t) + pack_value(t, value))
        offset = 0
        for name, (values, t) in tensors.items():
            f.write(pack_str(name) + struct.pack("<I", values.ndim))
            f.write(b"".join(struct.pack("<Q", d) for d in reversed(values.shape)))
            f.write(struct.pack("<IQ", t, offset))
            offset += -(-len(data[name]) // ALIGNMENT) * ALIGNMENT
        f.write(b"\0" * (-f.tell() % ALIGNMENT))
        for block in data.values():
            f.write(block + b"\0" * (-len(block) % ALIGNMENT))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("out")
    ap.add_argument("--type", choices=TYPES, required=True)
    a = ap.parse_args()
    wanted = TYPES[a.type]
    metadata = read_metadata(a.model)
    metadata["general.file_type"] = (U32, FILE_TYPE[wanted])
    metadata.pop("general.alignment", None)
    _, weights = load(a.model)
    write(a.out, metadata, {name: (values, target_type(values, wanted)) for name, values in weights.items()})


if __name__ == "__main__":
    main()
