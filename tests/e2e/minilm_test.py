"""all-MiniLM-L6-v2, a trained model: its embeddings beside those of sentence-transformers (tests/e2e/minilm.json), and their bits."""
import base64
import json
import os
import tempfile
import unittest

import numpy as np

import kvik  # adds tools/ to the path
import trained
from server import Server

LEAST_COSINE = 0.99999
Q8_COSINE = 0.995


class MiniLm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = trained.model("minilm")
        with open(os.path.join(kvik.ROOT, "tests/e2e/minilm.json"), encoding="utf-8") as f:
            values = json.load(f)
        cls.texts = values["texts"]
        cls.want = np.frombuffer(base64.b64decode(values["embeddings"]), "<f4").reshape(len(cls.texts), -1).astype(np.float64)

    def embeddings(self, server, texts, **fields):
        answer = server.post("/v1/embeddings", {"input": texts, **fields})
        self.assertEqual(answer.status, 200, answer.body[:300])
        return np.array([one["embedding"] for one in answer.json["data"]])

    def cosines(self, got):
        return (got * self.want).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(self.want, axis=1)

    def test_embeddings_are_those_of_sentence_transformers(self):
        with tempfile.TemporaryDirectory() as folder:
            f16 = os.path.join(folder, "minilm-f16.gguf")
            kvik.output("quantize", self.path, f16, "--type", "f16")
            q8 = os.path.join(folder, "minilm-q8_0.gguf")
            kvik.output("quantize", self.path, q8, "--type", "q8_0")
            for model, least in ((self.path, LEAST_COSINE), (f16, LEAST_COSINE), (q8, Q8_COSINE)):
                with self.subTest(model=model), Server(model) as server:
                    self.assertGreaterEqual(self.cosines(self.embeddings(server, self.texts)).min(), least)

    def test_a_text_has_the_same_bits_alone_and_in_a_batch(self):
        with Server(self.path) as server:
            together = self.embeddings(server, self.texts)
            for i, text in enumerate(self.texts[:12]):
                np.testing.assert_array_equal(self.embeddings(server, [text])[0], together[i])

    def test_a_text_is_nearest_to_one_about_the_same(self):
        texts = ["The ferry leaves the harbor at nine in the morning.", "In the morning, boats depart from the port.",
                 "Matrix products take most of the time of a forward pass.", "She baked two loaves of rye bread."]
        with Server(self.path) as server:
            near = self.embeddings(server, texts)
        scores = near @ near[0]
        self.assertEqual(int(np.argsort(-scores)[1]), 1, scores)


if __name__ == "__main__":
    unittest.main()
