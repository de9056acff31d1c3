#!/usr/bin/python3
"""Writes the ONNX models of an encoder in Hugging Face's format for encode_one.py: OUT/model.onnx in f32, and OUT/model-int8.onnx with weights and
activations in 8 bits.

    python3 -m venv VENV && VENV/bin/pip install torch transformers onnx onnxscript onnxruntime
    VENV/bin/python onnx_encoder.py FOLDER OUT
"""
import os
import shutil
import sys

import onnxruntime.quantization
import torch
import transformers


class States(torch.nn.Module):
    def __init__(self, folder):
        super().__init__()
        self.model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def main():
    folder, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, "model.onnx")
    ids = torch.full((2, 16), 100)
    axes = {0: "texts", 1: "tokens"}
    torch.onnx.export(States(folder), (ids, torch.ones_like(ids)), path, input_names=["input_ids", "attention_mask"], output_names=["states"],
                      dynamic_axes={"input_ids": axes, "attention_mask": axes, "states": axes}, dynamo=False)
    onnxruntime.quantization.quantize_dynamic(path, os.path.join(out, "model-int8.onnx"))
    shutil.copy(os.path.join(folder, "tokenizer.json"), out)


if __name__ == "__main__":
    main()
