"""Hugging Face folders: the same weights as a GGUF file give the same bytes of logits."""
import functools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import gguf
import kvik
import block_floats
import make_hf_model
import gguf_file
from server import Server

FAMILIES = ("test-llama", "test-mqa", "test-linear", "test-llama3", "test-yarn", "test-mistral", "test-mixtral", "test-qwen2", "test-qwen2moe",
            "test-qwen3", "test-qwen3moe", "test-gemma2", "test-gemma3", "test-phi3", "test-granite", "test-granitemoe",
            "test-olmo2", "test-ministral3", "test-glm4moe", "test-minimaxm2", "test-gptoss",
            "test-mla", "test-mla-lite", "test-gemma4", "test-gemma4-e", "test-gemma4-moe", "test-qwen35", "test-qwen35moe",
            "test-qwen3next", "test-lfm2", "test-lfm2moe", "test-granitehybrid", "test-nemotronh", "test-nemotronhmoe")
EXPERTS = ("test-mixtral", "test-qwen2moe", "test-qwen3moe", "test-qwen35moe", "test-qwen3next", "test-lfm2moe", "test-nemotronhmoe")
N_VOCAB = 260


@functools.cache
def folder_of(path, *options):
    """The folder of a GGUF file, made once for all tests of this process."""
    folder = os.path.join(ModelFolder.root.name, "".join([os.path.basename(path).removesuffix(".gguf"), *options]))
    subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make_hf_model.py"), *options, path, folder], check=True)
    return folder


