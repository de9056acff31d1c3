"""Tests hostile tools and stored conversations: they cost the server no more than others, and other requests continue."""
import json
import os
import tempfile
import unittest

import kvik  # noqa: F401, needed because it adds tools/ to the path
import scripted_model
from server import Server

TASK = "kvik-task-5"
CIRCLE = {"$ref": "#/$defs/a"}


def messages():
    return [{"role": "user", "content": f"{TASK}: go"}]


def tool_of(x, definition):
    return {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": x}, "$defs": {"a": definition}}}}


def circle(n):
    """Returns a tool whose parameter schema is a choice of n references to itself."""
    return tool_of(CIRCLE, {"anyOf": [CIRCLE] * n})


class Schemas(unittest.TestCase):
    """Each request must finish within 30 s, although the number of paths through the references is exponential."""

    def answer(self, answers, format, tool, **fields):
        with tempfile.TemporaryDirectory() as folder:
            scripted_model.write(f"{folder}/x.gguf", answers, TASK, format)
            with Server(f"{folder}/x.gguf", "--kv-memory", "16MiB", "--threads", "1") as server:
                body = {"messages": messages(), "tools": [tool], "max_tokens": 400, **fields}
                answer = server.request("POST", "/v1/chat/completions", body, timeout=30)
                self.assertEqual(server.request("GET", "/health", timeout=5).status, 200)
                return answer

    def test_recursive_references_do_not_block_the_network_thread(self):
        for format in ("xml", "hermes"):
            with self.subTest(format):
                answer = self.answer(["I would rather talk."], format, circle(64), tool_choice="required")
                self.assertEqual(answer.status, 400)
                self.assertIn("refers to itself", answer.error["message"])

    def test_recursive_references_do_not_block_the_engine(self):
        message = self.answer([scripted_model.call("f", {"x": "1"}, "xml")], "xml", circle(64)).json["choices"][0]["message"]
        self.assertEqual(message["tool_calls"][0]["function"]["name"], "f")

    def test_a_bare_call_that_matches_no_recursive_schema_stays_text(self):
        words = '{"name": "f", "arguments": {"x": 1}}'
        for n in (2, 10):
            with self.subTest(n):
                message = self.answer([words], "hermes", circle(n)).json["choices"][0]["message"]
                self.assertEqual(message["content"], words)

    def test_a_bare_call_with_too_many_comparisons_stays_text(self):
        names = [f"n{i}" for i in range(6500)]
        words = json.dumps({"name": "f", "arguments": {"x": [names[-1]] * 100}})
        tool = tool_of({"type": "array", "items": {"enum": names}}, True)
        message = self.answer([words], "hermes", tool, max_tokens=1500).json["choices"][0]["message"]
        self.assertEqual(message["content"], words)


def seconds_of(server, thread):
    """Returns the processor time of the server's threads with that name."""
    ticks = 0
    for task in os.listdir(f"/proc/{server.process.pid}/task"):
        with open(f"/proc/{server.process.pid}/task/{task}/stat") as file:
            stat = file.read()
        if f"({thread})" in stat:
            ticks += sum(map(int, stat.rsplit(")", 1)[1].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


class KeptConversations(unittest.TestCase):
    def test_a_short_request_that_goes_on_from_a_long_one_is_read_by_the_work_threads(self):
        with Server("demo", "--kv-memory", "16MiB", "--threads", "1") as server:
            turns = [{"role": ("user", "assistant")[i % 2], "content": "O"} for i in range(2001)]
            first = server.post("/v1/responses", {"input": turns, "max_output_tokens": 1, "truncation": "auto"})
            self.assertEqual(first.status, 200, first.body[:300])
            before = {name: seconds_of(server, name) for name in ("kvik-http", "kvik-work")}
            for _ in range(10):
                further = {"input": "go", "max_output_tokens": 1, "truncation": "auto", "previous_response_id": first.json["id"], "store": False}
                self.assertEqual(server.post("/v1/responses", further).status, 200)
            elapsed = {name: seconds_of(server, name) - seconds for name, seconds in before.items()}
            self.assertGreater(elapsed["kvik-work"], elapsed["kvik-http"], elapsed)


if __name__ == "__main__":
    unittest.main()
