"""Tests that the cache never changes an answer. All tests compare bytes.

`kvik logits --all` prints %.9g, which distinguishes any two floats.
"""
import unittest

import kvik

TYPES = ("f32", "bf16", "q8_0", "q4_0", "q4_k_m", "q5_k")
SMALL_TYPES = [name for name in kvik.gguf_file.TYPES if name not in (*TYPES, "f16", "q4_k")]
KV_TYPES = ("f32", "bf16", "int8", "int4", "int8/int4")
VARIANTS = ([{"chunk": n} for n in (1, 7, 32, 33)] + [{"beside": n} for n in (1, 5)] + [{"threads": 1}, {"no_cache": True}] +
            [{"chunk": 7, "beside": 5, "threads": 1}, {"beside": 5, "no_cache": True}])
FEW = [{"chunk": 1}, {"chunk": 7, "beside": 5, "threads": 1}, {"chunk": 33, "threads": 2}, {"no_cache": True}]
TOKENS = kvik.random_tokens(77, 2045, 5)
FEWER = TOKENS[:41]
FEWEST = TOKENS[:33]  # scalar code is slow, and 33 tokens just exceed a page


def whole(element_type, tokens, kv_type, isa=None):
    return kvik.logits_text(kvik.demo_as(element_type), tokens, all=True, kv_type=kv_type, threads=2, env={"KVIK_ISA": isa})


