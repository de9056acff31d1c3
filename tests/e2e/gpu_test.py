"""Tests that a GPU computes the same bytes as the CPU.

This is the first suite to run on a machine with a GPU. Elsewhere, part of it runs with a device simulated on the host (e2e.cmake); all of
it would take an estimated hour or more there.
"""
import concurrent.futures
import tempfile
import unittest

import kvik
import model_presets
from server import Server

TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "q5_k", "q6_k", "mxfp4", "q4_k_m")
KV_TYPES = ("f32", "bf16", "int8", "int4", "int8/int4")
VARIANTS = [{"chunk": 1}, {"chunk": 7, "beside": 5}, {"chunk": 33}, {"no_cache": True}]
GPU = {"device": "cuda"}
SMALL = ("--kv-memory", "64MiB")
# CPUs with a bf16 multiplication round differently. GPUs have the bits of the other instruction sets.
SCALAR = {"KVIK_ISA": "scalar"}


def has_gpu():
    """Returns whether there is a GPU. A GPU that fails to compute does not skip these tests."""
    output = kvik.run("run", "demo", "-p", "O", "--max-tokens", 1, "--device", "cuda").stderr
    return b"no GPU can be used" not in output and b"has no GPU support" not in output


@unittest.skipUnless(has_gpu(), "there is no GPU")
class Gpu(unittest.TestCase):
    def assert_same(self, model, tokens, kv_type, variants, env=None):
        want = kvik.logits_text(model, tokens, all=True, kv_type=kv_type, env=env)
        for options in ({}, *variants):
            with self.subTest(kv_type=kv_type, **options):
                got = kvik.logits_text(model, tokens, all=True, kv_type=kv_type, **options, **GPU)
                self.assertTrue(got == want)

    def ask(self, server, prompt, n):
        """Has a long timeout, because a simulated device is slow."""
        body = {"prompt": prompt, "temperature": 0, "max_tokens": n, "ignore_eos": True}
        answer = server.post("/v1/completions", body, timeout=900)
        self.assertEqual(answer.status, 200)
        return answer.json

    def test_logits_of_every_type_of_weights_and_pages(self):
        tokens = kvik.random_tokens(77, 2045, 5)
        for element_type in TYPES:
            for kv_type in KV_TYPES:
                with self.subTest(type=element_type):
                    self.assert_same(kvik.demo_as(element_type), tokens, kv_type, VARIANTS, SCALAR if element_type == "bf16" else None)

    def test_logits_of_every_family(self):
        tokens = kvik.random_tokens(77, 260, 3)
        for i, name in enumerate(kvik.PRESETS):
            family = model_presets.FAMILIES[model_presets.PRESETS[name][0]]
            if name == "test-apertus" or "layer_norm" in family:  # refused on a GPU
                continue
            with self.subTest(preset=name):
                self.assert_same(kvik.preset(name, "q8_0"), tokens, KV_TYPES[i % len(KV_TYPES)], VARIANTS)

    def test_a_long_prompt_and_its_decoded_tokens(self):
        tokens = kvik.random_tokens(700, 2045, 7)
        self.assertEqual(kvik.greedy("demo", tokens, 200, **GPU), kvik.greedy("demo", tokens, 200))

    def test_what_is_drawn(self):
        sampled = ("run", "demo", "-p", "ROMEO:", "--max-tokens", 200, "--seed", 3, "--temperature", 1, "--ignore-eos", "--ids")
        self.assertEqual(kvik.output(*sampled, "--device", "cuda"), kvik.output(*sampled))

    def test_speculation_gives_the_same_tokens(self):
        asked = ("run", "demo", "-p", "ROMEO: ROMEO: ROMEO:", "--max-tokens", 200, "--temperature", 0, "--ignore-eos", "--ids")
        self.assertEqual(kvik.output(*asked, "--device", "cuda"), kvik.output(*asked))

    def test_pages_on_disk_are_shared_by_cpu_and_gpu(self):
        for first, second in (("cpu", "cuda"), ("cuda", "cpu")):
            with self.subTest(first=first), tempfile.TemporaryDirectory() as folder:
                answers = []
                for device in (first, second):
                    with Server("demo", "--disk", folder, "--disk-size", "256MiB", *SMALL, "--device", device) as server:
                        answers.append(self.ask(server, kvik.random_tokens(400, 2045, 9), 40))
                self.assertEqual(answers[0]["choices"][0]["text"], answers[1]["choices"][0]["text"])
                self.assertGreaterEqual(answers[1]["usage"]["prompt_tokens_details"]["cached_tokens"], 384)

    def test_many_users_get_what_one_alone_gets(self):
        prompts = [kvik.random_tokens(40 + i, 2045, i) for i in range(24)]

        with Server("demo", *SMALL, "--device", "cuda") as server, concurrent.futures.ThreadPoolExecutor(24) as pool:
            together = list(pool.map(lambda prompt: self.ask(server, prompt, 30), prompts))
        for prompt, answer in zip(prompts, together):
            self.assertEqual(answer["choices"][0]["text"], kvik.demo_text(kvik.greedy("demo", prompt, 30)).decode())


if __name__ == "__main__":
    unittest.main()
