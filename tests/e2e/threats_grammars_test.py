"""Tests grammars that exceed their limits: only their own request fails, whatever else is running, and other requests are not affected."""
import json
import resource
import threading
import unittest

import kvik  # adds tools/ to the path
from hostile_grammars import EXHAUSTING, GRAMMARS
from server import Server, in_parallel

MIB = 1 << 20
PROMPT = "ROMEO:"
BODY = {"prompt": PROMPT, "max_tokens": 400, "temperature": 2, "seed": 1}
FLAGS = ("--threads", 1, "--kv-memory", "16MiB")


def field_of(name):
    return next(iter(GRAMMARS[name]))


class Exhaustion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", *FLAGS)
        cls.addClassCleanup(cls.server.__exit__)
        cls.want = cls.server.text(PROMPT)

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), "the server died")
        self.assertEqual(self.server.text(PROMPT), self.want)

    def check(self, name, answer):
        self.assertEqual(answer.status, 400, answer.body[:300])
        self.assertEqual(answer.error["param"], field_of(name))
        self.assertEqual(answer.error["code"], "unsupported")
        for word in (field_of(name), "10000000 steps", "MiB"):
            self.assertIn(word, answer.error["message"])

    def test_a_request_of_155_bytes_gets_400_and_the_server_goes_on(self):
        for name in EXHAUSTING:
            for more in ({"n": 2}, {"n": 1}, {"n": 3, "temperature": 0}):
                with self.subTest(name, **more):
                    self.check(name, self.server.post("/v1/completions", {**BODY, **more, **GRAMMARS[name]}))

    def test_requests_with_the_same_grammar_at_the_same_time_get_the_same(self):
        for name in EXHAUSTING:
            with self.subTest(name):
                bodies = [{**BODY, **GRAMMARS[name], "seed": seed, "n": 1 + seed % 2} for seed in range(4)]
                for answer in in_parallel(*(lambda b=b: self.server.post("/v1/completions", b) for b in bodies)):
                    self.check(name, answer)

    def test_a_stream_ends_with_an_error_event_at_the_same_token_each_time(self):
        for name in EXHAUSTING:
            with self.subTest(name):
                streams = [self.server.stream(PROMPT, max_tokens=400, temperature=2, seed=5, **GRAMMARS[name]) for _ in range(2)]
                other_requests = threading.Thread(target=self.server.post, args=("/v1/completions", {**BODY, "n": 4, **GRAMMARS[name]}))
                other_requests.start()
                streams.append(self.server.stream(PROMPT, max_tokens=400, temperature=2, seed=5, **GRAMMARS[name]))
                other_requests.join()
                for stream in streams:
                    self.assertEqual(stream.text, streams[0].text)
                    self.assertEqual([e["param"] for e in stream.errors], [field_of(name)])

    def test_chats_and_messages_say_so_as_well(self):
        schema = {"type": "string", "pattern": "^" + GRAMMARS["regex, repeats nested four deep"]["guided_regex"] + "$"}
        chat = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 300, "temperature": 2, "seed": 1}
        answer = self.server.post("/v1/chat/completions", {**chat, "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}})
        self.assertEqual(answer.status, 400, answer.body[:300])
        answer = self.server.post("/v1/messages", {**chat, "temperature": 1, "output_config": {"format": {"type": "json_schema", "schema": schema}}})
        self.assertEqual((answer.status, answer.error["type"]), (400, "invalid_request_error"), answer.body[:300])

    def test_metrics_count_it_and_the_memory_of_grammars(self):
        self.server.post("/v1/completions", {**BODY, **GRAMMARS[EXHAUSTING[0]]})
        page = self.server.metrics()
        self.assertGreater(page.values("kvik_requests_finished_total", "reason")["grammar_exhausted"], 0)
        memory = page.values("kvik_grammar_bytes", "kind")
        self.assertEqual(memory["matching"], 0)
        self.assertGreater(memory["compiled"], 0)
        self.assertLessEqual(memory["compiled"], page.value("kvik_grammar_compiled_max_bytes"))


class Memory(unittest.TestCase):
    def test_the_plan_states_what_grammars_may_take(self):
        plan = json.loads(kvik.output("plan", "demo", "--threads", 1, "--json"))
        self.assertGreaterEqual(plan["buffers"]["grammars"], 64 * MIB)

    @unittest.skipIf(kvik.SANITIZED, "a sanitizer ends a program that has none left")
    def test_no_memory_for_a_mask_does_not_end_the_server(self):
        """Answers may take long, because an allocator without memory asks the system again each time."""
        with Server("demo", *FLAGS) as server:
            want = server.text(PROMPT)
            for _ in range(3):
                resource.prlimit(server.process.pid, resource.RLIMIT_AS, (220 * MIB, resource.RLIM_INFINITY))
                for name in EXHAUSTING:
                    try:
                        status = server.post("/v1/completions", {**BODY, "n": 2, **GRAMMARS[name]}, timeout=4).status
                        self.assertIn(status, (400, 500, 503))
                    except OSError:
                        pass  # cut off or timed out
                    self.assertIsNone(server.process.poll(), server.said()[-2000:])
                resource.prlimit(server.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                self.assertEqual(server.text(PROMPT), want)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
