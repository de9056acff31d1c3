"""Repeats the attacks of threats_http_test.py on the routes of the other dialects. Their shared parts are shared code, so each attack is tried on
each of them.
"""
import json
import os
import tempfile
import unittest

import threats_http_test
from server import Server, in_parallel, status_of

HUGE = 2**63
USER = [{"role": "user", "content": "x"}]


class Dialect:
    """A route: a body that is answered, and the names of its fields."""

    def __init__(self, path, body, prompt, max_tokens="max_tokens", is_anthropic=False, is_sampled=True):
        self.path, self.body, self.prompt, self.max_tokens = path, body, prompt, max_tokens
        self.is_anthropic, self.is_sampled = is_anthropic, is_sampled

    def __repr__(self):
        return self.path

    def of(self, **fields):
        return {**self.body, **fields}


CHAT = Dialect("/v1/chat/completions", {"messages": USER, "max_completion_tokens": 2}, "messages", "max_completion_tokens")
MESSAGES = Dialect("/v1/messages", {"messages": USER, "max_tokens": 2}, "messages", is_anthropic=True)
COUNT = Dialect("/v1/messages/count_tokens", {"messages": USER}, "messages", is_anthropic=True, is_sampled=False)
RESPONSES = Dialect("/v1/responses", {"input": "x", "max_output_tokens": 2}, "input", "max_output_tokens")
EMBEDDINGS = Dialect("/v1/embeddings", {"input": "x"}, "input", is_sampled=False)
DIALECTS = (CHAT, MESSAGES, COUNT, RESPONSES, EMBEDDINGS)
SAMPLED = tuple(d for d in DIALECTS if d.is_sampled)


