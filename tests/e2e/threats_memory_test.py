"""Tests small requests that need much memory, and clients that hold as much as possible: memory stays within the plan, is returned afterwards, and
other clients are served in the meantime."""
import http.client
import json
import os
import random
import resource
import socket
import struct
import tempfile
import time
import unittest

import kvik  # adds tools/ to the path
from hostile_grammars import EXHAUSTING, GRAMMARS
import preload
from server import Server, in_parallel, read_all, status_of

MIB = 1 << 20
FLAGS = ("--threads", 1, "--kv-memory", "64MiB")
PROMPT = "ROMEO:\nO, speak again"
COMPLETIONS, CHAT, MESSAGES, RESPONSES, EMBEDDINGS = (
    "/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/embeddings")
SAID = {COMPLETIONS: {"prompt": "x"}, CHAT: {"messages": [{"role": "user", "content": "x"}]},
        MESSAGES: {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}, RESPONSES: {"input": "x"}, EMBEDDINGS: {"input": "x"}}


def ids(n, seed):
    return random.Random(seed).choices(range(20, 1900), k=n)


class Memory(unittest.TestCase):
    """Uses one server for all tests, so that leaks of one attack affect the next."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", *FLAGS)
        cls.addClassCleanup(cls.server.__exit__)
        cls.want = cls.server.text(PROMPT)
        plan = json.loads(kvik.output("plan", "demo", "--threads", 1, "--json"))
        cls.requests = plan["buffers"]["requests"]
        cls.plan = plan["weights_bytes"] + plan["buffers_bytes"] + 64 * MIB
        cls.at_rest = cls.plan - cls.requests + 64 * MIB

    def setUp(self):
        with open(f"/proc/{self.server.process.pid}/clear_refs", "w") as f:
            f.write("5")  # resets the peak memory

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), "the server died")
        self.assertEqual(self.server.text(PROMPT), self.want)
        if kvik.SANITIZED:
            return
        self.assertLessEqual(self.status("VmHWM"), 1.05 * self.plan + 64 * MIB)
        deadline = time.monotonic() + 20  # freed memory is returned to the system once a second
        while self.status("VmRSS") > self.at_rest and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertLessEqual(self.status("VmRSS"), self.at_rest)

    def status(self, name):
        with open(f"/proc/{self.server.process.pid}/status") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name))

    def refused(self, path, body, param, status=400):
        answer = self.server.post(path, body)
        self.assertEqual(answer.status, status, answer.body[:300])
        self.assertLess(len(answer.body), 1000)
        if param and path != MESSAGES:
            self.assertEqual(answer.error["param"], param)
        return answer

    def test_36_answers_larger_than_memory(self):
        prompts = [ids(990, i) for i in range(64)]
        common = {"n": 8, "max_tokens": 1}
        self.refused(COMPLETIONS, {"prompt": prompts[:32], "prompt_logprobs": 20, **common}, "prompt_logprobs")
        self.refused(COMPLETIONS, {"prompt": prompts[:32], "prompt_logprobs": 20, "max_tokens": 1}, "prompt_logprobs")
        self.refused(COMPLETIONS, {"prompt": prompts, "echo": True, "logprobs": 20, "max_tokens": 1}, "logprobs")
        self.refused(COMPLETIONS, {"prompt": prompts, "echo": True, "n": 17, "max_tokens": 1}, "n")
        self.refused(COMPLETIONS, {"prompt": "x", "n": 128, "logprobs": 20, "max_tokens": 900}, "logprobs")
        self.refused(CHAT, {**SAID[CHAT], "n": 128, "logprobs": True, "top_logprobs": 20, "max_tokens": 900}, "logprobs")
        # Texts count as well, after tokenization.
        self.refused(COMPLETIONS, {"prompt": ["to be or not " * 150 + str(i) for i in range(64)], "prompt_logprobs": 20, **common}, "prompt_logprobs")

    def test_36_a_large_answer_that_is_allowed_is_whole(self):
        prompts = [ids(990, i) for i in range(12)]
        answer = self.server.post(COMPLETIONS, {"prompt": prompts, "prompt_logprobs": 20, "max_tokens": 1, "temperature": 0}, timeout=300)
        self.assertEqual(answer.status, 200, answer.body[:300])
        choices = answer.json["choices"]
        self.assertEqual([len(c["prompt_logprobs"]) for c in choices], [990] * 12)
        for c, prompt in zip(choices, prompts):
            self.assertIsNone(c["prompt_logprobs"][0])
            self.assertTrue(all(str(i) in place for i, place in zip(prompt[1:], c["prompt_logprobs"][1:])))
            self.assertTrue(all(20 <= len(place) <= 21 for place in c["prompt_logprobs"][1:]))

    def test_37_long_fields(self):
        long = "s" * (3 * MIB)
        for path, output in SAID.items():
            for field in ("cache_salt", "model", "prompt_cache_key"):
                self.refused(path, {**output, field: long}, field)
        for path in (COMPLETIONS, CHAT, RESPONSES, EMBEDDINGS):
            self.refused(path, {**SAID[path], "user": long}, "user")
        self.refused(COMPLETIONS, {**SAID[COMPLETIONS], "cache_salt": long, "n": 128}, "cache_salt")
        self.refused(COMPLETIONS, {**SAID[COMPLETIONS], "stop": [long]}, "stop")
        self.refused(MESSAGES, {**SAID[MESSAGES], "metadata": {"user_id": long}}, None)
        self.refused(RESPONSES, {**SAID[RESPONSES], "metadata": {"a": long}}, "metadata")
        self.refused(COMPLETIONS, {"prompt": "x", "cache_salt": "s" * (30 * MIB), "n": 128}, None, status=413)

    def test_38_trees_of_many_values(self):
        for n, status in ((1_000_000, 400), (9_000_000, 413)):
            body = b'{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"x":[' + b"[]," * n + b"[]]}}"
            self.refused(CHAT, body, "chat_template_kwargs" if status == 400 else None, status)
        arguments = "[" + "[]," * 1_000_000 + "[]]"
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        self.refused(CHAT, {"messages": [{"role": "assistant", "content": "", "tool_calls": [call]}]}, "messages")

    def test_38_texts_that_no_context_holds(self):
        for path, body, field in ((COMPLETIONS, {"prompt": "x" * (5 * MIB)}, "prompt"), ("/tokenize", {"content": "x" * (5 * MIB)}, "content"),
                                  (CHAT, {"messages": [{"role": "user", "content": "x" * (5 * MIB)}]}, "messages")):
            self.assertEqual(self.refused(path, body, field).error["code"], "context_length_exceeded")
        self.refused("/tokenize", {"content": "x" * (31 * MIB)}, None, status=413)
        text = "a b" * MIB
        answer = self.server.post("/tokenize", {"content": text})
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.server.post("/detokenize", {"tokens": answer.json["tokens"][:5000]}).json["content"], text[:len(self.server.post(
            "/detokenize", {"tokens": answer.json["tokens"][:5000]}).json["content"])])

    def test_38_bodies_that_never_end(self):
        """Forty clients hold the allowed maximum; a small request is served in the meantime."""
        head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (15 * MIB)
        crowd = [self.server.connect() for _ in range(40)]
        try:
            def send(s):
                try:
                    s.sendall(head + b" " * (14 * MIB))
                except OSError:
                    pass  # got 503 before it had sent everything
            in_parallel(*(lambda s=s: send(s) for s in crowd))
            self.assertGreater(self.server.metrics().value("kvik_http_responses_total", code="503"), 30)
        finally:
            for s in crowd:
                s.close()

    def test_38_readers_who_do_not_read(self):
        """Large unread answers are counted, and requests that exceed the limit are rejected."""
        body = json.dumps({"prompt": [ids(990, i) for i in range(12)], "prompt_logprobs": 20, "max_tokens": 1}).encode()
        whole = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        crowd = []
        try:
            for _ in range(16):
                s = socket.socket()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.connect(("127.0.0.1", self.server.port))
                s.sendall(whole)
                crowd.append(s)
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                page = self.server.metrics()
                if page.value("kvik_requests_running") + page.value("kvik_requests_waiting") == 0:
                    break
                self.assertEqual(self.server.get("/health").status, 200)
                time.sleep(0.2)
            self.assertEqual(self.server.text(PROMPT), self.want)
        finally:
            for s in crowd:
                s.close()

    def test_38_four_thousand_silent_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        crowd = []
        try:
            for _ in range(4200):
                crowd.append(self.server.connect(timeout=5))
            for path in ("/health", "/version"):
                self.assertEqual(self.server.get(path).status, 200)
            for s in crowd[-2000:]:  # an unfinished header of the maximum length
                s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 32_000)
            for path in ("/health", "/version"):
                self.assertEqual(self.server.get(path).status, 200)
        finally:
            for s in crowd:
                s.close()


def limit_data(server, room):
    """Limits the server's memory to its current size plus `room` bytes (None: no limit). Unlike RLIMIT_AS, this counts what malloc uses of the
    address space that it has reserved. The reservation is tens of MiB for each arena and differs between machines."""
    most = resource.RLIM_INFINITY
    if room is not None:
        with open(f"/proc/{server.process.pid}/status") as f:
            most = room + next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmData"))
    resource.prlimit(server.process.pid, resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))


@unittest.skipIf(kvik.SANITIZED, "a sanitizer ends a program that has none left")
class NoMemory(unittest.TestCase):
    def test_38_a_system_that_has_none_left_ends_requests_and_not_the_server(self):
        with Server("demo", *FLAGS) as server:
            want = server.text(PROMPT)
            long = json.dumps({"messages": [{"role": "user", "content": "a b " * (MIB - 100)}], "max_tokens": 1}).encode()
            many = b'{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"x":[' + b"[]," * 60_000 + b"[]]}}"
            seen = set()
            for room in (24, 12, 6, 3):  # MiB: a part of the requests' memory, if nothing is left from earlier ones
                limit_data(server, room * MIB)
                for body in (long, many) * 6:
                    try:
                        seen.add(server.post(CHAT, body).status)
                    except OSError:
                        seen.add(0)  # closed without an answer
                self.assertLessEqual(seen, {0, 200, 400, 503})
                self.assertIsNone(server.process.poll(), server.said()[-2000:])
                if 503 in seen:
                    break
            self.assertIn(503, seen)
            limit_data(server, None)
            self.assertEqual(server.text(PROMPT), want)
            self.assertEqual(server.stop(), 0)

    def test_38_whatever_it_is_that_finds_no_memory_the_server_answers_afterwards(self):
        with Server("demo", *FLAGS) as server:
            want = server.text(PROMPT)
            tree = b'{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"chat_template_kwargs":{"x":[' + b"[]," * 60_000 + b"[]]}}"

            def ask():
                for _ in range(2):
                    try:
                        seen.add(server.post(CHAT, tree, timeout=60).status)
                    except OSError:
                        seen.add(0)
            all_seen = set()
            for step in range(1, 16):
                limit_data(server, step * 3 * MIB)
                seen = set()
                in_parallel(ask, ask)
                limit_data(server, None)
                self.assertIsNone(server.process.poll(), f"{3 * step} MiB: {server.said()[-2000:]}")
                self.assertLessEqual(seen, {0, 200, 400, 503})
                self.assertEqual(server.text(PROMPT), want, step)
                all_seen |= seen
            self.assertIn(503, all_seen)
            self.assertEqual(server.stop(), 0)


@unittest.skipIf(kvik.SANITIZED, "a sanitizer has an operator new of its own")
class Refused(unittest.TestCase):
    """Tests that any failed allocation affects only the requests that needed it, never the process or later requests."""

    def bodies(self, chance):
        for name in chance.sample(sorted(GRAMMARS), 2) + [EXHAUSTING[0]]:
            yield COMPLETIONS, {"prompt": PROMPT, "max_tokens": 60, "temperature": 2, "n": 2, **GRAMMARS[name]}
        yield COMPLETIONS, {"prompt": f"{PROMPT} {chance.random()}", "max_tokens": 40, "stream": True}
        for path, output in SAID.items():
            yield path, {**output, **({"max_tokens": 20} if path in (CHAT, MESSAGES) else {})}

    def ask(self, server, seconds, seed):
        chance, end = random.Random(seed), time.monotonic() + seconds
        while time.monotonic() < end:
            for path, body in self.bodies(chance):
                try:
                    self.assertIn(server.post(path, body, timeout=1).status, (200, 400, 500, 503))
                except (OSError, http.client.HTTPException):
                    pass  # cut off or timed out

    def test_memory_refused_at_random_ends_no_process_and_changes_no_answer(self):
        with tempfile.NamedTemporaryFile() as share:
            def refuse(per_million):
                os.pwrite(share.fileno(), struct.pack("<I", per_million), 0)

            refuse(0)
            env = {"LD_PRELOAD": preload.library(preload.REFUSES_MEMORY, "c++"), "REFUSED": share.name}
            with Server("demo", *FLAGS[:2], "--kv-memory", "16MiB", env=env) as server:
                want = server.text(PROMPT)
                for per_million in (300, 3000, 30000):
                    refuse(per_million)
                    in_parallel(*(lambda s=seed: self.ask(server, 5, s) for seed in range(3)))
                    self.assertIsNone(server.process.poll(), server.said()[-2000:])
                    refuse(0)
                    self.assertEqual(server.text(PROMPT), want)
                self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
