"""Tests folders quantized by GPTQ and AWQ, or packed by compressed-tensors: their weights are exactly the values written by a small packer of our
own, and their logits are those of these weights."""
import json
import os
import shutil
import struct
import subprocess
import sys
import unittest

import numpy as np

import hf_folder
import kvik
import folder_files

N_VOCAB = 260
DEMO = "demo"  # trained, with rows of 256 and 768; the presets' rows have 64 and 160 columns, so their last group is shorter
LLAMA = "test-llama"
# Attention matrices share one packed matrix, and each has its own column order; phi3 fuses them; heads of llama and granite are permuted; qwen2 has
# biases.
FAMILIES = ("test-llama", "test-mqa", "test-qwen2", "test-qwen3", "test-gemma2", "test-phi3", "test-granite", "test-mixtral", "test-qwen2moe")
EXPERTS = ("test-mixtral", "test-qwen2moe", "test-gptoss")
ACT_ORDER = "--act-order"
CASES = (
    (DEMO, "gptq", "--group-size=32"), (DEMO, "gptq", "--group-size=64", "--sym"), (DEMO, "gptq", "--group-size=128", ACT_ORDER),
    (DEMO, "gptq", "--group-size=-1", "--sym"), (DEMO, "gptq", "--group-size=256"), (DEMO, "gptq", "--group-size=128", ACT_ORDER, "--sym", "--v2"),
    (DEMO, "gptq", "--bits=8", "--group-size=32", ACT_ORDER), (DEMO, "gptq", "--bits=8", "--group-size=64", "--sym"),
    (DEMO, "gptq", "--bits=8", "--group-size=128"), (DEMO, "gptq", "--bits=8", "--group-size=-1", ACT_ORDER, "--v2"),
    (DEMO, "awq", "--group-size=32"), (DEMO, "awq", "--group-size=64"), (DEMO, "awq", "--group-size=128"), (DEMO, "awq", "--group-size=-1"),
    (DEMO, "compressed", "--group-size=32", "--bf16"), (DEMO, "compressed", "--group-size=128"), (DEMO, "compressed", "--group-size=-1", "--bf16"),
    (DEMO, "compressed", "--group-size=64", "--asym"), (DEMO, "compressed", "--group-size=128", ACT_ORDER, "--bf16"),
    (DEMO, "compressed", "--group-size=32", "--faint"), (DEMO, "compressed", "--bits=8", "--group-size=128", "--asym", "--bf16"),
    (DEMO, "compressed", "--bits=8", "--group-size=-1"), (DEMO, "compressed", "--bits=8", "--group-size=-1", "--bf16", "--unpacked"))
BY_FAMILY = tuple((name, *how) for name in FAMILIES for how in (("gptq", "--group-size=32", ACT_ORDER), ("awq", "--group-size=128"), ("compressed", "--group-size=32", "--bf16")))


