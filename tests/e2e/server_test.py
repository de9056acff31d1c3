"""Tests the server over HTTP: OpenAI's completions and the other routes."""
import json
import os
import signal
import socket
import tempfile
import time
import unittest

import kvik
from server import Server, events, free_port, in_parallel

PROMPT = "ROMEO:\nO, speak again"


class Serving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo")
        cls.greedy = cls.server.text(PROMPT, max_tokens=60, ignore_eos=True)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            assert cls.server.stop() == 0, cls.server.said()


class Routes(Serving):
    def test_health_and_its_siblings(self):
        for path in ("/health", "/livez", "/readyz"):
            self.assertEqual(self.server.get(path).status, 200, path)

    def test_models(self):
        listed = self.server.get("/v1/models").json
        self.assertEqual(listed["object"], "list")
        model = listed["data"][0]
        self.assertEqual(model["object"], "model")
        self.assertEqual(self.server.get("/v1/models/" + model["id"]).json["id"], model["id"])
        self.assertEqual(self.server.get("/v1/models/gpt-17").status, 404)
        self.assertEqual(self.server.text("x", model=model["id"]), self.server.text("x"))

    def test_every_answer_has_a_request_id(self):
        for path in ("/health", "/v1/models", "/nowhere"):
            self.assertTrue(self.server.get(path).headers.get("x-request-id"), path)

    def test_tokenize_and_detokenize_undo_each_other(self):
        for text in ("ROMEO:\nO, speak", " two  blanks ", "caf\u00e9 \u4eca\u65e5 \U0001f600", ""):
            ids = self.server.post("/tokenize", {"content": text, "add_special": False}).json["tokens"]
            self.assertEqual(ids, [int(i) for i in kvik.output("tokenize", "demo", "--no-bos", "-", stdin=text.encode()).split()])
            self.assertEqual(self.server.post("/detokenize", {"tokens": ids}).json["content"], text)
        self.assertEqual(self.server.post("/detokenize", {"tokens": [1, 2048]}).status, 400)

    def test_head_is_answered_without_a_body(self):
        answer = self.server.request("HEAD", "/health")
        self.assertEqual((answer.status, answer.body), (200, b""))

    def test_a_connection_serves_one_request_after_the_other(self):
        head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
        answers = self.server.raw(head + b"\r\n" + head + b"\r\n" + head + b"Connection: close\r\n\r\n")
        self.assertEqual(answers.count(b"HTTP/1.1 200"), 3)


