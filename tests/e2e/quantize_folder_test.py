"""kvik quantize of a Hugging Face folder: the GGUF file says the same, to Kvik and to others."""
import os
import subprocess
import sys
import tempfile
import unittest

import kvik
from make_model import read_metadata

TEXT = "Hello, it's 1234 o'clock!\n  Ωmega 中文 "


class QuantizeFolder(unittest.TestCase):
    def setUp(self):
        self.root = self.enterContext(tempfile.TemporaryDirectory())

    def folder_of(self, path):
        folder = os.path.join(self.root, os.path.basename(path))
        subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make_hf_model.py"), path, folder], check=True)
        return folder

    def quantized(self, folder, element_type):
        out = f"{folder}-{element_type}.gguf"
        kvik.output("quantize", folder, out, "--type", element_type, "--pure")
        return out

    def test_what_keeps_every_bit_computes_the_same_logits(self):
        for preset in ("test-llama", "test-qwen3moe", "test-gemma3", "test-phi3"):
            with self.subTest(preset):
                folder = self.folder_of(kvik.preset(preset, "bf16"))
                ask = ("--tokens", "5,6,7,8", "--all")
                self.assertEqual(kvik.output("logits", self.quantized(folder, "bf16"), *ask), kvik.output("logits", folder, *ask))

    def test_its_tokens_are_said_in_the_words_of_gguf(self):
        folder = self.folder_of(kvik.demo_as("bf16"))
        file = self.quantized(folder, "q8_0")
        self.assertEqual(kvik.output("tokenize", file, TEXT), kvik.output("tokenize", folder, TEXT))
        keys = read_metadata(file)
        self.assertEqual(keys["tokenizer.ggml.model"][1], b"gpt2")
        self.assertNotIn("tokenizer.huggingface.json", keys)


if __name__ == "__main__":
    unittest.main()
