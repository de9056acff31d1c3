#!/usr/bin/env python3
"""Writes tests/e2e/quantized/NAME.json: the logits of folders of quantized weights, as their authors' libraries read them.

    python3 -m venv VENV && VENV/bin/pip install torch transformers llmcompressor numpy safetensors
    VENV/bin/python tools/oracle/quantized_values.py [NAME…]

A small Llama is quantized by llm-compressor and saved, its tensors are replaced by those of counter_weights.py under the names,
types and shapes of that file, and the folder is loaded by Transformers, which has compressed-tensors dequantize it. Activations
are not quantized. The forward pass is in float64.
"""
import argparse
import base64
import json
import os
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import counter_weights  # noqa: E402
import transformers_values as base_values  # noqa: E402
import variants  # noqa: E402

OUT = os.path.join(HERE, "../../tests/e2e/quantized")
DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.uint8: "U8", torch.int8: "I8",
          torch.float8_e4m3fn: "F8_E4M3", torch.int32: "I32", torch.int64: "I64"}


def integers(bits, strategy, **more):
    return {"num_bits": bits, "type": "int", "strategy": strategy, "symmetric": True, **more}


# name → what llm-compressor's QuantizationModifier is told: a preset, or the scheme of its weights.
SCHEMES = {
    "ct-mxfp4": "MXFP4",
    "ct-mxfp8": "MXFP8",
    "ct-nvfp4": "NVFP4A16",
    "ct-fp8-rows": "FP8_DYNAMIC",
    "ct-int8": "W8A8",
    "ct-packed-4": integers(4, "group", group_size=32),
    "ct-packed-4-zeros": integers(4, "group", group_size=32, symmetric=False),
    "ct-packed-8": integers(8, "channel"),
}
LARGEST = {"F8_E4M3": 9, "I8": 7}  # exponents of the largest level; four bits: 3


def fill_of(name, tensor, tensors):
    """How counter_weights.stored() fills a tensor of such a name."""
    dtype, leaf = DTYPES[tensor.dtype], name.rsplit(".", 1)[-1]
    if leaf == "weight_shape":
        return {"fill": "values", "values": tensor.tolist()}
    if leaf.endswith("global_scale"):
        return {"fill": "powers", "first": 5, "n": 1}
    if leaf == "weight_scale" and dtype == "U8":
        return {"fill": "bytes", "first": 116 if name.replace("_scale", "") in tensors else 120, "n": 3}  # beside E4M3: of 448
    if leaf == "weight_scale" and dtype == "F8_E4M3":
        return {"fill": "bytes", "first": 0x30, "n": 16}  # 0.5 … 1.875
    if leaf == "weight_scale":
        beside = tensors.get(name.replace("_scale", ""))
        packed = tensors.get(name.replace("_scale", "_packed"))
        is_wide = packed is not None and packed.dtype == torch.int32 and packed.shape[1] * 4 >= tensors[name.replace("_scale", "_shape")][1]
        largest = LARGEST[DTYPES[beside.dtype]] if beside is not None else 7 if is_wide else 3
        return {"fill": "powers", "first": -3 - largest, "n": 2}
    return {} if dtype in ("F32", "F16", "BF16") else {"fill": "bits"}


def quantize(folder, scheme):
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme, apply_quantization_config, preset_name_to_scheme
    model_type, settings, _ = variants.VARIANTS["llama"]
    model = transformers.AutoModelForCausalLM.from_config(base_values.configuration(model_type, settings)).bfloat16()
    how = preset_name_to_scheme(scheme, ["Linear"]) if isinstance(scheme, str) else QuantizationScheme(targets=["Linear"], weights=scheme)
    apply_quantization_config(model, QuantizationConfig(config_groups={"group_0": how}, ignore=["lm_head"]))
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(folder)
    compressor.update_config(folder)


def count_weights(folder):
    """Returns {name: how it is made} of the file, after replacing its tensors."""
    path = os.path.join(folder, "model.safetensors")
    tensors = safetensors.torch.load_file(path)
    made = {name: {"dtype": DTYPES[x.dtype], "shape": list(x.shape), **fill_of(name, x, tensors)} for name, x in sorted(tensors.items())}
    raw = {}
    for name, how in made.items():
        x = torch.from_numpy(counter_weights.stored(name, **how))
        raw[name] = x.view(tensors[name].dtype) if x.dtype != tensors[name].dtype else x
    safetensors.torch.save_file(raw, path, {"format": "pt"})
    return made


def values(name):
    torch.manual_seed(0)
    tokens = [(7 * i * i + 3 * i + len(name)) % 90 + 4 for i in range(base_values.N_TOKENS)]
    with tempfile.TemporaryDirectory() as folder:
        quantize(folder, SCHEMES[name])
        made = count_weights(folder)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", quantization_config=transformers.CompressedTensorsConfig(dequantize=True))
        for module in model.modules():
            module.quantization_enabled = False
        model = model.double().eval()
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, list(base_values.POSITIONS)].double().numpy()
    return {"transformers": transformers.__version__, "config": config, "tensors": made, "tokens": tokens,
            "positions": list(base_values.POSITIONS), "logits": base64.b64encode(logits.astype("<f4").tobytes()).decode()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="folders (default: all)")
    args = parser.parse_args()
    os.makedirs(OUT, exist_ok=True)
    for name in args.names or SCHEMES:
        made = values(name)
        with open(os.path.join(OUT, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(made, f, indent=None, separators=(",", ":"))
            f.write("\n")
        print(f"{name}: {len(made['tensors'])} tensors", flush=True)


if __name__ == "__main__":
    main()
