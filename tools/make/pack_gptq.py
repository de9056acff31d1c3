#!/usr/bin/python3
"""Quantizes a Hugging Face folder in the layout of AutoGPTQ's files, and writes the represented values as a folder of F32.

    pack_gptq.py --bits 4 --group-size 128 --act-order FOLDER PACKED TWIN

Rounds to the nearest level of each group and searches nothing: for tests of readers, not for real use. Packs every matrix of a layer
except routers. Sources of the layout: AutoGPTQ, QuantLinear.pack; GPTQModel for "gptq_v2". Needs numpy only.
"""
import argparse
import json
import os
import shutil
import struct
import sys

import numpy as np

from folder_files import write_json, write_safetensors

KEPT = ("norm.weight", ".gate.weight", "shared_expert_gate.weight", "embed_tokens.weight", "lm_head.weight")


def read_folder(folder):
    """Returns {name: f32 array} of model.safetensors."""
    with open(f"{folder}/model.safetensors", "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, entry in json.loads(raw[8:8 + n]).items():
        if name == "__metadata__":
            continue
        data = raw[8 + n + entry["data_offsets"][0]:8 + n + entry["data_offsets"][1]]
        if entry["dtype"] == "BF16":
            x = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            x = np.frombuffer(data, {"F32": np.float32, "F16": np.float16}[entry["dtype"]]).astype(np.float32)
        out[name] = x.reshape(entry["shape"])
    return out


def is_packed(name, x):
    return x.ndim == 2 and name.endswith(".weight") and not name.endswith(KEPT)


def column_groups(name, w, group, by_activation):
    """Returns the group of each column. Columns with the largest weights come first, as those with the largest activations do in GPTQ. The experts
    of a layer share one order."""
    n = w.shape[1]
    order = np.arange(n)
    if by_activation and ".experts." in name:
        order = np.random.default_rng(n).permutation(n)
    elif by_activation:
        order = np.argsort(-np.square(w).sum(0), kind="stable")
    groups = np.empty(n, np.int32)
    groups[order] = np.arange(n) // group
    return groups


def quantize(w, groups, bits, sym):
    """Quantizes [n_rows, n_cols]: returns levels of that shape, f16 scales and zero points [n_groups, n_rows]."""
    top = 2**bits - 1
    n_groups = groups.max() + 1
    quants = np.empty(w.shape, np.uint32)
    scales, zeros = np.empty((n_groups, len(w)), np.float16), np.empty((n_groups, len(w)), np.uint32)
    for g in range(n_groups):
        x = w[:, groups == g]
        low, high = np.minimum(x.min(1), 0), np.maximum(x.max(1), 0)
        if sym:
            high = np.maximum(high, -low)
            low = -high
        scales[g] = np.maximum((high - low) / top, 1e-7)
        scale = scales[g].astype(np.float32)
        # Files that store zero points minus one cannot represent 0.
        zeros[g] = 2**(bits - 1) if sym else np.clip(np.rint(-low / scale), 1, top)
        quants[:, groups == g] = np.clip(np.rint(x / scale[:, None]) + zeros[g][:, None], 0, top)
    return quants, scales, zeros


def dequantize(quants, groups, scales, zeros):
    steps = quants.astype(np.int32) - zeros.astype(np.int32)[groups].T
    return scales.astype(np.float32)[groups].T * steps.astype(np.float32)


def words_along(x, bits, axis):
    """Packs neighbors along an axis into one int32, the first one lowest."""
    x = np.moveaxis(x, axis, 0)
    per_word = 32 // bits
    words = np.zeros((len(x) // per_word, *x.shape[1:]), np.uint32)
    for i in range(per_word):
        words |= x[i::per_word].astype(np.uint32) << np.uint32(bits * i)
    return np.ascontiguousarray(np.moveaxis(words, 0, axis)).view(np.int32)


def gptq_tensors(quants, groups, scales, zeros, bits, less):
    return {"qweight": ("I32", words_along(quants.T, bits, 0)), "qzeros": ("I32", words_along(zeros - less, bits, 1)),
            "scales": ("F16", scales), "g_idx": ("I32", groups)}


def write(source, folder, tensors, quantization=None):
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(source):
        if not name.endswith(".safetensors"):
            shutil.copy(os.path.join(source, name), folder)
    if quantization:
        with open(f"{source}/config.json") as f:
            config = json.load(f)
        write_json(f"{folder}/config.json", {**config, "quantization_config": quantization})
    write_safetensors(f"{folder}/model.safetensors", tensors)


def pack_folder(source, packed, dequantized, quantization, pack_matrix, is_wanted=is_packed):
    """pack_matrix(name, weights) returns the file's tensors by name suffix, and the represented values."""
    out, plain = {}, {}
    for name, x in read_folder(source).items():
        if not is_wanted(name, x):
            out[name] = plain[name] = ("F32", x)
            continue
        parts, values = pack_matrix(name, x)
        plain[name] = ("F32", values)
        for end, tensor in parts.items():
            out[f"{name.removesuffix('weight')}{end}"] = tensor
    write(source, packed, out, quantization)
    write(source, dequantized, plain)


def arguments_of(description):
    """Returns the argument parser shared by the integer packers."""
    ap = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder", help="of make_hf_model.py, in one file")
    ap.add_argument("packed", help="will be made")
    ap.add_argument("twin", help="will be made: the same weights as F32")
    ap.add_argument("--bits", type=int, default=4, choices=(4, 8))
    ap.add_argument("--group-size", type=int, default=128, help="-1: whole rows")
    ap.add_argument("--act-order", action="store_true")
    return ap


def main():
    ap = arguments_of(__doc__)
    ap.add_argument("--sym", action="store_true")
    ap.add_argument("--v2", action="store_true", help="zeros as they are, not less one")
    ap.add_argument("--zero-biases", action="store_true", help="as AutoGPTQ wrote them for every matrix")
    a = ap.parse_args()
    if a.group_size == 0 or a.group_size < -1:
        sys.exit("--group-size: expected a number > 0, or -1")

    def pack_matrix(name, w):
        groups = column_groups(name, w, w.shape[1] if a.group_size == -1 else a.group_size, a.act_order)
        quants, scales, zeros = quantize(w, groups, a.bits, a.sym)
        parts = gptq_tensors(quants, groups, scales, zeros, a.bits, 0 if a.v2 else 1)
        if a.zero_biases:
            parts["bias"] = ("F16", np.zeros(len(w), np.float16))
        return parts, dequantize(quants, groups, scales, zeros)

    pack_folder(a.folder, a.packed, a.twin, {
        "quant_method": "gptq", "bits": a.bits, "group_size": a.group_size, "desc_act": a.act_order, "sym": a.sym,
        "checkpoint_format": "gptq_v2" if a.v2 else "gptq"}, pack_matrix)


if __name__ == "__main__":
    main()
