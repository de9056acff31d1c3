#!/usr/bin/env python3
"""Writes tests/e2e/quantized/NAME.json: the logits of folders of quantized weights, as read by their authors' libraries.

    python3 -m venv VENV && VENV/bin/pip install torch transformers compressed-tensors numpy safetensors
    VENV/bin/python tools/oracle/quantized_values.py [NAME…]

A small Llama is quantized by compressed-tensors and saved, its tensors are replaced by those of counter_weights.py with the names,
types and shapes of that file, and the folder is loaded by Transformers, which dequantizes it with compressed-tensors. Activations
are not quantized. The forward pass runs in float64. A small DeepSeek V4 has the names and types of the published folders instead, and
Transformers dequantizes it.
"""
import argparse
import base64
import functools
import json
import os
import re
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
import counter_weights  # noqa: E402
import transformers_values as base_values  # noqa: E402
import variants  # noqa: E402

OUT = os.path.join(HERE, "../../tests/e2e/quantized")
DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.uint8: "U8", torch.int8: "I8",
          torch.float8_e4m3fn: "F8_E4M3", torch.int32: "I32", torch.int64: "I64"}


def integers(bits, strategy, **more):
    return {"num_bits": bits, "type": "int", "strategy": strategy, "symmetric": True, **more}


# Maps a name to a preset of compressed-tensors or to the scheme of its weights.
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
# The same for GPTQ and AWQ: "quantization_config" of config.json. Their tensors are named here, and GPTQModel and AutoAWQ dequantize them (pip
# install gptqmodel, autoawq).
WORDS = {
    "gptq-8-ordered": {"quant_method": "gptq", "bits": 8, "group_size": 32, "desc_act": True, "sym": False, "checkpoint_format": "gptq"},
    "gptq-4-ordered": {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False, "checkpoint_format": "gptq"},
    "awq-4": {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True},
}
# A folder as DeepSeek publishes V4: matrices in E4M3, routed experts in 4 bits. Maps it to the rows and columns of a block of E4M3.
DEEPSEEK4 = {"deepseek-v4-fp4": (16, 32)}
RANKS = {"q_lora_rank": 32, "o_lora_rank": 32}  # whole blocks
PUBLISHED = ((r"^model\.", ""), (r"^hc_head\.hc_", "hc_head_"), (r"attn\.norm\.", "attn.kv_norm."), (r"^embed_tokens", "embed"))
LARGEST = {"F8_E4M3": 9, "I8": 7}  # exponent of the largest level; 3 for four bits


def fill_of(name, tensor, tensors):
    """Returns the way in which counter_weights.stored() fills a tensor with such a name."""
    dtype, leaf = DTYPES[tensor.dtype], name.rsplit(".", 1)[-1]
    if leaf == "weight_shape":
        return {"fill": "values", "values": tensor.tolist()}
    if leaf.endswith("global_scale"):
        return {"fill": "powers", "first": 5, "n": 1}
    if leaf == "weight_scale" and dtype == "U8":
        # With E4M3 weights: their largest level is 448.
        return {"fill": "bytes", "first": 116 if name.replace("_scale", "") in tensors else 120, "n": 3}
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


