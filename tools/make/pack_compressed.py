#!/usr/bin/python3
"""Quantizes a Hugging Face folder in the layout of compressed-tensors' "pack-quantized" files, and writes the represented values as a folder of
F32.

    pack_compressed.py --group-size 32 FOLDER PACKED TWIN

Rounds to the nearest level of each group and searches nothing: for tests of readers, not for real use. Levels, and zero points if there
are any, are those of pack_gptq.py. Source of the layout: compressed-tensors, PackedQuantizationCompressor. Needs numpy only.
"""
import numpy as np

import oracle_path  # noqa: F401
from gguf_file import to_bf16
from pack_gptq import arguments_of, column_groups, dequantize, is_packed, pack_folder, quantize, words_along


def as_numbers(bf16):
    return (bf16.astype(np.uint32) << 16).view(np.float32)


def padded(x, n):
    return np.concatenate([x, np.zeros((-len(x) % n, *x.shape[1:]), x.dtype)])


def main():
    ap = arguments_of(__doc__)
    ap.add_argument("--asym", action="store_true")
    ap.add_argument("--experts", action="store_true", help="only those that a router chooses, as in Kimi K2 Thinking")
    ap.add_argument("--bf16", action="store_true", help="scales of bf16")
    ap.add_argument("--unpacked", action="store_true", help="signed bytes, as int-quantized folders (W8A8) have them; with --bits 8")
    ap.add_argument("--faint", action="store_true", help="scales of bf16, of which some are less than an f16 can be")
    a = ap.parse_args()

    def pack_matrix(name, w):
        groups = column_groups(name, w, w.shape[1] if a.group_size == -1 else a.group_size, a.act_order)
        quants, scales, zeros = quantize(w, groups, a.bits, not a.asym)
        stored = ("F16", scales.T)
        if a.bf16 or a.faint:
            scales = scales.astype(np.float32)
            if a.faint:
                scales[:, ::3] *= np.float32(2.0**-14)
            stored = ("BF16", to_bf16(scales).T)
            scales = as_numbers(to_bf16(scales))
        parts = {"weight_packed": ("I32", words_along(quants, a.bits, 1)), "weight_scale": stored,
                 "weight_shape": ("I64", np.array(w.shape, np.int64))}
        if a.unpacked:
            parts = {"weight": ("I8", (quants.astype(np.int32) - 128).astype(np.int8)), "weight_scale": stored}
        if a.asym:
            parts["weight_zero_point"] = ("I32", words_along(padded(zeros.T, 32 // a.bits), a.bits, 0))
        if a.act_order:
            parts["weight_g_idx"] = ("I32", groups)
        return parts, dequantize(quants, groups, scales, zeros)

    weights = {"num_bits": a.bits, "type": "int", "symmetric": not a.asym, "strategy": "channel" if a.group_size == -1 else "group",
               "group_size": None if a.group_size == -1 else a.group_size, "block_structure": None, "dynamic": False,
               "actorder": "group" if a.act_order else None, "observer": "minmax", "observer_kwargs": {}}
    pack_folder(a.folder, a.packed, a.twin, {
        "quant_method": "compressed-tensors", "format": "int-quantized" if a.unpacked else "pack-quantized", "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}},
        "ignore": ["lm_head", "re:.*gate$"], "kv_cache_scheme": None}, pack_matrix,
        lambda name, x: is_packed(name, x) and (".mlp.experts." in name or not a.experts))


if __name__ == "__main__":
    main()
