"""Tests that a prefix computed on one machine is found on another: exported with one instruction set, imported, served with another one."""
import json
import os
import shutil
import tempfile
import unittest

import eagle_test
import kvik
from server import Server

TEXT = "".join(f"{n}: the quick brown fox jumps over the lazy dog; " for n in range(12))  # the presets have a token per byte
QUESTION = "What does the fox do?"
# A model with recurrent layers, one that also has an MTP head, one with sliding windows, one with latent K and V, six with
# indexers, and one with all layers alike.
MODELS = ("test-lfm2", "test-qwen35", "test-gemma3", "test-mla", "test-deepseek32", "test-mistrallarge4", "test-minimaxm3", "test-qwen4exp", "test-deepseek4", "test-glm5next", "test-llama")


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

    def test_a_server_with_a_draft_head_finds_the_pages_of_an_export_with_it(self):
        model = kvik.preset("test-llama")
        head = eagle_test.Head(model).write(f"{self.folder}/head")
        body = {"prompt": TEXT, "max_tokens": 4, "temperature": 0}
        for draft, found in (((), False), (("--draft", head), True)):
            self.export(model, TEXT, *draft)
            self.disk = f"{self.folder}/pages{len(draft)}"
            self.import_file()
            answer = self.ask(model, "/v1/completions", body, "--disk", self.disk, "--draft", head)
            self.assertEqual(cached(answer) > 500, found, answer["usage"])

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
        for content, said in (("", "prompt is empty, expected a prompt"), ('{"messages": ', "prompt: "), ('{"messages": []}', "messages"), ('{"model": "x"}', "messages")):
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


