"""Tests `--per-layer-embeddings file`: the same bits from files and folders, and a file that is cut off while it is used."""
import http.client
import os
import shutil
import subprocess
import tempfile
import unittest

import kvik
from hf_folder import N_VOCAB, FolderCase, folder_of
from server import Server

MODELS = ("test-gemma3n", "test-gemma4-e", "test-qwen4exp")


class TableInFile(FolderCase):
    def test_answers_have_the_same_bits(self):
        tokens = kvik.random_tokens(150, N_VOCAB, 3)
        for name in MODELS:
            path = kvik.preset(name, "bf16")
            for model in (path, folder_of(path), kvik.preset(name, "q4_0")):
                with self.subTest(model=model):
                    for kv_type in ("int8", "f32"):
                        options = {"kv_type": kv_type, "threads": 2}
                        self.assertEqual(kvik.logits_text(model, tokens, per_layer_embeddings="file", **options),
                                         kvik.logits_text(model, tokens, **options))
                    self.assertEqual(kvik.greedy(model, tokens, 20, per_layer_embeddings="file"), kvik.greedy(model, tokens, 20))

    def test_a_file_that_changes_ends_the_process_with_a_sentence(self):
        """Answers of other weights would be kept under the name of the first ones."""
        def write_at_end(path):
            with open(path, "r+b") as f:
                f.seek(-1, os.SEEK_END)
                f.write(b"x")

        for name, change, reason in (("cut", lambda path: os.truncate(path, 1000), "it was truncated while it was read"),
                                     ("written", write_at_end, "was changed after it was opened")):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model.gguf")
                shutil.copy(kvik.preset("test-gemma4-e", "f32"), path)
                with Server(path, "--per-layer-embeddings", "file", "--kv-memory", "8MiB") as server:
                    server.complete([5, 6])
                    change(path)
                    with self.assertRaises((OSError, http.client.HTTPException)):
                        server.complete([7, 8])
                    self.assertEqual(server.process.wait(60), 1)
                    last = server.said().splitlines()[-1]
                    self.assertIn(reason, last)
                    self.assertRegex(last, r"cannot continue without tensor 'per_layer_token_embd\.weight', which stayed in the file$")

    def test_models_without_such_tables_do_not_mind(self):
        tokens = kvik.random_tokens(20, kvik.DEMO_BOS, 1)
        self.assertEqual(kvik.logits_text("demo", tokens, per_layer_embeddings="file"), kvik.logits_text("demo", tokens))

    def test_other_places_are_refused(self):
        done = subprocess.run(kvik.command("logits", "demo", "--tokens", "1", "--per-layer-embeddings", "disk"), capture_output=True, text=True,
                              env=kvik.environment())
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("disk", done.stderr)
        self.assertIn("memory", done.stderr)


if __name__ == "__main__":
    unittest.main()