def words_of(stem, shape, how):
    """Returns {name: arguments of counter_weights.stored()} for a matrix packed in 32-bit words."""
    rows, cols = shape
    n, groups, is_gptq = 32 // how["bits"], cols // how["group_size"], how["quant_method"] == "gptq"
    # GPTQ stores zero points minus one, and libraries differ where the value wraps around, so all zero points are in the middle.
    middle = (1 << how["bits"] - 1) - 1
    word = sum(middle << i for i in range(0, 32, how["bits"]))
    zeros = {"fill": "values", "values": [word] * (groups * rows // n)} if is_gptq else {"fill": "bits"}
    out = {"qweight": {"dtype": "I32", "shape": [cols // n, rows] if is_gptq else [cols, rows // n], "fill": "bits"},
           "qzeros": {"dtype": "I32", "shape": [groups, rows // n], **zeros},
           "scales": {"dtype": "F16", "shape": [groups, rows], "fill": "powers", "first": -2 - how["bits"], "n": 2}}
    if is_gptq:
        out["g_idx"] = {"dtype": "I32", "shape": [cols], "fill": "order", "group": how["group_size"]}
    return {f"{stem}.{name}": made for name, made in out.items()}


def dequantized(stem, tensors, how):
    if how["quant_method"] == "awq":
        from awq.utils.packing_utils import dequantize_gemm
        return dequantize_gemm(*(tensors[f"{stem}.{name}"] for name in ("qweight", "qzeros", "scales")), how["bits"], how["group_size"]).T
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    scales, order = tensors[stem + ".scales"], tensors[stem + ".g_idx"]
    layer = TorchLinear(bits=how["bits"], group_size=how["group_size"], desc_act=True, sym=False, in_features=len(order), out_features=scales.shape[1])
    zeros = tensors[stem + ".qzeros"] + sum(1 << i for i in range(0, 32, how["bits"]))  # GPTQModel adds one when it loads a file
    layer.qweight, layer.qzeros, layer.scales, layer.g_idx = tensors[stem + ".qweight"], zeros, scales, order
    return layer.dequantize_weight().T


def values_of_words(name):
    how = WORDS[name]
    model_type, settings, _ = variants.VARIANTS["llama"]
    model = transformers.AutoModelForCausalLM.from_config(base_values.configuration(model_type, settings)).double().eval()
    made = {}
    for key, x in model.state_dict().items():
        if x.ndim == 2 and ".layers." in key:
            made.update(words_of(key.removesuffix(".weight"), list(x.shape), how))
        else:
            made[key] = {"dtype": "F32", "shape": list(x.shape)}
    tensors = {key: torch.from_numpy(counter_weights.stored(key, **m)) for key, m in made.items()}
    model.load_state_dict({key: tensors[key] if key in tensors else dequantized(key.removesuffix(".weight"), tensors, how)
                           for key in model.state_dict()})
    tokens = [(7 * i * i + 3 * i + len(name)) % 90 + 4 for i in range(base_values.N_TOKENS)]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, list(base_values.POSITIONS)].double().numpy()
    config = {**model.config.to_dict(), "architectures": ["LlamaForCausalLM"], "dtype": "float16", "quantization_config": how}
    return {"transformers": transformers.__version__, "config": config, "tensors": made, "tokens": tokens,
            "positions": list(base_values.POSITIONS), "logits": base64.b64encode(logits.astype("<f4").tobytes()).decode()}


def published_parts(name, shape, block):
    """Returns {name: arguments of counter_weights.stored()} for a tensor of a published folder."""
    if not re.search(r"\.(w[qk]v?(_[ab])?|wo_[ab]|w[123])\.weight$", name) or ".compressor." in name:
        return {name: {"dtype": "F32", "shape": shape}}
    rows, cols = shape
    scale = name.removesuffix("weight") + "scale"
    if ".experts." in name:
        return {name: {"dtype": "I8", "shape": [rows, cols // 2], "fill": "bits"},
                scale: {"dtype": "F8_E8M0", "shape": [rows, cols // 32], "fill": "bytes", "first": 120, "n": 3}}
    return {name: {"dtype": "F8_E4M3", "shape": shape, "fill": "bits"},
            scale: {"dtype": "F8_E8M0", "shape": [rows // block[0], cols // block[1]], "fill": "bytes", "first": 115, "n": 2}}


def values_of_deepseek4(name):
    block = DEEPSEEK4[name]
    model_type, settings, change = variants.VARIANTS["deepseek-v4-published"]
    config = base_values.configuration(model_type, {**settings, **RANKS})
    tokens = [(7 * i * i + 3 * i + len(name)) % 90 + 4 for i in range(base_values.N_TOKENS)]
    with tempfile.TemporaryDirectory() as folder:
        shapes, integers = base_values.save_with_counted_weights(transformers.AutoModelForCausalLM.from_config(config), folder)
        rename = lambda key: functools.reduce(lambda key, pair: re.sub(*pair, key), PUBLISHED, key)
        made = {}
        for key, shape in shapes.items():
            made.update(published_parts(rename(key), shape, block))
        for key, x in integers.items():
            made[rename(key)] = {"dtype": "I64", "shape": list(np.shape(x)), "fill": "values", "values": np.ravel(x).tolist()}
        types = {"F8_E4M3": torch.float8_e4m3fn, "F8_E8M0": torch.float8_e8m0fnu}
        tensors = {key: torch.from_numpy(counter_weights.stored(key, **how)) for key, how in made.items()}
        tensors = {key: x.view(types[made[key]["dtype"]]) if made[key]["dtype"] in types else x for key, x in tensors.items()}
        safetensors.torch.save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
        path = os.path.join(folder, "config.json")
        with open(path, encoding="utf-8") as f:
            written = json.load(f)
        change(written)
        written["expert_dtype"] = "fp4"
        written["quantization_config"] = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "scale_fmt": "ue8m0",
                                          "weight_block_size": list(block)}
        with open(path, "w", encoding="utf-8") as f:
            json.dump(written, f)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                                  experts_implementation="eager").double().eval()
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, list(base_values.POSITIONS)].double().numpy()
    return {"transformers": transformers.__version__, "config": written, "tensors": made, "tokens": tokens,
            "positions": list(base_values.POSITIONS), "logits": base64.b64encode(logits.astype("<f4").tobytes()).decode()}


def count_weights(folder):
    """Returns {name: arguments of counter_weights.stored()} of the file, after replacing its tensors."""
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
    for name in args.names or (*SCHEMES, *WORDS, *DEEPSEEK4):
        made = (values if name in SCHEMES else values_of_words if name in WORDS else values_of_deepseek4)(name)
        with open(os.path.join(OUT, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(made, f, indent=None, separators=(",", ":"))
            f.write("\n")
        print(f"{name}: {len(made['tensors'])} tensors", flush=True)


if __name__ == "__main__":
    main()
