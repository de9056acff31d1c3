"""Tests that chat templates render generated conversations to the same text as Jinja with Hugging Face's settings. KVIK_TEST_TEMPLATES may name
another folder of *.jinja; KVIK_TEST_LONG runs more conversations."""

import glob
import os
import pathlib
import unittest

import kvik
from chat_conversations import Conversations
from chat_oracle import Renderer, environment, oracle
from gguf import read_metadata

N_CONVERSATIONS = 1000 if kvik.LONG else 200


def files_of(folder, pattern):
    paths = sorted(glob.glob(os.path.join(folder, pattern)))
    if not paths and "CI" in os.environ:
        raise AssertionError(f"{folder} has no {pattern}")
    if not paths:
        raise unittest.SkipTest(f"{folder} has no {pattern}")
    return paths


class ChatTemplates(unittest.TestCase):
    def setUp(self):
        self.renderer = Renderer()
        self.addCleanup(self.renderer.close)
        self.env = environment()

    def compare(self, name, source):
        """Returns the number of rendered conversations. Both renderers must reject the same ones."""
        n_rendered = 0
        jinja = oracle(self.env, source)
        for seed in range(N_CONVERSATIONS):
            variables = Conversations(seed).variables()
            expected = jinja(variables)
            ours = self.renderer.render(source, variables)
            self.assertEqual("text" in ours, "text" in expected, f"{name}, seed {seed}: {ours} instead of {expected}")
            if "text" in expected:
                n_rendered += 1
                self.assertEqual(ours["text"], expected["text"], f"{name}, seed {seed}")
        self.assertGreater(n_rendered, 0, f"{name} takes no conversation")

    def test_templates_of_models_give_jinjas_text(self):
        folder = os.environ.get("KVIK_TEST_TEMPLATES", os.path.join(kvik.DATA, "templates"))
        for path in files_of(folder, "*.jinja"):
            with self.subTest(path):
                self.compare(path, pathlib.Path(path).read_text())

    def test_templates_inside_vocabularies_give_jinjas_text(self):
        n_templates = 0
        for path in files_of(os.path.join(kvik.DATA, "tokenizers"), "*.gguf"):
            template = read_metadata(path).get("tokenizer.chat_template")
            if template:
                n_templates += 1
                with self.subTest(path):
                    self.compare(path, template[1].decode())
        self.assertGreater(n_templates, 0)


if __name__ == "__main__":
    unittest.main()