class PackedFolder(hf_folder.FolderCase):
    def tool(self, name, *args):
        subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make", name), *args], check=True)

    def packed(self, model, method, *options):
        """Returns the folder and the folder of the same weights in F32, which are made once."""
        source = os.path.join(self.root.name, model)
        if not os.path.exists(source):
            self.tool("make_hf_model.py", kvik.demo_as("f32") if model == DEMO else kvik.preset(model), source)
        folder = os.path.join(self.root.name, "".join([model, method, *options]))
        if not os.path.exists(folder):
            self.tool(f"pack_{method}.py", *options, source, folder, folder + ".twin")
        return folder, folder + ".twin"

    def as_q8_0(self, folder):
        path = folder + ".gguf"
        kvik.output("quantize", folder, path, "--type", "q8_0", "--pure", "--force")
        with open(path, "rb") as f:
            return f.read()

    def assert_close(self, case, share, **options):
        folder, dequantized = self.packed(*case)
        tokens = kvik.random_tokens(71, N_VOCAB, 3)
        got, want = (kvik.logits(f, tokens, all=True, kv_type="f32", **options) for f in (folder, dequantized))
        self.assertEqual(got.shape, want.shape)
        error = np.abs(got - want).max(1) / np.abs(want).max(1)
        # Random routers are sometimes near a tie, and another expert gives another answer.
        worst = np.median(error) if case[0] in EXPERTS else error.max()
        self.assertLess(worst, share)
        self.assertGreater(worst, 0)  # computed with integers, unlike the F32 folder

    def test_every_weight_is_what_was_packed(self):
        for case in (*CASES, *BY_FAMILY, ("test-mla", "compressed", "--group-size=32", "--bf16", "--experts")):
            with self.subTest(case=case):
                folder, dequantized = self.packed(*case)
                self.assertTrue(self.as_q8_0(folder) == self.as_q8_0(dequantized))

    def test_logits_are_those_of_the_weights_within_three_hundredths(self):
        """The same bound as for q8_0 and q4_0, because activations have 8 bits."""
        for case in CASES:
            with self.subTest(case=case):
                self.assert_close(case, 0.03)

    def test_logits_of_every_family_within_five_hundredths(self):
        for case in BY_FAMILY:
            with self.subTest(case=case):
                self.assert_close(case, 0.05)

    def test_attention_beside_experts_that_are_not_packed_keeps_its_order(self):
        """Folders of gpt-oss have transposed stacks of experts, which are read by a separate tensor source."""
        self.assert_close(("test-gptoss", "gptq", "--bits=8", "--group-size=32", ACT_ORDER), 0.05)

    def test_every_instruction_set_reads_sorted_columns(self):
        for isa in kvik.isas():
            with self.subTest(isa=isa):
                self.assert_close((DEMO, "gptq", "--group-size=128", ACT_ORDER), 0.03, env={"KVIK_ISA": isa})

    def test_the_bytes_of_logits_do_not_depend_on_chunks_or_threads(self):
        tokens = kvik.random_tokens(71, N_VOCAB, 4)
        for case in ((DEMO, "gptq", "--group-size=128", ACT_ORDER), (DEMO, "gptq", "--bits=8", "--group-size=64", "--sym"),
                     (DEMO, "awq", "--group-size=128"), ("test-mixtral", "gptq", "--group-size=32", ACT_ORDER)):
            folder, _ = self.packed(*case)
            want = kvik.logits_text(folder, tokens, all=True, chunk=71, threads=1)
            for options in ({"chunk": 1}, {"chunk": 7}, {"chunk": 32}, {"chunk": 71, "threads": 2}):
                with self.subTest(case=case, **options):
                    self.assertTrue(kvik.logits_text(folder, tokens, all=True, **options) == want)

    def test_logits_are_those_of_the_same_levels_in_another_order(self):
        """Symmetric groups give the same blocks whether they were packed by compressed-tensors or by GPTQ."""
        tokens = kvik.random_tokens(71, N_VOCAB, 3)
        for model, *how in ((DEMO, "--group-size=32"), (DEMO, "--group-size=128", ACT_ORDER), (DEMO, "--bits=8", "--group-size=-1"),
                            ("test-qwen2", "--group-size=32"), ("test-mixtral", "--group-size=32"), ("test-phi3", "--group-size=32")):
            with self.subTest(model=model, how=how):
                compressed, gptq = self.packed(model, "compressed", *how)[0], self.packed(model, "gptq", *how, "--sym", "--v2")[0]
                self.assertTrue(kvik.logits_text(compressed, tokens, all=True) == kvik.logits_text(gptq, tokens, all=True))

    def test_zero_biases_are_ignored(self):
        with_biases, _ = self.packed(LLAMA, "gptq", "--zero-biases")
        without, _ = self.packed(LLAMA, "gptq")
        self.assertTrue(self.as_q8_0(with_biases) == self.as_q8_0(without))

    def test_other_commands_take_it(self):
        folder, dequantized = self.packed(DEMO, "gptq", "--group-size=128", ACT_ORDER)
        self.assertIn(b"int4g128", kvik.output("show", folder))
        ask = ("-p", "ROMEO:", "--max-tokens", 20, "--temperature", 0)
        self.assertEqual(len(kvik.output("run", folder, *ask, "--ids", "--ignore-eos").split()), 20)
        texts = os.path.join(self.root.name, "text")
        with open(texts, "w") as f:
            f.write("But soft, what light through yonder window breaks? " * 20)
        importance = os.path.join(self.root.name, "importance")
        kvik.output("quantize", folder, importance, "--calibrate", texts, "--ctx", 64)
        paths = [os.path.join(self.root.name, name) for name in ("a.gguf", "b.gguf")]
        for source, path in zip((folder, dequantized), paths):
            kvik.output("quantize", source, path, "--type", "q4_0", "--importance", importance, "--pure")
        with open(paths[0], "rb") as a, open(paths[1], "rb") as b:
            self.assertTrue(a.read() == b.read())

    # --- invalid folders ---

    def corrupted(self, case, corrupted=(), change=None, config=None):
        """Returns a copy with changed or missing (None) tensors, or with other keys in config.json's quantization_config."""
        source, _ = self.packed(*case)
        folder = os.path.join(self.root.name, "corrupted")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        if config:
            with open(f"{folder}/config.json") as f:
                content = json.load(f)
            content["quantization_config"].update(config)
            with open(f"{folder}/config.json", "w") as f:
                json.dump(content, f)
        if corrupted:
            with open(f"{folder}/model.safetensors", "rb") as f:
                raw = f.read()
            n = struct.unpack("<Q", raw[:8])[0]
            types = {"I32": np.int32, "F32": np.float32, "F16": np.float16, "I64": np.int64, "BF16": np.uint16}
            header = {k: v for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
            tensors = {k: np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], types[v["dtype"]]).reshape(v["shape"])
                       for k, v in header.items()}
            for name in [corrupted] if isinstance(corrupted, str) else corrupted:
                x = tensors.pop(name)
                if change:
                    tensors[name] = change(x.copy())
            names = {np.dtype(t): name for name, t in types.items()}
            folder_files.write_safetensors(f"{folder}/model.safetensors", {k: (names[x.dtype], x) for k, x in tensors.items()})
        return folder

    def test_a_tensor_that_does_not_fit_is_named(self):
        case = (LLAMA, "gptq", "--group-size=32", ACT_ORDER)
        name = "model.layers.1.mlp.down_proj."

        def filled(value):
            return lambda x: np.full_like(x, value)

        def one(value):
            def change(x):
                x[7] = value
                return x
            return change
        for end, change, words in (
                ("qweight", lambda x: x[:-1], ("qweight", "152")),
                ("qweight", lambda x: x[:, :-1], ("qweight", "63")),
                ("qweight", lambda x: x.reshape(-1), ("qweight", "two axes")),
                ("qweight", lambda x: x.view(np.float32), ("qweight", "f32", "i32")),
                ("qweight", lambda x: x.repeat(2, 1), ("[5, 8]", "[5, 16]")),
                ("qzeros", None, ("qzeros", "missing")),
                ("qzeros", lambda x: x[1:], ("qzeros", "[4, 8]", "[5, 8]")),
                ("scales", None, ("scales", "missing")),
                ("scales", lambda x: x.astype(np.float32), ("scales", "f32", "f16")),
                ("scales", lambda x: x[:, 1:], ("scales", "[5, 63]")),
                ("g_idx", None, ("g_idx", "missing")),
                ("g_idx", lambda x: x[1:], ("g_idx", "[159]", "[160]")),
                ("g_idx", filled(0), ("g_idx", "group 0", "32")),
                ("g_idx", one(-1), ("g_idx", "column 7", "-1", "0 to 4")),
                ("g_idx", one(5), ("g_idx", "column 7", "group 5")),
                ("g_idx", one(2**31 - 1), ("g_idx", "2147483647"))):
            with self.subTest(tensor=end, words=words):
                self.refused(self.corrupted(case, name + end, change), name, *words)

    def test_a_tensor_of_compressed_tensors_that_does_not_fit_is_named(self):
        case = (LLAMA, "compressed", "--group-size=32", "--asym", ACT_ORDER, "--bf16")
        name = "model.layers.1.mlp.down_proj."

        def first(value):
            def change(x):
                x.reshape(-1)[0] = value
                return x
            return change
        for end, change, words in (
                ("weight_packed", lambda x: x[:, :-1], ("weight_packed", "152")),
                ("weight_packed", lambda x: x[:-1], ("weight_scale", "[64, 5]", "[63, 5]")),
                ("weight_packed", lambda x: x.reshape(-1), ("weight_packed", "two axes")),
                ("weight_packed", lambda x: x.view(np.float32), ("weight_packed", "f32", "i32")),
                ("weight_scale", None, ("weight_scale", "missing")),
                ("weight_scale", lambda x: x[:, 1:], ("weight_scale", "[64, 4]", "[64, 5]")),
                ("weight_scale", lambda x: x.T, ("weight_scale", "[5, 64]", "[64, 5]")),
                ("weight_scale", lambda x: x.astype(np.float32), ("weight_scale", "f32", "f16 or bf16")),
                ("weight_scale", first(0x7F80), ("weight_scale", "not finite")),
                ("weight_zero_point", None, ("weight_zero_point", "missing")),
                ("weight_zero_point", lambda x: x.T, ("weight_zero_point", "[5, 8]", "[8, 5]")),
                ("weight_shape", first(63), ("weight_shape", "[63, 160]", "[64, 160]")),
                ("weight_shape", lambda x: x[:1], ("weight_shape", "[1]", "[2]")),
                ("weight_g_idx", None, ("weight_g_idx", "missing")),
                ("weight_g_idx", first(-1), ("weight_g_idx", "group -1"))):
            with self.subTest(tensor=end, words=words):
                self.refused(self.corrupted(case, name + end, change), name, *words)
        without = self.corrupted(case, name + "weight_shape")
        self.assertEqual(kvik.logits_text(without, [5, 6]), kvik.logits_text(self.packed(*case)[0], [5, 6]))
        symmetric = {"config_groups": {"group_0": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 32}}}}
        self.refused(self.corrupted(case, config=symmetric), "weight_zero_point", "not supported")

    def test_a_bias_that_its_family_lacks_is_refused_unless_it_is_nothing(self):
        name = "model.layers.1.mlp.down_proj.bias"
        self.refused(self.corrupted(("test-qwen3", "gptq", "--zero-biases"), name, lambda x: x + np.float16(1)), name)

    def test_a_bias_that_a_llama_may_have_is_read_unless_all_are_nothing(self):
        name = "model.layers.1.mlp.down_proj.bias"
        corrupted = self.corrupted((LLAMA, "gptq", "--zero-biases"), name, lambda x: x + np.float16(1))
        self.assertNotEqual(kvik.logits_text(corrupted, [5, 6]), kvik.logits_text(self.packed(LLAMA, "gptq")[0], [5, 6]))

    def test_experts_of_a_layer_must_have_their_columns_in_one_order(self):
        case = ("test-mixtral", "gptq", "--group-size=32", ACT_ORDER)
        of_gate, of_up = ([f"model.layers.0.block_sparse_moe.experts.{i}.{part}.g_idx" for i in range(4)] for part in ("w1", "w3"))
        self.refused(self.corrupted(case, of_gate[2], lambda x: x[::-1]), "experts.2.w1.qweight", "one order")
        self.refused(self.corrupted(case, of_up, lambda x: x[::-1]), "w1.qweight", "w3.qweight", "one order")
        self.assertEqual(kvik.run("logits", self.corrupted(case, of_gate + of_up, lambda x: x[::-1]), "--tokens", "5").returncode, 0)

    def test_parts_that_are_packed_together_may_have_orders_of_their_own(self):
        """The packer's --act-order gives q, k and v, and gate and up, different column orders as well; this is the simplest case."""
        case = (DEMO, "gptq", "--group-size=32", ACT_ORDER)
        folder = self.corrupted(case, "model.layers.0.self_attn.k_proj.g_idx", lambda x: x[::-1])
        self.assertFalse(kvik.logits_text(folder, [5, 6]) == kvik.logits_text(self.packed(*case)[0], [5, 6]))

    def test_what_is_not_known_is_refused_with_what_is(self):
        for method, config, words in (
                ("gptq", {"bits": 3}, ("quantization_config.bits", "3", "4 or 8")),
                ("gptq", {"bits": None}, ("quantization_config.bits",)),
                ("gptq", {"group_size": 16}, ("group_size", "16", "32")),
                ("gptq", {"group_size": 0}, ("group_size",)),
                ("gptq", {"group_size": -2}, ("group_size", "-2")),
                ("gptq", {"group_size": 1e300}, ("group_size",)),
                ("gptq", {"group_size": "128"}, ("group_size", "128")),
                ("gptq", {"group_size": 32}, ("qzeros",)),
                ("gptq", {"bits": 8}, ("shape",)),
                ("gptq", {"checkpoint_format": "marlin"}, ("marlin", "gptq_v2")),
                ("gptq", {"dynamic": {"-:.*down.*": {}}}, ("dynamic",)),
                ("awq", {"version": "gemv"}, ("gemv", "gemm")),
                ("awq", {"bits": 8}, ("bits", "8")),
                ("awq", {"zero_point": False}, ("zero_point", "true")),
                ("awq", {"quant_method": "hqq"}, ("hqq", "awq", "BF16")),
                ("compressed", {"format": "marlin-24"}, ("marlin-24", "pack-quantized")),
                *(("compressed", {"config_groups": {"g": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 128, **key}}}}, words)
                  for key, words in (({"num_bits": 3}, ("g.weights.num_bits", "3", "4 or 8")), ({"type": "float"}, ("type", "float", "int")),
                                     ({"strategy": "tensor"}, ("strategy", "tensor", "group or channel")),
                                     ({"group_size": 16}, ("group_size", "16", "32")), ({"group_size": None}, ("group_size", "missing")),
                                     ({"actorder": "random"}, ("actorder", "random")), ({"actorder": "group"}, ("weight_g_idx", "missing")),
                                     ({"symmetric": False}, ("weight_zero_point", "missing"))))):
            with self.subTest(method=method, config=config):
                self.refused(self.corrupted((LLAMA, method), config=config), *words)

    def test_a_file_that_is_cut_anywhere_is_one_sentence(self):
        folder = self.corrupted((LLAMA, "gptq"), config={"bits": 4})
        whole = f"{folder}/model.safetensors"
        size = os.path.getsize(whole)
        for cut in (0, 7, 100, size // 3, size - 1):
            with self.subTest(cut=cut):
                shutil.copy(os.path.join(self.packed(LLAMA, "gptq")[0], "model.safetensors"), whole)
                os.truncate(whole, cut)
                self.refused(folder, "model.safetensors")


if __name__ == "__main__":
    unittest.main()
