"""Tests `kvik plan`, and that a server uses no more memory than planned."""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import kvik
from server import Server, free_port

import make_model
import model_presets
import state_layers

MIB = 1 << 20
ELEMENT_BYTES = {"f32": 4, "bf16": 2}


def latent_bytes(kv_type, rank, _, __, rope_dims, ___):
    """Returns the bytes of one K for all heads (MLA): f32 or bf16, or levels with one scale for the latent part and one for the rest (int4: one
    per 64 to
    128 values)."""
    n = rank + rope_dims
    if kv_type == "int8":
        return n + (2 if rope_dims else 1) * 4
    if kv_type == "int4":
        dims = next((d for d in (64, 128, 256) if d < rank and rank % d == 0 and -(-n // d) <= 8), rank)
        return n // 2 + 2 * -(-n // dims)
    return n * {"f32": 4, "bf16": 2}[kv_type]

NEEDED = {"weights_bytes", "kv_bytes_per_token", "kv_bytes_per_user", "kv_bytes_total", "fits"}


def plan(model, **options):
    return json.loads(kvik.output("plan", model, "--json", *kvik.flags(options)))


class Plan(unittest.TestCase):
    def test_what_scripts_rely_on_is_there(self):
        p = plan("demo", ctx=1024, users=3)
        more = plan("demo", ctx=1024, users=3, adapter_memory="64MiB", memory="512MiB")
        self.assertEqual(more["buffers"]["adapters"], 64 << 20)
        self.assertEqual(more["total_bytes"], p["total_bytes"] + (64 << 20))
        self.assertLess(more["users_that_fit"], plan("demo", ctx=1024, memory="512MiB")["users_that_fit"])
        self.assertLessEqual(NEEDED, set(p))
        self.assertEqual(p["kv_bytes_per_user"], 1024 * p["kv_bytes_per_token"] + p["open_page_bytes"])
        exact = plan("demo", ctx=1024, users=3, kv_type="bf16")
        self.assertEqual((exact["open_page_bytes"], exact["kv_bytes_per_user"]), (0, 1024 * exact["kv_bytes_per_token"]))
        self.assertEqual(exact["kv_bytes_total"], 3 * exact["kv_bytes_per_user"])
        self.assertEqual(p["total_bytes"], p["weights_bytes"] + p["kv_bytes_total"] + p["buffers_bytes"])
        self.assertEqual(p["buffers_bytes"], sum(p["buffers"].values()))

    def test_every_preset_is_known_by_its_name(self):
        """KV bytes per token: 2 · layers · KV heads · head_dim · bytes per element, and index keys."""
        for name, (_, layers, _, _, kv_heads, head_dim, _, ctx, _, extra) in model_presets.PRESETS.items():
            for kv_type, element_bytes in ELEMENT_BYTES.items() if kvik.LONG or name.startswith("test-") else [("bf16", 2)]:
                p = plan(name, kv_type=kv_type)
                if "kinds" in extra:
                    kinds = make_model.LayerKinds(name, layers)
                    own = [kinds.heads(i) for i in range(layers) if not kinds.shares(i)]
                    self.assertEqual(p["kv_bytes_per_token"], sum(2 * n * head for n, head in own) * element_bytes, name)
                elif "joint" in extra:  # K and V as one vector; entries in places of a token, at least one of a page
                    of_token, element = latent_bytes(kv_type, head_dim, 0, 0, 0, 0), 4 if kv_type == "f32" else 2
                    entries = [n for n in make_model.entry_tokens(extra, layers) if n]
                    places = sum(max(1, 32 // n) for n in entries)
                    self.assertEqual(p["kv_bytes_per_token"], layers * of_token + places * of_token // 32 + entries.count(4) * extra["indexer"][1] * element // 4, name)
                elif "latent" in extra:
                    own = [i for i in range(layers) if state_layers.attends(extra, i, layers) and extra.get("kv_sources", range(layers))[i] == i]
                    _, index_dim, _, shared = extra.get("indexer", (0, 0, 0, ()))
                    attending = sum(state_layers.attends(extra, i, layers) for i in range(layers))
                    block = extra.get("keys", {}).get("attention.indexer.kpool", 1)  # tokens with one key
                    index_bytes = (attending - len(shared)) * index_dim // block * (4 if kv_type == "f32" else 2)
                    self.assertEqual(p["kv_bytes_per_token"], sum(latent_bytes(kv_type, *make_model.latent_sizes(extra, i)) for i in own) + index_bytes, name)
                else:
                    own = [extra.get("window_kv_heads", kv_heads) if i in extra.get("windowed", ()) else kv_heads
                           for i in range(layers) if state_layers.attends(extra, i, layers)]
                    index_bytes = 0
                    if "block_indexer" in extra:
                        index_bytes = (layers - extra.get("dense_layers", 0)) * extra["block_indexer"][1] * (4 if kv_type == "f32" else 2)
                    if "blocks" in extra:  # a key for each block
                        _, index_dim, _, block = extra["blocks"]
                        index_bytes = len(own) * index_dim // block * (4 if kv_type == "f32" else 2)
                    both = head_dim + -(-head_dim // 16) * 16  # pages pad V
                    self.assertEqual(p["kv_bytes_per_token"], sum(own) * both * element_bytes + index_bytes, name)
                self.assertEqual(p["ctx"], ctx)

    def test_latent_and_windowed_caches_are_as_small_as_their_papers_say(self):
        for name, n_bytes in (("gpt-oss-20b", 24576), ("gemma4-26b-a4b", 20480), ("gemma4-31b", 81920), ("gemma4-e2b", 6144), ("gemma4-e4b", 16384)):
            self.assertEqual(plan(name, kv_type="bf16")["kv_bytes_per_token_beyond_windows"], n_bytes, name)
        for name, n_bytes in (("glm-4.7-flash", 54144), ("deepseek-v3", 70272), ("kimi-k2", 70272), ("deepseek-v3.2", 85888), ("glm-5.2", 95232), ("mistral-large-4", 99072), ("deepseek-v2-lite", 31104)):
            self.assertEqual(plan(name, kv_type="bf16")["kv_bytes_per_token"], n_bytes, name)
        self.assertEqual(plan("gpt-oss-20b:mxfp4", kv_type="bf16")["kv_bytes_per_token"], 2 * 24576)

    def test_a_70b_model_of_80_layers_needs_what_the_textbooks_say(self):
        """80 layers, 8 KV heads of 128 at 16 bits: 10.7 GB for 32 Ki tokens, 42.9 GB for 128 Ki."""
        for n_ctx, gigabytes in (("32k", 10.7), ("128k", 42.9)):
            plans = {t: plan("llama-3.1-70b", ctx=n_ctx, kv_type=t) for t in ("f32", "bf16", "int8", "int8/int4", "int4")}
            # In addition to the pages of these tokens there are two open pages in bf16.
            open_bytes = 64 * plans["bf16"]["kv_bytes_per_token"]
            self.assertEqual([p["open_page_bytes"] for p in plans.values()], [0, 0, open_bytes, open_bytes, open_bytes])
            per_user = {t: p["kv_bytes_per_user"] - p["open_page_bytes"] for t, p in plans.items()}
            self.assertEqual(round(per_user["bf16"] / 1e9, 1), gigabytes)
            self.assertEqual(per_user["f32"], 2 * per_user["bf16"])
            # In addition to the halves and quarters there are the scales: a float for each head of K and V, and two bytes for each 32 or 64 values of
            # int4.
            self.assertEqual(per_user["int8"], per_user["bf16"] // 2 + per_user["bf16"] // (2 * 128) * 4)
            # K of int4 has two bytes for each channel of sixteen tokens, and a page has sixteen scales.
            head_tokens = 80 * 8 * (int(n_ctx[:-1]) << 10)
            values = head_tokens * (64 + 2 * 2)
            self.assertEqual(per_user["int4"], values + head_tokens * (64 * 32 + 4 * 128 + 64) // 32)
            self.assertEqual(per_user["int8/int4"], values + per_user["int8"] // 2)
            self.assertGreater(per_user["int4"], per_user["bf16"] / 4)
            self.assertLessEqual(per_user["int4"], 1.13 * 2 * values, "K by channel takes at most 13% more than a scale for each token")

    def test_open_pages_are_a_part_of_the_budget(self):
        for kv_type in ("int8", "int4"):
            p = plan("demo", ctx=1024, users=3, kv_type=kv_type)
            self.assertEqual(p["kv_bytes_per_user"], 1024 * p["kv_bytes_per_token"] + p["open_page_bytes"])
            self.assertGreaterEqual(p["kv_bytes_total"], 3 * p["kv_bytes_per_user"] - p["kv_bytes_per_token"] * 32)
        self.assertEqual(plan("test-qwen35", kv_type="int4")["open_page_bytes"], 0, "a model with states has none")
        text = kvik.output("plan", "demo", "--kv-type", "int4").decode()
        self.assertIn("open pages", text)
        self.assertNotIn("open pages", kvik.output("plan", "demo", "--kv-type", "bf16").decode())

    def test_windows_bound_what_a_user_needs(self):
        """gemma3-27b stores K and V of 1024 tokens only in 52 of 62 layers."""
        near, far = (plan("gemma3-27b", ctx=n, kv_type="bf16")["kv_bytes_per_user"] for n in ("32k", "128k"))
        self.assertLess(far, 0.3 * plan("gemma3-27b", kv_type="bf16")["kv_bytes_per_token"] * (128 << 10))
        self.assertLess(far / near, 4)

    def test_experts_count_as_weights_but_not_as_cache(self):
        p = plan("qwen3-30b-a3b:q4_0", kv_type="bf16")
        n_parameters = 48 * (2048 * (2 * 4096 + 2 * 512) + 128 * 3 * 768 * 2048 + 128 * 2048) + 2 * 151936 * 2048
        self.assertAlmostEqual(p["weights_bytes"] / (n_parameters * 18 / 32), 1, delta=0.01)
        self.assertEqual(p["kv_bytes_per_token"], 2 * 48 * 4 * 128 * 2)

    def test_without_json_it_says_what_fits_which_memory(self):
        text = kvik.output("plan", "llama-3.1-70b", "--ctx", "128k").decode()
        _, head, *lines = text[text.index("users of 131072 tokens that fit"):].splitlines()
        table = [[line[:10].strip(), line[10:18].strip(), *(line[at:at + 14].strip() for at in range(18, len(line), 14))] for line in lines]
        self.assertEqual([row[:2] for row in table], [[w, k] for w in ("bf16", "q8_0", "q4_k_m") for k in ("bf16", "int8", "int4")])
        sizes = [int(n) for n in head.split()[3::2]]
        self.assertEqual(sizes, [sizes[0] * 2**i for i in range(len(sizes))])
        # A cell of the table is the result of --memory with that size.
        at = sizes.index(128)
        row = next(r for r in table if r[:2] == ["q4_k_m", "int8"])
        self.assertEqual(int(row[2 + at].split()[0]), plan("llama-3.1-70b:q4_k_m", ctx="128k", kv_type="int8", memory="128GiB")["users_that_fit"])

    def test_the_chart_is_one_svg_with_a_line_for_each_pair_of_types(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "fit.svg")
            kvik.output("plan", "llama-3.1-70b", "--ctx", "32k", "--svg", path)
            tree = xml.etree.ElementTree.parse(path)
        lines = [e for e in tree.iter("{http://www.w3.org/2000/svg}path") if e.get("class", "").startswith("line")]
        self.assertEqual(len(lines), 2 * 9)  # including those of the legend
        done = kvik.run("plan", "demo", "--svg", "/nonexistent/x.svg")
        self.assertEqual(done.returncode, 1)

    def test_a_preset_may_name_its_weight_type(self):
        q4, q8 = (plan(f"llama-3.1-8b:{t}")["weights_bytes"] for t in ("q4_0", "q8_0"))
        self.assertAlmostEqual(q8 / q4, 34 / 18, delta=0.01)  # bytes of a block of 32
        self.assertEqual(q4, plan("synthetic:llama-3.1-8b:q4_0")["weights_bytes"])

    def test_integer_pages_cost_their_scales_and_no_more(self):
        per_token = {t: plan("llama-3.1-8b", kv_type=t)["kv_bytes_per_token"] for t in ("bf16", "int8")}
        overhead = per_token["int8"] / (per_token["bf16"] / 2) - 1
        self.assertLessEqual(overhead, 0.07)

    def test_what_does_not_fit_is_said(self):
        p = plan("demo", ctx=2048, users=4)
        self.assertTrue(plan("demo", ctx=2048, users=4, memory=p["total_bytes"])["fits"])
        self.assertFalse(plan("demo", ctx=2048, users=4, memory=p["total_bytes"] - 1)["fits"])

    def test_as_many_users_fit_as_it_says(self):
        for kv_type in ("f32", "int8", "int4"):
            n = plan("demo", ctx=2048, kv_type=kv_type, memory="512MiB")["users_that_fit"]
            self.assertGreater(n, 0)
            self.assertTrue(plan("demo", ctx=2048, kv_type=kv_type, users=n, memory="512MiB")["fits"])
            self.assertFalse(plan("demo", ctx=2048, kv_type=kv_type, users=n + 1, memory="512MiB")["fits"])

    def test_a_file_is_planned_by_its_table_alone(self):
        """The values of the weights do not matter: they are a hole in the file, which takes no disk space."""
        path = kvik.preset("test-llama", "f32")
        with open(path, "rb") as f:
            whole = f.read()
        sparse_file = os.path.join(kvik.model_folder(), f"hollow-{os.getpid()}.gguf")
        self.addCleanup(os.remove, sparse_file)
        with open(sparse_file, "wb") as f:
            f.write(whole[:len(whole) // 2])
            f.truncate(len(whole))
        self.assertEqual(plan(sparse_file, memory="16GiB"), plan(path, memory="16GiB"))

    def test_without_json_there_is_a_row_for_each_kv_type(self):
        text = kvik.output("plan", "demo", "--ctx", 1024, "--users", 2).decode()
        for word in ("weights", "buffers", "f32", "bf16", "int8", "int8/int4", "users that fit"):
            self.assertIn(word, text)

    def test_it_names_what_pages_lose_of_a_trained_model(self):
        """Orders the types by their sizes."""
        types = ("f32", "bf16", "int8", "int8/int4", "int4")
        plans = [plan("demo", kv_type=t) for t in types]
        self.assertEqual([p["kv_quality"] for p in plans], ["exact", "near lossless", "near lossless", "small loss", "small loss"])
        losses = [p["kv_divergence"] for p in plans]
        self.assertEqual(losses, sorted(losses))
        text = kvik.output("plan", "demo").decode()
        for t, p in zip(types[1:], plans[1:]):
            self.assertRegex(text, rf"(?m)^{t} .* {p['kv_quality']}: KL {p['kv_divergence']}$")

    def test_kv_events_are_counted_where_they_are_wanted(self):
        without, with_events = (json.loads(kvik.output("plan", "demo", "--json", *more)) for more in ((), ("--kv-events",)))
        self.assertGreater(with_events["total_bytes"], without["total_bytes"] + (64 << 20))

    def test_a_server_shows_its_plan_and_what_kv_events_take(self):
        port = free_port()
        with Server("demo", "--threads", 2, "--kv-memory", "4MiB", "--kv-events", f"tcp://127.0.0.1:{port}") as server:
            self.assertTrue(server.text("ROMEO: " * 40, max_tokens=3))
            deadline = time.monotonic() + 10
            while (page := server.metrics()).values("kvik_kv_events_bytes", "kind")["batches"] == 0:
                self.assertLess(time.monotonic(), deadline)
        planned = page.values("kvik_memory_planned_bytes", "part")
        self.assertLessEqual({"weights", "KV cache", "grammars", "requests", "KV events"}, set(planned))
        self.assertGreater(planned["grammars"], page.value("kvik_grammar_compiled_max_bytes"))
        self.assertEqual(planned["KV events"], page.value("kvik_kv_events_max_bytes"))
        events = page.values("kvik_kv_events_bytes", "kind")
        self.assertGreater(events["held"], 0)
        self.assertLess(sum(events.values()), planned["KV events"])
        self.assertEqual(page.values("kvik_kv_events_readers", "endpoint"), {"events": 0, "replay": 0})
        self.assertEqual((page.value("kvik_kv_events_lost_batches_total"), page.value("kvik_kv_events_resets_total")), (0, 0))

    def test_a_server_without_kv_events_counts_none(self):
        with Server("demo", "--threads", 2) as server:
            text = server.get("/metrics").body.decode()
        self.assertNotIn("kvik_kv_events", text)
        self.assertNotIn('part="KV events"', text)

    def test_a_model_that_is_not_there_is_one_sentence(self):
        done = kvik.run("plan", "no-such-preset")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count(b"\n"), 1)


def memory_of(server):
    with open(f"/proc/{server.process.pid}/status") as f:
        text = f.read()
    return {name: int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) * 1024 for name in ("VmRSS", "VmHWM")}


class Resident(unittest.TestCase):
    """RSS ≤ KV budget + packed weights + buffers, + 5% + 64 MiB, when more tokens than two cache sizes have been computed."""
    KV_TYPE, BUDGET_MIB = "f32", 64

    def assert_within_plan(self, model, max_peak=None, n_ctx=1024):
        p = plan(model, kv_type=self.KV_TYPE, ctx=n_ctx, threads=2)
        budget = max(self.BUDGET_MIB * MIB, math.ceil(1.5 * n_ctx * p["kv_bytes_per_token"]))  # a whole prompt fits
        bound = 1.05 * (budget + p["weights_bytes"] + p["buffers_bytes"]) + 64 * MIB
        flags = ("--threads", 2, "--kv-memory", f"{budget // 1024}KiB", "--kv-type", self.KV_TYPE, "--ctx", n_ctx)
        with Server(model, *flags, ready_s=300 if kvik.LONG else 60) as server:  # the largest models are made of 10 GB of weights
            loaded = memory_of(server)
            if max_peak:
                self.assertLessEqual(loaded["VmHWM"], max_peak * loaded["VmRSS"], "the peak while loading")
            n_tokens = 0
            while n_tokens < 2 * budget / p["kv_bytes_per_token"]:
                prompt = kvik.random_tokens(n_ctx - 24, 250, n_tokens)
                self.assertEqual(server.post("/v1/completions", {"prompt": prompt, "max_tokens": 2}, timeout=600).status, 200)
                n_tokens += len(prompt)
            memory = memory_of(server)
            self.assertIn("memory: ", server.said())
        self.assertLessEqual(memory["VmHWM"], bound)
        # The cache must be in use; an idle server would prove nothing.
        self.assertGreater(memory["VmRSS"], loaded["VmRSS"] + 0.8 * budget)

    def test_a_server_holds_what_the_plan_says_whatever_is_asked_of_it(self):
        self.assert_within_plan("synthetic:qwen2.5-0.5b:q4_0", max_peak=1.05)

    def test_memory_within_plan_with_experts(self):
        self.assert_within_plan("synthetic:qwen3-30b-a3b:q4_0:1", max_peak=1.05)


class ResidentFamilies(Resident):
    """Uses real widths with few layers in long runs, otherwise the test presets with their small pages."""
    BUDGET_MIB = 16
    LONG = ("llama-3.1-8b:q4_0:2", "mistral-7b:q4_0:2", "mixtral-8x7b:q4_0:1", "qwen2.5-1.5b:q8_0:4", "qwen1.5-moe-a2.7b:q4_0:2",
            "qwen3-0.6b:bf16:4", "qwen3-30b-a3b:q4_0:2", "gemma2-2b:q4_0:4", "gemma3-1b:q4_0:6", "phi-3-mini:q4_0:2", "granite-3.3-2b:q4_0:4",
            "olmo2-1b:f16:4", "gpt-oss-20b:mxfp4:2", "gemma3n-e2b:q4_0:24", "gemma4-e2b:q4_0:20", "gemma4-26b-a4b:q4_0:6", "deepseek-v2-lite:q4_0:3",
            "glm-4.5-air:q4_0:2", "minimax-m2:q4_0:1", "minimax-m3:q4_0:4", "ministral-3-8b:q4_0:2", "glm-4.7-flash:q4_0:3", "devstral-small-2:q4_0:2",
            "gemma4-31b:q4_0:6", "gemma4-e4b:q4_0:24", "gpt-oss-120b:mxfp4:2", "gpt-oss-20b:mxfp4", "deepseek-v3:q4_0:4", "kimi-k2:q4_0:2")

    def test_a_server_holds_what_the_plan_says_whatever_is_asked_of_it(self):
        names = self.LONG if kvik.LONG else ("test-gemma3:q8_0", "test-gemma3n:q8_0", "test-gemma4-e:q8_0", "test-deepseek32:q8_0", "test-mistrallarge4:q8_0", "test-minimaxm3:q8_0", "test-qwen4exp:q8_0", "test-graniteswitch:q8_0", "test-deepseek4:q8_0", "test-glm5next:q8_0")
        for name in names:
            with self.subTest(model=name):
                self.assert_within_plan(f"synthetic:{name}", n_ctx=2048)

    def test_memory_within_plan_with_experts(self):
        self.assert_within_plan("synthetic:test-qwen2moe:q8_0", n_ctx=2048)

    def test_memory_within_plan_with_an_mtp_head_unlike_the_layers(self):
        """It has several streams, or experts wider than those of the layers."""
        for name in ("test-qwen4exp", "test-deepseek4", "test-puzzle"):
            with self.subTest(model=name):
                self.assert_within_plan(kvik.preset(name, "q8_0", 0, "--mtp-layers", 1), n_ctx=2048)

    def test_memory_within_plan_for_a_folder(self):
        """Its tensors are rearranged in copies while they are loaded."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make/make_hf_model.py"), kvik.demo_as("f32"), folder], check=True)
            self.assert_within_plan(folder)

    def test_memory_within_plan_for_an_fp8_folder(self):
        """A matrix is computed from its values and scales while it is loaded."""
        with tempfile.TemporaryDirectory() as root:
            folder = os.path.join(root, "folder")
            for tool, *arguments in (("make_hf_model.py", kvik.demo_as("bf16"), folder), ("block_floats.py", "--kind=fp8", folder, f"{folder}-fp8")):
                subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make", tool), *arguments], check=True)
            wide, narrow = (json.loads(kvik.output("plan", m, "--json", "--ctx", 512))["weights_bytes"] for m in (folder, f"{folder}-fp8"))
            self.assertLess(narrow, 0.7 * wide)  # embeddings are not quantized
            self.assert_within_plan(f"{folder}-fp8")


class Serve(unittest.TestCase):
    def test_a_budget_past_the_machine_is_warned_of(self):
        with open("/proc/meminfo") as f:
            available_kib = int(re.search(r"MemAvailable:\s+(\d+) kB", f.read())[1])
        with Server("demo", "--kv-memory", f"{2 * available_kib}KiB", "--kv-type", "f32", "--overcommit") as server:
            self.assertIn("may swap or kill", server.said())
        with Server("demo", "--kv-memory", "16MiB") as server:
            self.assertNotIn("may swap or kill", server.said())

    CHOSEN = re.compile(r"chosen: context 1024 and KV cache ([\d.]+ [GM]iB), from [\d.]+ [GM]iB free memory of which [\d.]+ [GM]iB stay free for "
                        r"other programs; --ctx and --kv-memory change it$", re.M)

    def test_context_and_cache_are_chosen_and_said_in_one_line(self):
        for flags in ((), ("--ctx", "auto", "--kv-memory", "auto")):
            with Server("demo", *flags) as server:
                size = self.CHOSEN.findall(server.said())
                self.assertEqual(len(size), 1, server.said())
                self.assertIn(f"KV cache: {size[0]} as int8", server.said())
        self.assertRegex(kvik.output("plan", "demo").decode(), r"(?m)^serve    " + self.CHOSEN.pattern)

    def test_given_numbers_are_not_chosen(self):
        with Server("demo", "--kv-memory", "64MiB") as server:
            self.assertNotIn("chosen:", server.said())
        with Server("demo", "--ctx", 512) as server:
            self.assertRegex(server.said(), r"chosen: KV cache .*; --kv-memory changes it\n")
            self.assertIn("context 512\n", server.said())

    def test_a_start_with_the_chosen_cache_is_as_fast_as_with_a_small_one(self):
        """The system gives memory to a page of the cache when it is first written."""
        times, resident = [], []
        for flags in ((), ("--kv-memory", "16MiB")):
            tries = []
            for _ in range(3):
                begun = time.monotonic()
                with Server("demo", "--threads", 1, *flags) as server:
                    tries.append(time.monotonic() - begun)
                    resident.append(server.rss_bytes())
            times.append(min(tries))
        self.assertLess(times[0], times[1] + 1)
        self.assertLess(max(resident), min(resident) + (256 << 20))

    def test_plan_chooses_for_a_machine_of_a_given_size(self):
        auto = [plan("llama-3.1-8b:q4_k", memory=f"{n}GiB")["auto"] for n in (16, 32, 64)]
        self.assertEqual([a["reserve_bytes"] >> 30 for a in auto], [4, 8, 8])
        self.assertLess(auto[0]["ctx"], auto[1]["ctx"])
        self.assertEqual(auto[2]["ctx"], 131072)
        self.assertGreater(auto[2]["kv_memory_bytes"], 2 * 131072 * plan("llama-3.1-8b:q4_k")["kv_bytes_per_token"])
        for a in auto:
            at = plan("llama-3.1-8b:q4_k", ctx=a["ctx"], memory=a["free_bytes"])
            self.assertLessEqual(at["weights_bytes"] + a["kv_memory_bytes"], a["free_bytes"] - a["reserve_bytes"])


if __name__ == "__main__":
    unittest.main()