class Completions(Serving):
    def test_the_shape(self):
        got = self.server.complete(PROMPT, max_tokens=8, ignore_eos=True)
        self.assertTrue(got["id"])
        self.assertEqual(got["object"], "text_completion")
        self.assertIsInstance(got["created"], int)
        self.assertTrue(got["model"])
        choice, = got["choices"]
        self.assertEqual((choice["index"], choice["finish_reason"], choice["logprobs"]), (0, "length", None))
        n_prompt = len(kvik.output("tokenize", "demo", PROMPT).split())
        usage = got["usage"]
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]), (n_prompt, 8, n_prompt + 8))
        self.assertIsInstance(usage["prompt_tokens_details"]["cached_tokens"], int)

    def test_the_text_is_that_of_the_command_line(self):
        ids = kvik.output("run", "demo", "-p", PROMPT, "--max-tokens", 60, "--temperature", 0, "--ids", "--ignore-eos").split()
        self.assertEqual(self.greedy.encode(), kvik.demo_text(map(int, ids)))

    def test_a_stream_says_the_same(self):
        got = self.server.stream(PROMPT, max_tokens=60, ignore_eos=True)
        self.assertEqual(got.text, self.greedy)
        self.assertEqual(got.events[-1], "[DONE]")
        self.assertEqual(got.finish_reasons, ["length"])
        self.assertGreater(len(got.choices), 20)
        self.assertTrue(all("choices" in chunk for chunk in got.chunks))
        self.assertIsNone(got.usage)

    def test_a_stream_ends_with_usage_where_asked_for(self):
        got = self.server.stream(PROMPT, max_tokens=9, ignore_eos=True, stream_options={"include_usage": True})
        self.assertEqual(got.chunks[-1]["choices"], [])
        self.assertEqual(got.usage["completion_tokens"], 9)
        self.assertEqual(len({chunk["id"] for chunk in got.chunks}), 1)

    def test_a_seed_gives_the_same_text_again(self):
        def once(seed):
            return self.server.text(PROMPT, temperature=1, seed=seed, max_tokens=40)
        self.assertEqual(once(7), once(7))
        self.assertNotEqual(once(7), once(8))
        self.assertNotEqual(self.server.text(PROMPT, temperature=1, max_tokens=40, ignore_eos=True), self.server.text(PROMPT, temperature=1, max_tokens=40, ignore_eos=True))

    def test_top_k_of_one_is_greedy(self):
        self.assertEqual(self.server.text(PROMPT, temperature=1, top_k=1, max_tokens=60, ignore_eos=True), self.greedy)

    def test_several_choices(self):
        got = self.server.complete(PROMPT, n=3, temperature=1, seed=5, max_tokens=30, ignore_eos=True)
        self.assertEqual([c["index"] for c in got["choices"]], [0, 1, 2])
        texts = [c["text"] for c in got["choices"]]
        self.assertEqual(len(set(texts)), 3)
        self.assertEqual(got["usage"]["completion_tokens"], 90)
        streamed = self.server.stream(PROMPT, n=3, temperature=1, seed=5, max_tokens=30, ignore_eos=True)
        self.assertEqual(["".join(c["text"] for c in streamed.choices if c["index"] == i) for i in range(3)], texts)
        self.assertEqual(len(streamed.finish_reasons), 3)

    def test_several_prompts(self):
        got = self.server.complete(["ROMEO:", PROMPT], max_tokens=10)
        self.assertEqual([c["text"] for c in got["choices"]], [self.server.text(p, max_tokens=10) for p in ("ROMEO:", PROMPT)])

    def test_token_ids_are_a_prompt(self):
        ids = [int(i) for i in kvik.output("tokenize", "demo", PROMPT).split()]
        self.assertEqual(self.server.text(ids, max_tokens=60, ignore_eos=True), self.greedy)

    def test_stop_strings_wherever_tokens_end(self):
        for start in range(3, 40, 3):
            for n in (1, 2, 7, 12):
                stop = self.greedy[start:start + n]
                want = self.greedy[:self.greedy.index(stop)]
                with self.subTest(stop=stop):
                    got = self.server.complete(PROMPT, max_tokens=60, ignore_eos=True, stop=stop)["choices"][0]
                    self.assertEqual((got["text"], got["finish_reason"]), (want, "stop"))
                    streamed = self.server.stream(PROMPT, max_tokens=60, ignore_eos=True, stop=["never said", stop])
                    self.assertEqual((streamed.text, streamed.finish_reasons), (want, ["stop"]))

    def test_a_stop_string_that_never_comes_holds_nothing_back(self):
        stop = self.greedy[-3:] + "\u4eca"
        self.assertEqual(self.server.text(PROMPT, max_tokens=60, ignore_eos=True, stop=[stop]), self.greedy)

    def test_stop_token_ids(self):
        ids = [int(i) for i in kvik.output("run", "demo", "-p", PROMPT, "--max-tokens", 20, "--temperature", 0, "--ids", "--ignore-eos").split()]
        got = self.server.complete(PROMPT, ignore_eos=True, stop_token_ids=[ids[9]])
        want = kvik.demo_text(ids[:ids.index(ids[9])]).decode()
        self.assertEqual((got["choices"][0]["text"], got["choices"][0]["finish_reason"]), (want, "stop"))

    def test_echo_puts_the_prompt_first(self):
        self.assertEqual(self.server.text(PROMPT, echo=True), PROMPT + self.server.text(PROMPT))

    def test_logprobs(self):
        got = self.server.complete(PROMPT, max_tokens=12, ignore_eos=True, logprobs=3)["choices"][0]
        logprobs = got["logprobs"]
        self.assertEqual("".join(logprobs["tokens"]).replace("<|end|>", ""), got["text"])
        self.assertEqual({len(logprobs[k]) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}, {12})
        for token, logprob, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
            self.assertLessEqual(logprob, 0)
            self.assertEqual(max(top.values()), logprob)
            self.assertAlmostEqual(top[token], logprob, places=5)
        self.assertEqual(logprobs["text_offset"][1] - logprobs["text_offset"][0], len(logprobs["tokens"][0].encode()))

    def test_logprobs_are_those_of_the_logits(self):
        ids = [int(i) for i in kvik.output("tokenize", "demo", PROMPT).split()]
        row = kvik.logits("demo", ids)[0]
        want = sorted(row - row.max() - kvik.np.log(kvik.np.exp(row - row.max()).sum()))[::-1][:5]
        top = self.server.complete(ids, max_tokens=1, ignore_eos=True, logprobs=5)["choices"][0]["logprobs"]["top_logprobs"][0]
        kvik.np.testing.assert_allclose(sorted(top.values())[::-1][:5], want, atol=2e-2)

    def test_logprobs_of_the_prompt_are_those_of_the_echo(self):
        fields = {"max_tokens": 3, "ignore_eos": True, "cache_salt": "logprobs of the prompt"}
        echo = self.server.complete(PROMPT, echo=True, logprobs=4, **fields)["choices"][0]["logprobs"]
        self.server.complete(PROMPT, **fields)  # now the prompt is cached
        answer = self.server.complete(PROMPT, prompt_logprobs=4, n=2, **fields)
        ids = [int(i) for i in kvik.output("tokenize", "demo", PROMPT).split()]
        usage = answer["usage"]
        self.assertEqual((usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]), (len(ids), 0))
        got = answer["choices"][0]["prompt_logprobs"]
        self.assertEqual(answer["choices"][1]["prompt_logprobs"], got)
        self.assertEqual((len(got), got[0]), (len(ids), None))
        for id, place, token, logprob, top in zip(ids[1:], got[1:], echo["tokens"][1:], echo["token_logprobs"][1:], echo["top_logprobs"][1:]):
            self.assertEqual((place[str(id)]["decoded_token"], place[str(id)]["logprob"]), (token, logprob))
            likeliest = sorted(place.values(), key=lambda one: one["rank"])[:4]
            self.assertEqual([one["rank"] for one in likeliest], [1, 2, 3, 4])
            self.assertEqual({one["decoded_token"]: one["logprob"] for one in reversed(likeliest)}, top)
            self.assertEqual(len(place), 4 if place[str(id)]["rank"] <= 4 else 5)

    def test_logprobs_of_the_prompt_that_cannot_be_had_are_refused(self):
        for fields in ({"prompt_logprobs": 21}, {"prompt_logprobs": -1}, {"prompt_logprobs": "3"}, {"prompt_logprobs": 1, "stream": True}):
            answer = self.server.post("/v1/completions", {"prompt": PROMPT, **fields})
            self.assertEqual((answer.status, answer.error["param"]), (400, "prompt_logprobs"), fields)

    def test_logit_bias_decides(self):
        ids = self.server.post("/tokenize", {"content": "king", "add_special": False}).json["tokens"]
        got = self.server.complete(PROMPT, max_tokens=3, logit_bias={str(ids[0]): 100})["choices"][0]["text"]
        self.assertEqual(got.encode(), kvik.demo_text(ids[:1] * 3))

    def test_min_tokens_holds_the_end_back(self):
        got = self.server.complete(PROMPT, max_tokens=30, min_tokens=12, logit_bias={str(kvik.DEMO_EOS): 100})
        self.assertEqual((got["usage"]["completion_tokens"] >= 12, got["choices"][0]["finish_reason"]), (True, "stop"))

    def test_penalties_change_the_text(self):
        for field, value in (("repetition_penalty", 1.5), ("presence_penalty", 2), ("frequency_penalty", 2)):
            self.assertNotEqual(self.server.text(PROMPT, max_tokens=60, ignore_eos=True, **{field: value}), self.greedy, field)

    def test_fields_of_others_are_ignored(self):
        self.assertEqual(self.server.text(PROMPT, max_tokens=60, ignore_eos=True, user="me", cache_prompt=True, best_of=1, unheard_of={"a": [1]}),
                         self.greedy)

    def test_other_requests_do_not_change_an_answer(self):
        prompts = [PROMPT, "KING HENRY:\n" * 12, "First Citizen:", "O", "To be, or not to be, that is the " * 6]
        alone = [self.server.text(p, max_tokens=50, ignore_eos=True) for p in prompts]
        calls = [lambda p=p: self.server.stream(p, max_tokens=50, ignore_eos=True).text for p in prompts * 4]
        self.assertEqual(in_parallel(*calls), alone * 4)

    def test_an_answer_ends_where_the_context_does(self):
        got = self.server.complete([1] * 1000, max_tokens=20, ignore_eos=True)
        self.assertEqual(got["usage"]["completion_tokens"], 20)
        answer = self.server.post("/v1/completions", {"prompt": [1] * 1025, "max_tokens": 1})
        self.assertEqual((answer.status, answer.error["code"]), (400, "context_length_exceeded"))


