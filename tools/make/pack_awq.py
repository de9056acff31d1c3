#!/usr/bin/python3
"""Quantizes a Hugging Face folder in the layout of AutoAWQ's "gemm" files, and writes the represented values as a folder of F32.

    pack_awq.py --group-size 128 FOLDER PACKED TWIN

Rounds to the nearest level of each group and does not scale by activations: for tests of readers, not for real use. Source of the
layout: AutoAWQ, WQLinear_GEMM.from_linear. Needs numpy only.
"""
import argparse

import numpy as np

from pack_gptq import column_groups, dequantize, pack_folder, quantize

ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # output in each nibble of a word, lowest nibble first
BITS = 4


def words(x):
    """Packs [n, outputs] into [n, outputs / 8] int32."""
    out = np.zeros((len(x), x.shape[1] // 8), np.uint32)
    for nibble, output in enumerate(ORDER):
        out |= x[:, output::8].astype(np.uint32) << np.uint32(BITS * nibble)
    return out.view(np.int32)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder", help="of make_hf_model.py, in one file")
    ap.add_argument("packed", help="will be made")
    ap.add_argument("twin", help="will be made: the same weights as F32")
    ap.add_argument("--group-size", type=int, default=128, help="-1: whole rows")
    a = ap.parse_args()

    def pack_matrix(name, w):
        groups = column_groups(name, w, w.shape[1] if a.group_size == -1 else a.group_size, False)
        quants, scales, zeros = quantize(w, groups, BITS, sym=False)
        parts = {"qweight": ("I32", words(quants.T)), "qzeros": ("I32", words(zeros)), "scales": ("F16", scales)}
        return parts, dequantize(quants, groups, scales, zeros)

    pack_folder(a.folder, a.packed, a.twin, {
        "quant_method": "awq", "bits": BITS, "group_size": a.group_size, "version": "gemm", "zero_point": True,
        "modules_to_not_convert": None}, pack_matrix)


if __name__ == "__main__":
    main()
