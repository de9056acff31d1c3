#!/usr/bin/env python3
"""Writes tests/e2e/transformers/NAME.json: the logits that Hugging Face's Transformers computes for each model of variants.py.

    python3 -m venv VENV && VENV/bin/pip install torch transformers numpy safetensors
    VENV/bin/python tools/oracle/transformers_values.py [NAME…]

A model is made from its configuration and saved, its weights are replaced by those of counter_weights.py with the names and
shapes that save_pretrained() wrote, and it is loaded again, so that names and configs are those of files on a hub. The forward
pass runs in float64 if Transformers allows it, and in float32; the difference of the two is stored with the values.
"""
import argparse
import base64
import copy
import json
import os
import sys
import tempfile

import numpy as np
import safetensors.numpy
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
import counter_weights  # noqa: E402
try:
    import granite_switch.hf  # noqa: F401 (adds a model to Transformers; a package that wants an older Transformers)
except ImportError:
    pass
import puzzle_model  # noqa: E402, F401 (adds a model to Transformers)
import variants  # noqa: E402

OUT = os.path.join(HERE, "../../tests/e2e/transformers")
N_TOKENS, POSITIONS = 56, (0, 1, 7, 20, 37, 55)


def configuration(model_type, settings):
    kind = transformers.CONFIG_MAPPING[model_type]
    whole = settings if "text_config" in settings else {**variants.SMALL, **settings}
    return kind(**copy.deepcopy({k: v for k, v in whole.items() if v is not None or k in ("sliding_window", "q_lora_rank")}))


def model_class(config):
    for mapping in (transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText):
        if type(config) in mapping._model_mapping:  # pylint: disable=protected-access
            return mapping
    sys.exit(f"Transformers has no model for {type(config).__name__}")


def save_with_counted_weights(model, folder):
    """Returns {name: shape} of the file that save_pretrained() writes, after replacing its weights, and {name: values} of its integers."""
    model.save_pretrained(folder)
    path = os.path.join(folder, "model.safetensors")
    saved = dict(sorted(safetensors.numpy.load_file(path).items()))
    integers = {name: x for name, x in saved.items() if x.dtype == np.int64}
    for name in [name for name in integers if name.endswith(".tid2eid")]:  # experts of each token
        n_experts, shape = len(saved[name.removesuffix("tid2eid") + "weight"]), integers[name].shape
        integers[name] = (np.arange(shape[0])[:, None] * 5 + np.arange(shape[1]) * 3 + np.arange(shape[0])[:, None] // 7) % n_experts
    kept = {name: x for name, x in saved.items() if name.endswith(".codebook")}  # constants, which Kvik does not read
    shapes = {name: list(x.shape) for name, x in saved.items() if name not in integers and name not in kept}
    safetensors.numpy.save_file({n: counter_weights.weights(n, s) for n, s in shapes.items()} | integers | kept, path, {"format": "pt"})
    return shapes, {name: x.tolist() for name, x in integers.items()}


def logits_of(mapping, folder, dtype, tokens):
    model = mapping.from_pretrained(folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager").eval()
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, list(POSITIONS)].double().numpy()


def values(name):
    model_type, settings, change = variants.VARIANTS[name]
    torch.manual_seed(0)
    config = configuration(model_type, settings)
    mapping = model_class(config)
    tokens = [(7 * i * i + 3 * i + len(name)) % 90 + 4 for i in range(N_TOKENS)]
    with tempfile.TemporaryDirectory() as folder:
        shapes, integers = save_with_counted_weights(mapping.from_config(config), folder)
        path = os.path.join(folder, "config.json")
        with open(path, encoding="utf-8") as f:
            written = json.load(f)
        if change:
            change(written)
            with open(path, "w", encoding="utf-8") as f:
                json.dump(written, f)
        exact = logits_of(mapping, folder, torch.float64, tokens)
        single = logits_of(mapping, folder, torch.float32, tokens)
    noise = float(np.abs(exact - single).max() / np.abs(exact).max())
    return {"transformers": transformers.__version__, "config": written, "tensors": shapes, **({"integers": integers} if integers else {}), "tokens": tokens, "positions": list(POSITIONS),
            "float32_difference": float(f"{noise:.2g}"), "logits": base64.b64encode(exact.astype("<f4").tobytes()).decode()}


def write_values(folder, name, made):
    with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as f:
        json.dump(made, f, indent=None, separators=(",", ":"))
        f.write("\n")
    print(f"{name}: {len(made['tensors'])} tensors, f32 is {made['float32_difference']} from f64", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="variants (default: all)")
    args = parser.parse_args()
    os.makedirs(OUT, exist_ok=True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    failed = []
    for name in args.names or variants.VARIANTS:
        try:
            made = values(name)
        except Exception as error:  # pylint: disable=broad-except
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            failed.append(name)
            continue
        write_values(OUT, name, made)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
