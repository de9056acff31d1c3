"""Tests prefix caching over HTTP: a prefix is computed once, is reused up to the last token, and changes no answer."""
import random
import unittest

import kvik
from server import Server, in_parallel

TOKENS = kvik.random_tokens(400, kvik.DEMO_BOS, 11)


class Prefix(unittest.TestCase):
    """Tests bf16 pages, which hold K and V as they were computed."""

    def setUp(self):
        self.server = self.enterContext(Server("demo", "--kv-type", "bf16"))

    def ask(self, tokens, **fields):
        """Returns (text, number of cached tokens)."""
        got = self.server.complete(tokens, max_tokens=24, ignore_eos=True, **fields)
        return got["choices"][0]["text"], got["usage"]["prompt_tokens_details"]["cached_tokens"]

    def alone(self, tokens):
        """Returns the text of a program with an empty cache."""
        return kvik.demo_text(kvik.greedy("demo", tokens, 24, kv_type="bf16")).decode()

    def test_the_same_prompt_is_computed_once(self):
        text, cached = self.ask(TOKENS)
        self.assertEqual(cached, 0)
        again, cached = self.ask(TOKENS)
        self.assertEqual((again, cached), (text, len(TOKENS) - 1))  # the last token is computed for its logits
        self.assertEqual(text, self.alone(TOKENS))

    def test_a_prefix_hits_up_to_the_last_token(self):
        self.ask(TOKENS)
        for n in (1, 31, 32, 33, 63, 64, 65, 200, 399):
            tokens = TOKENS[:n] + [7 if TOKENS[n] != 7 else 8] + TOKENS[:20]
            with self.subTest(n=n):
                text, cached = self.ask(tokens)
                self.assertGreaterEqual(cached, n)
                self.assertEqual(text, self.alone(tokens))

    def test_another_first_token_is_a_miss(self):
        self.ask(TOKENS)
        self.assertEqual(self.ask([TOKENS[0] + 1] + TOKENS[1:])[1], 0)

    def test_a_conversation_computes_only_what_is_new(self):
        tokens = TOKENS[:100]
        for turn in range(4):
            got = self.server.complete(tokens, max_tokens=30, ignore_eos=True, return_token_ids=True)
            if turn:
                # The whole conversation is cached, except that the last token of an answer was never computed.
                self.assertGreaterEqual(got["usage"]["prompt_tokens_details"]["cached_tokens"], len(tokens) - 11)
            tokens = tokens + kvik.greedy("demo", tokens, 30, kv_type="bf16") + TOKENS[100 + 10 * turn:110 + 10 * turn]

    def test_users_at_the_same_time_get_what_each_would_get_alone(self):
        prompts = [TOKENS[:n] + TOKENS[:k] for n in (40, 96, 300) for k in (1, 2, 33)]
        want = [self.alone(p) for p in prompts]
        calls = [lambda p=p: self.ask(p)[0] for p in prompts * 3]
        self.assertEqual(in_parallel(*calls), want * 3)

    def test_cached_tokens_are_true_for_choices_streams_and_several_prompts(self):
        def cached(prompt, **fields):
            if fields.get("stream"):
                usage = self.server.stream(prompt, ignore_eos=True, stream_options={"include_usage": True}, **fields).usage
            else:
                usage = self.server.complete(prompt, ignore_eos=True, **fields)["usage"]
            return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

        n = len(TOKENS)
        self.assertEqual(cached(TOKENS, n=3), (n, 0))  # pages shared by the request's own choices do not count as cached
        self.assertEqual(cached(TOKENS, n=3), (n, n - 1))
        self.assertEqual(cached(TOKENS, stream=True), (n, n - 1))
        self.assertEqual(cached(TOKENS, stream=True, n=2), (n, n - 1))
        other = kvik.random_tokens(100, kvik.DEMO_BOS, 12)
        self.assertEqual(cached([TOKENS, other]), (n + 100, n - 1))
        self.assertEqual(cached([5] + other, echo=True, logprobs=0), (101, 0))  # all logits are requested, so all tokens are computed
        self.assertEqual(cached([5] + other, echo=True, logprobs=0), (101, 0))

    def test_cached_tokens_exclude_pages_of_the_requests_own_choices(self):
        rng = random.Random(7)
        with Server("demo", "--kv-type", "int4", "--kv-memory", "600KiB", "--ctx", 512, "--threads", 1) as server:
            for _ in range(8):
                prompts = [[rng.randrange(3, 2045) for _ in range(rng.choice([64, 100, 128, 160]))] for _ in range(4)]
                calls = [lambda p=p: server.complete(p, max_tokens=20, n=2, temperature=1, seed=5, ignore_eos=True) for p in prompts]
                found = [got["usage"]["prompt_tokens_details"]["cached_tokens"] for got in in_parallel(*calls)]
                self.assertEqual(found, [0] * 4)  # no prompt was cached before

    def explained(self, tokens, **fields):
        got = self.server.complete(tokens, max_tokens=1, kvik={"explain_cache": True}, **fields)
        report, = got["kvik"]["cache"]
        self.assertEqual(sum(report["cached_tokens"].values()), got["usage"]["prompt_tokens_details"]["cached_tokens"])
        self.assertEqual(report["computed_tokens"], len(tokens) - sum(report["cached_tokens"].values()))
        return report

    def test_the_reason_for_a_miss_is_reported_to_the_token(self):
        self.assertEqual(self.explained(TOKENS)["miss"], {"reason": "never_seen", "position": 0})
        self.assertIsNone(self.explained(TOKENS)["miss"])
        other = 7 if TOKENS[70] != 7 else 8
        report = self.explained(TOKENS[:70] + [other] * 50)
        self.assertEqual(report["miss"], {"reason": "diverged", "position": 70, "expected_token": TOKENS[70], "got_token": other})
        self.assertEqual(report["cached_tokens"], {"ram": 70, "tiers": 0})
        self.assertIn("kvik", self.server.stream(TOKENS, kvik={"explain_cache": True}).chunks[-1])

    def test_a_pin_is_taken_and_changes_no_answer(self):
        text = self.ask(TOKENS)[0]
        self.assertEqual(self.ask(TOKENS, kvik={"pin": {"ttl": "5m"}}), (text, len(TOKENS) - 1))

    def test_another_salt_is_a_miss(self):
        self.ask(TOKENS, cache_salt="a")
        self.assertEqual([self.ask(TOKENS, cache_salt=s)[1] for s in ("b", "a", "")], [0, len(TOKENS) - 1, 0])

    def test_what_was_evicted_is_computed_again(self):
        with Server("demo", "--kv-memory", "4MiB") as server:
            first = server.text(TOKENS, max_tokens=24, ignore_eos=True)
            for seed in range(12):
                server.complete(kvik.random_tokens(500, kvik.DEMO_BOS, seed), max_tokens=5)
            self.assertEqual(server.text(TOKENS, max_tokens=24, ignore_eos=True), first)


