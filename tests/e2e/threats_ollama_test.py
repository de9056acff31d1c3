"""Attacks on the routes of Ollama's API. The code that they share with the other dialects is attacked in threats_http_test.py and
threats_dialects_test.py."""
import functools
import json
import unittest

import threats_http_test
from server import in_parallel, status_of

USER = [{"role": "user", "content": "x"}]
HUGE = 2**63
GENERATE, CHAT, EMBED = "/api/generate", "/api/chat", "/api/embed"
BODIES = {GENERATE: {"prompt": "x", "options": {"num_predict": 2}}, CHAT: {"messages": USER, "options": {"num_predict": 2}}, EMBED: {"input": "x"},
          "/api/embeddings": {"prompt": "x"}, "/api/show": {"model": "demo"}}
ANSWERED = (GENERATE, CHAT)


class Ollama(threats_http_test.Threats):
    def is_refused(self, path, body, status=400, word=""):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.server.post(path, data)
        with self.subTest(path=path, body=data[:100]):
            self.assertEqual(answer.status, status, answer.body[:300])
            self.assertEqual(list(answer.json), ["error"])
            self.assertTrue(0 < len(answer.json["error"]) < 500, answer.json)
            self.assertIn(word, answer.json["error"])

    def test_framing(self):
        for path in BODIES:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            with self.subTest(path=path):
                self.assertEqual(status_of(self.server.raw((head + "X-Long: " + "a" * 2**20 + "\r\n\r\n").encode())), 431)
                self.assertEqual(status_of(self.server.raw((head + f"Content-Length: {2**40}\r\n\r\n").encode())), 413)
                self.assertEqual(status_of(self.server.raw((head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").encode())), 400)

    def test_what_is_no_json(self):
        for path, body in BODIES.items():
            good = json.dumps(body).encode()
            for data in (b"", b"{", good[:-1], good + b"}", b"null", b"[]", b'{"a":"\xff\xfe"}', b'{"a":"\\ud800"}', b"[" * 100_000, b"\0" * 100):
                self.is_refused(path, data)

    def test_wrong_types(self):
        for path in ANSWERED:
            body = BODIES[path]
            for field, values in {"stream": ("yes", 1), "options": ([], "x", 5), "format": (5, [], "xml"), "think": (1, [], "deep"), "model": (7, []),
                                  "keep_alive": ("soon", True, []), "logprobs": (1,), "kvik": (1, {"x": 1}), "cache_salt": (1,)}.items():
                for value in values:
                    self.is_refused(path, {**body, field: value}, word=field)
            for option, values in {"temperature": ("hot", [], -1, 1e6), "top_k": ("x", 1.5, -2), "top_p": (-1, 1.1), "num_predict": ("x", 1.5, HUGE * 4),
                                   "seed": ("x", 1.5), "stop": (5, [5], "", ["s"] * 17), "repeat_penalty": ("x",)}.items():
                for value in values:
                    self.is_refused(path, {**body, "options": {option: value}}, word=option)
        for value in (7, {}, []):
            self.is_refused(GENERATE, {"prompt": value}, word="prompt")
        for value in ("x", {}, [-1], [1.5], ["x"], [[]]):
            self.is_refused(GENERATE, {**BODIES[GENERATE], "context": value}, word="context")
        for value in (7, {}, "x", [7], [{}], [{"role": 1}], [{"role": "user", "content": []}], [{"role": "user", "images": "x"}]):
            self.is_refused(CHAT, {"messages": value}, word="message")
        for value in (7, {}, [7], [None], [[]]):
            self.is_refused(EMBED, {"input": value}, word="input")
        for calls in (7, [7], [{}], [{"function": {}}], [{"function": {"name": "f", "arguments": "x"}}]):
            self.is_refused(CHAT, {"messages": [{"role": "assistant", "tool_calls": calls}]}, word="tool_calls")

    def test_a_million_of_anything(self):
        self.is_refused(CHAT, {"messages": USER * 100_000})
        self.is_refused(CHAT, {"messages": USER * 20_000}, word="messages")
        self.is_refused(CHAT, {"messages": USER, "tools": [{"type": "function", "function": {"name": "f"}}] * 2_000}, word="tools")
        self.is_refused(GENERATE, {"prompt": "x", "context": [5] * 1_000_000})
        self.is_refused(GENERATE, {"prompt": "x", "context": [5] * 100_000})
        self.is_refused(GENERATE, {"prompt": "x", "context": [2048]})
        self.is_refused(EMBED, {"input": ["x"] * 3000}, word="input")
        self.is_refused(GENERATE, {"prompt": "x" * 10_000, "template": "{{.Prompt}}" * 100_000}, word="template")
        self.is_refused(GENERATE, {"prompt": "x", "template": "{{if .Prompt}}" * 100_000}, word="template")

    def test_a_prompt_over_the_context(self):
        long = "word " * 5000
        self.is_refused(CHAT, {"messages": [{"role": "user", "content": long}]}, word="context")
        self.is_refused(GENERATE, {"prompt": long}, word="context")
        self.is_refused(EMBED, {"input": long, "truncate": False}, word="context")
        self.assertEqual(self.server.post(EMBED, {"input": long}).status, 200)

    def test_names(self):
        for name in ("x", "demo:", ":latest", "demo:latest:latest", "../demo", "demo\n", "\0", "x" * 1000):
            self.is_refused(CHAT, {"model": name, "messages": USER}, 404, "not found")
            self.is_refused("/api/show", {"model": name}, 404, "not found")
        self.is_refused(CHAT, {"model": "x" * 2000, "messages": USER}, word="model")

    def test_models_are_not_changed_without_a_library(self):
        for method, path, body in (("DELETE", "/api/delete", {"model": "demo"}), ("POST", "/api/copy", {"source": "demo", "destination": "../x"})):
            answer = self.server.request(method, path, body)
            self.assertIn(answer.status, (400, 404), answer.body)
            self.assertTrue(answer.json["error"])

    def test_many_at_once(self):
        def ask(i):
            answer = self.server.post(ANSWERED[i % 2], {**BODIES[ANSWERED[i % 2]], "stream": bool(i % 3)})
            return answer.status, json.loads(answer.body.splitlines()[-1])["done"]

        self.assertEqual(set(in_parallel(*(functools.partial(ask, i) for i in range(64)))), {(200, True)})


if __name__ == "__main__":
    unittest.main()
