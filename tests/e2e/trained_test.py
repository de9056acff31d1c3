"""Trained models: sensible answers, the perplexity of a text, and the same bits however they are computed."""
import json
import unittest

import kvik
import trained
from chat_oracle import environment, oracle
from server import Server

CALL = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": {"zone": "CET"}}}
TOOL = {"type": "function", "function": {"name": "clock", "description": "The time.", "parameters": {
    "type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}}}
CONVERSATIONS = (
    {"messages": [{"role": "user", "content": "Hello"}]},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|> é\n"}]},
    {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}, {"role": "user", "content": "And 2+2?"}]},
)
WITH_TOOLS = (
    {"messages": [{"role": "user", "content": "What time is it?"}], "tools": [TOOL]},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What time is it?"},
                  {"role": "assistant", "content": "", "tool_calls": [CALL]},
                  {"role": "tool", "content": "12:00", "tool_call_id": "c1"}], "tools": [TOOL]},
)

# Perplexity of tests/e2e/texts/harbor.txt in windows of 256 tokens, measured with f32 pages, and the tolerance: other instruction sets and int8 pages
# change it by less than 1%, a wrong RoPE base or a missing bias by far more.
PERPLEXITY = {"smollm2": 36.71, "gemma3": 30.86, "qwen2.5-coder": 30.51}
TOLERANCE = 0.02


class Trained:
    """The tests of every model; a subclass sets its name."""

    def setUp(self):
        self.path = trained.model(self.name)
        with open(trained.TEXT, encoding="utf-8") as f:
            self.text = f.read()

    def test_perplexity_of_a_text_is_in_its_range(self):
        for kv_type in ("f32", "int8"):
            with self.subTest(kv_type=kv_type):
                score = json.loads(kvik.output("perplexity", self.path, trained.TEXT, "--ctx", 256, "--kv-type", kv_type, "--json"))
                self.assertEqual(score["windows"], 3)
                self.assertAlmostEqual(score["perplexity"] / PERPLEXITY[self.name], 1, delta=TOLERANCE)

    def test_logits_are_the_same_bits_for_any_chunk_thread_count_and_batch(self):
        tokens = kvik.output("tokenize", self.path, self.text[:1200]).decode().split()
        want = kvik.logits_text(self.path, tokens)
        for options in ({"threads": 1}, {"chunk": 1}, {"chunk": 37}, {"beside": 2, "chunk": 64}, {"no_cache": True}):
            with self.subTest(**options):
                self.assertEqual(kvik.logits_text(self.path, tokens, **options), want)

    def test_a_greedy_answer_is_the_same_text_without_cache_and_with_other_threads(self):
        ask = ("run", self.path, "-p", self.text[:300], "--max-tokens", 24, "--temperature", 0)
        want = kvik.output(*ask)
        self.assertEqual(kvik.output(*ask, "--no-cache"), want)
        self.assertEqual(kvik.output(*ask, "--threads", 1, "--speculate", "off"), want)


class Chats:
    """The tests of a model with a chat template."""
    conversations = CONVERSATIONS

    def test_prompts_are_those_of_apply_chat_template(self):
        template = oracle(environment(), kvik.gguf_file.read_metadata(self.path)["tokenizer.chat_template"][1].decode())
        with Server(self.path) as server:
            for conversation in self.conversations:
                with self.subTest(conversation=conversation):
                    want = template({"tools": None, "add_generation_prompt": True, **conversation})["text"]
                    sent = json.loads(json.dumps(conversation))
                    for message in sent["messages"]:
                        for call in message.get("tool_calls", ()):  # in the form that clients send
                            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
                    self.assertEqual(server.post("/apply-template", sent).json["prompt"], want)


class SmolLM2(Chats, Trained, unittest.TestCase):
    name = "smollm2"

    def test_answers_of_a_chat_are_sensible(self):
        # Questions whose answers do not depend on the KV type; for "The capital of France" two first tokens are nearly tied.
        for question, word in (("What is the capital of Japan?", "Tokyo"), ("What is 2+2?", "4"), ("How many days are in a week?", "7"),
                               ("What is the opposite of hot?", "cold")):
            with self.subTest(question=question):
                answer = kvik.output("run", self.path, question, "--temperature", 0, "--max-tokens", 60).decode()
                self.assertIn(word, answer)
                self.assertNotIn("<|", answer)

    def test_a_short_answer_ends_by_itself(self):
        answer = kvik.output("run", self.path, "What is the capital of Japan?", "--temperature", 0, "--max-tokens", 60).decode()
        self.assertEqual(answer.strip(), "The capital of Japan is Tokyo.")


class Gemma3(Trained, unittest.TestCase):
    name = "gemma3"

    def test_a_base_model_continues_a_text(self):
        text = kvik.output("run", self.path, "-p", "Monday, Tuesday, Wednesday,", "--temperature", 0, "--max-tokens", 12).decode()
        self.assertTrue(text.startswith(" Thursday, Friday, Saturday"), text)


class QwenCoder(Chats, Trained, unittest.TestCase):
    name = "qwen2.5-coder"
    conversations = CONVERSATIONS + WITH_TOOLS

    def test_it_writes_a_function_that_runs(self):
        answer = kvik.output("run", self.path, "Write a Python function reverse(s) that reverses a string. Only code.", "--temperature", 0,
                             "--max-tokens", 200).decode()
        code = answer.split("```python\n", 1)[1].split("```", 1)[0]
        self.assertRegex(code, r"def reverse\(s\):\n\s+return s\[::-1\]")

    def test_it_fills_a_gap_in_a_file(self):
        before, after = "def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n"
        with Server(self.path) as server:
            filled = server.post("/infill", {"input_prefix": before, "input_suffix": after, "n_predict": 16, "temperature": 0}).json
            self.assertEqual((filled["content"], filled["stop_type"]), ("a + b", "eos"))
            answer = server.post("/v1/completions", {"prompt": before, "suffix": after, "max_tokens": 16, "temperature": 0}).json
            self.assertEqual(answer["choices"][0]["text"], "a + b")
            extra = [{"filename": "names.py", "text": "def surname_of_person(person):\n    return person.surname\n"}]
            filled = server.post("/infill", {"input_prefix": "from names import surname_", "input_suffix": "\n", "input_extra": extra,
                                             "n_predict": 8, "temperature": 0}).json
            self.assertTrue(filled["content"].startswith("of_person"), filled["content"])


if __name__ == "__main__":
    unittest.main()
