"""Compares `kvik perplexity` with sums over the output of `kvik logits`."""
import json
import os
import tempfile
import unittest

import numpy as np

import kvik

SPEECHES = "ROMEO:\nWhat light through yonder window breaks?<|end|>\nJULIET:\nAy me, what is the matter with the morning?<|end|>\n" * 40


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def held_back():
    """Returns the twentieth of the plays that the demo model was not trained on or, without that file, some lines of our own."""
    path = os.path.join(kvik.DATA, "tinyshakespeare.txt")
    if not os.path.exists(path):
        return SPEECHES
    with open(path, encoding="utf-8") as f:
        text = f.read()
    return "".join(s.strip() + "<|end|>\n" for s in text[-len(text) // 20:].split("\n\n") if s.strip())


class OnText(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
            file.write(held_back())
        self.text = file.name
        self.addCleanup(os.unlink, file.name)

    def scores(self, model, *more):
        return json.loads(kvik.output("perplexity", model, self.text, "--json", *more))

    def windows(self, n_ctx, n):
        """Returns consecutive windows as documented by --help, each with the BOS token first."""
        with open(self.text, "rb") as f:
            ids = [int(t) for t in kvik.output("tokenize", "demo", "--parse-special", "-", stdin=f.read()).split()]
        return [[kvik.DEMO_BOS, *ids[i * n_ctx + 1:(i + 1) * n_ctx]] for i in range(n)]

    def test_perplexity_and_its_error_are_those_of_the_logits(self):
        n_ctx, n = 64, 3
        nll = []
        for window in self.windows(n_ctx, n):
            log_p = log_softmax(kvik.logits("demo", window, all=True, kv_type="int4"))
            nll += [-log_p[i, window[i + 1]] for i in range(n_ctx // 2, n_ctx - 1)]
        got = self.scores("demo", "--ctx", n_ctx, "--windows", n, "--parse-special", "--kv-type", "int4")
        self.assertEqual((got["tokens_scored"], got["windows"], got["ctx"]), (len(nll), n, n_ctx))
        self.assertAlmostEqual(got["perplexity"], np.exp(np.mean(nll)), places=6)
        error = np.exp(np.mean(nll)) * np.std(nll, ddof=1) / np.sqrt(len(nll))
        self.assertAlmostEqual(got["perplexity_error"], error, places=6)

    def test_divergence_is_that_of_the_two_models_distributions(self):
        n_ctx, n, coarse = 48, 2, kvik.demo_as("q4_0")
        kl, same = [], []
        for window in self.windows(n_ctx, n):
            scored = slice(n_ctx // 2, n_ctx - 1)
            got = log_softmax(kvik.logits(coarse, window, all=True))[scored]
            want = log_softmax(kvik.logits("demo", window, all=True))[scored]
            kl += (np.exp(want) * (want - got)).sum(-1).tolist()
            same += (want.argmax(-1) == got.argmax(-1)).tolist()
        got = self.scores(coarse, "--against", "demo", "--ctx", n_ctx, "--windows", n, "--parse-special")
        for name, value in {"kl_mean": np.mean(kl), "kl_median": np.median(kl), "kl_p99": np.quantile(kl, 0.99),
                            "kl_max": np.max(kl), "same_top_share": np.mean(same)}.items():
            self.assertAlmostEqual(got[name], value, places=7, msg=name)
        self.assertGreater(got["kl_mean"], 1e-4)

    def test_what_a_type_of_pages_costs_is_measured_against_another_of_the_same_model(self):
        n_ctx, n = 64, 2
        kl = []
        for window in self.windows(n_ctx, n):
            scored = slice(n_ctx // 2, n_ctx - 1)
            got = log_softmax(kvik.logits("demo", window, all=True, kv_type="int4"))[scored]
            want = log_softmax(kvik.logits("demo", window, all=True, kv_type="f32"))[scored]
            kl += (np.exp(want) * (want - got)).sum(-1).tolist()
        flags = ("--ctx", n_ctx, "--windows", n, "--parse-special", "--kv-type", "int4", "--against-kv-type", "f32")
        for more in ((), ("--against", "demo")):
            got = self.scores("demo", *flags, *more)
            self.assertAlmostEqual(got["kl_mean"], np.mean(kl), places=7)
            self.assertEqual((got["kv_type"], got["against"], got["against_kv_type"]), ("int4", "demo", "f32"))
        self.assertGreater(got["kl_mean"], 1e-5)

    def test_a_model_does_not_differ_from_itself(self):
        got = self.scores("demo", "--against", "demo", "--ctx", 32, "--windows", 1)
        self.assertEqual((got["kl_max"], got["same_top_share"]), (0, 1))

    @unittest.skipUnless(os.path.isdir(kvik.DATA), "needs ../shared/data")
    def test_the_demo_predicts_held_out_plays(self):
        got = self.scores("demo", "--parse-special", "--windows", "8")
        self.assertLess(got["perplexity"], 40)

    def test_what_cannot_be_scored_is_said_in_a_sentence(self):
        other = kvik.preset("test-llama")
        for wanted, *args in (("at least the 100000 of one window", "demo", self.text, "--ctx", "100000"),
                              ("cannot read '/nowhere'", "demo", "/nowhere"),
                              ("expected one vocabulary for both", "demo", self.text, "--against", other),
                              ("expected at least one, of 4 at least", "demo", self.text, "--ctx", "2"),
                              ("'no-model.gguf'", "demo", self.text, "--against", "no-model.gguf")):
            done = kvik.run("perplexity", *args)
            self.assertIn(done.returncode, (1, 2), args)
            output = [line for line in done.stderr.decode().splitlines() if line.startswith("kvik: ")]
            self.assertEqual(len(output), 1, done.stderr)
            self.assertIn(wanted, output[0])


if __name__ == "__main__":
    unittest.main()
