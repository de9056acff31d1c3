"""Compares logits with those of Hugging Face's Transformers in tests/e2e/transformers/*.json (written by tools/oracle/).

Each file is one small model: its config.json, the names and shapes of its tensors, whose values come from tools/oracle/counter_weights.py,
some tokens, and the logits at some of their positions. `python3 transformers_test.py --table` prints the difference of each.
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

FOLDER = os.path.join(kvik.ROOT, "tests/e2e/transformers")
BOUND = 2e-5  # relative to the largest logit


def write_safetensors(path, shapes, integers=None):
    header, at, integers = {}, 0, integers or {}
    for name, shape in {**shapes, **{name: list(np.shape(values)) for name, values in integers.items()}}.items():
        n = (8 if name in integers else 4) * int(np.prod(shape))
        header[name] = {"dtype": "I64" if name in integers else "F32", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            f.write(counter_weights.weights(name, shape).tobytes())
        for values in integers.values():
            f.write(np.array(values, "<i8").tobytes())


def write_tokenizer(path, n_vocab):
    """Writes a vocabulary of single characters. The tests use token ids, but a GGUF file needs a vocabulary."""
    vocab = {chr(33 + i): i for i in range(n_vocab)}
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"version": "1.0", "added_tokens": [], "normalizer": None,
                   "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                   "post_processor": None, "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocab, "merges": []}}, f)


class Variant:
    """One file of FOLDER, and its model folder."""

    def __init__(self, name):
        with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as f:
            self.all = json.load(f)
        self.tokens, self.positions = self.all["tokens"], self.all["positions"]
        logits = np.frombuffer(base64.b64decode(self.all["logits"]), "<f4").astype(np.float64)
        self.logits = logits.reshape(len(self.positions), -1)

    def write(self, folder):
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(self.all["config"], f)
        write_tokenizer(os.path.join(folder, "tokenizer.json"), self.logits.shape[1])
        write_safetensors(os.path.join(folder, "model.safetensors"), self.all["tensors"], self.all.get("integers", {}))

    def error(self, model, **options):
        """Returns the largest difference from Transformers, as a share of the largest logit."""
        got = kvik.logits(model, self.tokens, all=True, kv_type="f32", threads=1, **options)[self.positions]
        return float(np.abs(got - self.logits).max() / np.abs(self.logits).max())

    def errors(self):
        """Returns {variant: difference} for a folder in f32 and for a GGUF file in f16, which holds the same values."""
        with tempfile.TemporaryDirectory() as folder:
            self.write(folder)
            gguf = os.path.join(folder, "model.gguf")
            kvik.output("quantize", folder, gguf, "--type", "f16", "--threads", 1)
            return {(kind, isa): self.error(path, env={"KVIK_ISA": isa}) for kind, path in (("folder", folder), ("gguf", gguf))
                    for isa in dict.fromkeys(("scalar", kvik.isas()[-1]))}


def names():
    return sorted(os.path.basename(path).removesuffix(".json") for path in glob.glob(os.path.join(FOLDER, "*.json")))


class Transformers(unittest.TestCase):
    def test_the_table_covers_every_family(self):
        self.assertGreaterEqual(len(names()), 45)
        families = {Variant(name).all["config"]["model_type"] for name in names()}
        self.assertGreaterEqual(len(families), 30)


def compare(name):
    def test(self):
        for what, error in Variant(name).errors().items():
            with self.subTest(computed=what):
                self.assertLessEqual(error, BOUND)
    return test


for _name in names():
    setattr(Transformers, "test_" + _name.replace("-", "_").replace(".", "_"), compare(_name))


def print_table():
    print("| model | largest difference, of the largest logit | of Transformers' own float32 |\n|---|---|---|")
    for name in names():
        variant = Variant(name)
        try:
            print(f"| {name} | {max(variant.errors().values()):.1e} | {variant.all['float32_difference']:.1e} |", flush=True)
        except AssertionError as error:
            print(f"| {name} | {str(error).splitlines()[-1][:200]} | |", flush=True)


if __name__ == "__main__":
    print_table() if "--table" in sys.argv else unittest.main()
