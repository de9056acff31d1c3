"""Tests external names and texts: whatever their bytes, they cannot control a terminal or forge a log line, and JSON and metrics stay valid."""
import json
import os
import re
import shutil
import tempfile
import unittest

import gguf
import kvik
from gguf import STR
from server import Server

STEERING = "\x1b]0;owned\x07\x1b[2J\n2026-01-01 error forged\r\x9b31m\u202e"
CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")  # except tab and end of line


class Names(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, model, name="model.gguf"):
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(model.bytes())
        return path

    def harmless(self, *args, n_lines=None):
        done = kvik.run(*args, timeout=60)
        for stream in (done.stdout, done.stderr):
            self.assertIsNone(CONTROLS.search(stream), (args, stream))
            stream.decode()
            for line in stream.splitlines():
                self.assertFalse(line.startswith(b"2026-01-01 error forged"), (args, stream))
        return done

    def test_texts_of_a_model_file_reach_no_terminal_raw(self):
        for key in ("general.name", "general.architecture", "tokenizer.ggml.model", "tokenizer.ggml.pre", "llama.rope.scaling.type"):
            model = gguf.tiny().set(key, STR, STEERING)
            path = self.write(model)
            with self.subTest(key=key):
                self.harmless("show", path)
                for args in (("logits", path, "--tokens", "1"), ("tokenize", path, "x"), ("plan", path), ("run", path, "-p", "x", "--max-tokens", 1)):
                    self.harmless(*args)

    def test_names_of_files_and_values_of_flags_reach_no_terminal_raw(self):
        missing = self.path("no" + STEERING + ".gguf")
        done = self.harmless("show", missing)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1), done.stderr)
        for args in (("show", os.fsdecode(b"\xff\xfe.gguf")), ("run", "demo", "-p", "x", "--kv-type", STEERING), ("run", "demo", "--" + STEERING),
                     (STEERING,), ("run", "demo", "--tokens", STEERING), ("serve", "demo", "--host", STEERING, "--allow-no-key"),
                     ("cache", "stat", missing), ("quantize", missing, missing, "--type", "q8_0")):
            with self.subTest(args=args):
                self.assertIn(self.harmless(*args).returncode, (1, 2))

    def test_a_file_whose_name_is_no_utf8_is_served_and_every_page_stays_valid(self):
        name = os.fsdecode(b"de\xffmo\x1b[31m\n# TYPE forged counter\nforged 1\n\"}")
        path = self.path(name + ".gguf")
        shutil.copy(kvik.DEMO, path)
        with Server(path) as server:
            self.assertIsNone(CONTROLS.search(server.get("/metrics").body))
            page = server.metrics()  # its format is checked as well
            self.assertGreater(page.value("kvik_kv_pages", state="free"), 0)
            models = server.get("/v1/models").json["data"]
            shown = models[0]["id"]
            self.assertTrue(shown.startswith("de\ufffdmo"), shown)
            self.assertNotIn("\n", shown)
            self.assertEqual(server.get("/props").json["model_alias"], shown)
            done = server.complete("ROMEO:", model=shown, max_tokens=3)
            self.assertEqual(done["model"], shown)
            answer = server.post("/v1/completions", {"prompt": "x", "model": "another"})
            self.assertEqual((answer.status, json.loads(answer.body.decode())["error"]["code"]), (404, "model_not_found"))
            self.assertEqual(server.stop(), 0)
            self.assertIsNone(CONTROLS.search(server.said().encode()))

    def test_a_template_that_is_no_utf8_leaves_props_valid(self):
        model = gguf.Gguf(kvik.DEMO)
        model.set("tokenizer.chat_template", STR, b"{{ messages[0].content }}{# \xff\xfe #}")
        with Server(self.write(model)) as server:
            self.assertIn("\ufffd", server.get("/props").json["chat_template"])

    def test_the_names_of_keys_are_printable(self):
        for name in ("a\x1bb", os.fsdecode(b"\xff"), "x" * 300):
            path = self.path("keys")
            with open(path, "wb") as f:
                f.write(b"secret " + os.fsencode(name) + b"\n")
            os.chmod(path, 0o600)
            done = self.harmless("serve", "demo", "--api-key-file", path)
            with self.subTest(name=name):
                self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
                self.assertNotIn(b"secret", done.stderr)


if __name__ == "__main__":
    unittest.main()
