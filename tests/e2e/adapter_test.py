"""Tests adapters: values against merged models in float64, identical bits in every batch, and many adapters in one server."""
import functools
import itertools
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import kvik
from server import Server, in_parallel

import make_adapter
import model_presets

N_VOCAB = 260  # of the toy vocabulary
PRESETS = [name for name in model_presets.PRESETS if name.startswith("test-")]
SCALE = 2.0


def tokens_for(name, n=70):
    return kvik.random_tokens(n, N_VOCAB, len(name))


@functools.cache
def folder():
    path = tempfile.mkdtemp(prefix="kvik-adapters-")
    unittest.addModuleCleanup(shutil.rmtree, path)
    return path


@functools.cache
def adapter(model, seed=1, rank=4, kind="f32", only=()):
    """Returns (GGUF file, PEFT folder, pairs) of a random adapter."""
    pairs = make_adapter.random_pairs(kvik.DEMO if model == "demo" else model, rank, seed, kind, only)
    stem = os.path.join(folder(), f"{os.path.basename(model)}-{seed}-{rank}-{kind}-{'-'.join(only)}")
    model = kvik.DEMO if model == "demo" else model
    make_adapter.write_gguf(stem + ".gguf", model, pairs, SCALE * rank, kind)
    make_adapter.write_peft(stem, model, pairs, rank, SCALE * rank, kind)
    return stem + ".gguf", stem, pairs


def reference(model, tokens, pairs, scale=SCALE):
    meta, weights = kvik.weights(model)
    return kvik.reference_logits.forward(meta, make_adapter.merge(weights, pairs, scale), tokens)


def error(got, want):
    return (np.abs(got - want).max(1) / np.abs(want).max(1)).max()


def usual_error(got, want):
    """Returns the median over rows of the relative error."""
    return np.median(np.abs(got - want).max(1) / np.abs(want).max(1))


def share_of(preset):
    """Returns the bound that oracle_test.py uses without an adapter."""
    return 4e-6 if preset in kvik.ILL_CONDITIONED else 2e-6