class ModelFolder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = ModelFolder.root = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        folder_of.cache_clear()
        cls.root.cleanup()

    def copy(self, *files, model="test-llama"):
        """A folder of links that a test may spoil: (name, change of its JSON) pairs."""
        source = folder_of(kvik.preset(model))
        folder = os.path.join(self.root.name, self.id())
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        for name in os.listdir(source):
            os.symlink(os.path.join(source, name), os.path.join(folder, name))
        for name, change in files:
            with open(os.path.join(folder, name)) as f:
                content = json.load(f)
            change(content)
            os.remove(os.path.join(folder, name))
            with open(os.path.join(folder, name), "w") as f:
                json.dump(content, f)
        return folder

    def refused(self, folder, *words, command=("logits", "--tokens", "5")):
        done = kvik.run(command[0], folder, *command[1:])
        said = done.stderr.decode()
        self.assertEqual(done.returncode, 1, said)
        self.assertEqual(done.stdout, b"")
        self.assertEqual(said.count("\n"), 1, said)
        for word in words:
            self.assertIn(word, said)

    def assert_same_logits(self, path, folder, **options):
        tokens = kvik.random_tokens(71, N_VOCAB, 3)  # past the windows of 32 and 60
        want = kvik.logits_text(path, tokens, all=True, **options)
        self.assertEqual(want.count(b"\n"), len(tokens))
        self.assertTrue(kvik.logits_text(folder, tokens, all=True, **options) == want)

    def test_every_family_gives_the_bytes_of_its_gguf_file(self):
        for name in FAMILIES:
            for element_type in ("f32", "bf16", "f16") if kvik.LONG or name == "test-llama" else ("f32", "bf16"):
                with self.subTest(preset=name, type=element_type):
                    path = kvik.preset(name, element_type)
                    self.assert_same_logits(path, folder_of(path))

    def test_whichever_files_the_tensors_are_in(self):
        for name in ("test-llama", "test-mixtral"):
            path = kvik.preset(name)
            folder = folder_of(path, "--shards=3")
            self.assertEqual(len([f for f in os.listdir(folder) if f.endswith(".safetensors")]), 3)
            self.assert_same_logits(path, folder)

    def test_experts_of_a_layer_may_be_one_tensor(self):
        for name in EXPERTS:
            path = kvik.preset(name)
            self.assert_same_logits(path, folder_of(path, "--fused-experts"))

    def as_block_floats(self, model, *options):
        """A folder with floats of a few bits, and one with what they stand for."""
        out = os.path.join(self.root.name, "-".join([self.id(), model, *options]))
        tool = os.path.join(kvik.ROOT, "tools/block_floats.py")
        subprocess.run([sys.executable, tool, *options, folder_of(kvik.demo_as("bf16") if model == "demo" else kvik.preset(model, "bf16")), out], check=True)
        return out, out + "-widened"

    def test_floats_of_8_bits_are_what_they_stand_for(self):
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

    def test_floats_of_8_and_4_bits_under_latent_attention(self):
        """The heads of K's matrix are turned over, as f16: eleven bits of what f32 holds."""
        tokens = kvik.random_tokens(71, N_VOCAB, 3)
        for *how, share in (("--kind=fp8", "--block=32", 0.01), ("--kind=nvfp4", 0.03)):  # 2.7e-3 was seen of the first
            narrow, wide = self.as_block_floats("test-mla", *how)
            got, want = (kvik.logits(folder, tokens, all=True, kv_type="f32") for folder in (narrow, wide))
            error = np.sort(np.abs(got - want).max(1) / np.abs(want).max(1))
            self.assertLess(error[len(error) * 3 // 4], share)  # of experts, near ties may choose others

    def exact_floats(self, model, exact):
        """The weights of the oracle, each matrix of the layers as the folder stands for it, in f64."""
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
        for model in ("test-qwen3", "test-qwen3moe"):  # whose rows have one order in both
            narrow, _ = self.as_block_floats(model, "--kind=fp8", "--block=32")
            exact = self.exact_floats(model, lambda w: block_floats.exact_fp8(w, 32))
            self.assertLess(self.errors_of(narrow, *exact, env={"KVIK_ISA": "scalar"}).max(), 1e-3)

    def test_floats_of_4_bits_against_the_oracle(self):
        """But for the activations in 8 bits, by which some rows choose other experts."""
        for model in ("test-qwen3", "test-qwen3moe"):
            narrow, _ = self.as_block_floats(model, "--kind=nvfp4")
            exact = self.exact_floats(model, block_floats.exact_nvfp4)
            error = np.sort(self.errors_of(narrow, *exact))
            self.assertLess(error[-1 if model == "test-qwen3" else len(error) * 3 // 4], 0.03)
            tokens = kvik.random_tokens(71, N_VOCAB, 3)
            want = kvik.logits_text(narrow, tokens, all=True, env={"KVIK_ISA": "avx2"})
            for isa in set(kvik.isas()) - {"avx512bf16"}:
                for how in ({}, {"chunk": 1}, {"chunk": 7, "beside": 5, "threads": 1}):
                    self.assertTrue(kvik.logits_text(narrow, tokens, all=True, env={"KVIK_ISA": isa}, **how) == want, (isa, how))

    def test_floats_of_4_bits_become_a_gguf_file_bit_by_bit(self):
        """With the scale of each matrix, and of each expert's, beside it."""
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

    def test_floats_of_8_bits_that_cannot_be_are_refused(self):
        narrow, _ = self.as_block_floats("test-llama", "--kind=fp8", "--block=32")
        name = "model.layers.1.mlp.up_proj.weight"

        def spoil(config=None, tensors=None):
            folder = narrow + "-spoilt"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(narrow, folder)
            for file, change in (("config.json", config), ("model.safetensors", tensors)):
                path = os.path.join(folder, file)
                with open(path, "rb") as f:
                    raw = f.read()
                if change and file == "config.json":
                    raw = json.dumps(change(json.loads(raw))).encode()
                elif change:
                    n = struct.unpack("<Q", raw[:8])[0]
                    header, data = json.loads(raw[8:8 + n]), bytearray(raw[8 + n:])
                    change(header, data)
                    text = json.dumps(header).encode()
                    raw = struct.pack("<Q", len(text)) + text + data
                with open(path, "wb") as f:
                    f.write(raw)
            return folder

        block = lambda value: spoil(lambda c: {**c, "quantization_config": {**c["quantization_config"], **value}})
        self.refused(block({"weight_block_size": [16, 16]}), name.replace("1.mlp.up", "0.self_attn.q"), "_scale_inv", "has the shape", "expected")
        self.refused(block({"weight_block_size": [0, 16]}), "weight_block_size", "two numbers from 1 to 65536")
        self.refused(block({"fmt": "e5m2"}), "fmt", "e5m2", "expected e4m3")
        self.refused(block({"quant_method": "modelopt", "quant_algo": "FP8"}), "quant_algo", "FP8", "expected NVFP4")

        def no_number(header, data):
            data[header[name]["data_offsets"][0] + 5] = 0x7f

        self.refused(spoil(tensors=no_number), name, "no number")

        for scale in (float("nan"), float("inf"), -1e38):
            def spoilt_scale(header, data):
                at = header[name + "_scale_inv"]["data_offsets"][0] + 4
                data[at:at + 4] = struct.pack("<f", scale)

            self.refused(spoil(tensors=spoilt_scale), name + "_scale_inv", "holds", "expected scales")

        def no_scales(header, data):
            header["other.weight_scale_inv"] = header.pop(name + "_scale_inv")

        self.refused(spoil(tensors=no_scales), name, "i8")

    def test_floats_of_4_bits_that_cannot_be_are_refused(self):
        narrow, _ = self.as_block_floats("test-qwen3", "--kind=nvfp4")
        name = "model.layers.1.self_attn.q_proj.weight"

        def spoilt(change):
            path = os.path.join(narrow, "model.safetensors")
            with open(path, "rb") as f:
                raw = f.read()
            n = struct.unpack("<Q", raw[:8])[0]
            header, data = json.loads(raw[8:8 + n]), bytearray(raw[8 + n:])
            change(header, data)
            folder = narrow + "-spoilt"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(narrow, folder)
            text = json.dumps(header).encode()
            with open(os.path.join(folder, "model.safetensors"), "wb") as f:
                f.write(struct.pack("<Q", len(text)) + text + data)
            return folder

        def put(ending, value):
            def change(header, data):
                at = header[name + ending]["data_offsets"][0]
                data[at:at + len(value)] = value
            return change

        self.refused(spoilt(put("_scale", b"\x7f")), name, "a scale of 127", "expected 0 to 126")
        for scale in (float("nan"), float("inf"), 1e36):
            self.refused(spoilt(put("_scale_2", struct.pack("<f", scale))), name + "_scale_2", "holds", "expected a scale")
        for ending in ("_scale", "_scale_2"):
            self.refused(spoilt(lambda header, data: header.update({"other.weight" + ending: header.pop(name + ending)})), name)

    def test_scaling_may_be_said_as_transformers_5_does(self):
        for name in ("test-linear", "test-llama3", "test-yarn", "test-phi3", "test-gemma3"):
            def change(config):
                parameters = {**(config.pop("rope_scaling", None) or {}), "rope_theta": config.pop("rope_theta")}
                if "type" in parameters:
                    parameters["rope_type"] = parameters.pop("type")
                if "partial_rotary_factor" in config:
                    parameters["partial_rotary_factor"] = config.pop("partial_rotary_factor")
                if name == "test-gemma3":
                    parameters = {"full_attention": parameters, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
                    config["layer_types"] = ["sliding_attention"] * 5 + ["full_attention"]
                config["rope_parameters"] = parameters
            with self.subTest(preset=name):
                self.assert_same_logits(kvik.preset(name), self.copy(("config.json", change), model=name))

    def test_the_text_part_of_a_model_that_sees(self):
        path = kvik.preset("test-gemma3")
        folder = self.copy(("config.json", lambda c: c.update({"text_config": dict(c), "model_type": "gemma3"})), model="test-gemma3")
        whole = os.path.join(folder, "model.safetensors")
        with open(whole, "rb") as f:
            raw = f.read()
        os.remove(whole)
        n = struct.unpack("<Q", raw[:8])[0]
        header = {("language_model." + k if k != "__metadata__" else k): v for k, v in json.loads(raw[8:8 + n]).items()}
        end = len(raw) - 8 - n
        header["vision_tower.encoder.weight"] = {"dtype": "F16", "shape": [3, 2], "data_offsets": [end, end + 12]}
        text = json.dumps(header).encode()  # of any length: what follows is not aligned
        text += b" " * (1 - len(text) % 2)
        with open(whole, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + raw[8 + n:] + bytes(12))
        self.assert_same_logits(path, folder)

    def multimodal(self, preset, types, change=lambda tensors: None):
        """The folder of a model that sees, of whose parts the text's is this preset."""
        made = make_hf_model.Folder(kvik.preset(preset, "bf16"))
        change(made.tensors)
        tensors = {name.replace("model.", "model.language_model.", 1) if name.startswith("model.") else name: x for name, x in made.tensors.items()}
        for name in ("model.visual.blocks.0.attn.qkv.weight", "model.vision_tower.encoder.weight"):
            tensors[name] = (gguf_file.F32, np.ones((3, 2), np.float32))
        folder = os.path.join(self.root.name, f"{self.id()}-{preset}")
        os.mkdir(folder)
        config = {"model_type": types[0], "text_config": {**made.config(), "model_type": types[1]}, "vision_config": {"depth": 2}}
        make_hf_model.write_json(f"{folder}/config.json", config)
        make_hf_model.write_vocabulary(folder, made.metadata)
        make_hf_model.write_tensors(folder, tensors, 1)
        return folder

    def test_the_text_part_of_the_models_of_2026_that_see(self):
        def transpose_experts(tensors):
            make_hf_model.fuse_experts(tensors)
            for name in [n for n in tensors if ".experts." in n]:
                t, x = tensors[name]
                tensors[name] = (t, np.ascontiguousarray(x.swapaxes(1, 2)))

        for preset, types, *change in (("test-gemma4-e", ("gemma4", "gemma4_text")), ("test-gemma4", ("gemma4_unified", "gemma4_unified_text")),
                                       ("test-qwen3", ("qwen3_vl", "qwen3_vl_text")),
                                       ("test-qwen3moe", ("qwen3_vl_moe", "qwen3_vl_moe_text"), transpose_experts)):
            with self.subTest(preset=preset, type=types[0]):
                self.assert_same_logits(kvik.preset(preset, "bf16"), self.multimodal(preset, types, *change))

    def test_a_gguf_file_of_a_model_that_sees_has_the_text_of_one_that_does_not(self):
        path = kvik.preset("test-qwen3")
        seeing = gguf.Gguf(path)
        seeing.metadata = [(k.replace("qwen3.", "qwen3vl.", 1), t, b"qwen3vl" if k == "general.architecture" else v) for k, t, v in seeing.metadata]
        seeing.set("qwen3vl.rope.dimension_sections", gguf.ARR, (gguf.I32, [6, 5, 5, 0])).set("qwen3vl.n_deepstack_layers", gguf.U32, 3)
        model = os.path.join(self.root.name, "seeing.gguf")
        with open(model, "wb") as f:
            f.write(seeing.bytes())
        self.assert_same_logits(path, model)

    def test_every_command_takes_a_folder(self):
        folder = folder_of(kvik.demo_as("f32"))
        self.assertEqual(kvik.output("tokenize", folder, "ROMEO: a rose"), kvik.output("tokenize", "demo", "ROMEO: a rose"))
        ask = ("-p", "ROMEO:", "--max-tokens", 20, "--temperature", 0)
        self.assertEqual(kvik.output("run", folder, *ask), kvik.output("run", kvik.demo_as("f32"), *ask))
        self.assertEqual(kvik.output("run", folder, "Speak!", *ask[2:]), kvik.output("run", kvik.demo_as("f32"), "Speak!", *ask[2:]))
        shown = kvik.output("show", folder).decode()
        for words in ("architecture llama", "layers 6", "tokenizer:", "2,048 tokens"):
            self.assertIn(words, shown)
        plans = [json.loads(kvik.output("plan", m, "--json", "--ctx", 512)) for m in (folder, kvik.demo_as("f32"))]
        self.assertEqual(plans[0], plans[1])
        self.assertEqual(len(json.loads(kvik.output("bench", folder, "--prefill", 8, "--decode", 4, "--repeat", 1, "--json"))), 2)

    def test_a_server_serves_one_under_its_name_and_finds_its_pages_again(self):
        folder = folder_of(kvik.demo_as("f32"))
        with tempfile.TemporaryDirectory() as disk:
            cached = []
            moved = os.path.join(self.root.name, self.id())
            os.symlink(folder, moved)
            for path in (folder, moved):
                with Server(path, "--kv-memory", "16MiB", "--disk", disk) as server:
                    self.assertEqual(server.get("/v1/models").json["data"][0]["id"], os.path.basename(folder))
                    answer = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Speak of love. " * 20}],
                                                                  "max_tokens": 4, "temperature": 0}).json
                    cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
            self.assertEqual(cached[0], 0)
            self.assertGreater(cached[1], 32)

    def test_no_weight_is_read_for_show_and_plan(self):
        folder = self.copy()
        whole = os.path.join(folder, "model.safetensors")
        with open(whole, "rb") as f:
            raw = f.read()
        os.remove(whole)
        n = 8 + struct.unpack("<Q", raw[:8])[0]
        with open(whole, "wb") as f:
            f.write(raw[:n])
            f.truncate(len(raw))
        self.assertEqual(kvik.output("plan", folder, "--json"), kvik.output("plan", kvik.preset("test-llama"), "--json"))
        self.assertIn(b"layers 2", kvik.output("show", folder))

    def test_more_rows_than_the_tokenizer_has_tokens_are_unused_ones(self):
        path = kvik.preset("test-llama", "f32", 0, "--n-vocab", 300)
        folder = folder_of(path)
        with open(os.path.join(folder, "tokenizer.json")) as f:
            content = json.load(f)
        content["model"]["vocab"] = {k: v for k, v in content["model"]["vocab"].items() if v < N_VOCAB}
        with open(os.path.join(folder, "tokenizer.json"), "w") as f:
            json.dump(content, f)
        self.assert_same_logits(path, folder)
        kvik.output("run", folder, "-p", "a", "--max-tokens", 40, "--temperature", 5, "--seed", 1, "--ignore-eos")

    def test_the_end_tokens_of_generation_config_end_an_answer(self):
        first = int(kvik.greedy(kvik.preset("test-llama"), [5, 6], 1)[0])
        folder = self.copy(("generation_config.json", lambda c: c.update(eos_token_id=[2, first, 10**9])))
        done = kvik.output("run", folder, "--tokens", "5,6", "--max-tokens", 5, "--temperature", 0, "--ids")
        self.assertLess(len(done.split()), 5)

    def test_what_is_missing_or_too_much_is_named_as_the_folder_does(self):
        def renamed(folder, old, new):
            whole = os.path.join(folder, "model.safetensors")
            with open(whole, "rb") as f:
                raw = f.read()
            os.remove(whole)
            with open(whole, "wb") as f:
                f.write(raw.replace(old, new))
        folder = self.copy()
        renamed(folder, b'"model.layers.1.mlp.up_proj.weight"', b'"model.layers.1.mlp.xx_proj.weight"')
        self.refused(folder, "'model.layers.1.mlp.up_proj.weight' is missing")
        self.refused(self.copy(("config.json", lambda c: c.update(num_hidden_layers=1))), "model.layers.1.", "not part of")
        self.refused(self.copy(("config.json", lambda c: c.update(intermediate_size=128))), "model.layers.0.mlp.gate_proj.weight", "shape")
        folder = self.copy()
        renamed(folder, b'"F32","shape":[260,64]', b'"I32","shape":[260,64]')
        self.refused(folder, "'model.embed_tokens.weight'", "i32", "bf16")
        folder = self.copy()
        renamed(folder, b'"F32","shape":[260,64]', b'"F42","shape":[260,64]')
        self.refused(folder, "'model.embed_tokens.weight'", "'F42'", "BF16")

    def test_what_is_not_known_is_refused_with_what_is(self):
        for change, words in (
                ({"model_type": "gpt_neox"}, ("'gpt_neox'", "llama", "olmo2")),
                ({"model_type": "llava", "text_config": {"model_type": "llama"}}, ("'llava'", "llama")),
                ({"quantization_config": {"quant_method": "bitsandbytes"}}, ("bitsandbytes", "BF16")),
                ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, ("dynamic", "yarn")),
                ({"hidden_act": "relu"}, ("relu", "silu")),
                ({"hidden_size": "64"}, ("hidden_size", '"64"')),
                ({"num_hidden_layers": 2**31}, ("num_hidden_layers", "2147483648")),
                ({"num_attention_heads": 0}, ("num_attention_heads",)),
                ({"num_key_value_heads": 3}, ("3",)),
                ({"rope_theta": 0}, ("rope_theta",)),
                ({"vocab_size": 261}, ("embed_tokens",))):
            with self.subTest(change=change):
                self.refused(self.copy(("config.json", lambda c: c.update(change))), *words)

    def test_files_that_are_not_there(self):
        for name, words in (("config.json", ("config.json",)), ("tokenizer.json", ("tokenizer.json",)),
                            ("model.safetensors", ("model.safetensors.index.json",))):
            folder = self.copy()
            os.remove(os.path.join(folder, name))
            self.refused(folder, *words)

    def test_a_tokenizer_that_is_broken_is_one_sentence(self):
        self.refused(self.copy(("tokenizer.json", lambda c: c["model"].update(merges=[["a", "zz"]]))), "merges")
        self.refused(self.copy(("tokenizer.json", lambda c: c["model"]["vocab"].update(more=260))), "260")

    def test_an_index_may_only_name_files_beside_it(self):
        folder = folder_of(kvik.preset("test-llama"), "--shards=2")
        copied = os.path.join(self.root.name, self.id())
        shutil.copytree(folder, copied)
        path = os.path.join(copied, "model.safetensors.index.json")
        with open(path) as f:
            index = json.load(f)
        names = sorted(index["weight_map"])
        for file in ("../x.safetensors", "/etc/passwd", ".hidden.safetensors", "x.bin", 7):
            with self.subTest(file=file):
                with open(path, "w") as f:
                    json.dump({"weight_map": {**index["weight_map"], names[0]: file}}, f)
                self.refused(copied, names[0])
        with open(path, "w") as f:
            json.dump({"weight_map": {k: v for k, v in index["weight_map"].items() if k != names[0]}}, f)
        self.refused(copied, names[0])
        with open(path, "w") as f:
            json.dump({"weight_map": {**index["weight_map"], "model.extra.weight": index["weight_map"][names[0]]}}, f)
        self.refused(copied, "model.extra.weight")


if __name__ == "__main__":
    unittest.main()
