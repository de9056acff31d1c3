"""Tests tools/make/family_skeleton.py: the entry it prints, and its list of what no family has."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

import kvik  # adds tools/ to the path
import family_skeleton
from transformers_test import FOLDER, Variant

TOOL = os.path.join(kvik.ROOT, "tools/make/family_skeleton.py")
# Rows whose parts are recurrent, differ by layer or are adapters: the skeleton shows attention and MLPs only.
OTHERS = ("granite-switch", "lfm2", "nemotron", "qwen3.5", "qwen3-next", "granite-hybrid", "falcon-h1", "jamba")


def skeleton(config, tensors):
    """Returns (entry, report) as the tool prints them for a folder."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("config.json", "tensors.json")]
        for path, value in zip(paths, (config, tensors)):
            with open(path, "w", encoding="utf-8") as f:
                json.dump(value, f)
        done = subprocess.run([sys.executable, TOOL, paths[0], "--tensors", paths[1]], check=True, capture_output=True, text=True)
        return done.stdout, done.stderr


def of_row(name):
    row = Variant(name).all
    return skeleton(row["config"], row["tensors"])


class Skeleton(unittest.TestCase):
    def test_every_tensor_of_a_known_family_has_a_place(self):
        catalogue = family_skeleton.Catalogue()
        for path in sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
            name = os.path.basename(path).removesuffix(".json")
            row = Variant(name).all
            with self.subTest(row=name):
                self.assertEqual(family_skeleton.Family(row["config"], row["tensors"], catalogue).unplaced, {})

    def test_every_key_of_a_family_of_attention_layers_is_known(self):
        catalogue = family_skeleton.Catalogue()
        for path in sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
            name = os.path.basename(path).removesuffix(".json")
            row = Variant(name).all
            if not name.startswith(OTHERS):
                with self.subTest(row=name):
                    self.assertEqual(family_skeleton.Family(row["config"], row["tensors"], catalogue).unknown_keys, {})

    def test_the_entry_has_the_parts_that_the_tensors_show(self):
        for name, words in (
                ("olmo2", (".qk_norm = QkNorm::kRow", ".has_pre_norms = false", ".has_post_norms = true")),
                ("qwen3", (".qk_norm = QkNorm::kHead", '.model_type = "qwen3"')),
                ("exaone4", (".global_every = 4", ".global_at = 3", ".lists_windows = true", ".window = FolderWindow::kListed")),
                ("cohere", (".kind = NormKind::kLayer", ".is_shared = true", ".has_parallel_halves = true")),
                ("starcoder2", (".kind = NormKind::kLayerWithBias", "Activation::kPlainGeluTanh", '{kUp, "mlp.c_fc.weight"}', ".mlp_bias = Presence::kAlways")),
                ("phi", (".has_head_bias = true", ".output_bias = Presence::kAlways")),
                ("glm4", (".qkv_bias = Presence::kAlways", ".has_fused_mlp = true", ".has_post_norms = true")),
                ("arcee", ("Activation::kReluSquared",)),
                ("afmoe", (".output_gate = OutputGate::kOwn", "ExpertScoring::kSigmoid", '{"num_dense_layers", "first_k_dense_replace"}')),
                ("deepseek-v3", (".is_latent = true", ".correction_bias = Presence::kAlways")),
                ("gpt-oss", (".has_sinks = true", ".has_experts = true")),
                ("muse-glimmer", ('.multimodal_type = "muse_glimmer"',))):
            entry, report = of_row(name)
            for word in words:
                with self.subTest(row=name, word=word):
                    self.assertIn(word, entry)
            self.assertIn("tensors that no family has: none", report)

    def test_what_no_family_has_is_listed_with_its_shape_and_value(self):
        row = Variant("llama").all
        tensors = {**row["tensors"], "model.layers.0.self_attn.warp.weight": [64, 8], "model.layers.1.self_attn.warp.weight": [64, 8]}
        entry, report = skeleton({**row["config"], "warp_factor": 9, "hidden_act": "swirl"}, tensors)
        self.assertIn("tensors that no family has: 1\n  N.self_attn.warp.weight [64, 8]", report)
        self.assertIn("warp_factor: 9", report)
        self.assertIn("activation: swirl is not there", report)
        self.assertIn("namespace kvik::families", entry)

    def test_a_list_of_tensors_may_be_an_index_or_lines_of_text(self):
        row = Variant("llama").all
        with tempfile.TemporaryDirectory() as folder:
            index, lines = os.path.join(folder, "model.safetensors.index.json"), os.path.join(folder, "names.txt")
            with open(index, "w", encoding="utf-8") as f:
                json.dump({"weight_map": dict.fromkeys(row["tensors"], "model-1.safetensors")}, f)
            with open(lines, "w", encoding="utf-8") as f:
                f.write("".join(f"{name} {shape}\n" for name, shape in row["tensors"].items()))
            self.assertEqual(set(family_skeleton.read_tensors(index)), set(row["tensors"]))
            self.assertEqual(family_skeleton.read_tensors(lines), row["tensors"])

    def test_a_folder_without_a_config_is_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, TOOL, folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"config\.json: no such file, expected config\.json or a folder with one\n$")


if __name__ == "__main__":
    unittest.main()
