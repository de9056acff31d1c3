#!/usr/bin/python3
"""Converts the matrices of a GGUF model to another type; vectors and metadata are copied.

    convert_gguf.py --type q4_0 models/demo.gguf demo-q4_0.gguf
    convert_gguf.py --type iq2_xxs,iq3_s,q4_k models/demo.gguf demo-mixed.gguf    # the matrices get these types in turn

Needs numpy only. Reads the types of reference_logits.py and writes those of make_model.py.
"""
import argparse
import itertools
import struct

import numpy as np

import oracle_path  # noqa: F401
from gguf_file import F32, FILE_TYPE, MIXES, TYPES, U32, encode, pack_str, pack_value, read_metadata
from model_tensors import matrix_type
from reference_logits import load

ALIGNMENT = 32


def target_types(weights, wanted):
    """Returns {name: element type}: f32 for vectors, and the type chosen by make_model.py for matrices, which take the wanted types in turn."""
    tied = "output.weight" not in weights
    n_layers = sum(name.endswith(".attn_norm.weight") for name in weights)
    in_turn = itertools.cycle(wanted)
    return {name: F32 if values.ndim < 2 else matrix_type(next(in_turn), name, values.shape[-1], n_layers, tied)
            for name, values in weights.items()}


def types_of(text):
    names = text.split(",")
    unknown = [name for name in names if name not in TYPES and name not in MIXES]
    if unknown:
        raise argparse.ArgumentTypeError(f"'{unknown[0]}' is no type, expected one of {', '.join((*TYPES, *MIXES))}")
    return names


def write(path, metadata, tensors):
    """metadata: {key: (type, value)}; tensors: {name: (values, element type)}."""
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
    ap.add_argument("--type", type=types_of, required=True, help="a type, or several separated by commas")
    a = ap.parse_args()
    metadata = read_metadata(a.model)
    metadata["general.file_type"] = (U32, FILE_TYPE[a.type[0]])
    metadata.pop("general.alignment", None)
    _, weights = load(a.model)
    types = target_types(weights, a.type)
    write(a.out, metadata, {name: (values, types[name]) for name, values in weights.items()})


if __name__ == "__main__":
    main()
