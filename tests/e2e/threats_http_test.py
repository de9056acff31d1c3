"""Tests hostile requests: each gets the right status, and the next normal request is answered as usual.

The numbers in test names group attacks: HTTP 1–9, JSON 10–13, sampling 14–18, text 19 and 20.
"""
import json
import resource
import socket
import time
import unittest

import kvik
from server import Server, events, in_parallel, read_all, status_of

PROMPT = "ROMEO:\nO, speak again"
HUGE = 2**63


def post(body, *headers):
    """Returns the bytes of a POST to /v1/completions with Connection: close."""
    lines = ["POST /v1/completions HTTP/1.1", "Host: localhost", "Connection: close", "Content-Type: application/json", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def sized(body):
    return post(body, f"Content-Length: {len(body)}")


def chunked(*pieces):
    return post(b"".join(pieces), "Transfer-Encoding: chunked")


class Threats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", "--max-connections", 1024)
        cls.want = cls.server.text(PROMPT)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            assert cls.server.stop() == 0, cls.server.said()

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), "the server died")
        self.assertEqual(self.server.text(PROMPT), self.want)

    def answers(self, status, *pieces, **options):
        got = self.server.raw(*pieces, **options)
        self.assertEqual(status_of(got), status, got[:300])
        return got

    def refused(self, body, param=None, status=400):
        """Checks that a completion is rejected with an error in OpenAI's format."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.server.post("/v1/completions", data)
        with self.subTest(body=data[:100]):
            self.assertEqual(answer.status, status, answer.body[:300])
            self.assertLessEqual({"message", "type", "param", "code"}, set(answer.error))
            self.assertTrue(answer.error["message"])
            self.assertLess(len(answer.error["message"]), 500)
            if param:
                self.assertEqual(answer.error["param"], param)
        return answer

    def refused_field(self, field, *values):
        for value in values:
            self.refused({"prompt": "x", "max_tokens": 2, field: value}, field)


class Http(Threats):
    def test_01_headers_too_long_or_too_many(self):
        self.answers(431, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 2**20 + b"\r\n\r\n")
        self.answers(431, b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X-Many: 1\r\n" * 10_000 + b"\r\n")
        self.assertIn(status_of(self.server.raw(b"GET /" + b"a" * 2**20 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")), (414, 431))

    def test_02_chunk_sizes_that_cannot_be(self):
        for size in (b"-2", b"FFFFFFFFFFFFFFFFF", b"8000000000000000", b"0x10", b"", b"zz", b"+5"):
            with self.subTest(size=size):
                self.assertIn(status_of(self.server.raw(chunked(size + b"\r\n", b"{}\r\n0\r\n\r\n"))), (400, 413))
        body = json.dumps({"prompt": PROMPT, "temperature": 0, "max_tokens": 20}).encode()
        got = self.answers(200, chunked(*(b"1\r\n%c\r\n" % b for b in body), b"0\r\n\r\n"))
        self.assertIn(json.dumps(self.want).encode(), got)

    def test_03_a_chunked_body_without_end(self):
        piece = b"100000\r\n" + b" " * 2**20 + b"\r\n"
        self.answers(413, chunked(), *[piece] * 64)

    def test_04_two_ways_to_tell_the_length(self):
        body = b'{"prompt":"x"}'
        got = self.answers(400, post(b"0\r\n\r\n" + body, f"Content-Length: {len(body)}", "Transfer-Encoding: chunked"))
        self.assertEqual(got.count(b"HTTP/1.1"), 1)
        self.answers(400, post(body, f"Content-Length: {len(body)}", "Content-Length: 5"))
        for length in ("-1", "5x", "99999999999999999999", "0x5"):
            with self.subTest(length=length):
                self.assertIn(status_of(self.server.raw(post(body, f"Content-Length: {length}"))), (400, 413))

    def test_05_a_byte_a_second(self):
        """Runs both at the same time, which takes as long as the longer timeout."""
        def send_slowly(start, rest, at_most):
            with self.server.connect(timeout=at_most) as s:
                s.sendall(start)
                deadline = time.monotonic() + at_most
                s.settimeout(1)
                while time.monotonic() < deadline:
                    try:
                        return s.recv(4096)
                    except TimeoutError:
                        s.sendall(rest)
                return b""
        header = [lambda: send_slowly(b"GET /health HT", b"T", 25)]
        body = [lambda: send_slowly(post(b"", "Content-Length: 500"), b" ", 60)] if kvik.LONG else []
        for got in in_parallel(*header, *body):
            self.assertEqual(status_of(got), 408, got)

    def test_06_a_reader_that_does_not_read(self):
        """The unread output is bounded, and other clients get their tokens as usual."""
        before = self.server.rss_bytes()
        body = json.dumps({"prompt": "x", "max_tokens": 900, "ignore_eos": True, "stream": True, "n": 8, "logprobs": 20}).encode()
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", self.server.port))
            s.sendall(sized(body))
            s.recv(1)
            started = time.monotonic()
            for _ in range(5):
                self.assertEqual(self.server.text(PROMPT), self.want)
            self.assertLess(time.monotonic() - started, 20)
            self.assertLess(self.server.rss_bytes() - before, 256 * 2**20)

    def test_07_more_connections_than_allowed(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        running, answer = self.server.open_stream(PROMPT, max_tokens=400, ignore_eos=True)
        reader = events(answer)
        next(reader)
        crowd = []
        try:
            for _ in range(1200):
                crowd.append(self.server.connect(timeout=5))
            # A client with a request is accepted; the oldest idle connections have been closed.
            self.assertEqual(self.server.get("/version").status, 200)
            self.assertEqual([read_all(s) for s in crowd[:100]], [b""] * 100)
            self.assertEqual(list(reader)[-1], "[DONE]")
        finally:
            for s in crowd:
                s.close()
            running.close()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:  # the server needs a moment to notice the disconnects
            try:
                if self.server.get("/health").status == 200:
                    break
            except OSError:
                pass
            time.sleep(0.1)

    def test_09_wrong_methods_and_paths(self):
        for method, path in (("GET", "/v1/completions"), ("DELETE", "/v1/models"), ("POST", "/health"), ("PUT", "/tokenize"), ("GET", "/detokenize")):
            answer = self.server.request(method, path)
            self.assertEqual(answer.status, 405, (method, path))
            self.assertTrue(answer.headers.get("allow"))
        for path in ("/", "/v1", "/v1/completionsx", "/../../etc/passwd", "/%2e%2e/etc/passwd", "/v1/completions/", "/health/x"):
            if path != "/":
                self.assertEqual(self.server.get(path).status, 404, path)
        for line in (b"GET\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"BREW /pot HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"):
            with self.subTest(line=line):
                self.assertIn(status_of(self.server.raw(line, timeout=20)), (400, 404, 405, 501, 505))

    def test_a_client_may_leave_at_any_point(self):
        whole = sized(json.dumps({"prompt": "x", "max_tokens": 300, "ignore_eos": True, "stream": True}).encode())
        for n in range(0, len(whole) + 1, 3):
            with self.server.connect() as s:
                s.sendall(whole[:n])

    def test_requests_may_come_in_pieces(self):
        whole = sized(json.dumps({"prompt": PROMPT, "temperature": 0, "max_tokens": 20}).encode())
        with self.server.connect() as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(0, len(whole), 7):
                s.sendall(whole[i:i + 7])
                time.sleep(0.001)
            self.assertIn(json.dumps(self.want).encode(), read_all(s))


class Json(Threats):
    def test_10_what_is_no_json(self):
        good = json.dumps({"prompt": "x", "max_tokens": 2}).encode()
        for body in (b"", b"{", good[:-1], good + b"}", b"null", b"[]", b'"x"', b"7", b"{'prompt':'x'}", b'{"prompt":"\xff\xfe"}', b'{"prompt":"\xed\xa0\x80"}',
                     b'{"prompt":"\\ud800"}', b'{"prompt":"x","temperature":NaN}', b'{"prompt":"x","temperature":Infinity}',
                     b'{"prompt":"x","temperature":1e999}', b'{"prompt":"x","temperature":-1e999}', b'{"prompt":"a\nb"}', b"\xef\xbb\xbf" + good,
                     b"[" * 100_000, b'{"a":' * 100_000, b'{"prompt":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"\0" * 100):
            self.refused(body)

    def test_11_a_body_over_the_limit(self):
        self.answers(413, post(b"", f"Content-Length: {2**40}"))
        self.answers(413, post(b"", f"Content-Length: {33 * 2**20}"), b" " * 2**20)

    def test_12_prompts_missing_empty_or_of_a_wrong_type(self):
        self.refused({}, "prompt")
        for prompt in (None, 7, True, {}, [], [[]], [1.5], [1, "x"], ["x", 1], [[1], "x", None], [None]):
            self.refused({"prompt": prompt}, "prompt")
        for field, values in {"stream": ("yes", 1), "echo": ("no",), "stop": (7, [7], {}), "n": ("2", 1.5, []), "max_tokens": ("5", 1.5, []),
                              "temperature": ("hot", [], True), "logit_bias": ([1], "x", {"x": 1}, {"5": "much"}), "seed": ("x", 1.5),
                              "model": (7, []), "logprobs": ("3", -1, 1.5), "prompt_logprobs": ("3", -1, 21, True), "stream_options": ("x", 7)}.items():
            self.refused_field(field, *values)

    def test_12_a_million_of_anything(self):
        self.refused({"prompt": "x", "stop": ["s"] * 1_000_000}, "stop")
        self.refused({"prompt": ["x"] * 1_000_000}, "prompt")
        self.refused({"prompt": [5] * 1_000_000})
        self.refused({"prompt": "x", "stop_token_ids": [5] * 1_000_000}, "stop_token_ids")
        self.refused({"prompt": "x", "logit_bias": {str(i): 1 for i in range(1_000_000)}}, "logit_bias")
        self.assertEqual(self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, **{f"f{i}": i for i in range(100_000)}}).status, 200)

    def test_13_another_model(self):
        self.assertEqual(self.refused({"prompt": "x", "model": "gpt-17"}, "model", 404).error["code"], "model_not_found")


class Sampling(Threats):
    def test_14_counts_out_of_range(self):
        self.refused_field("n", 0, -1, 2**31, HUGE, 10_000)
        self.refused_field("best_of", 2**31, -1)
        self.refused_field("max_tokens", -2, 0, 1e300)
        self.refused_field("min_tokens", -1, 3)
        clamped = self.server.post("/v1/completions", {"prompt": [1] * 1000, "max_tokens": HUGE - 1, "temperature": 0, "ignore_eos": True})
        self.assertIn(clamped.status, (200, 400))

    def test_15_numbers_out_of_range(self):
        self.refused_field("temperature", 1e6, -1, -0.001)
        self.refused_field("top_p", -1, 0, 1.1)
        self.refused_field("min_p", -1, 1.1)
        self.refused_field("top_k", -2, 1.5, 2**40)
        self.refused_field("repetition_penalty", 0, -1, 1e9)
        self.refused_field("presence_penalty", -2.1, 2.1)
        self.refused_field("frequency_penalty", -2.1, 2.1)

    def test_16_ids_outside_the_vocabulary(self):
        self.refused_field("logit_bias", {"2048": 1}, {"-1": 1}, {str(2**32 + 5): 1}, {"5": 101}, {"5": -101}, {"": 1}, {"5 ": 1})
        self.refused_field("stop_token_ids", [2048], [-1], [2**32 + 5], [1.5], ["5"])
        for prompt in ([2048], [5, -1], [2**32 + 5], [2**63]):
            self.refused({"prompt": prompt, "max_tokens": 2}, "prompt")

    def test_17_more_logprobs_than_are_given(self):
        self.refused_field("logprobs", 21, 2**31, HUGE)

    def test_18_a_prompt_over_the_context(self):
        for prompt in ([5] * 1025, "word " * 5000):
            for stream in (False, True):
                answer = self.refused({"prompt": prompt, "max_tokens": 2, "stream": stream})
                self.assertEqual(answer.error["code"], "context_length_exceeded")


class Text(Threats):
    def test_19_a_megabyte_of_the_same_takes_linear_time(self):
        for text in ("a", " ", "\n", "\u4eca", "0", "'", "e\u0301", "\U0001f600", "ab ", "\t "):
            long = text * (2**20 // len(text.encode()))
            with self.subTest(text=text):
                started = time.monotonic()
                answer = self.server.post("/tokenize", {"content": long, "add_special": False})
                elapsed = time.monotonic() - started
                self.assertEqual(answer.status, 200)
                self.assertLess(elapsed, 5)
                if text in ("a", "\u4eca"):
                    some = answer.json["tokens"][:100_000]  # the maximum of a request
                    back = self.server.post("/detokenize", {"tokens": some}).json["content"].rstrip("\ufffd")
                    self.assertTrue(long.startswith(back))
                    self.assertTrue(len(back) > 30_000 or back == long)

    def test_19_a_long_prompt_does_not_hold_up_others(self):
        long = "a" * 2**20
        results = in_parallel(lambda: self.server.post("/v1/completions", {"prompt": long}).status,
                              *[lambda: self.server.text(PROMPT)] * 4)
        self.assertEqual(results, [400] + [self.want] * 4)

    def test_20_nul_is_a_character(self):
        ids = self.server.post("/tokenize", {"content": "a\0b", "add_special": False}).json["tokens"]
        self.assertEqual(self.server.post("/detokenize", {"tokens": ids}).json["content"], "a\0b")
        self.server.complete("a\0b", max_tokens=2)

    def test_20_lone_surrogates_are_refused(self):
        for path, body in (("/tokenize", b'{"content":"\\udc00"}'), ("/tokenize", b'{"content":"a\\ud800b"}'), ("/v1/completions", b'{"prompt":"\\ud83d"}')):
            self.assertEqual(self.server.post(path, body).status, 400, body)

    def test_20_special_tokens_in_plain_text_are_plain_text(self):
        ids = self.server.post("/tokenize", {"content": "<|end|>", "add_special": False}).json["tokens"]
        self.assertTrue(all(i < 2045 for i in ids), ids)

    def test_other_routes_refuse_what_is_malformed(self):
        for path, body in (("/tokenize", b"{}"), ("/tokenize", b'{"content":7}'), ("/tokenize", b"{"), ("/detokenize", b"{}"), ("/detokenize", b'{"tokens":"5"}'),
                           ("/detokenize", b'{"tokens":[-1]}'), ("/detokenize", b'{"tokens":[1.5]}'), ("/detokenize", b'{"tokens":[99999999999]}')):
            answer = self.server.post(path, body)
            self.assertEqual(answer.status, 400, (path, body))
            self.assertTrue(answer.error["message"])


if __name__ == "__main__":
    unittest.main()