class Clients(unittest.TestCase):
    def test_a_client_that_leaves_gives_its_pages_back(self):
        """The budget holds two whole contexts, so leaked pages would soon be missing."""
        with Server("demo", "--kv-memory", "7MiB") as server:
            want = server.text(PROMPT)
            for i in range(40):
                if i % 2:
                    connection, answer = server.open_stream(f"{i} " + PROMPT * 20, max_tokens=700, ignore_eos=True)
                    next(events(answer))
                    connection.close()
                else:
                    with server.connect() as s:
                        body = json.dumps({"prompt": f"{i} " + PROMPT * 20, "max_tokens": 700, "ignore_eos": True}).encode()
                        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                        time.sleep(0.02)
            started = time.monotonic()
            self.assertEqual(server.complete("b" * 300, max_tokens=600, ignore_eos=True)["usage"]["completion_tokens"], 600)
            self.assertEqual(server.text(PROMPT), want)
            self.assertLess(time.monotonic() - started, 20)
            started = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - started, 3)

    def test_more_than_the_budget_holds_queues(self):
        with Server("demo", "--kv-memory", "7MiB") as server:
            calls = [lambda i=i: server.complete(f"{i} {PROMPT}", max_tokens=500, ignore_eos=True) for i in range(8)]
            self.assertEqual([r["usage"]["completion_tokens"] for r in in_parallel(*calls)], [500] * 8)

    def test_running_streams_finish_before_the_server_does(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number), Server("demo") as server:
                want = server.text(PROMPT, max_tokens=700, ignore_eos=True)
                streams = [server.open_stream(PROMPT, max_tokens=700, ignore_eos=True) for _ in range(3)]
                readers = [events(answer) for _, answer in streams]
                first_events = [next(r) for r in readers]
                server.interrupt(number)
                for first, reader in zip(first_events, readers):
                    chunks = [json.loads(e) for e in [first, *reader] if e != "[DONE]"]
                    choices = [c for chunk in chunks for c in chunk["choices"]]
                    self.assertEqual("".join(c["text"] for c in choices), want)
                    self.assertEqual(choices[-1]["finish_reason"], "length")
                for connection, _ in streams:
                    connection.close()
                self.assertEqual(server.process.wait(30), 0)

    def test_a_server_that_is_told_to_stop_takes_no_new_work(self):
        with Server("demo", env={"KVIK_ISA": "scalar"}) as server:
            connection, answer = server.open_stream(PROMPT, max_tokens=900, ignore_eos=True)
            reader = events(answer)
            next(reader)
            waiting = server.connect()
            server.interrupt()
            time.sleep(0.3)
            try:
                waiting.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"x\"}")
                got = waiting.recv(65536)
            except OSError:
                got = b""
            finally:
                waiting.close()
            self.assertTrue(got == b"" or b" 503 " in got, got)
            list(reader)
            connection.close()
            self.assertEqual(server.process.wait(60), 0)

    def test_api_keys_protect_the_right_routes(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
            f.write("first-key\nsecond-key\n")
            f.flush()
            with Server("demo", "--api-key-file", f.name) as server:
                for path in ("/health", "/livez", "/readyz"):
                    self.assertEqual(server.get(path).status, 200, path)
                for method, path in (("GET", "/v1/models"), ("POST", "/v1/completions"), ("POST", "/tokenize"), ("POST", "/detokenize"), ("GET", "/nowhere")):
                    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}, {"Authorization": "first-key"},
                                    {"x-api-key": "first-ke"}, {"x-api-key": "first-key2"}):
                        answer = server.request(method, path, b"{}" if method == "POST" else None, headers=headers)
                        self.assertEqual(answer.status, 401, (path, headers))
                        self.assertTrue(answer.error["message"])
                for headers in ({"Authorization": "Bearer first-key"}, {"x-api-key": "second-key"}):
                    self.assertEqual(server.get("/v1/models", headers=headers).status, 200)

    def test_a_key_file_open_to_others_is_warned_of(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "keys")
            with open(path, "w") as f:
                f.write("first-key\n")
            for mode, words in ((0o600, ""), (0o644, "mode 0644"), (0o640, "mode 0640"), (0o622, "mode 0622")):
                os.chmod(path, mode)
                with self.subTest(mode=oct(mode)), Server("demo", "--api-key-file", path) as server:
                    warnings = [line for line in server.said().splitlines() if "API key file" in line]
                    self.assertEqual(len(warnings), 1 if words else 0, warnings)
                    if words:
                        self.assertIn(words, warnings[0])
                        self.assertIn("chmod 600", warnings[0])
                        self.assertNotIn("first-key", warnings[0])

    def test_a_public_address_wants_a_key(self):
        done = kvik.run("serve", "demo", "--host", "0.0.0.0", "--port", free_port(), timeout=30)
        self.assertIn(done.returncode, (1, 2))
        self.assertIn(b"key", done.stderr.lower())

    def test_an_address_in_use_is_named(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = s.getsockname()[1]
            done = kvik.run("serve", "demo", "--port", port, timeout=30)
            self.assertEqual(done.returncode, 1)
            self.assertIn(str(port).encode(), done.stderr)

    def test_listen_errors_are_reported_before_weights_are_loaded(self):
        for flags in (("--tls-cert", "/no/cert", "--tls-key", "/no/key"), ("--access-log", "/no/folder/log"), ("--host", "203.0.113.1", "--allow-no-key")):
            done = kvik.run("serve", "demo", "--port", "0", *flags, timeout=30)
            with self.subTest(flags=flags):
                self.assertIn(done.returncode, (1, 2))
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)

    def test_flags_that_make_no_sense_are_wrong_usage(self):
        for flag, value in (("--kv-memory", "much"), ("--kv-memory", "-1"), ("--port", "70000"), ("--kv-type", "int3"), ("--ctx", "many"),
                            ("--threads", "x")):
            done = kvik.run("serve", "demo", flag, value, timeout=30)
            self.assertEqual(done.returncode, 2, (flag, value, done.stderr))
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)

    def test_request_memory_without_room_for_a_request_is_refused(self):
        done = kvik.run("serve", "demo", "--request-memory", 1, "--port", free_port(), timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--request-memory 1 B has no room for a request, expected at least 1.00 MiB", done.stderr)
        with Server("demo", "--request-memory", "1MiB", "--kv-memory", "64MiB", "--threads", 1) as server:
            self.assertTrue(server.text("ROMEO:", max_tokens=3))
            self.assertTrue(server.stream("ROMEO:", max_tokens=3).text)

    def test_a_budget_too_small_for_anything_is_refused(self):
        done = kvik.run("serve", "demo", "--kv-memory", "1KiB", "--port", free_port(), timeout=30)
        self.assertIn(done.returncode, (1, 2))
        self.assertIn(b"1.00 KiB", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
