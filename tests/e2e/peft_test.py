"""Compares adapters' logits with those of Hugging Face's PEFT in tests/e2e/peft/*.json (written by tools/oracle/peft_values.py).

Each file is one adapter for a model of tests/e2e/transformers: its adapter_config.json, the names and shapes of its tensors, whose
values come from tools/oracle/counter_weights.py, some tokens, and the logits at some of their positions.
`python3 peft_test.py --table` prints the difference of each.
"""
import base64
import glob
import json
import os
import sys
import tempfile
import unittest

import numpy as np

import kvik
from server import Server
from transformers_test import BOUND, Variant, write_safetensors

FOLDER = os.path.join(kvik.ROOT, "tests/e2e/peft")


class PeftAdapter:
    """One file of FOLDER, and the folders of its adapter and base model."""

    def __init__(self, name):
        with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as f:
            self.all = json.load(f)
        logits = np.frombuffer(base64.b64decode(self.all["logits"]), "<f4").astype(np.float64)
        self.logits = logits.reshape(len(self.all["positions"]), -1)

    def write(self, root):
        """Writes both folders and returns (base, adapter)."""
        base, adapter = os.path.join(root, "base"), os.path.join(root, "adapter")
        os.mkdir(base)
        os.mkdir(adapter)
        Variant(self.all["base"]).write(base)
        with open(os.path.join(adapter, "adapter_config.json"), "w", encoding="utf-8") as f:
            json.dump(self.all["config"], f)
        write_safetensors(os.path.join(adapter, "adapter_model.safetensors"), self.all["tensors"])
        return base, adapter

    def error(self, model, **options):
        """Returns the largest difference from PEFT, as a share of the largest logit."""
        got = kvik.logits(model, self.all["tokens"], all=True, kv_type="f32", threads=1, **options)[self.all["positions"]]
        return float(np.abs(got - self.logits).max() / np.abs(self.logits).max())

    def errors(self):
        """Returns {variant: difference} for the adapter beside the base and merged into it."""
        with tempfile.TemporaryDirectory() as root:
            base, adapter = self.write(root)
            merged = os.path.join(root, "merged.gguf")
            kvik.output("adapter", "merge", base, adapter, merged, "--type", "f32")
            if self.all["config"]["modules_to_save"]:  # rejected beside the base
                return {"merged": self.error(merged)}
            return {what: self.error(path, **options) for what, path, options in (
                ("beside, scalar", base, {"adapter": adapter, "env": {"KVIK_ISA": "scalar"}}), ("beside", base, {"adapter": adapter}),
                ("merged", merged, {}))}


def names():
    return sorted(os.path.basename(path).removesuffix(".json") for path in glob.glob(os.path.join(FOLDER, "*.json")))


class Peft(unittest.TestCase):
    def test_the_adapters_change_the_logits(self):
        self.assertGreaterEqual(len(names()), 10)
        for name in names():
            self.assertGreater(PeftAdapter(name).all["without_adapter"], 0.1, name)


    def test_saved_modules_are_merged_only(self):
        with tempfile.TemporaryDirectory() as root:
            base, adapter = PeftAdapter("saved-modules").write(root)
            done = kvik.run("logits", base, "--tokens", "5", "--adapter", adapter)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1), done.stderr)
            for word in (b"modules_to_save", b"adapter merge"):
                self.assertIn(word, done.stderr)
            self.assertIn(b"output.weight is saved whole", kvik.output("adapter", "show", base, adapter))

    def test_dora_has_the_same_bits_in_any_batch(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            base, dora = PeftAdapter("dora").write(one)
            _, lora = PeftAdapter("lora").write(other)
            tokens = PeftAdapter("dora").all["tokens"]
            for chosen in (None, dora, lora):
                want = kvik.logits_text(base, tokens, all=True, threads=2, adapter=chosen)
                for how in ({"chunk": 1}, {"chunk": 7, "beside": 5, "threads": 1, "adapter_beside": f"{dora},{lora}"},
                            {"beside": 4, "adapter_beside": f"{lora},{dora}"}):
                    with self.subTest(adapter=chosen, **how):
                        self.assertTrue(kvik.logits_text(base, tokens, all=True, adapter=chosen, **{"threads": 2, **how}) == want, "a byte differs")

    def test_a_server_answers_with_dora_and_without(self):
        with tempfile.TemporaryDirectory() as root:
            base, dora = PeftAdapter("dora").write(root)
            prompt, output = [5, 6, 7, 8], []
            with Server(base, "--adapter", f"poet={dora}", "--ctx", "128") as server:
                for name in ({"model": "poet"}, {}):
                    output.append(server.text(prompt, max_tokens=8, temperature=0, **name))
            for text, adapter in zip(output, (dora, None)):  # token i is the character 33 + i
                self.assertEqual(text, "".join(chr(33 + i) for i in kvik.greedy(base, prompt, 8, adapter=adapter)))

    def test_dora_of_quantized_weights_has_the_norm_of_what_they_stand_for(self):
        adapter = PeftAdapter("dora")
        with tempfile.TemporaryDirectory() as root:
            base, folder = adapter.write(root)
            for kind, bound in (("q8_0", 0.03), ("q4_0", 0.08)):  # 8-bit activations, as without an adapter
                narrow, merged = os.path.join(root, kind), os.path.join(root, kind + "-merged")
                kvik.output("quantize", base, narrow, "--type", kind, "--pure")
                kvik.output("adapter", "merge", narrow, folder, merged, "--type", "f32")
                got, want = (kvik.logits(path, adapter.all["tokens"], all=True, kv_type="f32", **options)
                             for path, options in ((narrow, {"adapter": folder}), (merged, {})))
                self.assertLess(np.median(np.abs(got - want).max(1) / np.abs(want).max(1)), bound, kind)


def compare(name):
    def test(self):
        for what, error in PeftAdapter(name).errors().items():
            with self.subTest(computed=what):
                self.assertLessEqual(error, BOUND)
    return test


for _name in names():
    setattr(Peft, "test_" + _name.replace("-", "_"), compare(_name))


def print_table():
    print("| adapter | base | largest difference, of the largest logit | merged | of PEFT's own float32 |\n|---|---|---|---|---|")
    for name in names():
        adapter = PeftAdapter(name)
        errors = adapter.errors()
        beside = [error for what, error in errors.items() if what != "merged"]
        print(f"| {name} | {adapter.all['base']} | {f'{max(beside):.1e}' if beside else 'refused'} | {errors['merged']:.1e} | "
              f"{adapter.all['float32_difference']:.1e} |", flush=True)


if __name__ == "__main__":
    print_table() if "--table" in sys.argv else unittest.main()
