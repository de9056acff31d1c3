"""Tests the commands that use a running server: `kvik ps` and `kvik run`."""
import http.server
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import kvik
from server import Server, free_port
from terminal import chat

GREEDY = ("--temperature", 0, "-n", 24)
FLAGS = ("--threads", 1, "--kv-memory", "64MiB")


class Fake:
    """A server whose answers to GET a test wrote down: {path: (status, object)}."""

    def __init__(self, pages):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, body = pages.get(self.path, (404, {}))
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Case(unittest.TestCase):
    def refused(self, code, *args, **options):
        """Returns stderr of a run that is rejected with one sentence."""
        done = kvik.run(*args, **options)
        output = done.stderr.decode()
        self.assertEqual((done.returncode, output.count("\n"), done.stdout), (code, 1, b""), output)
        return output


class Ps(Case):
    def test_a_server_is_listed_with_what_it_uses(self):
        with Server("demo", *FLAGS, "--alias", "bard") as server:
            url = f"http://127.0.0.1:{server.port}"
            server.complete("ROMEO: " * 30)
            heading, row = kvik.output("ps", "--url", url).decode().splitlines()
            self.assertEqual(re.split(r" {2,}", heading), ["MODEL", "STATE", "CONTEXT", "KV MEMORY", "REQUESTS", "UP"])
            self.assertRegex(row, r"^demo   loaded  1024     [\d.]+ [KM]iB of 64\.00 MiB  0 running  \d+ s$")
            report = json.loads(kvik.output("ps", "--json", env={"KVIK_URL": url}))
            self.assertEqual(report["url"], url)
            model, = report["models"]
            self.assertEqual({k: model[k] for k in ("name", "state", "ctx", "kv_memory_bytes", "running", "waiting")},
                             {"name": "demo", "state": "loaded", "ctx": 1024, "kv_memory_bytes": 64 << 20, "running": 0, "waiting": 0})
            self.assertGreater(model["kv_bytes"], 0)
            self.assertLess(model["up_seconds"], 300)

    def test_states_of_several_models_are_shown_where_they_are_reported(self):
        models = [{"id": name, "state": state, "max_model_len": 4096} for name, state in
                  (("one", "loaded"), ("two", "loading"), ("three", "unloaded"), ("four", "failed"))]
        metrics = 'kvik_kv_bytes{model_name="one",state="cached"} 1048576\nkvik_requests_running{model_name="one"} 3\n'
        with Fake({"/v1/models": (200, {"data": models}), "/metrics": (200, metrics)}) as fake:
            lines = [re.split(r" {2,}", line) for line in kvik.output("ps", "--url", fake.url).decode().splitlines()[1:]]
        self.assertEqual(lines, [["one", "loaded", "4096", "1.00 MiB", "3 running", "-"], ["two", "loading", "4096", "-", "-", "-"],
                                 ["three", "unloaded", "4096", "-", "-", "-"], ["four", "failed", "4096", "-", "-", "-"]])

    def test_without_a_server_one_sentence_names_the_address(self):
        url = f"http://127.0.0.1:{free_port()}"
        self.assertEqual(self.refused(1, "ps", "--url", url), f"kvik: no server answers at {url}: Connection refused\n")
        self.assertIn("'https://x' needs TLS", self.refused(1, "ps", "--url", "https://x"))
        self.assertIn("'x:y' is not the address of a server; expected http://HOST:PORT", self.refused(2, "ps", "--url", "x:y"))

    def test_keys_are_sent(self):
        with Server("demo", *FLAGS, "--api-key", "sesame") as server:
            url = f"http://127.0.0.1:{server.port}"
            self.assertIn("API key", self.refused(2, "ps", "--url", url))
            for options in ({"env": {"KVIK_API_KEY": "sesame"}}, {}):
                more = () if options else ("--api-key", "sesame")
                self.assertIn(b"demo", kvik.output("ps", "--url", url, *more, **options))
            self.assertIn("the API key", self.refused(2, "ps", "--url", url, env={"KVIK_API_KEY": "a\nX: b"}))

    def test_a_server_that_loads_says_so(self):
        loading = {"status": "loading", "message": "the model is being loaded: 42%", "progress": 0.42}
        with Fake({"/v1/models": (503, loading)}) as fake:
            self.assertEqual(self.refused(1, "ps", "--url", fake.url), "kvik: the model is being loaded: 42%\n")

    def test_names_from_a_server_cannot_control_the_terminal(self):
        with Fake({"/v1/models": (200, {"data": [{"id": "a\x1b[31mb\n"}]})}) as fake:
            output = kvik.output("ps", "--url", fake.url)
        self.assertNotIn(b"\x1b", output)
        self.assertEqual(output.count(b"\n"), 2)