class Values(unittest.TestCase):
    def test_every_family_is_within_two_millionths_of_the_merged_model(self):
        for name in PRESETS:
            with self.subTest(preset=name):
                model, tokens = kvik.preset(name, "f32", 1), tokens_for(name)
                gguf, peft, pairs = adapter(model)
                text = kvik.logits_text(model, tokens, all=True, kv_type="f32", adapter=gguf)
                self.assertEqual(text, kvik.logits_text(model, tokens, all=True, kv_type="f32", adapter=peft), "GGUF and PEFT differ")
                got = np.array([line.split(b" ") for line in text.splitlines()], np.float64)
                want = reference(model, tokens, pairs)
                self.assert_close(name, got, gguf, tokens, want)
                self.assertGreater(error(kvik.reference(model, tokens), want), 0.05, "the adapter does next to nothing")

    def assert_close(self, preset, got, path, tokens, want):
        """Checks the error bound, or that the adapter deviates no more than the same sums in a merged file: f32 loses precision over 27 layers, or
        when keys of the delta rule are short."""
        share = share_of(preset)
        if error(got, want) >= share:
            merged = os.path.join(folder(), "deep.gguf")
            kvik.output("adapter", "merge", kvik.preset(preset, "f32", 1), path, merged, "--type", "f32", "--force")
            share = error(kvik.logits(merged, tokens, all=True, kv_type="f32"), want)
        self.assertLess(error(got, want), share)

    def test_a_tied_head_is_not_the_embedding_any_more(self):
        model, tokens = kvik.preset("test-llama", "f32", 1, "--tied"), tokens_for("tied")
        for only in (("token_embd",), ("attn_q", "token_embd")):
            gguf, peft, pairs = adapter(model, only=only)
            want = reference(model, tokens, pairs)
            for path in (gguf, peft):
                self.assertLess(error(kvik.logits(model, tokens, all=True, kv_type="f32", adapter=path), want), 2e-6)

    def test_a_scale_after_the_path_is_used(self):
        model, tokens = kvik.preset("test-llama", "f32", 1), tokens_for("scaled")
        gguf, peft, pairs = adapter(model)
        for factor in (0.5, -1.25):
            want = reference(model, tokens, pairs, SCALE * factor)
            self.assertLess(error(kvik.logits(model, tokens, all=True, kv_type="f32", adapter=f"{peft}:{factor}"), want), 2e-6)
        self.assertEqual(kvik.logits_text(model, tokens, adapter=f"{gguf}:0"), kvik.logits_text(model, tokens))

    def test_ranks_and_types(self):
        model, tokens = kvik.preset("test-llama", "f32", 1), tokens_for("ranks")
        for rank, kind in itertools.product((1, 3, 16, 17, 256), ("f32", "f16", "bf16")):
            with self.subTest(rank=rank, type=kind):
                gguf, _, pairs = adapter(model, rank=rank, kind=kind)
                got = kvik.logits(model, tokens, all=True, kv_type="f32", adapter=gguf)
                self.assertLess(error(got, reference(model, tokens, pairs)), 2e-6)

    def test_experts_may_be_parameters(self):
        """Tests PEFT's target_parameters with ranks and alphas by pattern: the formula of PEFT's ParamWrapper, and the same bits as the other
        formats."""
        for name in ("test-mixtral", "test-qwen2moe", "test-qwen35moe", "test-gptoss", "test-granitemoe", "test-mla", "test-deepseek32", "test-minimaxm3-small", "test-lfm2moe", "test-granitehybrid", "test-qwen4exp", "test-deepseek4", "test-glm5next"):
            with self.subTest(preset=name):
                model, tokens = kvik.preset(name, "f32", 1), tokens_for(name)
                gguf, _, pairs = adapter(model)
                stacked = os.path.join(folder(), f"{name}-stacked")
                make_adapter.write_peft(stacked, model, pairs, 4, SCALE * 4, "f32", stacked=True)
                self.assert_formula(make_adapter.stacked_modules(make_adapter.Names(model), pairs)[0], pairs, name == "test-gptoss")
                text = kvik.logits_text(model, tokens, all=True, kv_type="f32", adapter=stacked)
                self.assertEqual(text, kvik.logits_text(model, tokens, all=True, kv_type="f32", adapter=gguf))
                got = np.array([line.split(b" ") for line in text.splitlines()], np.float64)
                self.assert_close(name, got, gguf, tokens, reference(model, tokens, pairs))

    def assert_formula(self, modules, pairs, takes_turns):
        """Checks that einsum("o r e, e r i -> e o i") of the written tensors is b · a of each expert: gates stacked on ups, and downs."""
        gates = [name for name in pairs if name.endswith("ffn_gate_exps.weight")]
        self.assertEqual(len(modules), 2 * len(gates))
        for i, gate in enumerate(gates):
            want = {part: pairs[gate.replace("ffn_gate", part)] for part in ("ffn_gate", "ffn_up", "ffn_down")}
            want = {part: b.astype(np.float64) @ a for part, (a, b) in want.items()}
            n_experts = len(want["ffn_gate"])
            made = [np.einsum("ore,eri->eoi", b.reshape(len(b), -1, n_experts).astype(np.float64), a.reshape(n_experts, -1, a.shape[-1]))
                    for _, a, b in modules[2 * i:2 * i + 2]]
            halves = (made[0][:, 0::2], made[0][:, 1::2]) if takes_turns else np.split(made[0], 2, 1)
            for part, product in zip(want, (*halves, made[1])):
                np.testing.assert_allclose(product, want[part], atol=1e-6)

    def test_quantized_bases_are_as_near_as_without_an_adapter(self):
        for element_type, share in (("q8_0", 0.03), ("q4_0", 0.08)):
            with self.subTest(type=element_type):
                model, tokens = kvik.preset("test-llama", element_type, 1), tokens_for("quantized")
                gguf, _, pairs = adapter(model, kind="bf16")
                self.assertLess(error(kvik.logits(model, tokens, all=True, kv_type="f32", adapter=gguf), reference(model, tokens, pairs)), share)

    def test_every_familys_quantized_base_is_as_near_as_without_an_adapter(self):
        """Compares medians over positions. Where 4-bit or 8-bit weights change a router's choice, or a key of the delta rule is short, the other
        positions deviate arbitrarily, with and without an adapter. Their deviation is as large as the effect of the adapter."""
        types = ("q8_0", "q4_0")
        cases = [(name, t) for i, name in enumerate(PRESETS) for t in (types if kvik.LONG else types[i % 2:i % 2 + 1])]
        for name, element_type in [*cases, ("test-gptoss", "mxfp4")]:
            with self.subTest(preset=name, type=element_type):
                model = kvik.preset(name, element_type, 1)
                self.assert_as_near_as_its_base(model, tokens_for(name), {"q8_0": 0.03, "q4_0": 0.08}.get(element_type, 0.08))

    def test_quantized_bases_of_all_blocks(self):
        for element_type in ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs", "q4_k_m", "q4_1", "q5_0", "q5_1", "iq4_nl"):
            with self.subTest(type=element_type):
                self.assert_as_near_as_its_base(kvik.demo_as(element_type), kvik.random_tokens(60, 2045, 5), 0.03)

    def assert_as_near_as_its_base(self, model, tokens, share):
        path, _, pairs = adapter(model, kind="bf16")
        without, want = kvik.reference(model, tokens), reference(model, tokens, pairs)
        got = kvik.logits(model, tokens, all=True, kv_type="f32", adapter=path)
        base = usual_error(kvik.logits(model, tokens, all=True, kv_type="f32"), without)
        self.assertLess(usual_error(got, want), max(1.5 * base, share))
        self.assertGreater(usual_error(got, without), 4 * usual_error(got, want), "the adapter does next to nothing")

    def test_a_merged_model_says_the_same(self):
        for name in ("test-llama", "test-qwen2moe", "test-mla", "test-qwen35", "test-qwen3next", "test-granitehybrid"):
            model, tokens = kvik.preset(name, "f32", 1), tokens_for(name)
            gguf, _, pairs = adapter(model)
            merged = os.path.join(folder(), f"{name}-merged.gguf")
            kvik.output("adapter", "merge", model, gguf, merged, "--type", "f32")
            with self.subTest(preset=name):
                got, want = kvik.logits(merged, tokens, all=True, kv_type="f32"), reference(model, tokens, pairs)
                self.assertLess(error(got, want), 1e-5 if name == "test-qwen3next" else share_of(name))

    def test_a_model_is_merged_into_other_types(self):
        model, tokens = kvik.preset("test-llama", "f32", 1, "--tied"), tokens_for("types")
        gguf, _, pairs = adapter(model)
        want = reference(model, tokens, pairs)
        for element_type, share in (("f16", 3e-3), ("bf16", 3e-2), ("q8_0", 0.05)):
            with self.subTest(type=element_type):
                merged = os.path.join(folder(), f"merged-{element_type}.gguf")
                kvik.output("adapter", "merge", model, gguf, merged, "--type", element_type)
                self.assertLess(error(kvik.logits(merged, tokens, all=True, kv_type="f32"), want), share)
        again = kvik.run("adapter", "merge", model, gguf, merged)
        self.assertEqual(again.returncode, 2)
        self.assertIn(b"--force", again.stderr)

    def test_show_tells_what_changes(self):
        model = kvik.preset("test-llama", "f32", 1)
        shown = kvik.output("adapter", "show", model, adapter(model)[1]).decode()
        for part in ("attn_q", "ffn_down", "output", "rank 4", "made for random", "its pages are its own"):
            self.assertIn(part, shown)
        head = kvik.output("adapter", "show", model, adapter(model, only=("output.weight",))[0]).decode()
        self.assertIn("its pages are the model's", head)

    def test_show_supports_recurrent_models(self):
        model = kvik.preset("test-qwen35", "f32", 1)
        shown = kvik.output("adapter", "show", model, adapter(model)[1]).decode()
        for part in ("attn_q ", "attn_gate", "ssm_beta", "ssm_out", "it changes K or V or the states"):
            self.assertIn(part, shown)
        head = kvik.output("adapter", "show", model, adapter(model, only=("output.weight",))[0]).decode()
        self.assertIn("it leaves K and V and the states as they are", head)
        convolution = "model.layers.0.linear_attn.conv1d"
        path = os.path.join(folder(), "convolution")
        make_adapter.write_peft(path, model, {}, 4, 8.0, "f32")
        make_adapter.write_safetensors(f"{path}/adapter_model.safetensors",
                                       make_adapter.halves([(convolution, np.zeros((4, 4)), np.zeros((384, 4)))], "f32"))
        done = kvik.run("adapter", "show", model, path)
        self.assertEqual((done.returncode != 0, done.stderr.count(b"\n")), (True, 1), done.stderr)
        self.assertIn(f"'{convolution}' is not a matrix".encode(), done.stderr)


