"""Sends BFCL questions to Qwen2.5-Coder 1.5B: forced calls, voluntary calls, and no calls if no tool fits. Runs with ./test --models.

KVIK_BFCL_QUESTIONS is the number of questions per category (default: 20; 0: all).
"""
import os
import re
import unittest

import bfcl
import packages
import trained
from server import Server

QUESTIONS = int(os.environ.get("KVIK_BFCL_QUESTIONS", "20")) or None


class Bfcl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        model = trained.model("qwen2.5-coder")
        cls.data = os.path.join(packages.folder("bfcl-eval", "--no-deps"), "bfcl_eval", "data")
        cls.server = Server(model, "--ctx", "8192", "--kv-memory", "300MiB", "--threads", "2")
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        if hasattr(cls, "server"):
            cls.server.__exit__()

    def check(self, category, choice, at_least, count="n_right"):
        tally = bfcl.run(self.url, self.data, category, QUESTIONS, tool_choice=choice)
        print(f"{category}, {choice}: {tally.n_right} of {tally.n} right, {tally.n_calls} calls, {tally.n_cut} cut by length", flush=True)
        self.assertEqual(tally.n_cut, 0, tally.wrong)
        self.assertGreaterEqual(getattr(tally, count), at_least * tally.n, tally.wrong)

    def test_required_simple(self):
        self.check("simple_python", "required", 0.95)

    def test_required_multiple(self):
        self.check("multiple", "required", 0.95)

    @unittest.expectedFailure
    def test_required_parallel(self):
        """Qwen2.5-Coder 1.5B makes only one call by itself (see below), as it does without constraints."""
        self.check("parallel", "required", 0.85)

    def test_required_parallel_calls_are_wanted_ones_and_none_comes_twice(self):
        """The model makes 14 of 20 wanted calls with int8 and bf16 pages, 13 with f32 pages, and 11 in free answers. In the others it joins the values of
        two calls ("Taylor Swift, Maroon 5") or invents one."""
        self.check("parallel", "required", 0.65, "n_wanted")

    def test_required_calls_end_where_the_model_ends(self):
        """After the forced calls the model could continue, but it ends even when it is not constrained."""
        for _, messages, tools, _ in bfcl.questions(self.data, "parallel", 6):
            choice = bfcl.ask(self.url, messages, tools, tool_choice="required", return_token_ids=True)
            self.assertEqual(choice["finish_reason"], "tool_calls")
            prompt = self.server.post("/tokenize", {"messages": messages, "tools": tools}).json["tokens"]
            free = self.server.complete(prompt + choice["token_ids"], max_tokens=8)["choices"][0]
            self.assertEqual((free["text"], free["finish_reason"]), ("", "stop"))

    def test_auto_simple(self):
        self.check("simple_python", "auto", 0.90)

    def test_auto_irrelevance_invents_no_call(self):
        """Every call in the answer is text that the model generated."""
        asked = bfcl.answers(self.url, self.data, "irrelevance", QUESTIONS, tool_choice="auto", return_token_ids=True)
        for name, choice, _ in asked:
            with self.subTest(question=name):
                self.assertNotEqual(choice["finish_reason"], "length")
                text = self.server.post("/detokenize", {"tokens": choice["token_ids"]}).json["content"]
                for call, _ in bfcl.calls_of(choice):
                    self.assertRegex(text, r'"name":\s*"%s"' % re.escape(call))


if __name__ == "__main__":
    unittest.main()
