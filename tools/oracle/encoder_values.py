#!/usr/bin/env python3
"""Writes tests/e2e/encoders/NAME.json: the hidden states and scores that Hugging Face's Transformers computes for small encoders.

    python3 -m venv VENV && VENV/bin/pip install torch transformers numpy safetensors
    VENV/bin/python tools/oracle/encoder_values.py [NAME…]

Models are made as in transformers_values.py: from their configuration, with the weights of counter_weights.py. The forward pass runs in
float64 and in float32; the difference of the two is stored with the values.
"""
import argparse
import base64
import json
import os
import sys
import tempfile

import numpy as np
import torch
import transformers

import transformers_values

OUT = os.path.join(transformers_values.HERE, "../../tests/e2e/encoders")
N_TOKENS, SECOND_SEGMENT = 45, 20  # more than one page of 32 tokens
BEGIN, END = 2, 3  # tokens around the texts of a pair

SMALL = {"vocab_size": 96, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 3,
         "max_position_embeddings": 64, "pad_token_id": 1, "bos_token_id": None, "eos_token_id": None}
# name: (model_type, class, settings)
VARIANTS = {
    "bert": ("bert", "AutoModel", {}),
    "bert-one-type": ("bert", "AutoModel", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "bert-reranker": ("bert", "AutoModelForSequenceClassification", {"num_labels": 1}),
    "bert-three-labels": ("bert", "AutoModelForSequenceClassification", {"num_labels": 3}),
    "roberta": ("roberta", "AutoModel", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "xlm-roberta": ("xlm-roberta", "AutoModel", {"type_vocab_size": 1, "max_position_embeddings": 50}),
    "xlm-roberta-reranker": ("xlm-roberta", "AutoModelForSequenceClassification", {"type_vocab_size": 1, "num_labels": 1}),
    # windows of 8 tokens on each side, in layers 1, 2 and 4
    # windows of 8 tokens on each side, except in layer 6; one KV head for three query heads, and another scale of attention
    "embedding-gemma": ("gemma3_text", "AutoModel", {"num_hidden_layers": 7, "num_key_value_heads": 1, "head_dim": 16, "sliding_window": 16,
                                                    "query_pre_attn_scalar": 24, "use_bidirectional_attention": True, "pad_token_id": 0}),
    "modernbert": ("modernbert", "AutoModel", {"num_hidden_layers": 5, "local_attention": 16, "global_attn_every_n_layers": 3}),
}


def run(mapping, folder, dtype, tokens, types):
    model = mapping.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    given = {"input_ids": torch.tensor([tokens])}
    if types:
        given["token_type_ids"] = torch.tensor([types])
    with torch.no_grad():
        out = model(**given)
    return (out.logits if hasattr(out, "logits") else out.last_hidden_state)[0].double().numpy()


def values(name):
    model_type, kind, settings = VARIANTS[name]
    torch.manual_seed(0)
    config = transformers.CONFIG_MAPPING[model_type](**{**SMALL, **settings})
    mapping = getattr(transformers, kind)
    tokens = [(7 * i * i + 3 * i + len(name)) % 90 + 4 for i in range(N_TOKENS)]
    tokens[0], tokens[SECOND_SEGMENT - 1], tokens[-1] = BEGIN, END, END
    if "roberta" in name:
        tokens[SECOND_SEGMENT - 2] = END
    has_types = getattr(config, "type_vocab_size", 0) > 1
    types = [int(i >= SECOND_SEGMENT) for i in range(N_TOKENS)] if has_types else None
    with tempfile.TemporaryDirectory() as folder:
        shapes = transformers_values.save_with_counted_weights(mapping.from_config(config), folder)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            written = json.load(f)
        made = {"transformers": transformers.__version__, "config": written, "tensors": shapes, "tokens": tokens}
        results = {"one": None, **({"pair": types} if types else {})}
        noise = 0.0
        for result, with_types in results.items():
            exact = run(mapping, folder, torch.float64, tokens, with_types)
            single = run(mapping, folder, torch.float32, tokens, with_types)
            noise = max(noise, float(np.abs(exact - single).max() / np.abs(exact).max()))
            made[result] = base64.b64encode(exact.astype("<f4").tobytes()).decode()
        made["second_segment"] = SECOND_SEGMENT
        made["float32_difference"] = float(f"{noise:.2g}")
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="variants (default: all)")
    args = parser.parse_args()
    os.makedirs(OUT, exist_ok=True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in args.names or VARIANTS:
        transformers_values.write_values(OUT, name, values(name))


if __name__ == "__main__":
    sys.exit(main())
