"""Tests that answers in the formats of gpt-oss (harmony) and Mistral continue the cached prefix, with their templates and scripted models."""
import json
import os
import tempfile
import unittest

import kvik  # adds tools/ to the path
import scripted_model
from gguf_file import U32
from server import Server

TEMPLATES = os.path.join(kvik.DATA, "templates")
QUESTION = {"role": "user", "content": "Which number is in the file?"}
NEXT = {"role": "user", "content": "And after it?"}
REASONS = "The user asks for a number, so first the file must be read."
TEXT = "The file holds 48213, and nothing else was ever written."
TOOL = {"type": "function", "function": {"name": "read_file", "description": "Reads a file.", "parameters": {
    "type": "object", "properties": {"path": {"enum": ["numbers/first.txt"]}}, "required": ["path"]}}}
HARMONY = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>")
MISTRAL = ("[INST]", "[/INST]", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
           "[TOOL_CONTENT]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]")


def template(name):
    with open(os.path.join(TEMPLATES, name), encoding="utf-8") as f:
        return f.read()


def following(script, at, *parts):
    """Lets parts follow the token `at`: marks as their tokens, other texts in pieces that the tokenizer would not choose."""
    for part in parts:
        if part in script.marks:
            script.followers[at] = at = script.marks[part]
        else:
            at = script.say(at, part)
    return at


@unittest.skipUnless(os.path.isdir(TEMPLATES), "the chat templates of published models are not beside this tree")
class RestoredFormats(unittest.TestCase):
    def serve(self, script, template_name, end=None):
        if end is not None:
            script.keys["tokenizer.ggml.eos_token_id"] = (U32, script.marks[end])
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "scripted.gguf")
        scripted_model.write_script(path, script, template(template_name))
        server = Server(path, "--threads", 1, "--ctx", "8k", "--kv-memory", "64MiB", "--kv-type", "bf16")
        self.addCleanup(server.__exit__)
        return server

    def chat(self, server, messages, **more):
        answer = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 200, "temperature": 0, **more})
        self.assertEqual(answer.status, 200, answer.body[:800])
        return answer.json

    def assert_found(self, server, first, messages, **more):
        """Sends the next turn, and checks that the first one is found to its last token: K and V of that one are computed when it is read."""
        without = self.chat(server, messages, kvik={"restore_answers": False}, **more)["usage"]
        usage = self.chat(server, messages, **more)["usage"]
        n_known = first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"] - 1
        self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], n_known, usage)
        self.assertGreater(usage["kvik"]["restored_tokens"], 0)
        self.assertLess(without["prompt_tokens_details"]["cached_tokens"], n_known, "the tokens are not those that the tokenizer would choose")
        self.assertNotIn("restored_tokens", without.get("kvik", {}))

    def assert_call(self, first):
        message = first["choices"][0]["message"]
        (call,) = message["tool_calls"]
        self.assertEqual((call["function"]["name"], json.loads(call["function"]["arguments"])), ("read_file", {"path": "numbers/first.txt"}))
        return message, call

    def sent_back(self, call, **more):
        """Returns the messages with which clients go on: the arguments written in another form, and the result."""
        function = {"name": "read_file", "arguments": '{ "path" : "numbers\\/first.txt" }'}
        return [QUESTION, {"role": "assistant", "tool_calls": [{"id": call["id"], "type": "function", "function": function}], **more},
                {"role": "tool", "tool_call_id": call["id"], "content": "48213"}]


class Harmony(RestoredFormats):
    TEMPLATE = "openai-gpt-oss-120b.jinja"

    def script(self, *parts):
        """Returns a script whose answer follows "assistant", with which prompts end."""
        script = scripted_model.Script([], HARMONY)
        with Server("demo", "--threads", 1, "--kv-memory", "64MiB") as server:
            last = server.post("/tokenize", {"content": "assistant", "add_special": False}).json["tokens"][-1]
        following(script, last, *parts)
        return script

    def test_a_text_is_found(self):
        server = self.serve(self.script("<|channel|>", "final", "<|message|>", TEXT, "<|return|>"), self.TEMPLATE, end="<|return|>")
        first = self.chat(server, [QUESTION])
        self.assertEqual(first["choices"][0]["message"]["content"], TEXT)
        self.assert_found(server, first, [QUESTION, {"role": "assistant", "content": TEXT}, NEXT])

    def test_a_call_is_found_with_the_reasoning_that_was_dropped(self):
        script = self.script("<|channel|>", "analysis", "<|message|>", REASONS, "<|end|>")
        server = self.serve(script, self.TEMPLATE, end="<|return|>")
        required = {"tools": [TOOL], "tool_choice": "required"}
        first = self.chat(server, [QUESTION], **required)
        message, call = self.assert_call(first)
        self.assertEqual(message["reasoning_content"], REASONS)
        self.assert_found(server, first, self.sent_back(call), **required)


class Mistral(RestoredFormats):
    TEMPLATE = "Mistral-Small-3.2-24B-Instruct-2506.jinja"

    def script(self, *parts):
        script = scripted_model.Script([], MISTRAL)
        script.followers[following(script, script.marks["[/INST]"], *parts)] = script.end
        return script

    def test_a_text_is_found(self):
        server = self.serve(self.script(TEXT), self.TEMPLATE)
        first = self.chat(server, [QUESTION])
        self.assertEqual(first["choices"][0]["message"]["content"], TEXT)
        self.assert_found(server, first, [QUESTION, {"role": "assistant", "content": TEXT}, NEXT])

    def test_a_call_is_found_in_the_form_that_was_generated(self):
        arguments = '{"path":  "numbers/first.txt"}'
        server = self.serve(self.script("[TOOL_CALLS]", "read_file", "[CALL_ID]", "aB3dE6gH9", "[ARGS]", arguments), self.TEMPLATE)
        first = self.chat(server, [QUESTION], tools=[TOOL])
        _, call = self.assert_call(first)
        self.assert_found(server, first, self.sent_back(call), tools=[TOOL])


if __name__ == "__main__":
    unittest.main()
