"""Makes a Hugging Face folder of each preset, for tests that read and corrupt them."""
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import kvik

N_VOCAB = 260


@functools.cache
def folder_of(path, *options):
    """Returns the folder of a GGUF file, made once per process."""
    folder = os.path.join(FolderCase.root.name, "".join([os.path.basename(path).removesuffix(".gguf"), *options]))
    subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make/make_hf_model.py"), *options, path, folder], check=True)
    return folder


class FolderCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = FolderCase.root = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        folder_of.cache_clear()
        cls.root.cleanup()

    def copy(self, *files, model="test-llama"):
        """Returns a folder of links that a test may corrupt: (name, change of its JSON) pairs."""
        source = folder_of(kvik.preset(model))
        folder = os.path.join(self.root.name, self.id())
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        for name in os.listdir(source):
            os.symlink(os.path.join(source, name), os.path.join(folder, name))
        for name, change in files:
            with open(os.path.join(folder, name)) as f:
                content = json.load(f)
            change(content)
            os.remove(os.path.join(folder, name))
            with open(os.path.join(folder, name), "w") as f:
                json.dump(content, f)
        return folder

    def refused(self, folder, *words, command=("logits", "--tokens", "5")):
        done = kvik.run(command[0], folder, *command[1:])
        output = done.stderr.decode()
        self.assertEqual(done.returncode, 1, output)
        self.assertEqual(done.stdout, b"")
        self.assertEqual(output.count("\n"), 1, output)
        for word in words:
            self.assertIn(word, output)

    def assert_same_logits(self, path, folder, **options):
        tokens = kvik.random_tokens(71, N_VOCAB, 3)  # longer than the windows of 32 and 60
        want = kvik.logits_text(path, tokens, all=True, **options)
        self.assertEqual(want.count(b"\n"), len(tokens))
        self.assertTrue(kvik.logits_text(folder, tokens, all=True, **options) == want)
