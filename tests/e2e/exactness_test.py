"""Tests that the cache never changes an answer. All tests compare bytes.

`kvik logits --all` prints %.9g, which distinguishes any two floats.
"""
import concurrent.futures
import os
import typing
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


class Group(typing.NamedTuple):
    """Runs of `kvik logits` that must print the same: one with these options, and one with each variant of them."""
    model: str
    tokens: list
    options: dict
    variants: list

    def text(self, **variant):
        return kvik.logits_text(self.model, self.tokens, all=True, **{"threads": 2, **self.options, **variant})

    def differences(self):
        """Returns (variant, how it differs or None) of each variant."""
        want = self.text()
        if want.count(b"\n") != len(self.tokens):
            return [({}, f"{want.count(10)} rows for {len(self.tokens)} tokens")]
        return [(variant, first_difference(self.text(**variant), want)) for variant in self.variants]


def under(isa):
    return {"env": {"KVIK_ISA": isa}}


class Exactness(unittest.TestCase):
    def assert_same(self, groups):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # much of a run is its start
            for group, differences in zip(groups, pool.map(Group.differences, groups)):
                for variant, difference in differences:
                    with self.subTest(model=group.model, **{**group.options, **variant}):
                        self.assertIsNone(difference)

    def test_chunks_batches_threads_and_no_cache_on_the_best_instruction_set(self):
        self.assert_same([Group(kvik.demo_as(t), TOKENS, {"kv_type": kv_type}, VARIANTS) for t in TYPES for kv_type in KV_TYPES])

    def test_the_same_on_every_instruction_set(self):
        self.assert_same([Group(kvik.demo_as(t), FEWEST if isa == "scalar" else FEWER, {"kv_type": kv_type, **under(isa)}, VARIANTS if kvik.LONG else FEW)
                          for isa in kvik.isas() for i, t in enumerate(TYPES)
                          for kv_type in (KV_TYPES if kvik.LONG else KV_TYPES[i % len(KV_TYPES):][:1])])

    def test_instruction_sets_agree_with_each_other(self):
        """The exception is bf16 weights on a processor with bf16 multiplication, which flushes denormals."""
        self.assert_same([Group(kvik.demo_as(t), FEWER, {"kv_type": kv_type, **under("scalar")},
                                [under(isa) for isa in kvik.isas()[1:] if t != "bf16" or isa not in kvik.ROUND_TO_BF16])
                          for t in TYPES for kv_type in KV_TYPES])

    def test_small_types_on_every_instruction_set(self):
        groups = []
        for i, element_type in enumerate(SMALL_TYPES):
            model, kv_type = kvik.demo_as(element_type), KV_TYPES[i % len(KV_TYPES)]
            groups.append(Group(model, FEWEST, {"kv_type": kv_type, **under("scalar")}, [under(isa) for isa in kvik.isas()]))
            groups += [Group(model, FEWEST if isa == "scalar" else FEWER, {"kv_type": kv_type, **under(isa)}, VARIANTS if kvik.LONG else FEW)
                       for isa in kvik.isas()]
        self.assert_same(groups)

    def test_every_feature_of_the_decoder(self):
        """Windows of 32, soft caps, biases, QK norm; one KV head for all query heads."""
        self.assert_same([Group(kvik.preset(name), kvik.random_tokens(101, 260, 3), {}, VARIANTS if kvik.LONG else FEW)
                          for name in ("test-mqa", "test-qwen2", "test-qwen3", "test-gemma2", "test-gemma3")])

    def test_every_family(self):
        """Experts with every KV type: chunks and batches change which tokens share an expert, but not a token's values."""
        experts = ("test-mixtral", "test-qwen2moe", "test-qwen3moe", "test-dense-first", "test-granitemoe")
        experts += ("test-glm4moe", "test-minimaxm2", "test-minimaxm3", "test-minimaxm3-small", "test-gptoss", "test-mla", "test-deepseek32", "test-glmdsa", "test-mistrallarge4", "test-gemma4-moe", "test-qwen35moe", "test-qwen3next",
                    "test-lfm2moe", "test-granitehybrid", "test-nemotronhmoe", "test-nemotron3", "test-puzzle", "test-olmoe", "test-exaonemoe", "test-ernie45moe", "test-dots1", "test-minicpm5moe",
                    "test-hunyuanmoe", "test-afmoe", "test-mistral4", "test-hyv3", "test-bailingmoe2", "test-cohere2moe", "test-llama4", "test-laguna", "test-mimo2", "test-step35",
                    "test-jamba", "test-kimilinear", "test-bailingmoe3", "test-qwen4exp", "test-deepseek4", "test-glm5next")
        others = ("test-phi3", "test-granite", "test-olmo2", "test-yarn", "test-ministral3", "test-gemma3n", "test-gemma4", "test-gemma4-e", "test-qwen35", "test-lfm2", "test-nemotronh",
                  "test-smollm3", "test-olmo3", "test-seedoss", "test-exaone4", "test-ernie45", "test-glm4", "test-gemma", "test-arcee", "test-apertus", "test-hunyuan",
                  "test-commandr", "test-cohere2", "test-starcoder2", "test-phi2", "test-museglimmer", "test-commandrplus", "test-gptneox", "test-gpt2", "test-lfm3", "test-starcoder", "test-nemotron", "test-falconh1", "test-graniteswitch")
        groups = []
        for i, name in enumerate(experts + others):
            types = ("f32", "q8_0", "q4_0") if kvik.LONG else ("q8_0",)
            with_all = kvik.LONG or name in ("test-qwen3moe", "test-gptoss", "test-mla", "test-glmdsa", "test-mistrallarge4", "test-minimaxm3", "test-minimaxm3-small", "test-qwen4exp", "test-deepseek4", "test-glm5next")
            groups += [Group(kvik.preset(name, element_type), kvik.random_tokens(77, 260, 3), {"kv_type": kv_type}, VARIANTS if kvik.LONG else FEW)
                       for kv_type in (KV_TYPES if with_all else KV_TYPES[i % len(KV_TYPES):][:1])
                       for element_type in (types if name != "test-gptoss" else (*types, "mxfp4"))]
        self.assert_same(groups)

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
    if got == want:
        return None
    rows = list(zip(got.splitlines(), want.splitlines()))
    for i, (a, b) in enumerate(rows):
        if a != b:
            return f"row {i} of {len(rows)}: {a[:40]!r}… instead of {b[:40]!r}…"
    return f"{len(got)} bytes instead of {len(want)}"


if __name__ == "__main__":
    unittest.main()
