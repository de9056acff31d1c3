"""Tests the samplers that front ends send, over HTTP, with llama.cpp's names."""
import functools
import unittest

import kvik
from server import Server, in_parallel

PROMPT = "ROMEO:\nO, speak again, bright angel! O, speak again, bright angel! O, speak"
# Every sampler, alone and with others.
WAYS = [{"typical_p": 0.6}, {"top_n_sigma": 1.5}, {"xtc_probability": 0.5, "xtc_threshold": 0.05}, {"dynatemp_range": 0.5, "dynatemp_exponent": 0.8},
        {"mirostat": 1, "mirostat_tau": 3}, {"mirostat": 2, "mirostat_tau": 3, "mirostat_eta": 0.3}, {"dry_multiplier": 1.5, "dry_allowed_length": 1},
        {"repetition_penalty": 1.4, "repeat_last_n": 12}, {"bad_words": ["the", "and", "I"]},
        {"samplers": ["penalties", "dry", "temperature", "top_k", "xtc"], "dry_multiplier": 0.8, "top_k": 20, "xtc_probability": 0.3, "repeat_last_n": 64,
         "presence_penalty": 0.4}]


class Samplers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", "--kv-memory", "64MiB", "--speculate", 12)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            assert cls.server.stop() == 0, cls.server.said()

    def post(self, path, **body):
        return self.server.post(path, body)

    def test_a_seed_gives_the_same_text_in_company_and_without_draft_tokens(self):
        def answers(fields):
            more = {"temperature": 0.9, "seed": 11, "n": 2, "max_tokens": 60, "ignore_eos": True, **fields}
            return [choice["text"] for choice in self.server.complete(PROMPT, **more)["choices"]]

        alone = [answers({**way, "speculate": False}) for way in WAYS]
        self.assertEqual(in_parallel(*(functools.partial(answers, way) for way in WAYS)), alone)
        plain = answers({})
        for way, texts in zip(WAYS, alone):
            self.assertNotEqual(texts, plain, way)
            self.assertNotEqual(texts[0], texts[1], way)

    def test_llama_cpps_route_has_them_under_its_names(self):
        fields = {"prompt": PROMPT, "n_predict": 30, "seed": 3, "ignore_eos": True}
        plain = self.post("/completion", **fields).json["content"]
        for way in WAYS:
            way = {("repeat_penalty" if name == "repetition_penalty" else name): value for name, value in way.items()}
            answer = self.post("/completion", **fields, **way)
            self.assertEqual(answer.status, 200, answer.body)
            self.assertNotEqual(answer.json["content"], plain, way)
        off = {"typical_p": 1, "top_n_sigma": -1, "xtc_probability": 0, "dynatemp_range": 0, "mirostat": 0, "dry_multiplier": 0, "repeat_last_n": 64,
               "dry_penalty_last_n": -1, "bad_words": [], "dry_sequence_breakers": ["\n"], "adaptive_target": -1}
        self.assertEqual(self.post("/completion", **fields, **off).json["content"], plain)
        names, letters = ({"samplers": way, "top_k": 5} for way in (["top_k", "temperature"], "kt"))
        self.assertEqual(self.post("/completion", **fields, **names).json["content"], self.post("/completion", **fields, **letters).json["content"])

    def test_ollamas_options_have_its_samplers(self):
        def answer(**options):
            got = self.post("/api/generate", model="demo", prompt=PROMPT, raw=True, stream=False, options={"seed": 5, "num_predict": 30, **options})
            self.assertEqual(got.status, 200, got.body)
            return got.json["response"]

        plain = answer()
        for options in ({"typical_p": 0.3}, {"mirostat": 2, "mirostat_tau": 1.0, "mirostat_eta": 0.5}, {"repeat_penalty": 1.8, "repeat_last_n": -1}):
            self.assertNotEqual(answer(**options), plain, options)
        self.assertEqual(answer(repeat_penalty=1.8, repeat_last_n=0), plain)

    def test_a_banned_text_does_not_appear(self):
        free = self.server.text(PROMPT, max_tokens=60, ignore_eos=True)
        word = max(set(free.replace("\n", " ").split()), key=len)
        for name in ("bad_words", "banned_strings"):
            text = self.server.text(PROMPT, max_tokens=60, ignore_eos=True, **{name: [word]})
            self.assertNotEqual(text, free)
            self.assertNotIn(" " + word, text)
        ids = self.server.complete(PROMPT, max_tokens=60, ignore_eos=True, return_token_ids=True)["choices"][0]["token_ids"]
        text = self.server.complete(PROMPT, max_tokens=60, ignore_eos=True, return_token_ids=True, banned_tokens=[ids[0]])["choices"][0]
        self.assertNotIn(ids[0], text["token_ids"])

    def test_dry_ends_repetitions(self):
        def ids(**more):
            got = self.server.complete("a king", max_tokens=40, ignore_eos=True, return_token_ids=True, **more)
            return got["choices"][0]["token_ids"]

        id = ids(bad_words=["the"])[0]
        bias = {"logit_bias": {str(id): 50}}
        self.assertEqual(ids(**bias), [id] * 40)
        self.assertLess(ids(**bias, dry_multiplier=60, dry_allowed_length=1).count(id), 30)
        self.assertEqual(ids(**bias, dry_multiplier=60, dry_allowed_length=50), [id] * 40)

    def test_a_bias_of_a_text_is_that_of_its_tokens(self):
        ids = self.server.post("/tokenize", {"content": "king", "add_special": False}).json["tokens"]
        by_ids = self.server.text(PROMPT, max_tokens=5, logit_bias={str(i): 50 for i in ids})
        for bias in ([["king", 50]], [[i, 50] for i in ids]):
            self.assertEqual(self.server.text(PROMPT, max_tokens=5, logit_bias=bias), by_ids)
            self.assertEqual(self.post("/completion", prompt=PROMPT, n_predict=5, temperature=0, logit_bias=bias).json["content"], by_ids)

    def test_a_constraint_and_a_ban_hold_together(self):
        fields = {"structured_outputs": {"choice": ["a", "b"]}, "temperature": 2, "max_tokens": 10}
        for seed in range(4):
            self.assertEqual(self.server.text(PROMPT, seed=seed, bad_words=["a"], typical_p=0.9, **fields), "b")
            self.assertIn(self.server.text(PROMPT, seed=seed, bad_words=["a", "b"], **fields), ("a", "b"))  # the constraint takes precedence
            got = self.server.text(PROMPT, seed=seed, xtc_probability=1, xtc_threshold=0.01, dry_multiplier=2, **fields)
            self.assertIn(got, ("a", "b"))

    def test_wrong_values_are_named(self):
        for name, value in (("typical_p", 1.5), ("typical_p", "x"), ("top_n_sigma", 101), ("xtc_probability", -0.1), ("xtc_threshold", 2),
                            ("dynatemp_range", -1), ("dynatemp_exponent", 1e9), ("mirostat", 3), ("mirostat", -1), ("mirostat_tau", -1),
                            ("mirostat_eta", 101), ("dry_multiplier", -1), ("dry_base", 0.5), ("dry_allowed_length", -1), ("dry_penalty_last_n", -2),
                            ("dry_sequence_breakers", "x"), ("repeat_last_n", -2), ("samplers", ["top_q"]), ("samplers", 3), ("bad_words", "x"),
                            ("banned_strings", [""]), ("banned_tokens", [2048]), ("banned_tokens", [-1]), ("adaptive_target", 0.3)):
            for path in ("/v1/completions", "/completion"):
                answer = self.post(path, prompt="a", max_tokens=1, n_predict=1, **{name: value})
                self.assertEqual((answer.status, answer.error["param"]), (400, name), (path, value))
                self.assertIn(name, answer.error["message"])
        self.assertEqual(self.server.text(PROMPT, typical_p=1), self.server.text(PROMPT))

    def test_kvik_run_has_them_as_flags(self):
        plain = kvik.output("run", "demo", "-p", PROMPT, "--seed", 3, "-n", 20)
        for flags in (["--typical-p", 0.3], ["--mirostat", 2, "--mirostat-tau", 1], ["--dry-multiplier", 3, "--dry-penalty-last-n", "-1"],
                      ["--repetition-penalty", 1.8, "--repeat-last-n", 20]):
            self.assertNotEqual(kvik.output("run", "demo", "-p", PROMPT, "--seed", 3, "-n", 20, *flags), plain, flags)
        done = kvik.run("run", "demo", "-p", PROMPT, "--repeat-last-n=x")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("'x' is not an integer of at least -1", done.stderr.decode())

    def test_llama_cpps_name_of_the_repetition_penalty(self):
        texts = [self.server.text(PROMPT, seed=1, temperature=1, max_tokens=24, **fields)
                 for fields in ({}, {"repeat_penalty": 2}, {"repetition_penalty": 2})]
        self.assertNotEqual(texts[0], texts[1])
        self.assertEqual(texts[1], texts[2])
        refused = self.server.post("/v1/completions", {"prompt": "x", "repeat_penalty": "x"})
        self.assertEqual((refused.status, refused.json["error"]["param"]), (400, "repeat_penalty"))

    def test_a_constraint_takes_precedence_over_tokens_that_never_come(self):
        (first,) = self.server.post("/tokenize", {"content": "a", "add_special": False}).json["tokens"]
        body = {"prompt": "x", "max_tokens": 3, "guided_choice": ["a"], "logit_bias": {str(first): False}}
        answer = self.server.post("/v1/completions", body)
        self.assertEqual((answer.status, answer.json.get("choices", [{}])[0].get("text")), (200, "a"), answer.body[:300])

    def test_a_request_that_forbids_all_tokens_is_refused(self):
        with Server("synthetic:test-llama") as server:
            (prompt, n_vocab) = ("x", 260)
            never = {str(id): False for id in range(n_vocab)}
            for path, body in (("/v1/completions", {"logit_bias": never}), ("/completion", {"logit_bias": never}),
                               ("/v1/completions", {"logit_bias": {k: v for k, v in never.items() if int(k) >= 200}, "banned_tokens": list(range(200))}),
                               ("/api/generate", {"options": {"logit_bias": never}})):
                with self.subTest(path):
                    answer = server.post(path, {"prompt": prompt, "max_tokens": 3, **body})
                    self.assertEqual(answer.status, 400, answer.body)
                    self.assertIn(b"forbid all 260 tokens of the vocabulary, expected that one is left", answer.body)
            del never["65"]
            self.assertEqual(server.post("/v1/completions", {"prompt": prompt, "max_tokens": 3, "logit_bias": never}).status, 200)


if __name__ == "__main__":
    unittest.main()