class Exactness(unittest.TestCase):
    """Compares the output of `kvik logits`; its %.9g distinguishes any two floats."""

    def assert_same(self, got, want, **what):
        with self.subTest(**what):
            self.assertTrue(got == want, "a byte differs")

    def grid(self, model, tokens, variants, **options):
        a, b = adapter(model, 1, 16, "f16")[0], adapter(model, 2, 5, "bf16")[0]
        for chosen in (None, a, b):
            want = kvik.logits_text(model, tokens, all=True, threads=2, adapter=chosen, **options)
            for variant in variants:
                more = {"adapter_beside": f"{a},{b}"} if "beside" in variant else {}
                got = kvik.logits_text(model, tokens, all=True, adapter=chosen, **{"threads": 2, **options, **more, **variant})
                self.assert_same(got, want, adapter=chosen, **variant, **options)

    def test_two_adapters_and_none_in_every_batch(self):
        variants = [{"chunk": 1}, {"chunk": 7, "beside": 6, "threads": 1}, {"chunk": 33, "beside": 3}, {"beside": 6}, {"no_cache": True},
                    {"no_cache": True, "beside": 5}]
        for i, element_type in enumerate(("f32", "q8_0", "q4_0", "q4_k_m") if kvik.LONG else ("q8_0", "q4_0")):
            self.grid(kvik.demo_as(element_type), kvik.random_tokens(77, 2045, 5), variants, kv_type=("int8", "bf16", "f32", "int4")[i])

    def test_families_with_experts_and_latent_heads(self):
        variants = [{"chunk": 7, "beside": 5, "threads": 1}, {"no_cache": True}]
        for name in ("test-qwen2moe", "test-gptoss", "test-mla", "test-gemma3", "test-phi3"):
            self.grid(kvik.preset(name, "f32", 1), tokens_for(name, 61), variants)

    def test_models_with_a_state(self):
        variants = [{"chunk": 1}, {"chunk": 7, "beside": 5, "threads": 1}, {"chunk": 33, "beside": 3}, {"beside": 6}, {"no_cache": True},
                    {"no_cache": True, "beside": 5}]
        self.grid(kvik.preset("test-qwen35", "q8_0", 1), tokens_for("test-qwen35", 77), variants)
        for name in ("test-qwen3next", "test-lfm2moe", "test-granitehybrid"):
            self.grid(kvik.preset(name, "f32", 1), tokens_for(name, 61), variants[1:2] + variants[4:5])

    def test_every_instruction_set_gives_the_same_bits(self):
        model, tokens = kvik.demo_as("q8_0"), kvik.random_tokens(41, 2045, 5)
        a = adapter(model, 1, 16, "f16")[0]
        rows = {isa: kvik.logits_text(model, tokens, all=True, adapter=a, env={"KVIK_ISA": isa}) for isa in kvik.isas()}
        for isa, got in rows.items():
            self.assert_same(got, rows["scalar"], isa=isa)

    def test_speculation_changes_no_token(self):
        model = "demo"
        a = adapter(model, 1, 16, "f16")[0]
        prompt = kvik.random_tokens(20, 2045, 3) * 4  # repeats itself, so that there are draft tokens
        plain = kvik.greedy(model, prompt, 40, adapter=a, speculate="off")
        self.assertEqual(kvik.greedy(model, prompt, 40, adapter=a), plain)