class Session(PrefixFile):
    """Exports a session of a running server: its last prompt with the answer."""
    TURN = {"messages": [{"role": "system", "content": TEXT}, {"role": "user", "content": QUESTION}], "max_tokens": 40, "temperature": 0,
            "ignore_eos": True, "prompt_cache_key": "work/1"}

    def serve(self, model, *flags):
        server = Server(model, *flags, env={"KVIK_ISA": kvik.isas()[-1]})
        self.addCleanup(server.__exit__)
        return server

    def chat(self, server, body, key=None):
        answer = server.post("/v1/chat/completions", body, **({"headers": {"Authorization": f"Bearer {key}"}} if key else {}))
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def next_turn(self, server, key=None, query=""):
        """Returns a request that continues the session's tokens, and how many these are."""
        session = server.get("/kvik/sessions/work/1" + query, **({"headers": {"Authorization": f"Bearer {key}"}} if key else {}))
        self.assertEqual(session.status, 200, session.body)
        tokens = session.json["tokens"]
        return {"prompt": tokens + [65, 66, 67], "max_tokens": 8, "temperature": 0, "ignore_eos": True}, len(tokens)

    def complete(self, server, body, key=None):
        answer = server.post("/v1/completions", body, **({"headers": {"Authorization": f"Bearer {key}"}} if key else {}))
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def export_session(self, model, server, *flags):
        """Returns the tokens in the file. With --disk, waits until the server has written them there."""
        for attempt in range(20):
            said = kvik.output("cache", "export", model, self.file, "--session", "work/1", "--url", f"http://127.0.0.1:{server.port}", *flags,
                               env={"KVIK_ISA": "scalar"}).decode()
            if "--disk" not in flags or "tokens were in" in said:
                return int(said.split(": ")[1].split()[0])
        self.fail(said)

    def test_the_next_turn_continues_on_another_machine(self):
        for name in ("test-qwen35", "test-gemma3", "test-llama"):
            for uses_folder in (True, False):
                with self.subTest(model=name, uses_folder=uses_folder):
                    self.setUp()
                    model = kvik.preset(name)
                    pages = f"{self.folder}/of-server"
                    server = self.serve(model, "--disk", pages, "--kv-type", "bf16")
                    self.chat(server, self.TURN)
                    n = self.export_session(model, server, *(("--disk", pages) if uses_folder else ()))
                    body, n_all = self.next_turn(server)
                    self.assertGreater(n, n_all - 32)
                    cold = self.complete(server, {**body, "cache_salt": "nothing is cached"})
                    server.stop()
                    self.import_file()
                    warm = self.ask(model, "/v1/completions", body, "--disk", self.disk, "--kv-type", "bf16")
                    self.assertGreaterEqual(cached(warm), n - 1)
                    self.assertEqual(warm["choices"], cold["choices"])
                    self.assertEqual(sorted(os.listdir(self.folder)), ["of-server", "pages", "prefix.kvp"])

    def test_a_clients_pages_belong_to_its_key(self):
        keys = self.written("keys", "secret-a ann\nsecret-b bob salt-of-bob\nsecret-c cid\n")
        os.chmod(keys, 0o600)
        for share in ("two", "key"):
            for client, others in (("ann", "bc"), ("bob", "ac")):
                with self.subTest(share=share, client=client):
                    own = f"secret-{client[0]}"
                    pages = f"{self.folder}/of-server"
                    for path in (self.disk, pages):
                        shutil.rmtree(path, True)
                    flags = ("--api-key-file", keys, "--share", share)
                    server = self.serve("demo", "--disk", pages, *flags)
                    self.chat(server, self.TURN, own)
                    for other in others:
                        said = self.refusal("export", "demo", self.file, "--session", "work/1", "--url", f"http://127.0.0.1:{server.port}",
                                            "--api-key", f"secret-{other}")
                        self.assertIn("no tokens are kept of a session 'work/1' of this key", said)
                    n = self.export_session("demo", server, "--api-key", own, "--client", client, "--disk", pages, *flags)
                    body, _ = self.next_turn(server, own)
                    server.stop()
                    self.import_file("--client", client, *flags)
                    server = self.serve("demo", "--disk", self.disk, *flags)
                    for other in others:
                        self.assertEqual(cached(self.complete(server, body, f"secret-{other}")), 0)
                    self.assertGreaterEqual(cached(self.complete(server, body, own)), n - 1)
                    server.stop()

    def test_a_salt_of_requests(self):
        server = self.serve("demo")
        self.chat(server, {**self.TURN, "cache_salt": "mine & more"})
        url = f"http://127.0.0.1:{server.port}"
        for salt in ((), ("--cache-salt", "other")):
            self.assertIn("no tokens are kept", self.refusal("export", "demo", self.file, "--session", "work/1", "--url", url, *salt))
        n = self.export_session("demo", server, "--cache-salt", "mine & more")
        body, _ = self.next_turn(server, query="?cache_salt=mine%20%26%20more")
        self.import_file("--cache-salt", "mine & more")
        self.assertGreaterEqual(cached(self.ask("demo", "/v1/completions", {**body, "cache_salt": "mine & more"}, "--disk", self.disk)), n - 1)
        for salt in ({"cache_salt": "other"}, {}):
            self.assertEqual(cached(self.ask("demo", "/v1/completions", {**body, **salt}, "--disk", self.disk)), 0)

    def test_refusals(self):
        server = self.serve("demo")
        self.chat(server, self.TURN)
        url = ("--url", f"http://127.0.0.1:{server.port}")
        keys = self.written("keys", "secret-a ann\nsecret-b ann other-salt\n")
        os.chmod(keys, 0o600)
        for flags, said, code in (
                (("--session", "none", *url), "no tokens are kept of a session 'none'", 1),
                (("--session", "work/1", "--url", "http://127.0.0.1:1"), "127.0.0.1:1", 1),
                ((), "give --prompt FILE or --session ID", 2),
                (("--prompt", keys, "--session", "work/1", *url), "give one of --prompt and --session, not both", 2),
                (("--session", "work/1", *url, "--client", "ann"), "--client ann needs --api-key-file", 2),
                (("--session", "work/1", *url, "--api-key-file", keys), "--api-key-file names no client", 2),
                (("--session", "work/1", *url, "--api-key-file", keys, "--client", "eve"), "is named 'eve'", 2),
                (("--session", "work/1", *url, "--api-key-file", keys, "--client", "ann"), "have different salts", 1),
                (("--session", "work/1", *url, "--share", "key"), "--share key needs --client", 2)):
            with self.subTest(flags=flags):
                self.assertIn(said, self.refusal("export", "demo", self.file, *flags, code=code))
        said = self.refusal("export", kvik.preset("test-llama"), self.file, "--session", "work/1", *url, code=2)
        self.assertIn("the session 'work/1' is of the model", said)
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