class Run(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", *FLAGS)
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def n_finished(self):
        return sum(self.server.metrics().values("kvik_requests_finished_total", "reason").values())

    def both(self, *args, **options):
        """Returns stdout of a run that uses the server, and of one that loads the model."""
        before = self.n_finished()
        remote = kvik.run("run", "demo", *args, **options, env={"KVIK_URL": self.url})
        self.assertEqual(remote.returncode, 0, remote.stderr)
        deadline = time.monotonic() + 30  # the server counts it after it has sent the last event
        while self.n_finished() == before and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(self.n_finished(), before + 1)
        local = kvik.run("run", "demo", *args, "--local", **options, env={"KVIK_URL": self.url})
        self.assertEqual(self.n_finished(), before + 1)
        return remote.stdout.decode(), local.stdout.decode()

    def test_answers_are_those_of_the_model_here(self):
        for args in (("-p", "ROMEO:"), ("Who art thou?",), ("--tokens", "1,2,3"), ("Speak.", "--system", "You are a king."),
                     ("-p", "ROMEO:", "--ids"), ("-p", "ROMEO:", "--stop", ","), ("-p", "A", "--regex", "[a-f]{8}"),
                     ("-p", "ROMEO:", "--temperature", 0.9, "--seed", 7, "--top-k", 9, "--repetition-penalty", 1.2)):
            with self.subTest(args=args):
                remote, local = self.both(*(("-n", 24) if "--temperature" in args else GREEDY), *args)
                self.assertEqual(remote, local)
                self.assertGreater(len(remote), 5)

    def test_a_pipe_and_a_message_go_together(self):
        remote, local = self.both("What is this?", *GREEDY, stdin=b"A plague on both your houses.")
        self.assertEqual(remote, local)

    def test_a_schema_reaches_the_server(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, file)
            file.flush()
            remote, local = self.both("Answer.", *GREEDY, "--json-schema", file.name, "--whitespace", "compact")
        self.assertEqual(remote, local)
        self.assertRegex(remote, r'^\{"a":')

    def test_stats_are_those_of_the_server(self):
        ask = ("run", "demo", "-p", "Once more unto the breach, dear friends, once more. " * 4, *GREEDY, "--stats", "--url", self.url)
        kvik.output(*ask)
        output = kvik.run(*ask).stderr.decode()
        self.assertRegex(output, r"^prompt (\d+) tokens \([1-9]\d* cached: .*, TTFT [\d.]+ ms; 24 tokens generated, ITL [\d.]+ ms")

    def test_another_name_is_an_error_if_the_server_is_named(self):
        self.assertEqual(self.refused(1, "run", "hamlet", "-p", "x", "--url", self.url), f"kvik: {self.url} does not serve 'hamlet'; it serves demo\n")
        url = f"http://127.0.0.1:{free_port()}"
        self.assertIn(f"no server answers at {url}", self.refused(1, "run", "demo", "-p", "x", "--url", url))

    def test_flags_of_the_model_load_it_here(self):
        before = self.n_finished()
        for flags in (("--ctx", 512), ("-t", 1), ("--kv-type", "bf16"), ("--speculate", "off"), ("--no-cache",)):
            self.assertIn("does not change a running server", self.refused(2, "run", "demo", "-p", "x", *flags, "--url", self.url))
            kvik.output("run", "demo", "-p", "x", "-n", 1, *flags, "--local", "--url", self.url)
        self.assertEqual(self.n_finished(), before)

    def test_a_refusal_is_the_server_s_sentence(self):
        output = self.refused(1, "run", "demo", "-p", "word " * 3000, "--url", self.url)
        self.assertIn("maximum context length is 1024 tokens", output)

    def test_a_server_that_dies_is_an_error(self):
        with Server("demo", "--threads", 1, "--kv-memory", "16MiB", env={"KVIK_ISA": "scalar"}) as server:
            process = subprocess.Popen(kvik.command("run", "demo", "-p", "ROMEO:", "-n", 900, "--ignore-eos", "--url", f"http://127.0.0.1:{server.port}"),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=kvik.environment())
            self.assertTrue(process.stdout.read(1))
            server.process.kill()
            server.process.wait()
            _, output = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output.count(b"\n")), (1, 1), output)
        self.assertRegex(output.decode(), r"^kvik: the connection to http://127\.0\.0\.1:\d+ broke: ")

    def test_ctrl_c_cancels_the_request(self):
        with Server("demo", "--threads", 1, "--kv-memory", "16MiB", env={"KVIK_ISA": "scalar"}) as server:
            process = subprocess.Popen(kvik.command("run", "demo", "-p", "ROMEO:", "-n", 900, "--ignore-eos", "--url", f"http://127.0.0.1:{server.port}"),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=kvik.environment())
            self.assertTrue(process.stdout.read(1))
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130)
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                if server.metrics().value("kvik_requests_finished_total", reason="cancelled") == 1:
                    return
                time.sleep(0.02)
            self.fail("the request was not cancelled")


class Chat(unittest.TestCase):
    def test_a_chat_is_the_same_over_a_server(self):
        with tempfile.TemporaryDirectory() as home, Server("demo", *FLAGS) as server:
            url = f"http://127.0.0.1:{server.port}"
            answers = []
            for where in (url, "none"):
                with chat(home, "--temperature", 0, KVIK_URL=where) as t:
                    self.assertEqual(f"demo of {url}, 1024 tokens of context" in t.screen(), where == url)
                    answers.append([t.enter("Who art thou?"), t.enter("And thy father?"), t.enter("/regen")])
                    self.assertRegex(t.enter("/show"), r"context +\d+ of 1024 tokens, 4 messages")
                    self.assertRegex(t.enter("/stats"), r"3 answers · \d+ tokens")
            self.assertEqual(answers[0], answers[1])

    def test_a_server_that_went_away_is_a_sentence_and_the_chat_goes_on(self):
        with tempfile.TemporaryDirectory() as home, Server("demo", *FLAGS) as server:
            with chat(home, "--temperature", 0, KVIK_URL=f"http://127.0.0.1:{server.port}") as t:
                t.enter("Who art thou?")
                server.process.kill()
                server.process.wait()
                self.assertIn("no server answers at", t.enter("And thy father?"))
                self.assertIn("Saved 2 messages", t.enter("/save ~/chat.json"))
                self.assertTrue(os.path.exists(os.path.join(home, "chat.json")))


if __name__ == "__main__":
    unittest.main()
