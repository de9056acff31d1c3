"""Tests Hugging Face folders with 8-bit and 4-bit floats: logits match the represented values, and an invalid folder causes one sentence."""
import functools
import json
import os
import shutil
import struct
import subprocess
import sys
import unittest

import numpy as np

import gguf
import kvik
import block_floats
import gguf_file
from hf_folder import N_VOCAB, FolderCase, folder_of

FUSED = "--fused-experts"


def read_raw(path):
    """Returns the header of a safetensors file and the bytes after it."""
    with open(path, "rb") as f:
        raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__", None)
    return header, raw[8 + n:]


def write_raw(path, tensors):
    """Writes {name: (dtype, shape, bytes)} as a safetensors file."""
    header, at = {}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in tensors.values()))


class BlockFloats(FolderCase):
    def as_block_floats(self, model, *options):
        """Returns a folder with 8-bit or 4-bit floats, and one with the values that they represent."""
        out = os.path.join(self.root.name, "-".join([self.id(), model, *options]))
        tool = os.path.join(kvik.ROOT, "tools/make/block_floats.py")
        plain = folder_of(kvik.demo_as("bf16") if model == "demo" else kvik.preset(model, "bf16"), *[o for o in options if o == FUSED])
        subprocess.run([sys.executable, tool, *[o for o in options if o != FUSED], plain, out], check=True)
        return out, out + "-widened"

    def corrupted(self, source, config=None, tensors=None):
        """Returns a copy of a folder with another config.json, tensor header or tensor data."""
        folder = source + "-corrupted"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        if config:
            path = os.path.join(folder, "config.json")
            with open(path) as f:
                content = json.load(f)
            config(content)
            with open(path, "w") as f:
                json.dump(content, f)
        if tensors:
            path = os.path.join(folder, "model.safetensors")
            with open(path, "rb") as f:
                raw = f.read()
            n = struct.unpack("<Q", raw[:8])[0]
            header, data = json.loads(raw[8:8 + n]), bytearray(raw[8 + n:])
            tensors(header, data)
            text = json.dumps(header).encode()
            with open(path, "wb") as f:
                f.write(struct.pack("<Q", len(text)) + text + data)
        return folder

    def test_fp8_weights_equal_their_values(self):
        for model, *options in (("test-llama", "--kind=fp8", "--block=32"), ("test-llama", "--kind=fp8", "--block=24"), ("demo", "--kind=fp8"),
                                ("test-mixtral", "--kind=fp8", "--block=0"), ("test-qwen3moe", "--kind=fp8", "--block=64"),
                                ("test-qwen35moe", "--kind=fp8", "--block=32"), ("test-phi3", "--kind=fp8", "--block=32")):
            with self.subTest(preset=model, how=options):
                narrow, wide = self.as_block_floats(model, *options)
                tokens = kvik.random_tokens(71, N_VOCAB, 3)
                for isa in kvik.isas():
                    want = kvik.logits_text(wide, tokens, all=True, env={"KVIK_ISA": isa})
                    for how in ({}, {"chunk": 1}, {"chunk": 7, "beside": 5, "threads": 1}):
                        self.assertTrue(kvik.logits_text(narrow, tokens, all=True, env={"KVIK_ISA": isa}, **how) == want, (isa, how))

    def test_fp8_weights_with_every_scale_layout(self):
        """Power-of-two scales as in DeepSeek-V4, experts in one tensor, one scale per matrix as in Mistral, and the format of llm-compressor."""
        tokens = kvik.random_tokens(71, N_VOCAB, 3)
        for model, *options in (("test-llama", "--block=32", "--scales=e8m0"), ("test-llama", "--block=24", "--scales=e8m0"),
                                ("test-qwen3moe", FUSED, "--block=32"), ("test-mixtral", FUSED, "--block=40", "--scales=e8m0"),
                                ("test-qwen35moe", FUSED, "--block=24"), ("test-nemotronhmoe", FUSED, "--block=32"),
                                ("test-ministral3", "--block=0", "--scales=bf16"), ("test-qwen3moe", FUSED, "--block=0", "--scales=bf16"),
                                ("demo", "--rows", "--compressed", "--scales=bf16"), ("test-llama", "--rows", "--compressed"),
                                ("test-qwen3moe", FUSED, "--rows", "--compressed"), ("test-llama", "--block=0", "--compressed", "--scales=bf16"),
                                ("demo", "--compressed"), ("test-llama", "--block=32", "--compressed", "--scales=bf16")):
            with self.subTest(preset=model, how=options):
                narrow, wide = self.as_block_floats(model, "--kind=fp8", *options)
                want = kvik.logits_text(wide, tokens, all=True)
                for how in ({}, {"chunk": 1}, {"chunk": 7, "beside": 5, "threads": 1}):
                    self.assertTrue(kvik.logits_text(narrow, tokens, all=True, **how) == want, how)

    def test_floats_of_8_and_4_bits_under_latent_attention(self):
        """The heads of K's matrix are transposed and stored as f16, which has eleven bits of precision."""
        tokens = kvik.random_tokens(71, N_VOCAB, 3)
        for model, *how, share in (("test-mla", "--kind=fp8", "--block=32", 0.01), ("test-mla", "--kind=nvfp4", 0.03),  # 2.7e-3 was measured for the first
                                   ("test-deepseek32", "--kind=fp8", "--block=32", 0.01)):
            narrow, wide = self.as_block_floats(model, *how)
            got, want = (kvik.logits(folder, tokens, all=True, kv_type="f32") for folder in (narrow, wide))
            error = np.sort(np.abs(got - want).max(1) / np.abs(want).max(1))
            self.assertLess(error[len(error) * 3 // 4], share)  # routers near a tie may choose other experts

    def exact_floats(self, model, exact):
        """Returns the oracle's weights, with each matrix of the layers as the folder represents it, in f64."""
        meta, weights = kvik.weights(kvik.preset(model, "bf16"))
        is_matrix = lambda name, w: w.ndim > 1 and name.startswith("blk.") and "ffn_gate_inp" not in name
        return meta, {name: np.stack([exact(m) for m in w.reshape(-1, *w.shape[-2:])]).reshape(w.shape) if is_matrix(name, w) else w
                      for name, w in weights.items()}

    def errors_of(self, folder, meta, weights, **options):
        tokens = kvik.random_tokens(71, N_VOCAB, 3)
        want = kvik.reference_logits.forward(meta, weights, list(map(int, tokens)))
        got = kvik.logits(folder, tokens, all=True, kv_type="f32", **options)
        return np.abs(got - want).max(1) / np.abs(want).max(1)

    def test_floats_of_8_bits_against_the_oracle(self):
        for model in ("test-qwen3", "test-qwen3moe"):  # their rows have the same order in both formats
            narrow, _ = self.as_block_floats(model, "--kind=fp8", "--block=32")
            exact = self.exact_floats(model, lambda w: block_floats.exact_fp8(w, 32))
            self.assertLess(self.errors_of(narrow, *exact, env={"KVIK_ISA": "scalar"}).max(), 1e-3)

    def test_floats_of_4_bits_against_the_oracle(self):
        """Differs by the 8-bit activations, because of which some rows choose other experts."""
        for model in ("test-qwen3", "test-qwen3moe"):
            narrow, _ = self.as_block_floats(model, "--kind=nvfp4")
            exact = self.exact_floats(model, block_floats.exact_nvfp4)
            error = np.sort(self.errors_of(narrow, *exact))
            self.assertLess(error[-1 if model == "test-qwen3" else len(error) * 3 // 4], 0.03)
            tokens = kvik.random_tokens(71, N_VOCAB, 3)
            want = kvik.logits_text(narrow, tokens, all=True, env={"KVIK_ISA": "avx2"})
            for isa in set(kvik.isas()) - kvik.ROUND_TO_BF16:
                for how in ({}, {"chunk": 1}, {"chunk": 7, "beside": 5, "threads": 1}):
                    self.assertTrue(kvik.logits_text(narrow, tokens, all=True, env={"KVIK_ISA": isa}, **how) == want, (isa, how))

    def test_nvfp4_weights_of_compressed_tensors(self):
        """There the scale of a matrix is a divisor, and activations have a scale as well."""
        narrow, _ = self.as_block_floats("test-qwen3", "--kind=nvfp4")
        header, data = read_raw(f"{narrow}/model.safetensors")
        modelopt, compressed = {}, {}
        for name, (dtype, shape, raw) in ((name, (e["dtype"], e["shape"], data[slice(*e["data_offsets"])])) for name, e in header.items()):
            if name.endswith("_scale_2"):
                scale = 2.0 ** np.round(np.log2(struct.unpack("<f", raw)[0]))
                modelopt[name] = (dtype, shape, struct.pack("<f", scale))
                stem = name.removesuffix("_scale_2")
                compressed[stem + "_global_scale"] = (dtype, shape, struct.pack("<f", 1 / scale))
                compressed[stem.removesuffix("weight") + "input_global_scale"] = (dtype, shape, raw)
            else:
                modelopt[name] = (dtype, shape, raw)
                compressed[name + "_packed" if name + "_scale" in header else name] = (dtype, shape, raw)
        weights = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True}
        how = {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": {"group_0": {"weights": weights}}}
        logits = []
        for tensors, change in ((modelopt, lambda c: None), (compressed, lambda c: c.update(quantization_config=how))):
            folder = self.corrupted(narrow, change)
            write_raw(f"{folder}/model.safetensors", tensors)
            logits.append(kvik.logits_text(folder, kvik.random_tokens(71, N_VOCAB, 3), all=True))
        self.assertTrue(logits[0] == logits[1])

    def test_floats_of_4_bits_become_a_gguf_file_bit_by_bit(self):
        """The scale of each matrix, and of each expert's matrix, is stored beside it."""
        for model in ("test-qwen3", "test-qwen3moe"):
            narrow, _ = self.as_block_floats(model, "--kind=nvfp4")
            _, exact = self.exact_floats(model, block_floats.exact_nvfp4)
            path = f"{narrow}.gguf"
            kvik.output("quantize", narrow, path, "--type", "nvfp4", "--pure")
            types = {t[0]: t[2] for t in gguf.Gguf(path).tensors}
            _, got = kvik.reference_logits.load(path)
            copied = [name for name, w in exact.items() if name.startswith("blk.") and types[name] == gguf_file.NVFP4]
            self.assertGreater(len(copied), 10)
            self.assertTrue(all(name.removesuffix("weight") + "scale" in types for name in copied))
            for name in copied:
                np.testing.assert_array_equal(got[name], exact[name], name)

    def test_experts_of_4_bits_as_deepseek_v4_stores_them(self):
        """They are mxfp4 in Kvik, bit by bit, beside matrices of E4M3. The widened folder has the same values as f32, and so have both as f16."""
        narrow, wide = self.as_block_floats("test-deepseek4", "--kind=fp8", "--block=32", "--scales=e8m0", "--fp4-experts")
        tokens = kvik.random_tokens(71, N_VOCAB, 3)
        want = kvik.logits_text(narrow, tokens, all=True)
        for how in ({"chunk": 1}, {"chunk": 7, "beside": 5, "threads": 1}):
            self.assertTrue(kvik.logits_text(narrow, tokens, all=True, **how) == want, how)
        written = []
        for folder in (narrow, wide):
            kvik.output("quantize", folder, f"{folder}.gguf", "--type", "f16")
            written.append(kvik.logits_text(f"{folder}.gguf", tokens, all=True))
        self.assertTrue(written[0] == written[1])
        got = kvik.logits(narrow, tokens, all=True, kv_type="f32")
        exact = kvik.logits(f"{wide}.gguf", tokens, all=True, kv_type="f32")
        error = np.sort(np.abs(got - exact).max(1) / np.abs(exact).max(1))
        self.assertLess(error[len(error) * 3 // 4], 0.03)  # activations of experts have 8 bits, and routers near a tie may choose others

        path = f"{narrow}-mxfp4.gguf"
        kvik.output("quantize", narrow, path, "--type", "mxfp4")
        _, weights = kvik.weights(kvik.preset("test-deepseek4", "bf16"))
        types = {t[0]: t[2] for t in gguf.Gguf(path).tensors}
        _, got = kvik.reference_logits.load(path)
        experts = [name for name in weights if name.endswith("_exps.weight")]
        self.assertEqual(len(experts), 18)
        for name in experts:
            self.assertEqual(types[name], gguf_file.MXFP4)
            np.testing.assert_array_equal(got[name], np.stack([block_floats.exact_mxfp4(w) for w in weights[name]]), name)

    def test_experts_of_4_bits_that_cannot_be_are_refused(self):
        narrow, _ = self.as_block_floats("test-deepseek4", "--kind=fp8", "--block=32", "--scales=e8m0", "--fp4-experts")
        corrupt = functools.partial(self.corrupted, narrow)
        name = "layers.1.ffn.experts.2.w2"

        def spoilt_scale(header, data):
            data[header[name + ".scale"]["data_offsets"][0]] = 255

        def no_scales(header, data):
            header["layers.1.ffn.other.scale"] = header.pop(name + ".scale")

        def shape(name, *axes):
            return lambda header, data: header[name].update(shape=axes)

        for change, *words in (
                ({"tensors": spoilt_scale}, name + ".scale", "a scale of 255", "mxfp4"),
                ({"tensors": no_scales}, f"'{name}.scale' is missing beside '{name}.weight'"),
                ({"tensors": shape(name + ".scale", 3, 64)}, name + ".scale", "[3, 64]", "expected [64, 3]"),
                ({"tensors": shape(name + ".weight", 192, 16)}, name + ".scale", "[64, 3]", "expected [192, 1]"),
                ({"config": lambda c: c.pop("expert_dtype")}, ".scale", "has the shape", "expected"),
                ({"config": lambda c: c.update(expert_dtype="fp6")}, "expert_dtype", "fp6", "expected fp4 or fp8"),
                ({"config": lambda c: c["quantization_config"].update(expert_dtype="int8")}, "expert_dtype", "int8", "expected fp4 or fp8")):
            with self.subTest(words=words):
                self.refused(corrupt(**change), *words)
        moved = corrupt(lambda c: c["quantization_config"].update(expert_dtype=c.pop("expert_dtype")))  # as in DeepSeek V4.1
        self.assertEqual(kvik.logits_text(moved, [5, 6]), kvik.logits_text(narrow, [5, 6]))

    def test_floats_of_8_bits_that_cannot_be_are_refused(self):
        narrow, _ = self.as_block_floats("test-llama", "--kind=fp8", "--block=32")
        name = "model.layers.1.mlp.up_proj.weight"

        corrupt = functools.partial(self.corrupted, narrow)
        block = lambda value: corrupt(lambda c: c["quantization_config"].update(value))
        self.refused(block({"weight_block_size": [16, 16]}), name.replace("1.mlp.up", "0.self_attn.q"), "_scale_inv", "has the shape", "expected")
        self.refused(block({"weight_block_size": [0, 16]}), "weight_block_size", "two numbers from 1 to 65536")
        self.refused(block({"fmt": "e5m2"}), "fmt", "e5m2", "expected e4m3")
        self.refused(block({"quant_method": "modelopt", "quant_algo": "FP8"}), "quant_algo", "FP8", "expected NVFP4")

        def no_number(header, data):
            data[header[name]["data_offsets"][0] + 5] = 0x7f

        self.refused(corrupt(tensors=no_number), name, "not a number")

        for scale in (float("nan"), float("inf"), -1e38):
            def spoilt_scale(header, data):
                at = header[name + "_scale_inv"]["data_offsets"][0] + 4
                data[at:at + 4] = struct.pack("<f", scale)

            self.refused(corrupt(tensors=spoilt_scale), name + "_scale_inv", "holds", "expected scales")

        def no_scales(header, data):
            header["other.weight_scale_inv"] = header.pop(name + "_scale_inv")

        self.refused(corrupt(tensors=no_scales), name + "_scale_inv", "is missing beside")

    def test_scales_that_cannot_be_are_refused(self):
        name = "model.layers.1.mlp.experts.down_proj"
        of_stack, _ = self.as_block_floats("test-qwen3moe", FUSED, "--kind=fp8", "--block=32", "--scales=e8m0")
        exponents = name + "_scale_inv"

        def put(value):
            def change(header, data):
                data[header[exponents]["data_offsets"][0]] = value
            return change

        def shape(name, *axes):
            return lambda header, data: header[name].update(shape=axes)

        with open(os.path.join(of_stack, "model.safetensors"), "rb") as f:
            n = struct.unpack("<Q", f.read(8))[0]
            header = json.loads(f.read(n))
        experts, high, wide = header[exponents]["shape"]
        for change, words in (
                (put(255), (exponents, "holds nan", "expected scales")), (put(254), (exponents, "expected scales by which 448")),
                (shape(exponents, experts * high, wide), (exponents, f"[{experts * high}, {wide}]", f"[{experts}, {high}, {wide}]")),
                (shape(exponents, experts, wide, high, 1), (exponents, "expected")),
                (shape(name, header[name]["shape"][0], header[name]["shape"][1] * header[name]["shape"][2]), (name, "shape")),
                (lambda header, data: header.update({"other_scale_inv": header.pop(exponents)}), (exponents, "is missing beside", name))):
            with self.subTest(words=words):
                self.refused(self.corrupted(of_stack, tensors=change), *words)

        def transpose(header, data):
            for tensor, entry in header.items():
                if ".experts." in tensor:
                    entry["shape"][1:] = entry["shape"][:0:-1]

        turned, _ = self.as_block_floats("test-qwen3moe", FUSED, "--kind=fp8", "--block=32")
        turned = self.corrupted(turned, lambda c: c.update(model_type="qwen3_vl_moe_text"), transpose)
        self.refused(turned, "experts.", "transposed", "16 or 32 bits")

        of_rows, _ = self.as_block_floats("test-llama", "--kind=fp8", "--rows", "--compressed")
        scales = "model.layers.0.self_attn.q_proj.weight_scale"
        self.refused(self.corrupted(of_rows, tensors=shape(scales, 64)), scales, "[64]", "[64, 1]")
        self.refused(self.corrupted(of_rows, tensors=shape(scales, 1, 64)), scales, "[1, 64]", "[64, 1]")

    def test_unsupported_compressed_tensors_settings_are_rejected(self):
        folder, _ = self.as_block_floats("test-llama", "--kind=fp8", "--rows", "--compressed")

        def weights(**others):
            return lambda q: q["config_groups"]["group_0"]["weights"].update(others)

        def second(**others):
            def change(q):
                first = q["config_groups"]["group_0"]
                q["config_groups"]["group_1"] = {**first, "weights": {**first["weights"], **others}}
            return change

        for change, words in (
                (weights(num_bits=4), ("num_bits", "4", "expected 8")), (weights(type="int"), ("weights.type", "int", "expected float")),
                (weights(strategy="group"), ("strategy", "group", "tensor, channel or block")),
                (weights(strategy="block", block_structure=[0, 128]), ("block_structure", "two numbers")),
                (weights(strategy="block"), ("block_structure", "missing", "two numbers")),
                (weights(strategy="block", block_structure=[16, 16]), ("weight_scale", "has the shape", "expected")),
                (lambda q: q.update(format="mxfp6-pack-quantized"), ("format", "mxfp6-pack-quantized", "int-quantized")),
                (lambda q: q.update(format=None), ("format", "missing", "pack-quantized")),
                (lambda q: q["config_groups"]["group_0"].update(format="mxfp8"), ("group_0.format", "mxfp8")),
                (second(strategy="tensor"), ("config_groups.group_1", "the scheme of the other groups")),
                (lambda q: q["config_groups"]["group_0"].update(weights=None), ("config_groups", "a group with weights")),
                (lambda q: q.pop("config_groups"), ("config_groups", "missing", "a group with weights")),
                (lambda q: q.update(sparsity_config={"format": "sparse-24-bitmask"}), ("sparsity_config.format", "sparse-24-bitmask", "dense")),
                (lambda q: q.update(transform_config={"config_groups": {"u": {"type": "hadamard"}}}), ("transform_config.config_groups", "none"))):
            with self.subTest(words=words):
                self.refused(self.corrupted(folder, lambda c: change(c["quantization_config"])), *words)
        for change in (second(), lambda q: q["config_groups"].update(group_1={"targets": ["Attention"], "weights": None}),
                       lambda q: q["config_groups"]["group_0"].update(format=q.pop("format"))):
            same = self.corrupted(folder, lambda c: change(c["quantization_config"]))
            self.assertEqual(kvik.logits_text(same, [5, 6]), kvik.logits_text(folder, [5, 6]))

    def test_floats_of_4_bits_that_cannot_be_are_refused(self):
        narrow, _ = self.as_block_floats("test-qwen3", "--kind=nvfp4")
        name = "model.layers.1.self_attn.q_proj.weight"

        corrupted = lambda change: self.corrupted(narrow, tensors=change)

        def put(ending, value):
            def change(header, data):
                at = header[name + ending]["data_offsets"][0]
                data[at:at + len(value)] = value
            return change

        self.refused(corrupted(put("_scale", b"\x7f")), name, "a scale of 127", "expected 0 to 126")
        for scale in (float("nan"), float("inf"), 1e36):
            self.refused(corrupted(put("_scale_2", struct.pack("<f", scale))), name + "_scale_2", "holds", "expected a scale")
        for ending in ("_scale", "_scale_2"):
            self.refused(corrupted(lambda header, data: header.update({"other.weight" + ending: header.pop(name + ending)})), name)


if __name__ == "__main__":
    unittest.main()
