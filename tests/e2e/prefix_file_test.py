"""Tests that a prefix computed on one machine is found on another: exported with one instruction set, imported, served with another one."""
import json
import os
import shutil
import tempfile
import unittest

import kvik
from server import Server

TEXT = "".join(f"{n}: the quick brown fox jumps over the lazy dog; " for n in range(12))  # the presets have a token per byte
QUESTION = "What does the fox do?"
# A model with recurrent layers, one that also has an MTP head, one with sliding windows, one with latent K and V, and one with all layers alike.
MODELS = ("test-lfm2", "test-qwen35", "test-gemma3", "test-mla", "test-llama")


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


class PrefixFile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kvik-prefix-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.file, self.disk = f"{self.folder}/prefix.kvp", f"{self.folder}/pages"

    def written(self, name, content):
        path = f"{self.folder}/{name}"
        with open(path, "w") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def export(self, model, content, *flags, isa=kvik.isas()[-1]):
        said = kvik.output("cache", "export", model, self.file, "--prompt", self.written("prompt", content), *flags, env={"KVIK_ISA": isa})
        return int(said.split(b": ")[1].split()[0])

    def import_file(self, *flags):
        kvik.output("cache", "import", self.file, "--disk", self.disk, *flags)

    def refusal(self, *command, code=1):
        done = kvik.run("cache", *command)
        self.assertEqual((done.returncode, done.stdout), (code, b""), done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        return done.stderr.decode()

    def ask(self, model, path, body, *flags):
        with Server(model, *flags, env={"KVIK_ISA": kvik.isas()[-1]}) as server:
            answer = server.post(path, body)
            self.assertEqual(answer.status, 200, answer.body)
            return answer.json

    def expect_prefix(self, model, path, body, n_least, *flags):
        """Sends a request to a server with the imported pages, and to one without."""
        warm = self.ask(model, path, body, "--disk", self.disk, *flags)
        cold = self.ask(model, path, body, *flags)
        self.assertEqual(cached(cold), 0)
        self.assertGreaterEqual(cached(warm), n_least)
        self.assertEqual(warm["choices"], cold["choices"])
        return warm


class Text(PrefixFile):
    def check(self, model, kv_type):
        n = self.export(model, TEXT, "--kv-type", kv_type, isa="scalar")
        self.assertGreater(n, 500)
        self.import_file()
        for more in (QUESTION, ""):
            body = {"prompt": TEXT + more, "max_tokens": 12, "temperature": 0, "ignore_eos": True}
            warm = self.expect_prefix(model, "/v1/completions", body, n - 1, "--kv-type", kv_type)
            self.assertLess(cached(warm), warm["usage"]["prompt_tokens"])

    def test_the_first_request_on_another_machine_finds_the_prefix(self):
        for name in MODELS:
            with self.subTest(model=name):
                self.setUp()
                self.check(kvik.preset(name), "int8")

    def test_every_kv_type_can_be_taken_along(self):
        for kv_type in ("f32", "bf16", "int4", "int8/int4"):
            with self.subTest(kv_type=kv_type):
                self.setUp()
                self.check(kvik.preset("test-gemma3"), kv_type)

    def test_other_tokens_another_salt_kv_type_or_model_find_nothing(self):
        model = kvik.preset("test-llama")
        self.export(model, TEXT)
        self.import_file()
        body = {"prompt": TEXT, "max_tokens": 4, "temperature": 0}
        self.expect_prefix(model, "/v1/completions", body, 500)
        for other, flags, fields in ((model, (), {"prompt": "x" + TEXT}), (model, (), {"cache_salt": "another"}),
                                     (model, ("--kv-type", "bf16"), {}), (kvik.preset("test-llama", seed=1), (), {})):
            with self.subTest(flags=flags, fields=fields):
                answer = self.ask(other, "/v1/completions", {**body, **fields}, "--disk", self.disk, *flags)
                self.assertEqual(cached(answer), 0)

    def test_pages_of_a_folder_are_not_computed_again(self):
        model = kvik.preset("test-llama")
        for n_known in (0, 500):
            said = kvik.output("cache", "export", model, self.file, "--prompt", self.written("prompt", TEXT), "--disk", self.disk).decode()
            self.assertEqual("tokens were in" in said, n_known > 0, said)
            if n_known:
                self.assertGreater(int(said.splitlines()[1].split()[0]), n_known)
        self.assertEqual(sorted(os.listdir(self.folder)), ["pages", "prefix.kvp", "prompt"])

    def test_a_temporary_folder_is_removed(self):
        self.export("demo", TEXT)
        self.assertEqual(sorted(os.listdir(self.folder)), ["prefix.kvp", "prompt"])


class Chat(PrefixFile):
    SYSTEM = {"role": "system", "content": TEXT}

    def test_other_questions_find_the_messages_before_them(self):
        for name in ("test-qwen35", "test-gemma3"):
            for format, field, path in (("chat", "messages", "/v1/chat/completions"), ("messages", "messages", "/v1/messages"),
                                        ("responses", "input", "/v1/responses")):
                # With and without a question of its own.
                for more in ([], [{"role": "user", "content": "Which animals are there?"}]):
                    if format == "messages" and not more:
                        continue  # such a body needs a message
                    with self.subTest(model=name, format=format, more=len(more)):
                        self.check_questions(kvik.preset(name), format, field, more)

    def check_questions(self, model, format, field, more):
        self.setUp()
        system = {"system": TEXT} if format == "messages" else {}
        body = {**system, field: [*([] if system else [self.SYSTEM]), *more]}
        n = self.export(model, body, "--format", format)
        self.import_file()
        asked = [{"role": "system", "content": TEXT}, {"role": "user", "content": QUESTION}]
        chat = {"messages": asked, "max_tokens": 8, "temperature": 0}
        self.expect_prefix(model, "/v1/chat/completions", chat, len(TEXT) // 32 * 32)
        if more:
            chat["messages"] = [self.SYSTEM, *more]
            self.expect_prefix(model, "/v1/chat/completions", chat, n - 1)

    def test_tools_are_a_part_of_the_prefix(self):
        tool = {"type": "function", "function": {"name": "look", "description": TEXT, "parameters": {"type": "object", "properties": {}}}}
        n = self.export("demo", {"messages": [self.SYSTEM], "tools": [tool]})
        self.import_file()
        body = {"messages": [self.SYSTEM, {"role": "user", "content": QUESTION}], "tools": [tool], "max_tokens": 8, "temperature": 0}
        self.expect_prefix("demo", "/v1/chat/completions", body, n // 32 * 32)

    def test_a_chat_template_of_the_server_is_given_too(self):
        template = self.written("template", "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}")
        n = self.export("demo", {"messages": [self.SYSTEM]}, "--chat-template", template)
        self.import_file()
        body = {"messages": [self.SYSTEM, {"role": "user", "content": QUESTION}], "max_tokens": 8, "temperature": 0}
        self.expect_prefix("demo", "/v1/chat/completions", body, n // 32 * 32, "--chat-template", template)

    def test_a_wrong_body_is_refused(self):
        for content, said in (('{"messages": ', "prompt: "), ('{"messages": []}', "messages"), ('{"model": "x"}', "messages")):
            said_here = self.refusal("export", "demo", self.file, "--prompt", self.written("prompt", content), code=2)
            self.assertIn(said, said_here)
        self.assertNotIn("prefix.kvp", os.listdir(self.folder))

    def test_a_prompt_without_end_is_refused(self):
        said = self.refusal("export", "demo", self.file, "--prompt", "/dev/zero", code=2)
        self.assertIn("'/dev/zero' is longer than 33554432 bytes", said)
        long = self.written("long", "word " * (17 << 20 >> 2))
        said = self.refusal("export", "demo", self.file, "--prompt", long, "--ctx", 1024, code=2)
        self.assertRegex(said, r"has 22282240 bytes, expected at most 16777216 for a context of 1024 tokens")
        self.assertNotIn("prefix.kvp", os.listdir(self.folder))


class Refusals(PrefixFile):
    def setUp(self):
        super().setUp()
        self.key = self.written("key", "0123456789abcdef\n")

    def test_signatures(self):
        other = self.written("other", "fedcba9876543210")
        self.export("demo", TEXT)
        self.assertIn("is not signed", self.refusal("import", self.file, "--disk", self.disk, "--key", self.key))
        self.export("demo", TEXT, "--key", self.key)
        self.assertIn("signed with another key", self.refusal("import", self.file, "--disk", self.disk, "--key", other))
        short = self.written("short", "abc")
        self.assertIn("has 3 bytes, expected at least 16", self.refusal("import", self.file, "--disk", self.disk, "--key", short, code=2))
        self.assertIn("cannot read", self.refusal("import", self.file, "--disk", self.disk, "--key", f"{self.folder}/absent"))
        self.assertFalse(os.path.exists(self.disk))
        self.import_file("--key", self.key)

    def test_damaged_and_other_files(self):
        self.export("demo", TEXT)
        with open(self.file, "rb") as file:
            good = file.read()
        damaged = bytearray(good)
        damaged[len(good) // 2] ^= 1
        for content, said in ((good[:-1], "is truncated"), (damaged, "fails its checksum"), (b"", "empty"), (b"GGUF" * 2000, "is not a prefix file")):
            with open(self.file, "wb") as file:
                file.write(content)
            self.assertIn(said, self.refusal("import", self.file, "--disk", self.disk))

    def test_another_model_and_another_build(self):
        self.export("demo", TEXT)
        self.assertIn("is the model", self.refusal("import", self.file, "--disk", self.disk, "-m", kvik.preset("test-llama"), code=2))
        self.import_file("-m", "demo")
        with open(self.file, "rb") as file:
            content = bytearray(file.read())
        # The header says another build, with a right checksum but no right tag.
        self.assertTrue(content[136:700].find(b"glibc") > 0)
        content[140] ^= 1
        with open(self.file, "wb") as file:
            file.write(content)
        self.assertIn("is damaged", self.refusal("import", self.file, "--disk", self.disk))

    def test_a_folder_that_a_server_uses(self):
        self.export("demo", TEXT)
        with Server("demo", "--disk", self.disk):
            self.assertIn("is in use", self.refusal("import", self.file, "--disk", self.disk))


if __name__ == "__main__":
    unittest.main()
