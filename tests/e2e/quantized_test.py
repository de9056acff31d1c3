"""Compares folders of quantized weights with the values of their authors' libraries (written by tools/oracle/quantized_values.py).

Each file of tests/e2e/quantized is one small model: its config.json, the names, types and shapes of its tensors, whose contents
come from tools/oracle/counter_weights.py, some tokens, and the logits at some of their positions, computed without rounding activations.
`python3 quantized_test.py --table` prints the difference of each.
"""
import base64
import glob
import json
import os
import sys
import tempfile
import unittest

import numpy as np

import kvik  # adds tools/ to the path
import counter_weights
from transformers_test import write_tokenizer

FOLDER = os.path.join(kvik.ROOT, "tests/e2e/quantized")
# Bounds of the largest difference, as a share of the largest logit: BOUND where activations are f32, BF16_BOUND for an output matrix in
# bf16 on processors whose bf16 dot products round activations to bf16, INT8_BOUND for types whose activations are rounded to 8 bits. The
# weights of these types are compared by widening them to f16, which holds their values exactly.
BOUND, BF16_BOUND, INT8_BOUND = 2e-5, 5e-3, 0.03


class Folder:
    """One file of FOLDER, and its model folder."""

    def __init__(self, name):
        with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as f:
            self.all = json.load(f)
        logits = np.frombuffer(base64.b64decode(self.all["logits"]), "<f4").astype(np.float64)
        self.logits = logits.reshape(len(self.all["positions"]), -1)

    def bound(self, isa):
        types = {how["dtype"] for name, how in self.all["tensors"].items() if name.endswith(".weight")}
        if "F8_E4M3" not in types or "I8" in types:
            return INT8_BOUND
        return BF16_BOUND if isa in kvik.ROUND_TO_BF16 and self.all["tensors"]["lm_head.weight"]["dtype"] == "BF16" else BOUND

    def write(self, folder, change=lambda config, tensors: None):
        """Writes the folder after `change` has modified config.json and {name: [dtype, shape, bytes]}."""
        tensors = {name: [how["dtype"], how["shape"], counter_weights.stored(name, **how).tobytes()] for name, how in self.all["tensors"].items()}
        change(self.all["config"], tensors)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(self.all["config"], f)
        write_tokenizer(os.path.join(folder, "tokenizer.json"), self.logits.shape[1])
        header, at = {}, 0
        for name, (dtype, shape, raw) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
            at += len(raw)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, "model.safetensors"), "wb") as f:
            f.write(len(text).to_bytes(8, "little") + text + b"".join(raw for _, _, raw in tensors.values()))

    def error(self, model, n_left_out=0, **options):
        """Returns the largest difference, as a share of the largest logit, without the n positions that differ most."""
        got = kvik.logits(model, self.all["tokens"], all=True, kv_type="f32", threads=1, **options)[self.all["positions"]]
        return float(np.sort(np.abs(got - self.logits).max(1))[-1 - n_left_out] / np.abs(self.logits).max())

    def errors(self):
        """Returns {instruction set, or "f16" for the weights widened to f16: (difference, its bound)}."""
        with tempfile.TemporaryDirectory() as folder:
            self.write(folder)
            wide = os.path.join(folder, "wide.gguf")
            kvik.output("quantize", folder, wide, "--type", "f16", "--threads", 1)
            n = int(any(name.endswith(".gate.weight") for name in self.all["tensors"]))  # a router near a tie may choose other experts
            errors = {isa: (self.error(folder, n, env={"KVIK_ISA": isa}), self.bound(isa)) for isa in kvik.isas()}
            return {**errors, "f16": (self.error(wide), BOUND)}


def names():
    return sorted(os.path.basename(path).removesuffix(".json") for path in glob.glob(os.path.join(FOLDER, "*.json")))


class Quantized(unittest.TestCase):
    def test_there_are_values(self):
        self.assertGreaterEqual(len(names()), 12)

    def test_mxfp4_that_cannot_be_is_refused(self):
        name = "model.layers.1.mlp.up_proj.weight"

        def no_number(config, tensors):
            tensors[name + "_scale"][2] = b"\xff" + tensors[name + "_scale"][2][1:]

        def too_few(config, tensors):
            tensors[name + "_scale"][1:] = [96, 1], tensors[name + "_scale"][2][:96]

        def no_scales(config, tensors):
            del tensors[name + "_scale"]

        def wide_groups(config, tensors):
            config["quantization_config"]["config_groups"]["group_0"]["weights"]["group_size"] = 64

        for change, words in ((no_number, (name, "a scale of 255", "mxfp4")), (too_few, (name + "_scale", "[96, 1]", "[96, 2]")),
                              (no_scales, (name, "is missing")), (wide_groups, ("group_size", "64", "expected 32"))):
            with self.subTest(words=words), tempfile.TemporaryDirectory() as folder:
                Folder("ct-mxfp4").write(folder, change)
                done = kvik.run("logits", folder, "--tokens", "5")
                self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1), done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr.decode())


    def test_mtp_layers_of_deepseek_v4_are_left_out(self):
        def add(config, tensors):
            for name in list(tensors):
                if name.startswith("layers.4.ffn.experts."):
                    tensors[name.replace("layers.4.", "mtp.0.")] = tensors[name]

        logits = []
        for change in (lambda config, tensors: None, add):
            with tempfile.TemporaryDirectory() as folder:
                Folder("deepseek-v4-fp4").write(folder, change)
                logits.append(kvik.logits_text(folder, [5, 6]))
        self.assertEqual(*logits)


def compare(name):
    def test(self):
        for what, (error, bound) in Folder(name).errors().items():
            with self.subTest(computed=what):
                self.assertLessEqual(error, bound)
    return test


for _name in names():
    setattr(Quantized, "test_" + _name.replace("-", "_"), compare(_name))


def print_table():
    print("| folder | largest difference, of the largest logit | widened to f16 |\n|---|---|---|")
    for name in names():
        errors = {what: error for what, (error, _) in Folder(name).errors().items()}
        print(f"| {name} | {max(errors[isa] for isa in kvik.isas()):.1e} | {errors['f16']:.1e} |", flush=True)


if __name__ == "__main__":
    print_table() if "--table" in sys.argv else unittest.main()
