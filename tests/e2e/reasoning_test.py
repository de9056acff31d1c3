"""Tests reasoning budgets with the demo model and a template that opens the reasoning of each answer."""
import os
import tempfile
import unittest

import kvik  # noqa: F401, needed because it adds tools/ to the path
from server import Server

OPENS = "{% for m in messages %}{{ m.content }}\n{% endfor %}{{ '<think>\n' }}{# </think> #}"
LEAVES_OPEN = "{% for m in messages %}{{ m.content }}\n{% endfor %}{# <think></think> #}"
MARK_TOKENS = 20  # more than the tokens of a mark in the demo's vocabulary


def conversation(seed=1, **more):
    return {"messages": [{"role": "user", "content": "Speak, my lord."}], "max_tokens": 60, "seed": seed, "ignore_eos": True, **more}


class ReasoningBudget(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.server = cls.start(OPENS)

    @classmethod
    def start(cls, template, *flags):
        path = os.path.join(cls.folder.name, f"{abs(hash(template))}.jinja")
        with open(path, "w") as f:
            f.write(template)
        server = Server("demo", "--threads", 1, "--kv-memory", "64MiB", "--chat-template", path, *flags)
        cls.addClassCleanup(server.__exit__)
        return server

    def chat(self, body, server=None):
        answer = (server or self.server).post("/v1/chat/completions", body)
        self.assertEqual(answer.status, 200, answer.body[:500])
        return answer.json

    def test_every_name_of_the_budget_bounds_the_reasoning(self):
        for budget in (1, 7, 25):
            for field in ({"thinking_budget": budget}, {"thinking_token_budget": budget}, {"reasoning_budget": budget},
                          {"reasoning": {"max_tokens": budget}}, {"thinking": {"type": "enabled", "budget_tokens": budget}}):
                with self.subTest(**field):
                    answer = self.chat(conversation(**field))
                    self.assertTrue(answer["choices"][0]["message"]["content"])
                    counted = answer["usage"]["completion_tokens_details"]["reasoning_tokens"]
                    self.assertTrue(budget <= counted <= budget + MARK_TOKENS, counted)

    def test_without_a_budget_the_demo_never_ends_its_reasoning(self):
        message = self.chat(conversation())["choices"][0]["message"]
        self.assertFalse(message["content"])
        self.assertTrue(message["reasoning_content"])

    def test_the_reasoning_up_to_the_limit_is_that_of_an_answer_without_a_budget(self):
        free = self.chat(conversation(temperature=0))["choices"][0]["message"]["reasoning_content"]
        bound = self.chat(conversation(temperature=0, thinking_budget=10))["choices"][0]["message"]["reasoning_content"]
        self.assertTrue(bound and free.startswith(bound.rstrip()), (free, bound))

    def test_answers_of_many_seeds_keep_it(self):
        for seed in range(30):
            answer = self.chat(conversation(seed, n=3, thinking_budget=seed))
            for choice in answer["choices"]:
                self.assertTrue(choice["message"]["content"], seed)
            self.assertLessEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 3 * (seed + MARK_TOKENS))

    def test_json_follows_the_reasoning(self):
        schema = {"type": "object", "properties": {"name": {"enum": ["Romeo", "Juliet"]}}, "required": ["name"], "additionalProperties": False}
        answer = self.chat(conversation(thinking_budget=5, response_format={"type": "json_schema", "json_schema": {"name": "it", "schema": schema}},
                                        ignore_eos=False))
        self.assertIn(answer["choices"][0]["message"]["content"], ('{"name": "Romeo"}', '{"name": "Juliet"}'))

    def test_messages_and_responses_have_it_too(self):
        body = {"messages": conversation()["messages"], "max_tokens": 60, "thinking": {"type": "enabled", "budget_tokens": 5}, "ignore_eos": True}
        blocks = self.server.post("/v1/messages", body).json["content"]
        self.assertEqual([block["type"] for block in blocks], ["thinking", "text"])
        answer = self.server.post("/v1/responses", {"input": "Speak.", "max_output_tokens": 60, "reasoning": {"max_tokens": 5}, "ignore_eos": True})
        self.assertEqual([item["type"] for item in answer.json["output"]], ["reasoning", "message"])

    def test_the_server_has_a_budget_and_a_message(self):
        server = self.start(OPENS, "--reasoning-budget", 4, "--reasoning-budget-message", " Enough now.\n")
        message = self.chat(conversation(), server)["choices"][0]["message"]
        self.assertTrue(message["reasoning_content"].rstrip().endswith("Enough now."), message)
        self.assertTrue(message["content"])

    def test_reasoning_that_never_begins_costs_nothing(self):
        server = self.start(LEAVES_OPEN)
        want = self.chat(conversation(temperature=0), server)["choices"][0]["message"]["content"]
        self.assertEqual(self.chat(conversation(temperature=0, thinking_budget=3), server)["choices"][0]["message"]["content"], want)

    def test_a_budget_that_is_not_reached_changes_nothing(self):
        free = self.chat({**conversation(temperature=0), "ignore_eos": False})["choices"][0]
        bound = self.chat({**conversation(temperature=0, thinking_budget=10 ** 6), "ignore_eos": False})["choices"][0]
        self.assertEqual((bound["message"], bound["finish_reason"]), (free["message"], free["finish_reason"]))

    def test_a_stop_token_in_the_end_mark_ends_the_answer(self):
        token = self.server.post("/tokenize", {"content": "<"}).json["tokens"][-1]
        answer = self.chat(conversation(thinking_budget=3, stop_token_ids=[token]))
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")

    def test_constrained_text_is_no_reasoning(self):
        server = self.start("{{ messages[0].content }}\n")
        for form in ({"guided_choice": ["<think>yes it is so"]}, {"guided_regex": "<think>[a-z]{30}</think>yes"}):
            answer = self.chat({**conversation(thinking_budget=2, **form), "ignore_eos": False}, server)
            self.assertEqual(answer["choices"][0]["finish_reason"], "stop")

    def test_a_message_is_plain_text_up_to_an_end_mark(self):
        server = self.start(OPENS, "--reasoning-budget", 4, "--reasoning-budget-message", " <|end|> é</think>ok")
        message = self.chat(conversation(), server)["choices"][0]["message"]
        self.assertTrue(message["reasoning_content"].endswith(" <|end|> é"), message)
        self.assertFalse(message["content"].startswith("ok"))

    def test_no_reasoning_means_none(self):
        for field in ({"reasoning_effort": "none"}, {"reasoning": {"enabled": False}}, {"thinking": {"type": "disabled"}}):
            self.assertTrue(self.chat(conversation(**field))["choices"][0]["message"]["content"], field)

    def test_wrong_budgets_are_refused(self):
        for field, name in (({"thinking_budget": -3}, "thinking_budget"), ({"reasoning": {"max_tokens": "x"}}, "reasoning.max_tokens"),
                            ({"reasoning": 3}, "reasoning")):
            answer = self.server.post("/v1/chat/completions", conversation(**field))
            self.assertEqual((answer.status, answer.json["error"]["param"]), (400, name))


if __name__ == "__main__":
    unittest.main()
