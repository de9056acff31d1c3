#!/usr/bin/python3
"""Converts a Hugging Face folder to one with 8-bit or 4-bit floats and scales, and writes the values that they represent.

    make_hf_model.py m.gguf FOLDER && block_floats.py --kind fp8 --block 32 FOLDER OUT

OUT holds E4M3 with a scale for each block of rows and columns, as in DeepSeek-V3 (`--block 0`: one per matrix, `--rows`: one per row),
or NVFP4 as written by Modelopt. OUT-widened holds the same values as f32, or as bf16 where Kvik widens them itself: E4M3 whose scale
blocks are not multiples of 32 columns, and NVFP4 whose rows are not multiples of 64. Kvik must compute the same bits from both, except for
NVFP4, whose activations have 8 bits. Experts in one tensor (make_hf_model.py --fused-experts) remain in one, and their scales are in
another. `--scales` selects the type of the scales: e8m0 as in DeepSeek-V4, or bf16 as in Mistral (a scalar if there is one per matrix,
with an activation scale beside it). `--compressed` uses the names and the config of llm-compressor. `--fp4-experts` (with --kind fp8) writes
routed experts as MXFP4, with the names and the key of DeepSeek-V4; OUT-widened has their values as f32. Needs numpy only.
"""
import argparse
import json
import os
import re
import shutil

import numpy as np

import oracle_path  # noqa: F401
from folder_files import write_json, write_safetensors
from gguf_file import BF16, F16, F32, NUMBERS, to_bf16

TYPES = {"F32": (F32, np.float32), "F16": (F16, np.float16), "BF16": (BF16, np.uint16), "I32": (NUMBERS, np.int32)}
OF_DEEPSEEK4 = re.compile(r"\.(w[qk]v?(_[ab])?|wo_[ab]|w[123])\.weight$")  # matrices in E4M3, and w1 to w3 of experts
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E4M3 = np.array([(8 + f) * 2.0 ** (e - 10) if e else f * 2.0**-9 for e in range(16) for f in range(8)][:127])


def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__", None)
    return {name: (TYPES[e["dtype"]][0], np.frombuffer(raw[8 + n + e["data_offsets"][0]:8 + n + e["data_offsets"][1]], TYPES[e["dtype"]][1]).reshape(e["shape"]))
            for name, e in header.items()}


def values(t, x):
    return (x.astype(np.uint32) << 16).view(np.float32) if t == BF16 else x.astype(np.float32)


def nearest(levels, x):
    """Returns the codes of the levels nearest to |x|, with the sign in the next higher bit, and their values."""
    at = np.clip(np.searchsorted((levels[1:] + levels[:-1]) / 2, np.abs(x)), 0, len(levels) - 1)
    bit = 1 << int(np.ceil(np.log2(len(levels))))
    return (at + bit * (x < 0)).astype(np.uint8), np.copysign(levels[at], x)


def stored_scales(scales, kind):
    """Returns the scales as stored in the file, and as numbers."""
    if kind == "e8m0":  # rounded up to a power of two
        bits = np.clip(np.ceil(np.log2(np.maximum(scales, 1e-38))) + 127, 0, 254).astype(np.uint8)
        return ("F8_E8M0", bits), np.ldexp(np.float32(1), bits.astype(np.int32) - 127)
    if kind == "bf16":
        return (BF16, to_bf16(scales)), values(BF16, to_bf16(scales))
    return (F32, scales), scales


