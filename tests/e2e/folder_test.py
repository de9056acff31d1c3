"""Tests that a Hugging Face folder with the same weights as a GGUF file gives the same bytes of logits."""
import json
import os
import shutil
import struct
import tempfile
import unittest

import numpy as np

import gguf
import kvik
import folder_files
import make_hf_model
import gguf_file
from hf_folder import N_VOCAB, FolderCase, folder_of
from server import Server

EXPERTS = ("test-mixtral", "test-qwen2moe", "test-qwen3moe", "test-qwen35moe", "test-qwen3next", "test-qwen4exp", "test-glm5next", "test-lfm2moe", "test-nemotronhmoe")


class ModelFolder(FolderCase):
    def test_every_family_gives_the_bytes_of_its_gguf_file(self):
        for name in kvik.PRESETS:
            if name in ("test-dense-first", "test-bailingmoe2"):  # no config.json can express them
                continue
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

    def test_the_text_part_of_a_vision_model(self):
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
        text = json.dumps(header).encode()  # the length is arbitrary, so the data that follows is not aligned
        text += b" " * (1 - len(text) % 2)
        with open(whole, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + raw[8 + n:] + bytes(12))
        self.assert_same_logits(path, folder)

    def test_learned_factors_of_rope_have_an_end(self):
        """Folders state the logarithm of each factor, GGUF files state divisors."""
        made = make_hf_model.Folder(kvik.preset("test-mistrallarge4", "f32"))
        made.tensors["lerope.alpha"] = (gguf_file.F32, np.full(8, 1e4, np.float32))
        with tempfile.TemporaryDirectory() as folder:
            folder_files.write_json(f"{folder}/config.json", made.config())
            folder_files.write_vocabulary(folder, made.metadata)
            folder_files.write_tensors(folder, made.tensors, 1)
            done = kvik.run("logits", folder, "--tokens", "1,2")
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"tensor 'lerope.alpha' gives a divisor of 0, expected numbers > 0", done.stderr)

    def multimodal(self, preset, types, change=lambda tensors: None):
        """Returns the folder of a vision model whose text part is this preset."""
        made = make_hf_model.Folder(kvik.preset(preset, "bf16"))
        change(made.tensors)
        tensors = {name.replace("model.", "model.language_model.", 1) if name.startswith("model.") else name: x for name, x in made.tensors.items()}
        for name in ("model.visual.blocks.0.attn.qkv.weight", "model.vision_tower.encoder.weight"):
            tensors[name] = (gguf_file.F32, np.ones((3, 2), np.float32))
        folder = os.path.join(self.root.name, f"{self.id()}-{preset}")
        os.mkdir(folder)
        config = {"model_type": types[0], "text_config": {**made.config(), "model_type": types[1]}, "vision_config": {"depth": 2}}
        folder_files.write_json(f"{folder}/config.json", config)
        folder_files.write_vocabulary(folder, made.metadata)
        folder_files.write_tensors(folder, tensors, 1)
        return folder

    def test_the_text_part_of_newer_vision_models(self):
        def transpose_experts(tensors):
            make_hf_model.fuse_experts(tensors)
            for name in [n for n in tensors if ".experts." in n]:
                t, x = tensors[name]
                tensors[name] = (t, np.ascontiguousarray(x.swapaxes(1, 2)))

        for preset, types, *change in (("test-gemma3n", ("gemma3n", "gemma3n_text")), ("test-gemma4-e", ("gemma4", "gemma4_text")), ("test-gemma4", ("gemma4_unified", "gemma4_unified_text")),
                                       ("test-qwen3", ("qwen3_vl", "qwen3_vl_text")),
                                       ("test-qwen3moe", ("qwen3_vl_moe", "qwen3_vl_moe_text"), transpose_experts)):
            with self.subTest(preset=preset, type=types[0]):
                self.assert_same_logits(kvik.preset(preset, "bf16"), self.multimodal(preset, types, *change))

    def test_a_gguf_vision_model_has_the_logits_of_its_text_model(self):
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
        plans = [json.loads(kvik.output("plan", m, "--json", "--ctx", 512, "--memory", "16GiB")) for m in (folder, kvik.demo_as("f32"))]
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
        plans = [kvik.output("plan", model, "--json", "--memory", "16GiB") for model in (folder, kvik.preset("test-llama"))]
        self.assertEqual(plans[0], plans[1])
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
        self.refused(self.copy(("config.json", lambda c: c.update(num_hidden_layers=1))), "model.layers.1.", "not supported")
        self.refused(self.copy(("config.json", lambda c: c.update(intermediate_size=128))), "model.layers.0.mlp.gate_proj.weight", "shape")
        folder = self.copy()
        renamed(folder, b'"F32","shape":[260,64]', b'"I32","shape":[260,64]')
        self.refused(folder, "'model.embed_tokens.weight'", "i32", "bf16")
        folder = self.copy()
        renamed(folder, b'"F32","shape":[260,64]', b'"F42","shape":[260,64]')
        self.refused(folder, "'model.embed_tokens.weight'", "'F42'", "BF16")

    def test_what_is_not_known_is_refused_with_what_is(self):
        for change, words in (
                ({"model_type": "rwkv"}, ("'rwkv'", "llama", "olmo2")),
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

    def test_a_pointer_of_git_lfs_says_how_the_file_is_downloaded(self):
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
        gguf = os.path.join(self.root.name, "pointer.gguf")
        paths = [(gguf, gguf)]
        for i, name in enumerate(("config.json", "tokenizer.json", "model.safetensors")):
            folder = os.path.join(self.root.name, f"pointer-{i}")
            shutil.copytree(folder_of(kvik.preset("test-llama")), folder)
            paths.append((folder, os.path.join(folder, name)))
        for model, path in paths:
            with self.subTest(path=path):
                with open(path, "w") as f:
                    f.write(pointer)
                self.refused(model, "Git LFS", "git lfs pull")

    def test_a_repository_of_a_hubs_cache_names_its_snapshot(self):
        repository = os.path.join(self.root.name, "models--a--b")
        os.makedirs(os.path.join(repository, "snapshots"))
        os.symlink(folder_of(kvik.preset("test-llama")), os.path.join(repository, "snapshots/0123abcd"))
        self.refused(repository, "snapshots/0123abcd")

    def test_a_head_that_differs_from_a_tied_embedding_counts(self):
        model = kvik.preset("test-llama")
        self.assert_same_logits(model, self.copy(("config.json", lambda c: c.update(tie_word_embeddings=True))))

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
