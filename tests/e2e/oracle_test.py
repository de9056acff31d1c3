"""Compares values of the engine with a float64 forward pass without a cache, on the same files."""
import itertools
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import gguf
import kvik

N_VOCAB = 260  # of the toy vocabulary
SEEDS = range(1, 11 if kvik.LONG else 4)
LLAMAS = ("test-llama", "test-mqa", "test-mha")
FEATURES = ("test-qwen2", "test-qwen3", "test-gemma2", "test-gemma3")  # biases, QK norm, windows, soft caps
ROPES = ("test-linear", "test-llama3", "test-yarn", "test-phi3")  # scaled RoPE frequencies; phi3: also fused tensors and a window of 60
# qwen2moe: with a shared expert; dense-first: after a layer without experts; granitemoe: scaled
EXPERTS = ("test-mixtral", "test-qwen2moe", "test-qwen3moe", "test-dense-first", "test-granitemoe")
OLDER = ("test-mistral", "test-granite", "test-olmo2")
# glm4moe: router biases, one layer without experts, an MTP head; gptoss: attention sinks, clamped gates, biases of experts
# gemma3n: several residual streams, gates cut off; gemma4: heads of two widths, K = V, norms of V; gemma4-e: KV sharing, per-layer embeddings; gemma4-moe: experts beside an MLP
NEWER = tuple(name for name in kvik.PRESETS if name not in LLAMAS + FEATURES + ROPES + EXPERTS + OLDER)
FAMILIES = (*OLDER, *ROPES, *EXPERTS, *NEWER)
CASES = [*itertools.product(LLAMAS + FEATURES, SEEDS), *itertools.product(FAMILIES, SEEDS if kvik.LONG else [1])]


def tokens_for(seed, n=None):
    """Returns tokens that exceed one page of 32 tokens and the windows of 32, with another length for every seed."""
    return kvik.random_tokens(n or 61 + 9 * seed, N_VOCAB, seed)


FEW_BITS = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "tq1_0", "tq2_0", "q1_0", "q2_0", "iq2_k", "iq2_ks", "iq2_kl")