class Refusals(unittest.TestCase):
    def assert_refused(self, path, *words):
        done = kvik.run("logits", kvik.preset("test-llama", "f32", 1), "--tokens", "5", "--adapter", path)
        self.assertIn(done.returncode, (1, 2), done.stderr)
        output = done.stderr.decode()
        self.assertEqual(output.count("\n"), 1, output)
        for word in words:
            self.assertIn(word, output)

    def test_a_folder_of_several_adapters_names_them(self):
        _, peft, _ = adapter(kvik.preset("test-llama", "f32", 1))
        parent = os.path.join(folder(), "parent")
        for name in ("poet", "clerk"):
            shutil.copytree(peft, os.path.join(parent, name))
        self.assert_refused(parent, "poet", "clerk")

    def test_hostile_files_get_one_sentence(self):
        model = kvik.preset("test-llama", "f32", 1)
        gguf, peft, _ = adapter(model)
        self.assert_refused(os.path.join(folder(), "none"), "none")
        self.assert_refused(folder(), "adapter_config.json")
        self.assert_refused(model, "general.type")
        self.assert_refused(adapter(kvik.preset("test-qwen2", "f32", 1))[0], "general.architecture")
        self.assert_refused(adapter(kvik.preset("test-mha", "f32", 1))[0], "made for another")
        self.assert_refused(f"{gguf}:1e9", "1000")
        broken = os.path.join(folder(), "broken")
        shutil.copytree(peft, broken, dirs_exist_ok=True)

        def with_config(**changes):
            with open(f"{peft}/adapter_config.json") as f:
                config = {**json.load(f), **changes}
            with open(f"{broken}/adapter_config.json", "w") as f:
                json.dump(config, f)

        with_config(use_dora=True)
        self.assert_refused(broken, "use_dora", "lora_magnitude_vector")
        with_config(r=5)
        self.assert_refused(broken, "rank")
        with_config(modules_to_save=["lm_head"])
        self.assert_refused(broken, "modules_to_save")
        with_config()
        with open(f"{peft}/adapter_model.safetensors", "rb") as f:
            whole = f.read()
        for cut in (0, 4, 100, len(whole) - 1):
            with open(f"{broken}/adapter_model.safetensors", "wb") as f:
                f.write(whole[:cut])
            self.assert_refused(broken, "adapter_model.safetensors")
        nan = bytearray(whole)
        nan[-4:] = struct.pack("<f", float("nan"))
        with open(f"{broken}/adapter_model.safetensors", "wb") as f:
            f.write(nan)
        self.assert_refused(broken, "finite")


