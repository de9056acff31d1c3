"""Tests the loss of a trained model with compact KV pages, so that no later change increases it.

Weights are f16. With quantized weights, the rounding of activations turns any small change into a KL divergence of about
0.005, which would hide the effect of the pages.
"""
import json
import os
import tempfile
import unittest

import numpy as np

import kvik
import trained

N_TOKENS = 192
# Expected KL divergence from f32 pages, and the tolerated factors for other instruction sets or small changes of the arithmetic.
EXPECTED = {"int8": 0.0001, "int8/int4": 0.0015, "int4": 0.0042}
LEAST, MOST = 0.6, 1.3


def log_probabilities(model, tokens, kv_type):
    text = kvik.logits_text(model, tokens, all=True, kv_type=kv_type, threads=2)
    logits = np.array(text.split(), np.float64).reshape(len(tokens), -1)
    top = logits.max(-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


class PageQuality(unittest.TestCase):
    def test_compact_pages_keep_the_distributions_of_a_trained_model(self):
        source = trained.model("smollm2")
        with open(trained.TEXT, encoding="utf-8") as file:
            tokens = [int(t) for t in kvik.output("tokenize", source, "-", stdin=file.read().encode()).split()][:N_TOKENS]
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "f16.gguf")
            kvik.output("quantize", source, model, "--type", "f16")
            exact = log_probabilities(model, tokens, "f32")
            for kv_type, expected in EXPECTED.items():
                with self.subTest(kv_type=kv_type):
                    got = log_probabilities(model, tokens, kv_type)
                    divergence = float((np.exp(exact) * (exact - got)).sum(-1).mean())
                    self.assertTrue(LEAST * expected < divergence < MOST * expected, divergence)
                    plan = json.loads(kvik.output("plan", model, "--kv-type", kv_type, "--json"))
                    self.assertLess(divergence, 1.1 * plan["kv_divergence"], "the program says what is lost at most")


if __name__ == "__main__":
    unittest.main()