class Threats(threats_http_test.Threats):
    def refused_by(self, dialect, body, status=400, param=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.server.post(dialect.path, data)
        with self.subTest(path=dialect.path, body=data[:100]):
            self.assertEqual(answer.status, status, answer.body[:300])
            self.assertTrue(answer.error["message"])
            self.assertLess(len(answer.error["message"]), 500)
            if dialect.is_anthropic:
                self.assertEqual(answer.json["type"], "error")
                self.assertEqual(answer.json["request_id"], answer.headers["request-id"])
                self.assertTrue(answer.error["type"])
            else:
                self.assertLessEqual({"message", "type", "param", "code"}, set(answer.error))
                if param:
                    self.assertEqual(answer.error["param"], param)
        return answer

    def field_refused(self, dialects, field, *values):
        for dialect in dialects:
            for value in values:
                self.refused_by(dialect, dialect.of(**{field: value}), param=field)

    def raw_post(self, dialect, body, *headers):
        lines = [f"POST {dialect.path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
        return status_of(self.server.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body))


class Http(Threats):
    def test_01_to_04_framing(self):
        for dialect in DIALECTS:
            with self.subTest(path=dialect.path):
                self.assertEqual(self.raw_post(dialect, b"", "X-Long: " + "a" * 2**20), 431)
                self.assertEqual(self.raw_post(dialect, b"", *["X-Many: 1"] * 10_000), 431)
                for size in (b"-2", b"FFFFFFFFFFFFFFFFF"):
                    self.assertIn(self.raw_post(dialect, size + b"\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), (400, 413))
                endless = (b"100000\r\n" + b" " * 2**20 + b"\r\n") * 40
                self.assertEqual(self.raw_post(dialect, endless, "Transfer-Encoding: chunked"), 413)
                self.assertEqual(self.raw_post(dialect, b"0\r\n\r\n", "Content-Length: 2", "Transfer-Encoding: chunked"), 400)

    def test_06_a_reader_that_does_not_read(self):
        body = {"max_tokens": 900, "ignore_eos": True, "stream": True, "messages": USER}
        with self.server.connect() as s:
            data = json.dumps(body).encode()
            s.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
            s.recv(1)
            for _ in range(3):
                self.assertEqual(self.server.text(threats_http_test.PROMPT), self.want)

    def test_09_wrong_methods_and_paths(self):
        for dialect in DIALECTS:
            for method in ("GET", "DELETE", "PUT"):
                answer = self.server.request(method, dialect.path)
                self.assertEqual(answer.status, 405, (method, dialect.path))
                self.assertEqual(answer.headers["allow"], "POST")
            for path in (dialect.path + "x", dialect.path + "/x", dialect.path.upper()):
                # A stored response has a path below its dialect's, which does not accept POST.
                want = (404, 405) if path == "/v1/responses/x" else (404,)
                self.assertIn(self.server.post(path, dialect.body).status, want, path)


class Keys(unittest.TestCase):
    def test_08_every_route_but_the_open_ones_wants_a_key(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "keys")
            with open(path, "w") as f:
                f.write("right ann\n")
            with Server("demo", "--api-key-file", path) as server:
                posts = [(d.path, d.body) for d in DIALECTS] + [
                    ("/v1/completions", {"prompt": "x", "max_tokens": 2}), ("/tokenize", {"content": "x"}), ("/detokenize", {"tokens": [5]}),
                    ("/apply-template", {"messages": USER}), ("/api/generate", {"prompt": "x", "options": {"num_predict": 2}}), ("/api/chat", {}),
                    ("/api/embed", {"input": "x"}), ("/api/embeddings", {"prompt": "x"}), ("/api/show", {"model": "demo"})]
                for route, body in posts:
                    for headers in ({}, {"Authorization": "Bearer wrong"}, {"x-api-key": "righ"}, {"Authorization": "Basic right"}):
                        answer = server.post(route, body, headers=headers)
                        self.assertEqual(answer.status, 401, (route, headers))
                        self.assertNotIn(b"right", answer.body)
                    for headers in ({"Authorization": "Bearer right"}, {"x-api-key": "right"}):
                        self.assertEqual(server.post(route, body, headers=headers).status, 200, route)
                for route in ("/v1/models", "/v1/models/demo", "/metrics", "/version", "/kvik/live", "/api/tags", "/api/ps", "/api/version", "/nothing"):
                    self.assertEqual(server.get(route).status, 401, route)
                for route in ("/health", "/livez", "/readyz"):
                    self.assertEqual(server.get(route).status, 200, route)


class Json(Threats):
    def test_10_what_is_no_json(self):
        for dialect in DIALECTS:
            good = json.dumps(dialect.body).encode()
            for body in (b"", b"{", good[:-1], good + b"}", b"null", b"[]", b'"x"', b'{"a":"\xff\xfe"}', b'{"a":"\\ud800"}', b'{"temperature":NaN}',
                         b'{"temperature":1e999}', b"[" * 100_000, b'{"a":' * 100_000, b"\0" * 100):
                self.refused_by(dialect, body)

    def test_11_a_body_over_the_limit(self):
        for dialect in DIALECTS:
            self.assertEqual(self.raw_post(dialect, b"", f"Content-Length: {2**40}"), 413)

    def test_12_prompts_missing_empty_or_of_a_wrong_type(self):
        for dialect in DIALECTS:
            body = {k: v for k, v in dialect.body.items() if k != dialect.prompt}
            self.refused_by(dialect, body, param=dialect.prompt)
            for value in (None, 7, True, {}, [], [None], [[]]):
                self.refused_by(dialect, {**body, dialect.prompt: value}, param=dialect.prompt)
        self.field_refused(SAMPLED, "stream", "yes", 1)
        self.field_refused(SAMPLED, "temperature", "hot", [], True)
        self.field_refused(DIALECTS, "model", 7, [])
        for dialect in SAMPLED:
            self.refused_by(dialect, dialect.of(**{dialect.max_tokens: "5"}))

    def test_12_a_million_of_anything(self):
        for dialect in (CHAT, MESSAGES, COUNT):
            self.refused_by(dialect, dialect.of(messages=USER * 100_000), param="messages")
            self.refused_by(dialect, dialect.of(tools=[{"type": "function", "name": "f", "function": {"name": "f"}}] * 100_000), param="tools")
        self.refused_by(CHAT, CHAT.of(stop=["s"] * 1_000_000), param="stop")
        self.refused_by(MESSAGES, MESSAGES.of(stop_sequences=["s"] * 1_000_000))
        self.refused_by(RESPONSES, RESPONSES.of(input=USER * 100_000), param="input")
        self.refused_by(EMBEDDINGS, EMBEDDINGS.of(input=["x"] * 1_000_000), param="input")
        self.refused_by(EMBEDDINGS, EMBEDDINGS.of(input=[5] * 1_000_000), param="input")

    def test_13_another_model(self):
        for dialect in DIALECTS:
            answer = self.refused_by(dialect, dialect.of(model="gpt-17"), 404)
            if not dialect.is_anthropic:
                self.assertEqual(answer.error["code"], "model_not_found")


class Sampling(Threats):
    def test_14_counts_out_of_range(self):
        self.field_refused([CHAT], "n", 0, -1, 2**31, HUGE)
        for dialect in SAMPLED:
            for value in (-2, 0, 1e300, 1.5):
                self.refused_by(dialect, dialect.of(**{dialect.max_tokens: value}))
            most = self.server.post(dialect.path, dialect.of(**{dialect.max_tokens: HUGE - 1}, temperature=0))
            self.assertIn(most.status, (200, 400))
        self.field_refused([EMBEDDINGS], "dimensions", 0, -1, 2**31, HUGE, 1.5)

    def test_15_numbers_out_of_range(self):
        self.field_refused(SAMPLED, "temperature", 1e6, -1)
        self.field_refused(SAMPLED, "top_p", -1, 0, 1.1)
        self.field_refused(SAMPLED, "top_k", -2, 1.5, 2**40)
        self.field_refused(SAMPLED, "repetition_penalty", 0, -1)

    def test_16_ids_outside_the_vocabulary(self):
        self.field_refused(SAMPLED, "logit_bias", {"2048": 1}, {"-1": 1})
        self.field_refused(SAMPLED, "stop_token_ids", [2048], [-1])
        for ids in ([2048], [5, -1], [2**32 + 5], [[5], [2048]]):
            self.refused_by(EMBEDDINGS, {"input": ids}, param="input")

    def test_17_more_logprobs_than_are_given(self):
        for n in (21, 2**31, HUGE):
            self.refused_by(CHAT, CHAT.of(logprobs=True, top_logprobs=n), param="top_logprobs")

    def test_18_a_prompt_over_the_context(self):
        long = "word " * 5000
        for dialect in (CHAT, MESSAGES, RESPONSES, EMBEDDINGS):
            prompt = [{"role": "user", "content": long}] if dialect.prompt == "messages" else long
            for stream in (False, True):
                answer = self.refused_by(dialect, dialect.of(**{dialect.prompt: prompt}, stream=stream), param=dialect.prompt)
                if not dialect.is_anthropic:
                    self.assertEqual(answer.error["code"], "context_length_exceeded")
        self.refused_by(EMBEDDINGS, {"input": [[5], [5] * 2000]}, param="input")


class Leaving(Threats):
    def test_clients_of_any_dialect_may_leave_at_any_point(self):
        def leave(dialect):
            data = json.dumps(dialect.of(**({dialect.max_tokens: 300, "ignore_eos": True, "stream": True} if dialect.is_sampled else {}))).encode()
            whole = f"POST {dialect.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
            for n in range(0, len(whole) + 1, 5):
                with self.server.connect() as s:
                    s.sendall(whole[:n])
        in_parallel(*[lambda d=d: leave(d) for d in DIALECTS])
        for _ in range(500):
            page = self.server.metrics()
            if not any(page.value("kvik_kv_pages", state=s) for s in ("leased", "sealed")):
                return
        self.fail("pages stay leased")


if __name__ == "__main__":
    unittest.main()
