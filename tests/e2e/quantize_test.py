"""Tests `kvik quantize`: its output, its errors, and that a file is either complete or absent."""
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import gguf
import kvik
from gguf_file import read_metadata

TYPES = ("q8_0", "q6_k", "q5_k", "q4_k", "q4_0", "q3_k", "q2_k", "bf16", "f16")
TABLE_TYPES = ("iq6_k", "iq5_k", "iq5_ks", "iq4_k", "iq4_ks", "iq4_kss", "iq3_k", "iq3_ks", "iq2_kl", "iq2_k", "iq2_ks")  # of ik_llama.cpp
CODE_TYPES = ("iq3_s", "iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_m", "iq1_s")  # with a codebook
TEXT = "ROMEO:\nWhat light through yonder window breaks?<|end|>\nJULIET:\nAy me, what is the matter with the morning?<|end|>\n" * 20


class Quantize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def text(self):
        with open(self.path("text.txt"), "w") as f:
            f.write(TEXT)
        return f.name

    def quantize(self, model, name, *more, **options):
        out = self.path(name)
        report = json.loads(kvik.output("quantize", model, out, "--json", *more, **options))
        self.assertEqual(report["file_bytes"], os.path.getsize(out))
        return out, report

    def bytes_of(self, path):
        with open(path, "rb") as f:
            return f.read()

    def refused(self, *args, code=1):
        done = kvik.run("quantize", *args, env={"KVIK_LOG": "error"})
        output = done.stderr.decode()
        self.assertEqual(done.returncode, code, output)
        self.assertEqual(output.count("\n"), 1, output)
        self.assertTrue(output.startswith("kvik: "), output)
        return output

    # --- output ---

    def test_every_type_is_written_smaller_types_err_more_and_keys_stay_as_they_are(self):
        model = kvik.demo_as("f32")
        before = read_metadata(model)
        errors, sizes = [], []
        for name in TYPES[:-2]:
            out, report = self.quantize(model, f"{name}.gguf", "--type", name)
            after = read_metadata(out)
            self.assertEqual({k: v for k, v in before.items() if k != "general.file_type"},
                             {k: v for k, v in after.items() if k not in ("general.file_type", "general.quantization_version")})
            self.assertEqual(after["general.quantization_version"][1], 2)
            errors.append(report["relative_rmse"])
            sizes.append(report["file_bytes"])
        self.assertEqual(errors, sorted(errors))
        self.assertEqual(sizes, sorted(sizes, reverse=True))

    def test_types_with_a_codebook_or_table_err_more_the_smaller_they_are(self):
        model = kvik.demo_as("f32")
        for names in (CODE_TYPES, TABLE_TYPES):
            reports = [self.quantize(model, f"{name}.gguf", "--type", name, "--pure")[1] for name in names]
            for key, order in ((lambda r: r["relative_rmse"], reports), (lambda r: r["file_bytes"], reports[::-1])):
                values = [key(report) for report in order]
                self.assertEqual(values, sorted(values))
            for name, report in zip(names, reports):
                self.assertEqual({t["to"] for t in report["tensors"]}, {"f32", name})

    def test_the_reported_error_is_that_of_the_file(self):
        model = kvik.demo_as("f32")
        _, original = kvik.reference_logits.load(model)
        for element_type in ("q4_k", "iq2_s", "iq1_m", "tq1_0", "q1_0", "q2_0", "iq4_ks", "iq3_k", "iq2_ks"):
            out, report = self.quantize(model, f"{element_type}.gguf", "--type", element_type)
            _, written = kvik.reference_logits.load(out)
            for tensor in report["tensors"]:
                want, got = original[tensor["name"]].astype(np.float64), written[tensor["name"]]
                error = np.sqrt(((got - want) ** 2).sum() / (want ** 2).sum())
                self.assertAlmostEqual(tensor["relative_rmse"], error, places=6, msg=f"{tensor['name']} to {element_type}")

    def test_norms_stay_f32_and_the_head_keeps_more_bits(self):
        _, report = self.quantize(kvik.demo_as("f32"), "out.gguf", "--type", "q4_k")
        types = {t["name"]: t["to"] for t in report["tensors"]}
        self.assertEqual(types["output_norm.weight"], "f32")
        self.assertEqual(types["token_embd.weight"], "q6_k")  # the demo's output matrix
        self.assertEqual(types["blk.0.attn_q.weight"], "q4_k")
        self.assertEqual({types[f"blk.{i}.ffn_down.weight"] for i in range(6)}, {"q4_k", "q6_k"})
        _, report = self.quantize(kvik.demo_as("f32"), "pure.gguf", "--type", "q4_k", "--pure")
        self.assertEqual({t["to"] for t in report["tensors"] if len(t["shape"]) > 1}, {"q4_k"})

    def test_a_model_in_fewer_bits_still_says_nearly_the_same(self):
        with open(self.text()) as f:
            self.assertGreater(len(f.read()), 0)
        for name, most in (("q8_0", 0.005), ("q4_k", 0.05)):
            out, _ = self.quantize("demo", f"{name}.gguf", "--type", name)
            got = json.loads(kvik.output("perplexity", out, self.path("text.txt"), "--against", "demo", "--ctx", 128, "--json"))
            self.assertLess(got["kl_mean"], most, name)

    def test_rows_that_do_not_fit_the_blocks_fall_back_and_are_listed(self):
        model = kvik.preset("test-llama")  # rows of 64 and 160
        _, report = self.quantize(model, "out.gguf", "--type", "q4_k")
        fallbacks = {t["name"]: (t["wanted"], t["to"]) for t in report["tensors"] if "wanted" in t}
        self.assertEqual(report["fallbacks"], len(fallbacks))
        self.assertEqual(fallbacks["blk.0.attn_q.weight"], ("q4_k", "q5_0"))
        output = kvik.output("quantize", model, self.path("again.gguf"), "--type", "q4_k").decode()
        self.assertIn("rows of 64 are not a multiple of q4_k's 256", output)
        self.assertIn("fell back", output)

    def test_the_bytes_do_not_depend_on_threads(self):
        one, _ = self.quantize(kvik.demo_as("f32"), "one.gguf", "--type", "q3_k", "--threads", 1)
        three, _ = self.quantize(kvik.demo_as("f32"), "three.gguf", "--type", "q3_k", "--threads", 3)
        self.assertEqual(self.bytes_of(one), self.bytes_of(three))

    def test_a_tensor_that_has_the_type_already_is_copied(self):
        once, _ = self.quantize("demo", "once.gguf", "--type", "q4_0")
        twice, _ = self.quantize(once, "twice.gguf", "--type", "q4_0")
        self.assertEqual(self.bytes_of(once), self.bytes_of(twice))

    def test_matrices_of_nvfp4_have_their_scales_beside_them(self):
        for model, n_scales in (("demo", 1), ("test-qwen3moe", 8)):
            once, _ = self.quantize(kvik.demo_as("f32") if model == "demo" else kvik.preset(model), f"{model}.gguf", "--type", "nvfp4")
            shapes = {t[0]: t[1] for t in gguf.Gguf(once).tensors}
            name = "blk.0.attn_q.scale" if model == "demo" else "blk.0.ffn_up_exps.scale"
            self.assertEqual(shapes[name], [n_scales])
            tokens = kvik.random_tokens(40, 250, 3)
            got, want = kvik.logits(once, tokens, all=True, kv_type="f32"), kvik.reference(once, tokens)
            error = np.sort(np.abs(got - want).max(1) / np.abs(want).max(1))
            self.assertLess(error[len(error) * 3 // 4], 0.03)  # routers near a tie may choose other experts
            twice, _ = self.quantize(once, f"{model}-twice.gguf", "--type", "nvfp4")
            self.assertEqual(self.bytes_of(once), self.bytes_of(twice))

    def test_a_folder_becomes_the_weights_and_words_of_its_gguf_file(self):
        model = kvik.preset("test-llama")
        folder = self.path("folder")
        subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make/make_hf_model.py"), model, folder], check=True)
        of_file, _ = self.quantize(model, "file.gguf", "--type", "q8_0")
        of_folder, _ = self.quantize(folder, "folder.gguf", "--type", "q8_0")
        tokens = kvik.random_tokens(20, 250, 3)
        self.assertEqual(kvik.logits_text(of_folder, tokens), kvik.logits_text(of_file, tokens))
        output = kvik.output("tokenize", of_folder, "What light through yonder window?")
        self.assertEqual(output, kvik.output("tokenize", folder, "What light through yonder window?"))
        keys = read_metadata(of_folder)
        self.assertNotEqual("tokenizer.huggingface.json" in keys, "tokenizer.ggml.tokens" in keys)

    def test_plan_says_beforehand_what_each_type_will_take(self):
        model = kvik.demo_as("f32")
        sizes = {s["type"]: s["bytes"] for s in json.loads(kvik.output("plan", model, "--json"))["weights_by_type"]}
        for name in ("q8_0", "q4_k", "q2_k"):
            _, report = self.quantize(model, f"{name}.gguf", "--type", name)
            self.assertEqual(sizes[name], sum(t["bytes"] for t in report["tensors"]), name)
        large = {s["type"]: s["bits_per_weight"] for s in
                 json.loads(kvik.output("plan", "llama-3.1-70b", "--json"))["weights_by_type"]}
        self.assertEqual(set(large), {"f32", "mxfp4", "nvfp4", "tq2_0", "tq1_0", "q2_0", "q1_0", *TYPES, *CODE_TYPES, *TABLE_TYPES})
        self.assertTrue(2 < large["q2_k"] < 3.5 and 4.5 < large["q4_k"] < 5.1 and large["f32"] == 32, large)
        self.assertTrue(1.5 < large["iq1_s"] < large["iq2_xxs"] < large["iq3_s"] < 3.7, large)

    # --- importance ---

    def test_importance_is_the_mean_square_of_what_a_matrix_meets(self):
        n_ctx = 32
        kvik.output("quantize", kvik.demo_as("f32"), self.path("i.gguf"), "--calibrate", self.text(), "--ctx", n_ctx, "--windows", 2)
        keys, tensors = kvik.reference_logits.load(self.path("i.gguf"))
        self.assertEqual(keys["general.type"], b"imatrix")
        self.assertEqual((keys["imatrix.chunk_count"], keys["imatrix.chunk_size"]), (2, n_ctx))
        # The inputs of the first layer's queries are the normalized embeddings.
        ids = [int(t) for t in kvik.output("tokenize", "demo", "--parse-special", "-", stdin=TEXT.encode()).split()]
        windows = [[kvik.DEMO_BOS, *ids[i * n_ctx + 1:(i + 1) * n_ctx]] for i in range(2)]
        _, weights = kvik.reference_logits.load(kvik.demo_as("f32"))
        x = weights["token_embd.weight"][np.concatenate(windows)].astype(np.float64)
        x = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) * weights["blk.0.attn_norm.weight"]
        for name in ("attn_q", "attn_k", "attn_v"):
            got = tensors[f"blk.0.{name}.weight.in_sum2"].reshape(-1)
            np.testing.assert_allclose(got, (x ** 2).sum(0), rtol=1e-3)
            self.assertEqual(tensors[f"blk.0.{name}.weight.counts"].item(), 2 * n_ctx)
        self.assertEqual(tensors["token_embd.weight.counts"].item(), 2 * n_ctx)

    def test_importance_counts_each_experts_tokens(self):
        model = kvik.preset("test-qwen3moe")
        with open(self.path("long.txt"), "w") as f:
            f.write(TEXT)
        done = kvik.run("quantize", model, self.path("i.gguf"), "--calibrate", self.path("long.txt"), "--ctx", 32, "--windows", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        _, tensors = kvik.reference_logits.load(self.path("i.gguf"))
        counts = tensors["blk.0.ffn_down_exps.weight.counts"].reshape(-1)
        routed = tensors["blk.0.ffn_gate_inp.weight.counts"].item()
        self.assertGreater(len(counts), 1)
        self.assertEqual(routed, 32)
        self.assertEqual(counts.sum() % routed, 0)
        np.testing.assert_array_equal(counts, tensors["blk.0.ffn_up_exps.weight.counts"].reshape(-1))

    def test_experts_that_share_a_tensor_count_each_for_themselves(self):
        """Gates and ups share one tensor of a folder, so their rows are read through the same buffer."""
        model, files = kvik.preset("test-qwen3moe", "bf16"), []
        with open(self.path("long.txt"), "w") as f:
            f.write(TEXT)
        subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make/make_hf_model.py"), "--fused-experts", model, self.path("fused")], check=True)
        for source in (model, self.path("fused")):
            files.append(self.path(f"{len(files)}.gguf"))
            kvik.output("quantize", source, files[-1], "--calibrate", self.path("long.txt"), "--ctx", 32, "--windows", 1)
        of_file, of_folder = (kvik.reference_logits.load(f)[1] for f in files)
        self.assertIn("blk.0.ffn_up_exps.weight.counts", of_file)
        self.assertEqual(set(of_file), set(of_folder))
        for name, values in of_file.items():
            np.testing.assert_array_equal(values, of_folder[name], name)

    def test_importance_moves_the_error_to_where_it_costs_less(self):
        model, text = kvik.demo_as("f32"), self.text()
        kvik.output("quantize", model, self.path("i.gguf"), "--calibrate", text, "--ctx", 128)
        plain, _ = self.quantize(model, "plain.gguf", "--type", "q2_k")
        weighted, report = self.quantize(model, "weighted.gguf", "--type", "q2_k", "--importance", self.path("i.gguf"))
        at_once, _ = self.quantize(model, "at_once.gguf", "--type", "q2_k", "--calibrate", text, "--ctx", 128)
        self.assertTrue(all(t["importance"] for t in report["tensors"] if len(t["shape"]) > 1))
        decoded = {}
        for name, path in (("plain", plain), ("weighted", weighted), ("at_once", at_once)):
            kvik.output("quantize", path, self.path(name + "-f32.gguf"), "--type", "f16")
            decoded[name] = kvik.reference_logits.load(self.path(name + "-f32.gguf"))[1]
        _, want = kvik.reference_logits.load(model)
        _, inputs = kvik.reference_logits.load(self.path("i.gguf"))
        lost = {name: sum((((d[t] - want[t]) ** 2) * inputs[t + ".in_sum2"].reshape(-1)).sum() for t in want if t + ".counts" in inputs)
                for name, d in decoded.items()}
        self.assertLess(lost["weighted"], 0.97 * lost["plain"])
        self.assertEqual(lost["weighted"], lost["at_once"])
        self.assertEqual(read_metadata(weighted)["quantize.imatrix.file"][1], b"i.gguf")

    def test_importance_of_another_model_or_another_file_is_refused(self):
        text = self.text()
        kvik.output("quantize", "demo", self.path("i.gguf"), "--calibrate", text, "--ctx", 32)
        other = kvik.preset("test-llama")
        output = self.refused(other, self.path("out.gguf"), "--type", "q4_0", "--importance", self.path("i.gguf"), code=2)
        self.assertIn("computed with another model", output)
        output = self.refused("demo", self.path("out.gguf"), "--type", "q4_0", "--importance", kvik.DEMO, code=2)
        self.assertIn("expected 'imatrix'", output)
        with open(self.path("cut.gguf"), "wb") as f:
            f.write(self.bytes_of(self.path("i.gguf"))[:-1000])
        self.refused("demo", self.path("out.gguf"), "--type", "q4_0", "--importance", self.path("cut.gguf"))
        self.assertFalse(os.path.exists(self.path("out.gguf")))

    # --- errors ---

    def test_wrong_usage_is_said_in_a_sentence(self):
        out = self.path("out.gguf")
        self.assertIn("is not a type that can be written; expected q8_0", self.refused("demo", out, "--type", "q9_x", code=2))
        self.assertIn("expected --type", self.refused("demo", out, code=2))
        self.assertIn("cannot be used together", self.refused("demo", out, "--type", "q4_0", "--importance", "a", "--calibrate", "b", code=2))
        self.assertIn("No such file", self.refused("demo", self.path("no/out.gguf"), "--type", "q4_0"))
        self.assertIn("no-model.gguf", self.refused("no-model.gguf", out, "--type", "q4_0"))
        self.assertIn("one window", self.refused("demo", out, "--calibrate", self.text(), "--ctx", "100000", code=2))

    def test_a_file_that_exists_is_replaced_only_when_asked(self):
        out, _ = self.quantize("demo", "out.gguf", "--type", "q4_0")
        before = self.bytes_of(out)
        self.assertIn("--force to replace it", self.refused("demo", out, "--type", "q8_0", code=2))
        self.assertEqual(self.bytes_of(out), before)
        self.assertIn("is the model that is read", self.refused(out, out, "--type", "q2_k", "--force", code=2))
        self.quantize("demo", "out.gguf", "--type", "q8_0", "--force")
        self.assertNotEqual(self.bytes_of(out), before)

    def test_values_that_are_no_numbers_are_refused_by_the_tensors_name(self):
        model = self.path("bad.gguf")
        for value, what in ((np.nan, "nan"), (np.inf, "inf"), (1e6, "1000000")):
            keys, weights = kvik.reference_logits.load(kvik.demo_as("f32"))
            at = self.bytes_of(kvik.demo_as("f32"))
            row = weights["blk.2.ffn_up.weight"][3].astype(np.float32)
            place = at.index(row.tobytes())
            with open(model, "wb") as f:
                f.write(at[:place + 20] + np.float32(value).tobytes() + at[place + 24:])
            output = self.refused(model, self.path("out.gguf"), "--type", "q4_k")
            self.assertIn(f"tensor 'blk.2.ffn_up.weight' holds {what} in row 3, column 5", output)
            self.assertEqual(os.listdir(self.folder), ["bad.gguf"])

    def test_a_cut_or_corrupt_model_ends_in_one_sentence(self):
        whole = self.bytes_of(kvik.demo_as("q4_k"))
        random.seed(3)
        for _ in range(30):
            damaged = bytearray(whole[:random.choice((len(whole), random.randrange(len(whole)), random.randrange(4000)))])
            for _ in range(random.randrange(1, 4)):
                damaged[random.randrange(min(len(damaged), 3000))] ^= 1 << random.randrange(8)
            with open(self.path("bad.gguf"), "wb") as f:
                f.write(damaged)
            done = kvik.run("quantize", self.path("bad.gguf"), self.path("out.gguf"), "--type", "q2_k", "--force", env={"KVIK_LOG": "error"})
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.assertEqual(done.stderr.count(b"\n"), done.returncode, done.stderr)
            self.assertEqual(os.path.exists(self.path("out.gguf")), done.returncode == 0)
            if done.returncode == 0:
                os.unlink(self.path("out.gguf"))

    # --- complete or absent ---

    def start(self, out):
        return subprocess.Popen(kvik.command("quantize", "synthetic:tinyllama-1.1b:bf16:1", out, "--type", "q4_k", "--threads", 1),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=kvik.environment())

    def test_ended_by_a_signal_at_any_time_it_leaves_the_old_file_or_the_new_one(self):
        out = self.path("out.gguf")
        started = time.monotonic()
        process = self.start(out)
        self.assertEqual(process.wait(), 0)
        length, whole = time.monotonic() - started, self.bytes_of(out)
        random.seed(5)
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL) * (4 if kvik.LONG else 1):
            os.unlink(out)
            process = self.start(out)
            time.sleep(random.uniform(0.05, 0.9) * length)
            process.send_signal(sent)
            code = process.wait()
            self.assertIn(code, (0, 130) if sent != signal.SIGKILL else (0, -signal.SIGKILL))
            self.assertEqual(os.listdir(self.folder), ["out.gguf"] if code == 0 else [])
            with open(out, "wb") as f:
                f.write(whole)

    def test_a_full_disk_is_said_at_once_and_leaves_nothing(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        done = subprocess.run(kvik.command("quantize", "demo", self.path("out.gguf"), "--type", "q4_k"), capture_output=True,
                              env=kvik.environment(KVIK_LOG="error"), preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write", done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 1)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
