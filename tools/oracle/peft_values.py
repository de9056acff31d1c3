#!/usr/bin/env python3
"""Writes tests/e2e/peft/NAME.json: the logits that Hugging Face's PEFT computes for each adapter of adapters.py.

    python3 -m venv VENV && VENV/bin/pip install torch transformers peft numpy safetensors
    VENV/bin/python tools/oracle/peft_values.py [NAME…]

The base is a model of variants.py. The adapter is made from its configuration and saved, its tensors are replaced by those of
counter_weights.py with the names and shapes that save_pretrained() wrote, and it is loaded again, so that names and configs are
those of files on a hub. The forward pass runs in float64. The file also holds the differences of a float32 pass and of a pass
without the adapter.
"""
import argparse
import base64
import json
import os
import sys
import tempfile

import numpy as np
import peft
import safetensors.numpy
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
import adapters  # noqa: E402
import counter_weights  # noqa: E402
import transformers_values as base_values  # noqa: E402
import variants  # noqa: E402

OUT = os.path.join(HERE, "../../tests/e2e/peft")


def logits_of(model, tokens):
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, list(base_values.POSITIONS)].double().numpy()


def load(mapping, folder, dtype):
    return mapping.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def save_adapter(base, settings, folder):
    """Returns {name: shape} of the file that save_pretrained() writes, after replacing its tensors."""
    peft.get_peft_model(base, peft.LoraConfig(**settings)).save_pretrained(folder, save_embedding_layers=False)
    path = os.path.join(folder, "adapter_model.safetensors")
    shapes = {name: list(x.shape) for name, x in sorted(safetensors.numpy.load_file(path).items())}
    safetensors.numpy.save_file({n: counter_weights.weights(n, s) for n, s in shapes.items()}, path, {"format": "pt"})
    return shapes


def values(name):
    variant, settings = adapters.ADAPTERS[name]
    model_type, base_settings, _ = variants.VARIANTS[variant]
    torch.manual_seed(0)
    config = base_values.configuration(model_type, base_settings)
    mapping = base_values.model_class(config)
    tokens = [(7 * i * i + 3 * i + len(name)) % 90 + 4 for i in range(base_values.N_TOKENS)]
    with tempfile.TemporaryDirectory() as folder:
        base_folder, adapter_folder = os.path.join(folder, "base"), os.path.join(folder, "adapter")
        base_values.save_with_counted_weights(mapping.from_config(config), base_folder)
        shapes = save_adapter(load(mapping, base_folder, torch.float32), settings, adapter_folder)
        with open(os.path.join(adapter_folder, "adapter_config.json"), encoding="utf-8") as f:
            written = {**json.load(f), "base_model_name_or_path": variant}

        def model_of(dtype):
            return peft.PeftModel.from_pretrained(load(mapping, base_folder, dtype), adapter_folder).to(dtype).eval()

        exact = logits_of(model_of(torch.float64), tokens)
        apart = {"float32_difference": logits_of(model_of(torch.float32), tokens),
                 "without_adapter": logits_of(load(mapping, base_folder, torch.float64), tokens)}
    apart = {key: float(f"{np.abs(got - exact).max() / np.abs(exact).max():.2g}") for key, got in apart.items()}
    return {"peft": peft.__version__, "transformers": transformers.__version__, "base": variant, "config": written, "tensors": shapes,
            "tokens": tokens, "positions": list(base_values.POSITIONS), **apart,
            "logits": base64.b64encode(exact.astype("<f4").tobytes()).decode()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="adapters (default: all)")
    args = parser.parse_args()
    os.makedirs(OUT, exist_ok=True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in args.names or adapters.ADAPTERS:
        made = values(name)
        with open(os.path.join(OUT, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(made, f, indent=None, separators=(",", ":"))
            f.write("\n")
        print(f"{name}: {len(made['tensors'])} tensors, f32 is {made['float32_difference']} from f64, the base {made['without_adapter']}", flush=True)


if __name__ == "__main__":
    main()
