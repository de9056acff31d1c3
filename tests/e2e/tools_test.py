"""Tests tools and state as agents use them with the real server: calls in the model's own tokens, stored responses, side requests."""
import json
import os
import tempfile
import threading
import time
import unittest

import kvik
import scripted_model
from server import Server

TASK = "kvik-task-5"
ENUM = {"type": "string", "enum": ["red", "green"]}
PAINT = {"type": "function", "function": {"name": "paint", "parameters": {
    "type": "object", "properties": {"colour": ENUM, "coats": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["colour", "coats"],
    "additionalProperties": False}}}
STOP = {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
USER = [{"role": "user", "content": f"{TASK}: paint it."}]


class Scripted(unittest.TestCase):
    """Runs a server with a scripted model for the class."""
    answers = ["I would rather talk."]
    format = "hermes"
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = f"{cls.folder.name}/scripted.gguf"
        scripted_model.write(cls.model, cls.answers, TASK, cls.format)
        cls.server = Server(cls.model, "--kv-memory", "64MiB", "--threads", "1", *cls.flags)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.folder.cleanup()

    def chat(self, **fields):
        answer = self.server.post("/v1/chat/completions", {"messages": USER, "tools": [PAINT, STOP], "max_tokens": 1000, **fields})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["choices"][0]

    def stream(self, **fields):
        """Returns the events of a streamed chat."""
        answer = self.server.post("/v1/chat/completions", {"messages": USER, "max_tokens": 1000, "stream": True, **fields})
        self.assertEqual(answer.status, 200, answer.body)
        data = [line[6:] for line in answer.body.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(each) for each in data if each != "[DONE]"]

    def check_paint(self, call):
        arguments = json.loads(call["function"]["arguments"])
        self.assertEqual(call["function"]["name"], "paint")
        self.assertIn(arguments["colour"], ENUM["enum"])
        self.assertIn(arguments["coats"], range(1, 10))


class ForcedCalls(Scripted):
    def test_a_named_tool_is_called_once_by_its_schema(self):
        choice = self.chat(tool_choice={"type": "function", "function": {"name": "paint"}})
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(len(choice["message"]["tool_calls"]), 1)
        self.check_paint(choice["message"]["tool_calls"][0])

    def test_one_call_where_parallel_ones_are_not_wanted(self):
        for seed in range(5):
            choice = self.chat(tool_choice="required", parallel_tool_calls=False, seed=seed, temperature=2)
            self.assertEqual(len(choice["message"]["tool_calls"]), 1)

    def test_required_calls_may_be_several(self):
        most = 0
        for seed in range(30):
            choice = self.chat(tool_choice="required", seed=seed, temperature=5)
            calls = choice["message"]["tool_calls"]
            for call in calls:
                if call["function"]["name"] == "paint":
                    self.check_paint(call)
            most = max(most, len(calls))
            if most > 1:
                return
        self.fail("no answer held two calls")

    def test_a_strict_tool_leaves_text_alone(self):
        strict = {"type": "function", "function": {**PAINT["function"], "strict": True}}
        choice = self.chat(tools=[strict])
        self.assertEqual(choice["message"]["content"], self.answers[0])
        self.assertEqual(choice["finish_reason"], "stop")

    def test_messages_and_responses_force_calls_too(self):
        tool = {"name": "paint", "input_schema": PAINT["function"]["parameters"]}
        answer = self.server.post("/v1/messages", {"messages": USER, "max_tokens": 1000, "tools": [tool],
                                                   "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}).json
        self.assertEqual(answer["stop_reason"], "tool_use", answer)
        self.assertIn(answer["content"][0]["input"]["colour"], ENUM["enum"])
        tool = {"type": "function", **PAINT["function"]}
        answer = self.server.post("/v1/responses", {"input": USER, "tools": [tool], "tool_choice": "required", "max_tool_calls": 1}).json
        self.assertEqual([item["type"] for item in answer["output"]], ["function_call"], answer)


    def test_forbidden_calls_leave_the_prompt_as_it_is(self):
        tool = {"name": "paint", "input_schema": PAINT["function"]["parameters"]}
        routes = (("/v1/chat/completions", {"messages": USER, "tools": [PAINT, STOP]}, "none"),
                  ("/v1/messages", {"messages": USER, "tools": [tool], "max_tokens": 9}, {"type": "none"}),
                  ("/v1/responses", {"input": USER, "tools": [{"type": "function", **PAINT["function"]}]}, "none"))
        for path, body, none in routes:
            with self.subTest(path):
                first, second = (self.server.post(path, {**body, **choice}) for choice in ({}, {"tool_choice": none}))
                self.assertEqual((first.status, second.status), (200, 200), second.body)
                prompts = [sum(n for name, n in answer.json["usage"].items() if name in ("prompt_tokens", "input_tokens", "cache_read_input_tokens"))
                           for answer in (first, second)]
                self.assertEqual(*prompts)
                self.assertNotIn(b"call_", second.body)


class OwnFormat(ForcedCalls):
    """Repeats the tests with calls in XML with parameters."""
    format = "xml"


class OwnTokens(ForcedCalls):
    """Repeats the tests with a format whose markup consists of special tokens, which calls must use."""
    format = "kimi"

    def test_the_marks_are_the_models_own_tokens(self):
        ids = self.chat(tool_choice={"type": "function", "function": {"name": "stop"}}, return_token_ids=True, temperature=0)["token_ids"]
        marks = scripted_model.Script(self.answers, scripted_model.MARKS["kimi"]).marks
        self.assertEqual([i for i in ids if i in marks.values()], [marks[mark] for mark in scripted_model.MARKS["kimi"]])

    def test_the_mark_of_a_call_cannot_occur_where_calls_are_forbidden(self):
        begin = scripted_model.Script(self.answers, scripted_model.MARKS["kimi"]).marks[scripted_model.MARKS["kimi"][0]]
        wanted = {"logit_bias": {str(begin): 100}, "max_tokens": 3, "return_token_ids": True, "temperature": 0}
        self.assertIn(begin, self.chat(**wanted)["token_ids"])
        self.assertNotIn(begin, self.chat(tool_choice="none", **wanted)["token_ids"])


class Answers(Scripted):
    answers = [scripted_model.call("paint", {"colour": "red", "coats": 2}), "Painted."]

    def test_a_strict_tool_lets_a_call_through_that_keeps_to_it(self):
        strict = {"type": "function", "function": {**PAINT["function"], "strict": True}}
        self.check_paint(self.chat(tools=[strict])["message"]["tool_calls"][0])

    def test_json_that_was_asked_for_does_not_keep_a_model_from_calling(self):
        schema = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"], "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        # The markup comes in the tokenizer's own tokens, which the script does not contain, so the tokens after it are sampled at random. With strict
        # tools only calls that match their schemas can be sampled, so every seed must give a call.
        tools = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in (PAINT, STOP)]
        for seed in range(20):
            with self.subTest(seed=seed):
                calls = self.chat(response_format=form, tools=tools, seed=seed)["message"]["tool_calls"]
                self.assertEqual(calls[0]["function"]["name"], "paint")
                for call in calls:
                    if call["function"]["name"] != "stop":
                        self.check_paint(call)

    def test_a_thread_that_is_not_kept_says_so_in_anthropics_words(self):
        answer = self.server.post("/v1/messages", {"messages": USER, "max_tokens": 9,
                                                   "thread": {"type": "continue", "previous_message_id": "msg_1"}})
        self.assertEqual(answer.status, 404)
        self.assertEqual(answer.error["type"], "not_found_error")
        self.assertEqual(answer.error["details"]["error_code"], "thread_not_found")

    def test_usage_counts_draft_tokens_in_every_dialect(self):
        usage = self.server.post("/v1/responses", {"input": USER}).json["usage"]["output_tokens_details"]
        self.assertEqual(sorted(usage), ["accepted_prediction_tokens", "reasoning_tokens", "rejected_prediction_tokens"])

    def test_a_date_in_a_system_prompt_is_told_as_the_reason_of_a_miss(self):
        def ask(date):
            system = f"You are a painter.\nToday's date: {date}\n" + "Paint what you are told to paint, and nothing else. " * 20
            body = {"messages": [{"role": "system", "content": system}, {"role": "user", "content": "Hello."}], "max_tokens": 5,
                    "kvik": {"explain_cache": True}, "cache_salt": "dates"}
            return self.server.post("/v1/chat/completions", body).json["kvik"]["cache"][0]["miss"]
        ask("2026-11-21")
        miss = ask("2026-11-22")
        self.assertEqual((miss["reason"], miss["looks_like"]), ("diverged", "date"), miss)
        self.assertIn("Today's date: 2026-11-2", miss["text"]["before"])
        self.assertTrue(miss["text"]["behind"].startswith("2\nPaint"), miss)
        self.assertIsNone(ask("2026-11-22"))

    def test_what_differs_otherwise_is_no_date(self):
        def ask(name):
            body = {"messages": [{"role": "user", "content": f"My name is {name}, and I paint a house of two floors."}], "max_tokens": 5,
                    "kvik": {"explain_cache": True}, "cache_salt": "names"}
            return self.server.post("/v1/chat/completions", body).json["kvik"]["cache"][0]["miss"]
        ask("Ariel")
        miss = ask("Caliban")
        self.assertEqual(miss["reason"], "diverged")
        self.assertNotIn("looks_like", miss)
        self.assertIn("My name is", miss["text"]["before"])


class CallsInPieces(Scripted):
    """A streamed call, and one that is cut off."""
    answers = [scripted_model.call("paint", {"colour": "red", "coats": 2}) + "\n"]

    def test_a_call_that_max_tokens_cuts_is_text(self):
        """A stream has sent a part of the arguments, which does not parse."""
        whole = '{"colour": "red", "coats": 2}'
        seen = set()
        for n in range(1, 14):
            answer = self.chat(max_tokens=n, temperature=0)
            events = self.stream(tools=[PAINT], max_tokens=n, temperature=0)
            choices = [choice for event in events for choice in event.get("choices", [])]
            self.assertEqual(choices[-1]["finish_reason"], answer["finish_reason"])
            calls = [call["function"] for choice in choices for call in choice["delta"].get("tool_calls", [])]
            arguments = "".join(call.get("arguments", "") for call in calls)
            if answer["message"].get("tool_calls"):
                self.assertEqual(json.loads(arguments), json.loads(whole))
                break
            self.assertEqual(answer["finish_reason"], "length")
            self.assertTrue(self.answers[0].startswith(answer["message"]["content"]), answer)
            self.assertTrue(whole.startswith(arguments) and arguments != whole, arguments)
            seen.add(arguments)
        self.assertGreater(len(seen), 2)

    def test_arguments_are_streamed_as_they_come(self):
        events = self.stream(tools=[PAINT], temperature=0)
        deltas = [call["function"].get("arguments", "") for event in events for choice in event.get("choices", [])
                  for call in choice["delta"].get("tool_calls", [])]
        self.assertEqual(json.loads("".join(deltas)), {"colour": "red", "coats": 2})
        self.assertGreater(len([delta for delta in deltas if delta]), 2, deltas)


class BareCalls(Scripted):
    """Calls as trained models write them instead of their template's markup."""
    answers = ['```json\n{\n  "name": "paint",\n  "arguments": {\n    "colour": "red",\n    "coats": 2\n  }\n}\n```']

    def test_a_json_block_is_a_call(self):
        answer = self.chat(temperature=0)
        self.assertEqual(answer["finish_reason"], "tool_calls", answer)
        self.assertIsNone(answer["message"]["content"])
        self.check_paint(answer["message"]["tool_calls"][0])

    def test_it_stays_text_where_no_such_tool_is_declared(self):
        answer = self.chat(tools=[STOP], temperature=0)
        self.assertEqual(answer["message"]["content"], self.answers[0])
        self.assertEqual(answer["finish_reason"], "stop")

    def test_it_is_streamed_as_a_call(self):
        events = self.stream(tools=[PAINT], temperature=0)
        deltas = [choice["delta"] for event in events for choice in event.get("choices", [])]
        self.assertEqual([delta["content"] for delta in deltas if delta.get("content")], [])
        self.assertEqual([call["function"]["name"] for delta in deltas for call in delta.get("tool_calls", []) if "name" in call["function"]], ["paint"])

    def test_other_dialects_call_too(self):
        tool = {"name": "paint", "input_schema": PAINT["function"]["parameters"]}
        answer = self.server.post("/v1/messages", {"messages": USER, "max_tokens": 1000, "tools": [tool]}).json
        self.assertEqual([block["type"] for block in answer["content"]], ["tool_use"], answer)
        tool = {"type": "function", **PAINT["function"]}
        answer = self.server.post("/v1/responses", {"input": USER, "tools": [tool]}).json
        self.assertEqual([item["type"] for item in answer["output"]], ["function_call"], answer)


class StrictBareCalls(Scripted):
    """A model that calls without markup, with a value that the schema does not allow."""
    answers = ['{"name": "paint", "arguments": {"colour":"blue","coats":2}}']

    def test_a_strict_tool_is_held_to_its_schema(self):
        strict = {"type": "function", "function": {**PAINT["function"], "strict": True}}
        for seed in range(5):
            with self.subTest(seed=seed):
                answer = self.chat(tools=[strict], seed=seed)
                self.assertEqual(answer["finish_reason"], "tool_calls", answer)
                self.check_paint(answer["message"]["tool_calls"][0])

    def test_another_tools_call_stays_text(self):
        self.assertEqual(self.chat(temperature=0)["message"]["content"], self.answers[0])


class Overflow(Scripted):
    flags = ("--ctx", "512")

    def test_a_prompt_that_is_too_long_is_refused_in_openais_words(self):
        """litellm and LangChain search for these words to fall back to another model."""
        for path, body in (("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 2000}]}),
                           ("/v1/completions", {"prompt": "word " * 2000})):
            answer = self.server.post(path, body)
            self.assertEqual(answer.status, 400)
            self.assertEqual(answer.error["code"], "context_length_exceeded")
            self.assertRegex(answer.error["message"], r"This model's maximum context length is 512 tokens\. However, your prompt has \d+ tokens")


class KeptResponses(unittest.TestCase):
    def test_a_stored_conversation_continues_after_a_restart(self):
        with tempfile.TemporaryDirectory() as folder:
            disk = f"{folder}/tier"
            flags = ("--threads", "1", "--kv-memory", "64MiB", "--disk", disk, "--disk-size", "64MiB")
            with Server("demo", *flags) as server:
                first = server.post("/v1/responses", {"input": "Speak, my lord.", "max_output_tokens": 5}).json
                gone = server.post("/v1/responses", {"input": "Be gone.", "max_output_tokens": 5}).json
                self.assertEqual(server.request("DELETE", f"/v1/responses/{gone['id']}").status, 200)
                forgotten = server.post("/v1/responses", {"input": "Forget.", "max_output_tokens": 5, "store": False}).json
                self.assertEqual(server.stop(), 0)
            self.assertEqual(os.stat(f"{disk}/responses.sqlite").st_mode & 0o777, 0o600)
            with Server("demo", *flags) as server:
                self.assertEqual(server.get(f"/v1/responses/{first['id']}").json, first)
                for other in (gone, forgotten):
                    self.assertEqual(server.get(f"/v1/responses/{other['id']}").status, 404)
                second = server.post("/v1/responses", {"input": "Go on.", "previous_response_id": first["id"], "max_output_tokens": 5})
                self.assertEqual(second.status, 200, second.body)
                self.assertGreater(second.json["usage"]["input_tokens"], first["usage"]["input_tokens"])
                # The pages of the first turn also survive the restart.
                self.assertGreater(second.json["usage"]["input_tokens_details"]["cached_tokens"], 0)

    def test_a_damaged_file_loses_only_its_contents(self):
        with tempfile.TemporaryDirectory() as folder:
            disk = f"{folder}/tier"
            os.mkdir(disk)
            with open(f"{disk}/responses.sqlite", "wb") as f:
                f.write(b"no database at all" * 1000)
            with Server("demo", "--threads", "1", "--kv-memory", "64MiB", "--disk", disk, "--disk-size", "64MiB") as server:
                self.assertIn("responses are stored in memory only", server.said())
                first = server.post("/v1/responses", {"input": "Speak.", "max_output_tokens": 5}).json
                self.assertEqual(server.get(f"/v1/responses/{first['id']}").status, 200)


class SideRequests(unittest.TestCase):
    def test_a_title_request_does_not_wait_for_a_long_prompt(self):
        model = kvik.preset("test-llama")
        with Server(model, "--threads", "2", "--ctx", "16384", "--kv-memory", "256MiB") as server:
            title = {"prompt": "A title", "max_tokens": 1, "temperature": 0}
            server.post("/v1/completions", title)
            long_tokens = kvik.random_tokens(15_000, 256, 1)
            ended = []

            def ask():
                server.post("/v1/completions", {"prompt": long_tokens, "max_tokens": 1, "temperature": 0}, timeout=300)
                ended.append(time.monotonic())

            begun = time.monotonic()
            thread = threading.Thread(target=ask)
            thread.start()
            waits = []
            while not ended and len(waits) < 20:
                at = time.monotonic()
                server.post("/v1/completions", {**title, "prompt": f"A title for {len(waits)}"})
                waits.append(time.monotonic() - at)
            thread.join()
            elapsed = ended[0] - begun
            self.assertGreaterEqual(len(waits), 3, elapsed)
            # Each waits only for the running step, which is a small part of the prompt.
            self.assertLess(sorted(waits)[len(waits) // 2], elapsed / 5, (waits, elapsed))


if __name__ == "__main__":
    unittest.main()