def fp8_codes(w, block, kind="f32"):
    """Returns codes, their levels, the stored scales, and the scale of each element."""
    edge = [e or n for n, e in zip(w.shape, block)]
    of_row, of_col = (np.arange(n) // e for n, e in zip(w.shape, edge))
    scales = np.zeros([-(-n // e) for n, e in zip(w.shape, edge)], np.float32)
    np.maximum.at(scales, (of_row[:, None], of_col[None]), np.abs(w))
    stored, scales = stored_scales((scales / np.float32(448)).astype(np.float32), kind)
    each = scales[of_row[:, None], of_col[None]]
    return *nearest(E4M3, w / each), stored, each


def fp8(w, block, kind):
    """Returns codes, stored scales and represented values of a matrix or a stack of matrices."""
    if w.ndim == 3:
        codes, scales, wide = zip(*(fp8(m, block, kind) for m in w))
        return np.stack(codes), (scales[0][0], np.stack([x for _, x in scales])), np.stack(wide)
    codes, levels, scales, each = fp8_codes(w, block, kind)
    return codes, scales, levels.astype(np.float32) * each


def exact_fp8(w, block):
    _, levels, _, each = fp8_codes(w.astype(np.float32), (block, block))
    return levels.astype(np.float64) * each


def nvfp4_codes(w):
    """Returns codes and levels in groups of sixteen, the groups' scales as bits and as numbers, and the scale of the matrix."""
    of_all = np.float32(np.abs(w).max() / (6 * 448))
    groups = w.reshape(w.shape[0], -1, 16)
    scales, rounded = nearest(E4M3, np.abs(groups).max(2) / 6 / of_all)
    each = rounded.astype(np.float32)
    return *nearest(E2M1, groups / np.where(each == 0, 1, each * of_all)[..., None]), scales, each, of_all


def exact_nvfp4(w):
    _, levels, _, each, of_all = nvfp4_codes(w.astype(np.float32))
    return (levels * each[..., None].astype(np.float64) * of_all.astype(np.float64)).reshape(w.shape)


def nvfp4(w):
    codes, levels, scales, each, of_all = nvfp4_codes(w)
    codes = codes.reshape(w.shape)
    widened = (levels.astype(np.float32) * each[..., None] * of_all).reshape(w.shape)
    return {"": ("U8", codes[:, 0::2] | codes[:, 1::2] << 4), "_scale": ("F8_E4M3", scales),
            "_scale_2": (F32, of_all.reshape(1))}, widened


def mxfp4_codes(w):
    """Returns codes and levels in groups of 32, and the groups' scales as exponents."""
    groups = w.reshape(w.shape[0], -1, 32)
    peaks = np.maximum(np.abs(groups).max(2), 1e-30)
    exponents = np.floor(np.log2(peaks)).astype(np.int32) - 2  # the largest level is 6
    return *nearest(E2M1, np.ldexp(groups, -exponents[..., None])), exponents


def exact_mxfp4(w):
    _, levels, exponents = mxfp4_codes(w)
    return np.ldexp(levels, exponents[..., None]).reshape(w.shape)


def mxfp4_tensors(name, w):
    """Returns the named parts of a matrix and the values that they represent."""
    codes, _, exponents = mxfp4_codes(w)
    codes = codes.reshape(w.shape)
    return {name: ("I8", codes[:, 0::2] | codes[:, 1::2] << 4), scale_name(name): ("F8_E8M0", (exponents + 127).astype(np.uint8))}, exact_mxfp4(w).astype(np.float32)


def scale_name(name):
    return name.removesuffix("weight") + "scale"


def fp8_config(a):
    block = None if a.rows or not a.block else [a.block, a.block]
    if not a.compressed:
        return {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "static" if a.scales == "bf16" else "dynamic",
                "weight_block_size": block, **({"scale_fmt": "ue8m0"} if a.scales == "e8m0" else {})}
    numbers = {"num_bits": 8, "type": "float", "symmetric": True, "group_size": None, "actorder": None}
    weights = {**numbers, "strategy": "channel" if a.rows else "block" if block else "tensor", "block_structure": block, "dynamic": False}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": {**numbers, "strategy": "token", "dynamic": True}}
    return {"quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": {"group_0": group}, "kv_cache_scheme": None, "sparsity_config": {}, "transform_config": {}}


def fp8_tensors(name, w, a):
    """Returns the named parts of a matrix and the values that they represent."""
    codes, (t, scales), wide = fp8(w, (1, 0) if a.rows else (a.block, a.block), a.scales)
    is_one = w.ndim == 2 and a.block == 0 and not a.rows
    parts = {name: ("F8_E4M3", codes), name + ("_scale" if a.compressed else "_scale_inv"):
             (t, scales.reshape(() if a.scales == "bf16" else -1) if is_one else scales)}
    if a.scales == "bf16":  # scales of activations, which Kvik ignores
        of_inputs = name.removesuffix("weight") + ("input_scale" if a.compressed else "activation_scale" if w.ndim == 2 else "_activation_scale")
        parts[of_inputs] = (BF16, np.full(len(w) if w.ndim == 3 else (), 0x3F00, np.uint16))
    return parts, wide


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder", help="of bf16, in one file")
    ap.add_argument("out", help="will be made, and OUT-widened")
    ap.add_argument("--kind", choices=["fp8", "nvfp4"], required=True)
    ap.add_argument("--block", type=int, default=128, help="rows and columns that share a scale; 0: all")
    ap.add_argument("--rows", action="store_true", help="a scale for each row")
    ap.add_argument("--scales", choices=["f32", "bf16", "e8m0"], default="f32")
    ap.add_argument("--fp4-experts", action="store_true", help="as DeepSeek V4")
    ap.add_argument("--compressed", action="store_true", help="as compressed-tensors")
    a = ap.parse_args()
    stored, widened = {}, {}
    for name, (t, x) in read_safetensors(f"{a.folder}/model.safetensors").items():
        is_stack = a.kind == "fp8" and x.ndim == 3 and ".experts." in name
        is_matrix = x.ndim == 2 and (OF_DEEPSEEK4.search(name) and ".compressor." not in name if a.fp4_experts else name.endswith("_proj.weight"))
        if not (is_stack or is_matrix) or (a.kind == "nvfp4" and x.shape[1] % 16 != 0):
            stored[name] = widened[name] = (t, x)
            continue
        if a.fp4_experts and ".experts." in name:
            parts, w = mxfp4_tensors(name, values(t, x))
            is_exact = True
        elif a.kind == "fp8":
            parts, w = fp8_tensors(name, values(t, x), a)
            if a.fp4_experts:
                parts[scale_name(name)] = parts.pop(name + "_scale_inv")
            is_exact = x.shape[-1] % 32 == 0 and (a.rows or a.block % 32 == 0)
        else:
            parts, w = nvfp4(values(t, x))
            parts = {name + ending: part for ending, part in parts.items()}
            is_exact = x.shape[1] % 64 == 0
        stored |= parts
        widened[name] = (F32, w) if is_exact else (BF16, to_bf16(w))
    with open(f"{a.folder}/config.json") as f:
        config = json.load(f)
    how = fp8_config(a) if a.kind == "fp8" else {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    more = {"quantization_config": how, **({"expert_dtype": "fp4"} if a.fp4_experts else {})}
    for folder, tensors, more in ((a.out, stored, more), (f"{a.out}-widened", widened, {})):
        shutil.copytree(a.folder, folder)
        os.remove(f"{folder}/model.safetensors")
        write_safetensors(f"{folder}/model.safetensors", tensors)
        write_json(f"{folder}/config.json", {**config, **more})


if __name__ == "__main__":
    main()