class Serving(unittest.TestCase):
    MODEL = "demo"

    def adapters(self, n, rank=4):
        return {f"a{i}": adapter(self.MODEL, 10 + i, rank, "f16")[i % 2] for i in range(n)}

    def alone(self, tokens, path=None, n=24):
        return kvik.demo_text(kvik.greedy(self.MODEL, tokens, n, adapter=path)).decode()

    def ask(self, server, tokens, model=None, **fields):
        """Returns (text, number of cached tokens)."""
        more = {"model": model} if model else {}
        got = server.complete(tokens, max_tokens=24, ignore_eos=True, **more, **fields)
        return got["choices"][0]["text"], got["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_clients_choose_by_name_and_do_not_share_pages_across_adapters(self):
        paths = self.adapters(2)
        flags = [flag for name, path in paths.items() for flag in ("--adapter", f"{name}={path}")]
        tokens = kvik.random_tokens(150, kvik.DEMO_BOS, 21)
        with Server(self.MODEL, *flags, "--alias", "bard") as server:
            listed = {m["id"]: m for m in server.get("/v1/models").json["data"]}
            self.assertEqual(set(listed), {"demo", "bard", "a0", "a1"})
            self.assertEqual(listed["a0"]["parent"], "demo")
            self.assertNotIn("parent", listed["demo"])
            want = {None: self.alone(tokens)} | {name: self.alone(tokens, path) for name, path in paths.items()}
            self.assertEqual(len(set(want.values())), 3)
            for name, text in want.items():
                got, cached = self.ask(server, tokens, name)
                self.assertEqual((got, cached), (text, 0), name)
            for name, text in want.items():
                for called in ((name, f"demo:{name}", f"bard:{name}") if name else (None, "demo", "bard")):
                    got, cached = self.ask(server, tokens, called)
                    self.assertEqual((got, cached), (text, len(tokens) - 1), called)
            together = in_parallel(*[lambda n=n: self.ask(server, tokens + [7], n)[0] for n in (None, "a0", "a1", "a0", None, "a1")])
            self.assertEqual(together, [self.alone(tokens + [7], paths.get(n)) for n in (None, "a0", "a1", "a0", None, "a1")])
            missing = server.post("/v1/completions", {"prompt": "x", "model": "demo:a2"})
            self.assertEqual((missing.status, missing.error["code"]), (404, "model_not_found"))
            chat = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Speak."}], "model": "a1", "max_tokens": 8})
            self.assertEqual((chat.status, chat.json["model"]), (200, "a1"))
            explained = server.post("/kvik/explain", {"prompt": "To be", "model": "a1", "max_tokens": 8})
            self.assertEqual(explained.status, 200)
            self.assertIn(b'"model":"a1"', explained.body)
            vectors = [server.post("/v1/embeddings", {"input": "To be", "model": m}).json["data"][0]["embedding"] for m in ("demo", "a0", "a1")]
            self.assertNotEqual(vectors[0], vectors[1])
            self.assertNotEqual(vectors[1], vectors[2])

    def test_states_are_not_shared_across_adapters(self):
        model = kvik.preset("test-qwen35", "f32", 1)
        paths = {f"a{i}": adapter(model, 10 + i, 4)[i % 2] for i in range(2)}
        flags = [flag for name, path in paths.items() for flag in ("--adapter", f"{name}={path}")]
        tokens = tokens_for("states", 150)
        with Server(model, *flags, "--kv-memory", "64MiB") as server:
            cold = {name: self.ask(server, tokens, name) for name in (None, "a0", "a1")}
            self.assertEqual([cached for _, cached in cold.values()], [0, 0, 0])
            self.assertEqual(len({text for text, _ in cold.values()}), 3)
            for name, (text, _) in cold.items():
                self.assertEqual(self.ask(server, tokens, name), (text, len(tokens) - 1), name)

    def test_adapters_come_and_go_while_the_server_runs(self):
        path = self.adapters(1)["a0"]
        with Server(self.MODEL, "--adapter-folder", folder()) as server:
            relative = os.path.relpath(path, folder())
            self.assertEqual(server.post("/v1/adapters", {"name": "poet", "path": relative}).status, 200)
            again = server.post("/v1/adapters", {"name": "poet", "path": relative})
            self.assertEqual((again.status, again.error["param"]), (400, "name"))
            outside = server.post("/v1/adapters", {"name": "other", "path": "/etc/passwd"})
            self.assertEqual((outside.status, outside.error["param"]), (400, "path"))
            tokens = kvik.random_tokens(40, kvik.DEMO_BOS, 5)
            self.assertEqual(self.ask(server, tokens, "poet")[0], self.alone(tokens, path))
            half = server.post("/v1/load_lora_adapter", {"lora_name": "half", "lora_path": path, "scale": 0.5})
            self.assertEqual(half.status, 200)
            self.assertEqual(self.ask(server, tokens, "half")[0], self.alone(tokens, f"{path}:0.5"))
            self.assertEqual(server.request("DELETE", "/v1/adapters/poet").status, 200)
            self.assertEqual(server.post("/v1/completions", {"prompt": "x", "model": "poet"}).status, 404)
            self.assertEqual(server.post("/v1/unload_lora_adapter", {"lora_name": "half"}).status, 200)
            self.assertEqual([m["id"] for m in server.get("/v1/models").json["data"]], ["demo"])

    def test_a_hundred_adapters_under_load(self):
        """Eight clients use a hundred adapters while others are loaded and unloaded, with memory for only a few."""
        paths = self.adapters(12)
        names = [f"n{i}" for i in range(100)]
        tokens = kvik.random_tokens(40, kvik.DEMO_BOS, 9)
        want = {path: self.alone(tokens, path) for path in paths.values()}
        of = {name: list(paths.values())[i % 12] for i, name in enumerate(names)}
        one = json.loads(self.first_card(next(iter(paths.values()))))["bytes"]
        with Server(self.MODEL, "--adapter-folder", folder(), "--adapter-memory", 12 * one, "--kv-memory", "16MiB") as server:
            for name in names:
                answer = server.post("/v1/adapters", {"name": name, "path": of[name]})
                self.assertEqual(answer.status, 200, answer.body)
            before, stop, most = server.rss_bytes(), threading.Event(), []

            def churn():
                for i in itertools.count():
                    if stop.is_set():
                        return
                    path = list(paths.values())[i % 12]
                    added = server.post("/v1/adapters", {"name": f"extra{i}", "path": path})
                    if added.status == 200:
                        assert server.request("DELETE", f"/v1/adapters/extra{i}").status == 200
                    else:
                        assert added.status == 429, added.body
                    loaded = [c for c in server.get("/v1/adapters").json["data"] if c["loaded"]]
                    most.append(sum(c["bytes"] for c in loaded))

            def client(seed):
                rng = random.Random(seed)
                for _ in range(100 if kvik.LONG else 25):
                    name = rng.choice(names)
                    answer = server.post("/v1/completions", {"prompt": tokens, "temperature": 0, "max_tokens": 24, "ignore_eos": True, "model": name})
                    if answer.status == 429:  # all of the memory is in use; this never happens when all requested adapters fit
                        raise AssertionError(answer.body)
                    self.assertEqual(answer.status, 200, answer.body)
                    self.assertEqual(answer.json["choices"][0]["text"], want[of[name]], name)

            churning = threading.Thread(target=churn)
            churning.start()
            try:
                in_parallel(*[lambda s=s: client(s) for s in range(8)])
            finally:
                stop.set()
                churning.join()
            self.assertLessEqual(max(most), 12 * one)
            if not kvik.SANITIZED:
                self.assertLess(server.rss_bytes() - before, 64 << 20)

    def test_unloading_leaks_nothing(self):
        """Loads adapters, uses some of them and unloads them: ten thousand with --long."""
        paths = list(self.adapters(4).values())
        tokens = kvik.random_tokens(40, kvik.DEMO_BOS, 9)
        n = 10_000 if kvik.LONG else 400
        with Server(self.MODEL, "--adapter-folder", folder(), "--kv-memory", "3MiB") as server:
            def descriptors():
                return len(os.listdir(f"/proc/{server.process.pid}/fd"))

            for i in range(n):
                if i == n // 8:  # by now all reusable memory and all pages are allocated
                    before = server.rss_bytes(), descriptors()
                self.assertEqual(server.post("/v1/adapters", {"name": f"n{i}", "path": paths[i % 4]}).status, 200)
                if i % 10 == 0:
                    self.assertEqual(server.post("/v1/completions", {"prompt": tokens + [i % 2000], "model": f"n{i}", "max_tokens": 4}).status, 200)
                self.assertEqual(server.request("DELETE", f"/v1/adapters/n{i}").status, 200)
            after = server.rss_bytes(), descriptors()
            self.assertEqual([m["id"] for m in server.get("/v1/models").json["data"]], ["demo"])
            if not kvik.SANITIZED:
                self.assertLess(after[0] - before[0], 6 << 20, (before, after))
            self.assertLessEqual(after[1], before[1] + 2)

    def first_card(self, path):
        with Server(self.MODEL, "--adapter", f"x={path}") as server:
            return json.dumps(server.get("/v1/adapters").json["data"][0])


class Trained(unittest.TestCase):
    def test_a_trained_adapter_predicts_another_text(self):
        """The demo model is trained on plays. An adapter trained on its quantized weights must predict the text of a license better."""
        with open(os.path.join(kvik.ROOT, "LICENSE"), encoding="utf-8") as f:
            text = f.read()
        shown, held = (os.path.join(folder(), name) for name in ("shown.txt", "held.txt"))
        cut = len(text) * 9 // 10
        for path, part in ((shown, text[:cut]), (held, text[cut:])):
            with open(path, "w", encoding="utf-8") as f:
                f.write(part)
        out = os.path.join(folder(), "documents")
        subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make/train_adapter.py"), "--text", shown, "--kvik", kvik.BINARY, "--demo", kvik.DEMO,
                        "--out", out, "--steps", "30", "--batch", "4", "--length", "48"], check=True, capture_output=True)
        output = [json.loads(kvik.output("perplexity", "demo", held, "--ctx", 128, "--windows", 16, "--json", *more))["perplexity"]
                for more in ((), ("--adapter", out))]
        self.assertLess(output[1], output[0] / 8, output)


if __name__ == "__main__":
    unittest.main()
