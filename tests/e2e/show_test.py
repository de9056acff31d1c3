"""Tests the output of `kvik show` and `tokenize`, which scripts rely on."""
import json
import os
import unittest

import kvik

TOKENIZERS = os.path.join(kvik.DATA, "tokenizers")


class Show(unittest.TestCase):
    def test_the_demo_shows_its_geometry(self):
        text = kvik.output("show", "demo").decode()
        for fact in ("kvik-demo", "llama", "q8_0", "gpt2", "2048", "1024", "256", "768"):
            self.assertIn(fact, text.lower())

    def test_kv_bytes_per_token_by_type(self):
        """2 · layers · KV heads · head_dim · bytes: 2 · 6 · 2 · 64 = 1536 values."""
        text = kvik.output("show", "demo").decode().lower()
        self.assertIn("bf16", text)
        digits = text.replace(",", "").replace("\u202f", "")
        self.assertRegex(digits, r"6144|6(\.0+)? ?kib")
        self.assertRegex(digits, r"3072|3(\.0+)? ?kib")

    def test_every_preset_shows(self):
        for name in ("tinyllama-1.1b", "llama-3.1-8b", "test-gemma3"):
            text = kvik.output("show", f"synthetic:{name}:q4_0", timeout=60).decode()
            self.assertIn("layers", text)

    def test_experts_and_stretched_ropes_are_shown(self):
        self.assertIn("experts 128, 8 of them for each token, width 768", kvik.output("show", "synthetic:qwen3-30b-a3b").decode())
        self.assertIn("a shared one of 128", kvik.output("show", "synthetic:test-qwen2moe").decode())
        self.assertIn("on a latent vector of 48, and a shared one of", kvik.output("show", "synthetic:test-nemotron3").decode())
        self.assertIn("rope stretched by 4", kvik.output("show", "synthetic:test-linear").decode())

    def test_layers_that_differ_are_shown(self):
        self.assertIn("query heads 4 to 6, KV heads 2", kvik.output("show", "synthetic:test-laguna").decode())
        text = kvik.output("show", "synthetic:test-mistrallarge4").decode()
        for fact in ("query heads 4 of 32, 16 of them turn; latent K and V of width 32", "attention to 16 tokens, selected by 6 heads of 24",
                     "no RoPE in 2 of 7 layers", "4 of 7 layers read the K and V of others"):
            self.assertIn(fact, text)
        self.assertIn("the last 5 layers read the K and V of others", kvik.output("show", "synthetic:test-gemma4-e").decode())

    @unittest.skipUnless(os.path.isdir(TOKENIZERS), "no real vocabularies beside the tree")
    def test_adapters_and_further_rope_bases_are_shown(self):
        self.assertRegex(kvik.output("show", "synthetic:test-graniteswitch").decode(),
                         r"\n  [0-9]+ LoRA adapters of rank [0-9]+, chosen by the tokens \S.*\n")
        self.assertRegex(kvik.output("show", "synthetic:test-deepseek4").decode(),
                         r"\n  rope base [0-9]+, .*\n  rope base 10000 in layers without entries\n")

    def test_a_file_without_tensors_shows_its_tokenizer(self):
        self.assertIn("50257", kvik.output("show", os.path.join(TOKENIZERS, "ggml-vocab-gpt-2.gguf")).decode().replace(",", ""))


class Tokenize(unittest.TestCase):
    def ids(self, model, text, *more):
        return [int(i) for i in kvik.output("tokenize", model, *more, "-", stdin=text).split()]

    @unittest.skipUnless(os.path.isdir(TOKENIZERS), "no real vocabularies beside the tree")
    def test_real_vocabularies_give_the_ids_that_others_give(self):
        for name in ("gpt-2", "llama-spm", "phi-3"):
            path = os.path.join(TOKENIZERS, f"ggml-vocab-{name}.gguf")
            with open(path + ".inp", "rb") as f:
                texts = f.read().split(b"\n__ggml_vocab_test__\n")
            with open(path + ".out") as f:
                expected = [[int(i) for i in line.split()] for line in f]
            texts = texts[:len(expected)]
            self.assertGreater(len(texts), 40)
            for text, want in zip(texts, expected):
                with self.subTest(vocabulary=name, text=text):
                    self.assertEqual(self.ids(path, text, "--no-bos"), want)

    @unittest.skipUnless(os.path.isdir(TOKENIZERS), "no real vocabularies beside the tree")
    def test_a_tokenizer_that_is_not_known_is_refused_by_name(self):
        done = kvik.run("tokenize", os.path.join(TOKENIZERS, "ggml-vocab-falcon.gguf"), "x")
        if done.returncode != 0:
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"falcon", done.stderr)
            self.assertEqual(done.stderr.count(b"\n"), 1)

    def test_bos_comes_first_unless_told_otherwise(self):
        self.assertEqual(self.ids("demo", b"ROMEO:"), [2045] + self.ids("demo", b"ROMEO:", "--no-bos"))

    def test_an_argument_and_stdin_are_the_same(self):
        for text in ("ROMEO:\nO, speak", " two  blanks ", "\u4eca\u65e5 caf\u00e9 \U0001f600"):
            argument = kvik.output("tokenize", "demo", "--no-bos", text).split()
            self.assertEqual([int(i) for i in argument], self.ids("demo", text.encode(), "--no-bos"))

    def test_bytes_are_taken_as_they_are(self):
        """A trailing newline is part of the text, and so are bytes that are not UTF-8."""
        self.assertEqual(len(self.ids("demo", b"a\n", "--no-bos")), len(self.ids("demo", b"a", "--no-bos")) + 1)
        self.assertTrue(self.ids("demo", b"\xff\x00\x80", "--no-bos"))
        self.assertEqual(self.ids("demo", b"", "--no-bos"), [])

    def test_special_tokens_are_text_unless_asked_for(self):
        text = b"<|end|>"
        plain = self.ids("demo", text, "--no-bos")
        self.assertGreater(len(plain), 1)
        self.assertTrue(all(i < 2045 for i in plain))
        self.assertEqual(self.ids("demo", text, "--no-bos", "--parse-special"), [2046])


if __name__ == "__main__":
    unittest.main()