class Exactness(unittest.TestCase):
    def assert_same(self, element_type, tokens, kv_type, isa, variants):
        want = whole(element_type, tokens, kv_type, isa)
        self.assertEqual(want.count(b"\n"), len(tokens))
        for options in variants:
            with self.subTest(isa=isa, type=element_type, kv_type=kv_type, **options):
                got = kvik.logits_text(kvik.demo_as(element_type), tokens, all=True, kv_type=kv_type, **{"threads": 2, **options},
                                       env={"KVIK_ISA": isa})
                self.assertTrue(got == want, first_difference(got, want))

    def test_chunks_batches_threads_and_no_cache_on_the_best_instruction_set(self):
        for element_type in TYPES:
            for kv_type in KV_TYPES:
                self.assert_same(element_type, TOKENS, kv_type, None, VARIANTS)

    def test_the_same_on_every_instruction_set(self):
        for isa in kvik.isas():
            variants = VARIANTS if kvik.LONG else FEW
            for i, element_type in enumerate(TYPES):
                for kv_type in KV_TYPES if kvik.LONG else KV_TYPES[i % len(KV_TYPES):][:1]:
                    self.assert_same(element_type, FEWEST if isa == "scalar" else FEWER, kv_type, isa, variants)

    def test_instruction_sets_agree_with_each_other(self):
        """The exception is bf16 weights on a processor with bf16 multiplication, which flushes denormals."""
        for element_type in TYPES:
            for kv_type in KV_TYPES:
                want = whole(element_type, FEWER, kv_type, "scalar")
                for isa in kvik.isas()[1:]:
                    if element_type != "bf16" or isa not in kvik.ROUND_TO_BF16:
                        with self.subTest(isa=isa, type=element_type, kv_type=kv_type):
                            got = whole(element_type, FEWER, kv_type, isa)
                            self.assertTrue(got == want, first_difference(got, want))

    def test_small_types_on_every_instruction_set(self):
        for i, element_type in enumerate(SMALL_TYPES):
            kv_type = KV_TYPES[i % len(KV_TYPES)]
            want = whole(element_type, FEWEST, kv_type, "scalar")
            for isa in kvik.isas():
                with self.subTest(isa=isa, type=element_type, kv_type=kv_type):
                    got = whole(element_type, FEWEST, kv_type, isa)
                    self.assertTrue(got == want, first_difference(got, want))
                self.assert_same(element_type, FEWEST if isa == "scalar" else FEWER, kv_type, isa, VARIANTS if kvik.LONG else FEW)

    def test_every_feature_of_the_decoder(self):
        """Windows of 32, soft caps, biases, QK norm; one KV head for all query heads."""
        for name in ("test-mqa", "test-qwen2", "test-qwen3", "test-gemma2", "test-gemma3"):
            path, tokens = kvik.preset(name), kvik.random_tokens(101, 260, 3)
            want = kvik.logits_text(path, tokens, all=True, threads=2)
            for options in VARIANTS if kvik.LONG else FEW:
                with self.subTest(preset=name, **options):
                    got = kvik.logits_text(path, tokens, all=True, **{"threads": 2, **options})
                    self.assertTrue(got == want, first_difference(got, want))

    def test_every_family(self):
        """Experts with every KV type: chunks and batches change which tokens share an expert, but not a token's values."""
        experts = ("test-mixtral", "test-qwen2moe", "test-qwen3moe", "test-dense-first", "test-granitemoe")
        experts += ("test-glm4moe", "test-minimaxm2", "test-gptoss", "test-mla", "test-gemma4-moe", "test-qwen35moe", "test-qwen3next", "test-lfm2moe", "test-granitehybrid",
                    "test-nemotronhmoe", "test-olmoe", "test-exaonemoe", "test-ernie45moe", "test-dots1", "test-hunyuanmoe", "test-afmoe", "test-mistral4",
                    "test-hyv3", "test-bailingmoe2", "test-cohere2moe", "test-llama4", "test-laguna", "test-mimo2")
        others = ("test-phi3", "test-granite", "test-olmo2", "test-yarn", "test-ministral3", "test-gemma4", "test-gemma4-e", "test-qwen35", "test-lfm2", "test-nemotronh",
                  "test-smollm3", "test-olmo3", "test-seedoss", "test-exaone4", "test-ernie45", "test-glm4", "test-gemma", "test-arcee", "test-apertus", "test-hunyuan",
                  "test-commandr", "test-cohere2", "test-starcoder2", "test-phi2", "test-museglimmer", "test-commandrplus", "test-gptneox", "test-gpt2", "test-lfm3", "test-starcoder", "test-nemotron")
        cases = [(name, kv_type) for i, name in enumerate(experts + others)
                 for kv_type in (KV_TYPES if kvik.LONG or name in ("test-qwen3moe", "test-gptoss", "test-mla") else KV_TYPES[i % len(KV_TYPES):][:1])]
        tokens = kvik.random_tokens(77, 260, 3)
        for name, kv_type in cases:
            types = ("f32", "q8_0", "q4_0") if kvik.LONG else ("q8_0",)
            for element_type in types if name != "test-gptoss" else (*types, "mxfp4"):
                path = kvik.preset(name, element_type)
                want = kvik.logits_text(path, tokens, all=True, threads=2, kv_type=kv_type)
                for options in VARIANTS if kvik.LONG else FEW:
                    with self.subTest(preset=name, type=element_type, kv_type=kv_type, **options):
                        got = kvik.logits_text(path, tokens, all=True, kv_type=kv_type, **{"threads": 2, **options})
                        self.assertTrue(got == want, first_difference(got, want))

    def test_what_is_decoded_is_the_same_with_the_cache_off(self):
        for kv_type in KV_TYPES:
            sampled = ("run", "demo", "-p", "ROMEO:", "--max-tokens", 60, "--seed", 3, "--temperature", 1, "--ignore-eos", "--kv-type", kv_type)
            want = kvik.output(*sampled, "--ids")
            self.assertEqual(len(want.split()), 60)
            for more in (("--no-cache",), ("--threads", 1), ("--threads", 2)):
                self.assertEqual(kvik.output(*sampled, "--ids", *more), want, more)

    def test_decode_continues_as_prefill_would(self):
        """When the greedy continuation is appended to the prompt, each of its tokens has the largest logit."""
        tokens = kvik.random_tokens(30, 2045, 8)
        answer = kvik.greedy("demo", tokens, 40)
        rows = kvik.logits("demo", tokens + answer, all=True)
        self.assertEqual(rows.argmax(1)[len(tokens) - 1:-1].tolist(), answer)

    def test_an_instruction_set_that_is_not_there_is_refused_by_name(self):
        for flags, env in ((("--isa", "avx9000"), {}), ((), {"KVIK_ISA": "avx9000"})):
            done = kvik.run("logits", "demo", "--tokens", "1", *flags, env=env)
            self.assertIn(done.returncode, (1, 2))
            self.assertEqual(done.stdout, b"")
            self.assertIn(b"avx9000", done.stderr)
            self.assertIn(b"scalar", done.stderr)


def first_difference(got, want):
    rows = list(zip(got.splitlines(), want.splitlines()))
    for i, (a, b) in enumerate(rows):
        if a != b:
            return f"row {i} of {len(rows)}: {a[:40]!r}… instead of {b[:40]!r}…"
    return f"{len(got)} bytes instead of {len(want)}"


if __name__ == "__main__":
    unittest.main()