class OpenPages(unittest.TestCase):
    """Tests quantized pages, with which each token attends to its own page in bf16. The open pages that are stored are the one in which a prompt
    ends, and the last one of a finished sequence."""

    TYPES = ("int8", "int8/int4", "int4")

    def check(self, kv_type):
        def ask(tokens, **fields):
            got = server.complete(tokens, max_tokens=24, ignore_eos=True, **fields)
            return got["choices"], got["usage"]["prompt_tokens_details"]["cached_tokens"]

        def alone(tokens):
            return kvik.demo_text(kvik.greedy("demo", tokens, 24, kv_type=kv_type)).decode()

        with Server("demo", "--kv-type", kv_type) as server:
            self.assertEqual(ask(TOKENS)[1], 0)
            self.assertEqual(ask(TOKENS)[1], len(TOKENS) - 1)
            for n in (399, 200, 65, 64, 63, 33, 32, 31, 1):  # no length equals that of an earlier prompt
                tokens = TOKENS[:n] + [7 if TOKENS[n] != 7 else 8] + TOKENS[:20]
                with self.subTest(kv_type=kv_type, n=n):
                    (choice,), cached = ask(tokens, cache_salt="")
                    self.assertEqual(cached, n if n // 32 == len(TOKENS) // 32 else n // 32 * 32)
                    self.assertEqual(choice["text"], alone(tokens))
            choices, cached = ask(TOKENS[5:90], n=3)
            self.assertEqual([choice["text"] for choice in choices], [alone(TOKENS[5:90])] * 3)
            self.assertEqual(cached, 0)  # pages shared by the request's own choices do not count as cached

    def test_a_prefix_is_found_at_whole_pages_and_changes_no_answer(self):
        for kv_type in self.TYPES:
            self.check(kv_type)

    def test_a_conversation_continues_at_its_last_token(self):
        for kv_type in self.TYPES:
            with Server("demo", "--kv-type", kv_type) as server:
                tokens, n_said = TOKENS[:7], 0
                for turn in range(6):
                    fields = {"max_tokens": 9 + 5 * turn, "ignore_eos": True, "return_token_ids": True}
                    got = server.complete(tokens, **fields)
                    usage, choice = got["usage"], got["choices"][0]
                    self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], n_said, (kv_type, turn))
                    alone = server.complete(tokens, cache_salt=f"turn {turn}", **fields)
                    self.assertEqual(alone["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
                    self.assertEqual(choice["token_ids"], alone["choices"][0]["token_ids"])
                    n_said = usage["total_tokens"] - 1  # the last token was not computed
                    tokens += choice["token_ids"] + TOKENS[turn * 20:turn * 20 + 11]

    def test_the_divergence_is_reported_to_the_token_with_open_pages(self):
        with Server("demo", "--kv-type", "int4") as server:
            def explained(tokens):
                report, = server.complete(tokens, max_tokens=1, kvik={"explain_cache": True})["kvik"]["cache"]
                return report
            self.assertEqual(explained(TOKENS)["miss"], {"reason": "never_seen", "position": 0})
            self.assertIsNone(explained(TOKENS)["miss"])
            self.assertEqual(explained(TOKENS[:100])["miss"], {"reason": "no_snapshot", "position": 96, "says": "resumed at 96 of 100: the nearest snapshot"})
            self.assertIsNone(explained(TOKENS[:100])["miss"], "its own last page was kept")
            other = 7 if TOKENS[70] != 7 else 8
            report = explained(TOKENS[:70] + [other] * 50)
            self.assertEqual(report["miss"], {"reason": "diverged", "position": 70, "expected_token": TOKENS[70], "got_token": other})
            self.assertEqual(report["cached_tokens"], {"ram": 64, "tiers": 0})


if __name__ == "__main__":
    unittest.main()