class Oracle(unittest.TestCase):
    def assert_close(self, got, want, share):
        """Checks that the error of every row is within a share of its largest magnitude."""
        self.assertEqual(got.shape, want.shape)
        self.assertTrue(np.isfinite(got).all())
        error = np.abs(got - want).max(1) / np.abs(want).max(1)
        self.assertLess(error.max(), share, f"row {error.argmax()} is off by {error.max():.2%} of its largest magnitude")

    def assert_same_choice(self, got, want, share):
        """Checks that the largest logit is the same wherever its lead over the second exceeds the allowed error."""
        first, second = np.sort(want, 1)[:, -1], np.sort(want, 1)[:, -2]
        clear = first - second > share * np.abs(want).max(1)
        self.assertTrue(clear.any())
        np.testing.assert_array_equal(got.argmax(1)[clear], want.argmax(1)[clear])

    def assert_agrees(self, path, tokens, share, **options):
        got = kvik.logits(path, tokens, all=True, **options)
        want = kvik.reference(path, tokens)
        self.assert_close(got, want, share)
        self.assert_same_choice(got, want, share)

    def test_f32_logits_agree_within_a_thousandth(self):
        for name, seed in CASES:
            with self.subTest(preset=name, seed=seed):
                self.assert_agrees(kvik.preset(name, "f32", seed), tokens_for(seed), 1e-3, kv_type="f32")

    def test_greedy_ids_are_the_same(self):
        for name, seed in CASES:
            with self.subTest(preset=name, seed=seed):
                path, tokens = kvik.preset(name, "f32", seed), tokens_for(seed)
                self.assertEqual(kvik.greedy(path, tokens, 12, kv_type="f32"), kvik.reference_greedy(path, tokens, 12))

    def test_the_served_context_chooses_among_the_factors_of_a_long_rope(self):
        path, tokens = kvik.preset("test-phi3", "f32", 1), tokens_for(1)
        rows = {}
        for n_ctx in (512, 513):
            rows[n_ctx] = kvik.logits(path, tokens, all=True, kv_type="f32", ctx=n_ctx)
            self.assert_close(rows[n_ctx], kvik.reference_logits.forward(*kvik.weights(path), tokens, n_ctx), 1e-3)
        self.assertGreater(np.abs(rows[512] - rows[513]).max(), 0.1)

    def test_a_model_in_pieces_has_the_bytes_of_the_whole(self):
        whole = kvik.preset("test-qwen3moe", "q8_0", 1)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make/make_model.py"), "--preset", "test-qwen3moe", "--type", "q8_0",
                            "--seed", "1", "--split", "3", os.path.join(folder, "m.gguf")], check=True, capture_output=True)
            pieces = [os.path.join(folder, f"m-0000{i}-of-00003.gguf") for i in (1, 2, 3)]
            want = kvik.logits_text(whole, tokens_for(1), all=True)
            for piece in pieces[:2]:
                self.assertEqual(kvik.logits_text(piece, tokens_for(1), all=True), want)
            os.remove(pieces[1])
            done = kvik.run("logits", pieces[0], "--tokens", "5")
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"m-00002-of-00003.gguf", done.stderr)

    def test_a_tensor_for_each_expert_is_as_good_as_one_for_all(self):
        """Mixtral files of early 2024 have a tensor per expert."""
        path, tokens = kvik.preset("test-mixtral"), tokens_for(1)
        old = gguf.Gguf(path)
        for stack in [t for t in old.tensors if "_exps" in t[0]]:
            name, (cols, rows, n), element_type, offset = stack
            old.tensors.remove(stack)
            old.tensors += [[name.replace("_exps", f".{i}"), [cols, rows], element_type, offset + i * rows * cols * 4] for i in range(n)]
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "old.gguf")
            with open(model, "wb") as f:
                f.write(old.bytes())
            self.assertEqual(kvik.logits_text(model, tokens, all=True), kvik.logits_text(path, tokens, all=True))

    def test_16_bit_weights_are_read_exactly(self):
        for name, element_type, isa in itertools.product(LLAMAS, ("f16", "bf16"), kvik.isas()):
            with self.subTest(preset=name, type=element_type, isa=isa):
                # The bf16 instructions also round the activations.
                share = 1e-2 if element_type == "bf16" and isa in kvik.ROUND_TO_BF16 else 1e-3
                self.assert_agrees(kvik.preset(name, element_type, 1), tokens_for(1), share, kv_type="f32", env={"KVIK_ISA": isa})

    def test_q8_0_within_three_hundredths(self):
        for name, seed in itertools.product(LLAMAS, SEEDS):
            with self.subTest(preset=name, seed=seed):
                self.assert_agrees(kvik.preset(name, "q8_0", seed), tokens_for(seed), 0.03, kv_type="f32")

    def test_q4_0_within_eight_hundredths(self):
        for name, seed in itertools.product(LLAMAS, SEEDS):
            with self.subTest(preset=name, seed=seed):
                self.assert_agrees(kvik.preset(name, "q4_0", seed), tokens_for(seed), 0.08, kv_type="f32")

    def test_k_types_on_the_trained_model(self):
        """Rows of the test presets are not multiples of a super-block; those of the demo are."""
        tokens = kvik.random_tokens(100, 2048, 1)
        for element_type in (*(name for name, (_, (n, _), _) in kvik.gguf_file.IN_FILES.items() if n == 256), "q4_k_m"):
            with self.subTest(type=element_type):
                # Weights of so few bits make the largest logits small beside the errors of rounded activations: 3.4% at most, the median 1.2%.
                share = 0.04 if element_type in FEW_BITS else 0.03
                self.assert_agrees(kvik.demo_as(element_type), tokens, share, kv_type="f32")

    def test_small_blocks_on_the_trained_model(self):
        tokens = kvik.random_tokens(100, 2048, 1)
        small = [name for name, (_, (n, _), _) in kvik.gguf_file.IN_FILES.items() if 1 < n < 256]
        for element_type in (name for name in small if name not in ("q8_0", "q4_0", "mxfp4")):  # tested elsewhere
            with self.subTest(type=element_type):
                share = 0.04 if element_type in FEW_BITS else 0.03
                self.assert_agrees(kvik.demo_as(element_type), tokens, share, kv_type="f32")

    def test_a_file_whose_matrices_have_different_types(self):
        """Published files of large models give more bits to the matrices whose errors cost most."""
        for name, types in (("demo-in-turn.gguf", "iq2_xxs,iq1_m,iq3_s,q4_k,iq1_s,iq3_xxs,iq2_s,iq4_xs,tq1_0,iq2_xs,q6_k"),
                            ("demo-ik-in-turn.gguf", "iq4_ks,iq2_k,iq5_k,q8_0,iq3_ks,iq6_k,iq2_ks,q2_0,iq4_kss,iq2_kl,iq3_k,iq5_ks,iq4_k,q1_0")):
            path = kvik.made(name, "convert_gguf.py", "--type", types, kvik.DEMO)
            self.assert_agrees(path, kvik.random_tokens(100, 2048, 1), 0.03, kv_type="f32")
            shown = kvik.output("show", path).decode()
            for element_type in types.split(","):
                self.assertIn(element_type, shown)

    def test_compact_pages_stay_close(self):
        for name in LLAMAS + FEATURES:
            with self.subTest(preset=name, kv_type="bf16"):
                self.assert_agrees(kvik.preset(name, "f32", 1), tokens_for(1), 0.02, kv_type="bf16")

    def test_int8_pages_stay_close(self):
        """The largest logit error of a random model varies by chance: of 24 seeds of test-gemma3 five exceed 3%, and with K and V without bases
        six. The median over some seeds does not exceed it."""
        for name in LLAMAS + FEATURES:
            with self.subTest(preset=name):
                worst = []
                for seed in range(1, 8):
                    path, tokens = kvik.preset(name, "f32", seed), tokens_for(seed)
                    got, want = kvik.logits(path, tokens, all=True, kv_type="int8"), kvik.reference(path, tokens)
                    self.assert_close(got, want, 0.035 if seed == 1 else 0.04)
                    worst.append((np.abs(got - want).max(1) / np.abs(want).max(1)).max())
                    error = np.abs(got - want).mean(1) / np.abs(want).max(1)
                    self.assertLess(error.mean(), 0.004)
                self.assertLess(np.median(worst), 0.03)

    def test_int4_pages_stay_near(self):
        """Sixteen levels change single logits of these small random models considerably, so their mean is tested."""
        for name in LLAMAS + FEATURES:
            with self.subTest(preset=name):
                path, tokens = kvik.preset(name, "f32", 1), tokens_for(1)
                got, want = kvik.logits(path, tokens, all=True, kv_type="int4"), kvik.reference(path, tokens)
                error = np.abs(got - want).mean(1) / np.abs(want).max(1)
                self.assertLess(error.mean(), 0.05)
                self.assertLess(error.max(), 0.1)

    def test_experts_of_4_bits_are_read_exactly(self):
        """Differs by the 8-bit activations, because of which some rows choose other experts."""
        path, tokens = kvik.preset("test-gptoss", "mxfp4", 1), tokens_for(1)
        got, want = kvik.logits(path, tokens, all=True, kv_type="f32"), kvik.reference(path, tokens)
        error = np.sort(np.abs(got - want).max(1) / np.abs(want).max(1))
        self.assertLess(error[len(error) * 3 // 4], 0.03)

    def test_every_newer_family_is_within_two_millionths(self):
        """The exceptions are the delta rule, which subtracts the stored value from the new one (up to 2.9e-6 measured), and Nemotron-H (3.5e-6):
        there the bound is 4e-6 and no more than the conditioning of the model explains."""
        for name in NEWER:
            with self.subTest(preset=name):
                path, tokens = kvik.preset(name, "f32", 1), tokens_for(1)
                want = kvik.reference(path, tokens)
                share = min(4e-6, kvik.f32_bound(*kvik.weights(path), tokens, want)) if name in kvik.ILL_CONDITIONED else 2e-6
                self.assert_close(kvik.logits(path, tokens, all=True, kv_type="f32"), want, share)

    def test_a_correction_bias_is_added_to_the_probabilities_of_a_softmax(self):
        path = kvik.preset("test-mla", "f32", 1)
        with open(path, "rb") as file:
            model = bytearray(file.read())
        key = b"deepseek2.expert_gating_func"
        value = model.index(key) + len(key) + 4  # after the type of the value
        self.assertEqual(model[value:value + 4], (2).to_bytes(4, "little"))
        model[value] = 1
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "softmax.gguf")
            with open(path, "wb") as file:
                file.write(model)
            self.assert_agrees(path, tokens_for(1), 1e-3, kv_type="f32")

    def test_a_tied_head_is_the_embedding(self):
        self.assert_agrees(kvik.preset("test-llama", "f32", 1, "--tied"), tokens_for(1), 1e-3, kv_type="f32")

    def test_a_trained_model_agrees(self):
        tokens = kvik.random_tokens(100, 2048, 1)
        self.assert_agrees("demo", tokens, 0.03, kv_type="f32")
        self.assert_agrees(kvik.demo_as("f32"), tokens, 1e-3, kv_type="f32")

    def test_the_last_row_alone_is_the_last_of_all(self):
        path, tokens = kvik.preset("test-llama"), tokens_for(1)
        every = kvik.logits_text(path, tokens, all=True).splitlines()
        self.assertEqual(len(every), len(tokens))
        self.assertEqual(kvik.logits_text(path, tokens).splitlines(), every[-1:])

    def test_a_position_does_not_see_what_comes_after_it(self):
        path, tokens = kvik.preset("test-mqa"), tokens_for(1)
        every = kvik.logits_text(path, tokens, all=True).splitlines()
        for n in (1, 2, 31, 32, 33, 64, 65):
            self.assertEqual(kvik.logits_text(path, tokens[:n]).splitlines(), every[n - 1:n])

    def test_the_same_model_made_in_memory_has_the_same_geometry(self):
        for name in LLAMAS + FEATURES + FAMILIES:
            got = kvik.logits(f"synthetic:{name}:f32", tokens_for(1, 40), all=True)
            self.assertEqual(got.shape, (40, N_VOCAB))
            self.assertTrue(np.isfinite(got).all())


if __name__ == "__main__":
    unittest.main()
