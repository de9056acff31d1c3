"""Tests the MTP head, which drafts the token after the next one: its values against the oracle, and that answers do not change when it is used."""
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import gguf
import gguf_file
import kvik
import folder_files
import make_hf_model
from server import Server, in_parallel

TOOL = os.path.join(os.environ.get("KVIK_BUILD", os.path.join(kvik.ROOT, "build")), "tests", "mtp_head_logits")
# The hidden state of the newest token lies in the recurrent state, or in the page of the token.
STREAMS = ("test-qwen4exp", "test-deepseek4")  # the hidden state is all residual streams
WITH_STATE = ("test-qwen35", "test-qwen35moe", "test-qwen3next", "test-nemotronhmoe", "test-nemotron3", "test-puzzle", "test-bailingmoe3", "test-glm5next", *STREAMS)
WITHOUT_STATE = ("test-glm4moe", "test-mla", "test-deepseek32", "test-glmdsa", "test-step35", "test-mimo2", "test-hyv3", "test-exaonemoe", "test-ernie45moe")
FILES_ONLY = ("test-bailingmoe2",)  # its folders are not read
# A tensor of the head in a folder.
FOLDER_TENSORS = {**dict.fromkeys(("test-nemotronhmoe", "test-nemotron3", "test-puzzle"), "mtp.layers.0.eh_proj.weight"),
                  "test-glm4moe": "model.layers.3.eh_proj.weight",
                  "test-mla": "model.layers.3.shared_head.norm.weight", "test-step35": "model.layers.5.transformer.shared_head.norm.weight",
                  "test-deepseek32": "model.layers.3.shared_head.norm.weight", "test-glmdsa": "model.layers.5.shared_head.norm.weight",
                  "test-mimo2": "model.mtp.layers.0.final_layernorm.weight", "test-hyv3": "model.layers.3.final_layernorm.weight",
                  "test-bailingmoe3": "model.layers.6.final_layernorm.weight", "test-ernie45moe": "model.mtp_linear_proj.0.weight",
                  "test-glm5next": "model.layers.7.shared_head.norm.weight", "test-qwen4exp": "mtp.fc_hidden.weight", "test-deepseek4": "mtp.0.hc_head_fn"}
# Folders of Qwen3.8 are read as in vLLM, and files as in llama.cpp, unless this key is set.
TOGETHER = ("--set", "mtp.norms_streams_together=true")
PRESETS = WITH_STATE + WITHOUT_STATE
DIM, FIRST = 64, 4  # of these presets; first of DIM tokens that follow each other in a circle, one per dimension


def model(name, element_type="f32", seed=0, *more):
    return kvik.preset(name, element_type, seed, "--mtp-layers", 1, *more)


def drafts(path, tokens, chunk, *head):
    done = subprocess.run([TOOL, path, kvik.joined(tokens), str(chunk), *head], capture_output=True, check=True)
    return b"".join(line for line in done.stdout.splitlines(True) if not line.startswith(b"["))  # without lines of the log


def rows(text):
    return np.array([np.array(line.split(), np.float64) for line in text.splitlines()])


class MtpHead(unittest.TestCase):
    def test_mtp_head_logits_match_the_oracle(self):
        cases = [*itertools.product(PRESETS + FILES_ONLY, (1, 2), ([], ["--mtp-own"])), ("test-qwen4exp", 1, TOGETHER)]
        for name, seed, own in cases:
            with self.subTest(preset=name, seed=seed, own=own):
                path, tokens = model(name, "f32", seed, *own), kvik.random_tokens(70, 260, seed)
                meta, weights = kvik.weights(path)
                want = kvik.reference_logits.forward(meta, weights, tokens, drafts=True)
                got = rows(drafts(path, tokens, 1))
                self.assertEqual(got.shape, want.shape)
                error = (np.abs(got - want).max(1) / np.abs(want).max(1)).max()
                # Twice the bound: the model's final hidden state is normalized once more and projected, so its errors enter before those of the
                # layer.
                self.assertLess(error, 2 * kvik.f32_bound(meta, weights, tokens, want, drafts=True))

    def test_chunks_change_no_byte(self):
        for name in ("test-qwen35", "test-glm5next", *STREAMS, *WITHOUT_STATE, *FILES_ONLY):
            path, tokens = model(name, "q8_0"), kvik.random_tokens(70, 260, 3)
            one_by_one = drafts(path, tokens, 1).splitlines()
            for chunk in (7, 32, 33):
                ends = [min(n, len(tokens) - 1) for n in range(chunk, len(tokens) - 1 + chunk, chunk)]
                self.assertEqual(drafts(path, tokens, chunk).splitlines(), [one_by_one[n - 1] for n in ends])

    def test_a_folder_has_the_bytes_of_its_file(self):
        with tempfile.TemporaryDirectory() as root:
            for name, own in (*((name, []) for name in PRESETS), ("test-qwen35", ["--mtp-own"]), ("test-glm4moe", ["--mtp-own"]),
                              ("test-mla", ["--mtp-own"]), ("test-step35", ["--mtp-own"]), ("test-deepseek4", ["--mtp-own"])):
                with self.subTest(preset=name, own=own):
                    more = TOGETHER if name == "test-qwen4exp" else ()
                    path, tokens, folder = model(name, "bf16", 0, *own, *more), kvik.random_tokens(40, 260, 4), os.path.join(root, name + "".join(own))
                    subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make/make_hf_model.py"), path, folder], check=True)
                    self.assertIn(FOLDER_TENSORS.get(name, "mtp.fc.weight"), folder_tensors(folder))
                    self.assertEqual(drafts(folder, tokens, 1), drafts(path, tokens, 1))
                    self.assertIn(b"an MTP head", kvik.output("show", folder))

    def test_a_file_without_it_is_served_without(self):
        """The MTP head is ignored whatever the metadata says: quantized files may leave out its tensors."""
        for name, layer in (("test-qwen35", 5), ("test-glm4moe", 3), ("test-mla", 3)):
            path = model(name)
            self.assertIn(b"MTP head", kvik.output("show", path))
            with tempfile.TemporaryDirectory() as root:
                for lost in ("eh_proj", f"blk.{layer}."):
                    file = gguf.Gguf(path)
                    for tensor in [t[0] for t in file.tensors if lost in t[0]]:
                        file.without_tensor(tensor)
                    part = os.path.join(root, f"{lost}gguf")
                    with open(part, "wb") as f:
                        f.write(file.bytes())
                    self.assertNotIn(b"MTP head", kvik.output("show", part))
                    tokens = kvik.random_tokens(40, 260, 4)
                    self.assertEqual(kvik.logits_text(part, tokens, all=True), kvik.logits_text(path, tokens, all=True))

    def test_streams_without_weights_of_their_own_have_the_models(self):
        """llama.cpp's files of DeepSeek V4 lack the weights of the MTP layer's output."""
        path, tokens = model("test-deepseek4", "f32", 1), kvik.random_tokens(50, 260, 4)
        file = gguf.Gguf(path)
        for tensor in [t[0] for t in file.tensors if ".nextn.hc_head_" in t[0] or t[0].endswith("shared_head_norm.weight")]:
            file.without_tensor(tensor)
        with tempfile.TemporaryDirectory() as root:
            part = os.path.join(root, "part.gguf")
            with open(part, "wb") as f:
                f.write(file.bytes())
            meta, weights = kvik.weights(part)
            want = kvik.reference_logits.forward(meta, weights, tokens, drafts=True)
            error = (np.abs(rows(drafts(part, tokens, 1)) - want).max(1) / np.abs(want).max(1)).max()
            self.assertLess(error, 2 * kvik.f32_bound(meta, weights, tokens, want, drafts=True))
            self.assertNotEqual(drafts(part, tokens, 1), drafts(path, tokens, 1))
            for lost in ("hc_head_base", "hc_head_fn"):
                whole = gguf.Gguf(path)
                whole.without_tensor(f"blk.6.nextn.{lost}.weight")
                with open(part, "wb") as f:
                    f.write(whole.bytes())
                done = kvik.run("run", part, "-p", "a", "-n", 2)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"blk.6.nextn.{lost}.weight", done.stderr.decode())

    def test_a_layer_that_is_no_mtp_layer_is_one_of_the_model(self):
        """Some files of DeepSeek V4 state an MTP layer that they neither have nor count."""
        tokens = kvik.random_tokens(40, 260, 4)
        for name in ("test-deepseek4", "test-glm4moe"):
            path = kvik.preset(name, "f32", 0, "--mtp-layers", 0)
            with tempfile.TemporaryDirectory() as root:
                stated, file = os.path.join(root, "stated.gguf"), gguf.Gguf(path)
                file.set(f"{file.get('general.architecture').decode()}.nextn_predict_layers", gguf.U32, 1)
                with open(stated, "wb") as f:
                    f.write(file.bytes())
                self.assertEqual(kvik.logits_text(stated, tokens, all=True), kvik.logits_text(path, tokens, all=True))

    def test_a_folder_with_a_part_of_it_is_served_without(self):
        tokens = kvik.random_tokens(40, 260, 4)
        for name, lost in (("test-qwen35", "mtp.norm.weight"), ("test-qwen35", "mtp.layers.0.mlp.up_proj.weight"),
                           ("test-qwen4exp", "mtp.fc_hidden.weight"), ("test-deepseek4", "mtp.0.hnorm.weight"), ("test-deepseek4", "mtp.0.hc_head_fn"),
                           ("test-deepseek4", "mtp.0.hc_head_scale"), ("test-puzzle", "mtp.layers.1.mixer.fc2_latent_proj.weight"),
                           ("test-glm4moe", "model.layers.3.enorm.weight"), ("test-mla", "model.layers.3.mlp.experts.2.up_proj.weight")):
            path = model(name, "bf16")
            want = kvik.logits_text(path, tokens, all=True)
            with self.subTest(name=name, lost=lost), tempfile.TemporaryDirectory() as folder:
                made = make_hf_model.Folder(path)
                made.tensors.pop(lost)
                folder_files.write_json(f"{folder}/config.json", made.config())
                folder_files.write_vocabulary(folder, made.metadata)
                folder_files.write_tensors(folder, made.tensors, 1)
                self.assertNotIn(b"MTP head", kvik.output("show", folder))
                self.assertEqual(kvik.logits_text(folder, tokens, all=True), want)

    def test_damaged_tensors_are_named(self):
        message = lambda path: kvik.run("run", path, "-p", "a", "-n", 2).stderr.decode()
        for name, half, expected in (("test-qwen4exp", "mtp.fc_hidden.weight", "[64, 64]"), ("test-deepseek4", "mtp.0.h_proj.weight", "[64, 64]")):
            with tempfile.TemporaryDirectory() as folder:
                made = make_hf_model.Folder(model(name, "bf16"))
                kind, x = made.tensors[half]
                folder_files.write_json(f"{folder}/config.json", made.config())
                folder_files.write_vocabulary(folder, made.metadata)
                folder_files.write_tensors(folder, made.tensors | {half: (kind, np.ascontiguousarray(x[:, :32]))}, 1)
                self.assertIn(f"tensor '{half}' has the shape [64, 32], expected {expected}", message(folder))
                folder_files.write_tensors(folder, made.tensors | {half: (gguf_file.F32, np.zeros(x.shape, np.float32))}, 1)
                self.assertIn(f"tensor '{half}' is of type f32, expected bf16", message(folder))
        for name, tensor, expected in (("test-qwen4exp", "hc_head_down", "[32, 256]"), ("test-qwen4exp", "hnorm", "[256]"),
                                       ("test-deepseek4", "hc_head_fn", "[4, 256]"), ("test-deepseek4", "hnorm", "[64]"), ("test-deepseek4", "eh_proj", "[64, 128]"),
                                       ("test-puzzle", "blk.7.ffn_latent_down.weight", "[48, 64]"), ("test-puzzle", "blk.7.ffn_up_exps.weight", "[8, 160, 48]")):
            with tempfile.TemporaryDirectory() as root:
                file, path = gguf.Gguf(model(name)), os.path.join(root, "damaged.gguf")
                full, dims, kind, at = file.tensor(tensor if tensor.startswith("blk.") else tensor_of(file, tensor))
                file.tensors = [(full, [32, *dims[1:]], kind, at) if t[0] == full else t for t in file.tensors]
                with open(path, "wb") as f:
                    f.write(file.bytes())
                self.assertRegex(message(path), re.escape(f"tensor '{full}'") + r".*\[.*\], expected " + re.escape(expected))

    def test_two_blocks_are_one_mtp_layer(self):
        """Files of Nemotron 3 Puzzle have the attention and the experts of the MTP layer as two blocks."""
        for name in ("test-puzzle", "test-nemotron3"):
            with self.subTest(preset=name), tempfile.TemporaryDirectory() as folder:
                path, tokens = model(name, "q8_0", 1), kvik.random_tokens(50, 260, 4)
                want = drafts(path, tokens, 7)
                two = two_blocks(path, folder)
                self.assertIn(b"MTP head", kvik.output("show", two))
                self.assertEqual(drafts(two, tokens, 7), want)
                self.assertEqual(kvik.logits_text(two, tokens, all=True), kvik.logits_text(path, tokens, all=True))
                main, side = split(two, folder)
                self.assertNotIn(b"MTP head", kvik.output("show", main))
                self.assertEqual(drafts(main, tokens, 7, side), want)

    def test_copies_of_the_models_tensors_are_left_out(self):
        """Files of DeepSeek and GLM contain the embedding and the output head twice."""
        path, tokens = model("test-glm4moe", "f32", 0, "--mtp-own"), kvik.random_tokens(40, 260, 4)
        plain = model("test-glm4moe")
        with tempfile.TemporaryDirectory() as root:
            for copied, n_more in (((), 2), (("embed_tokens",), 1), (("embed_tokens", "shared_head_head"), 0)):
                file = gguf.Gguf(path)
                data = bytearray(file.data)
                for part in copied:
                    _, dims, _, to = file.tensor(f"blk.3.nextn.{part}.weight")
                    _, of_dims, _, at = file.tensor("token_embd.weight" if part == "embed_tokens" else "output.weight")
                    self.assertEqual(dims, of_dims)
                    n = 4 * dims[0] * dims[1]
                    data[to:to + n] = data[at:at + n]
                file.data = bytes(data)
                copy = os.path.join(root, f"{len(copied)}.gguf")
                with open(copy, "wb") as f:
                    f.write(file.bytes())
                self.assertEqual(n_tensors(copy) - n_tensors(plain), n_more)
                meta, weights = kvik.weights(copy)
                want = kvik.reference_logits.forward(meta, weights, tokens, drafts=True)
                error = (np.abs(rows(drafts(copy, tokens, 1)) - want).max(1) / np.abs(want).max(1)).max()
                self.assertLess(error, 2 * kvik.f32_bound(meta, weights, tokens, want, drafts=True))


def n_tensors(path):
    return int(re.search(rb"tensors: (\d+),", kvik.output("show", path))[1])


def folder_tensors(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        return json.loads(f.read(int.from_bytes(f.read(8), "little")))


def circle(folder, half, preset="test-qwen35", own=False):
    """Makes a model that predicts, for each of DIM tokens, the next one in the circle. Its MTP head predicts correctly from the token (half 0) or
    from the hidden state before it (half 1), whose dimensions it shifts by one more. With `own`, the head has an embedding and an output head of
    its own, whose dimensions are in the reverse order."""
    file = gguf.Gguf(model(preset, "f32", 0, *["--mtp-own"] * own))
    data = bytearray(file.data)

    def put(name, values):
        _, dims, _, offset = file.tensor(name)
        values = np.ascontiguousarray(np.broadcast_to(values, dims[::-1]), np.float32)
        data[offset:offset + values.nbytes] = values.tobytes()

    n_vocab = file.tensor("token_embd.weight")[1][1]
    embedding = np.zeros((n_vocab, DIM))
    embedding[FIRST:FIRST + DIM] = np.eye(DIM)
    put("token_embd.weight", embedding)
    put("output.weight", next_rows(embedding))
    for name, *_ in file.tensors:
        if name.endswith(("attn_output.weight", "attn_output_b.weight", "ssm_out.weight", "ffn_down.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight",
                          "hc_attn_up.weight", "hc_ffn_up.weight", "hc_head_up.weight", "output_hc_up.weight", "ple_value.weight")):
            put(name, 0)
        elif name.endswith(("output_norm.weight", "enorm.weight", "hnorm.weight", "shared_head_norm.weight", "output_hc_norm.weight", "hc_head_norm.weight")):
            put(name, 1)
    moved = np.roll(np.eye(DIM), 1, 0)  # maps dimension i to i + 1
    put(tensor_of(file, "eh_proj"),
        np.concatenate([np.eye(DIM), np.zeros((DIM, DIM))] if half == 0 else [np.zeros((DIM, DIM)), moved], 1))
    if own:
        put(tensor_of(file, "embed_tokens"), embedding[:, ::-1])
        put(tensor_of(file, "shared_head_head"), next_rows(embedding)[:, ::-1])
    file.data = bytes(data)
    path = os.path.join(folder, f"circle-{preset}-{half}-{own}.gguf")
    with open(path, "wb") as f:
        f.write(file.bytes())
    return path


def two_blocks(path, folder):
    """Writes a model of Nemotron with the MTP layer as two blocks, as llama.cpp's forks do for Puzzle."""
    file = gguf.Gguf(path)
    arch = file.get("general.architecture").decode()
    n_all = file.get(f"{arch}.block_count")
    first, second = f"blk.{n_all - 1}.", f"blk.{n_all}."
    for key, kind, value in list(file.metadata):
        if kind == gguf.ARR and key.startswith(arch) and len(value[1]) == n_all:
            *of_layers, last = value[1]
            file.set(key, kind, (value[0], of_layers + ([last, 0] if key.endswith("head_count_kv") else [0, last])))
    file.set(f"{arch}.block_count", gguf.U32, n_all + 1).set(f"{arch}.nextn_predict_layers", gguf.U32, 2)

    def name_of(tensor):
        part = tensor.removeprefix(first)
        if part == tensor or not part.startswith(("ffn_", "exp_probs_b", "nextn.shared_head_norm")):
            return tensor
        return second + ("attn_norm.weight" if part == "ffn_norm.weight" else part)
    file.tensors = [(name_of(name), *rest) for name, *rest in file.tensors]
    two = os.path.join(folder, "two-blocks.gguf")
    with open(two, "wb") as f:
        f.write(file.bytes())
    return two


def tensor_of(file, part):
    return next(t[0] for t in file.tensors if t[0].endswith(f"nextn.{part}.weight"))


def next_rows(embedding):
    """Returns rows of the output head: the row of a token matches the token before it in the circle."""
    head = np.zeros_like(embedding)
    head[FIRST:FIRST + DIM] = np.roll(np.eye(DIM), 1, 0)
    return head


class Exactness(unittest.TestCase):
    def test_answers_are_those_without_drafts(self):
        """Random weights: most drafts are rejected, and must leave no trace in states, entries and index keys."""
        for name, kv_type in itertools.product(("test-puzzle", "test-glm5next", *STREAMS), ("f32", "int8")):
            with self.subTest(preset=name, kv_type=kv_type), Server(model(name, "q8_0", 3), "--threads", 2, "--kv-type", kv_type, "--speculate", 4) as server:
                n_rejected = 0
                for i, temperature in enumerate((0, 0.7, 1.2)):
                    prompt = kvik.random_tokens(20 + 23 * i, 260, i)
                    for n in (90, 40):  # the second time after cached pages
                        body = {"max_tokens": n, "return_token_ids": True, "ignore_eos": True, "temperature": temperature, "seed": 7}
                        reply = server.complete(prompt, **body)  # first, since later drafts would come from cached pages
                        want = server.complete(prompt, speculate=False, **body)["choices"][0]["token_ids"]
                        self.assertEqual(reply["choices"][0]["token_ids"], want)
                        n_rejected += reply["usage"]["completion_tokens_details"]["rejected_prediction_tokens"]
                        prompt += want
                self.assertGreater(n_rejected, 100)


class Circle(unittest.TestCase):
    """An MTP head that is always right: all its draft tokens must be accepted, whatever happened to pages and states in between."""

    def complete(self, server, prompt, n, **body):
        reply = server.complete(prompt, max_tokens=n, return_token_ids=True, ignore_eos=True, **body)
        choice, usage = reply["choices"][0], reply["usage"]
        details = usage["completion_tokens_details"]
        return choice["token_ids"], details["accepted_prediction_tokens"], details["rejected_prediction_tokens"], usage

    def test_all_drafts_of_a_perfect_mtp_head_are_accepted(self):
        cases = [("test-qwen35", half, kv_type, False) for half in (0, 1) for kv_type in ("f32", "int8")]
        cases += [(name, 1, kv_type, False) for name in WITHOUT_STATE for kv_type in ("f32", "int8", "int4")]
        cases += [("test-nemotronhmoe", 1, "int8", False), ("test-puzzle", 1, "int8", False), ("test-glm5next", 1, "int8", False)]
        cases += [(name, half, kv_type, half == 0) for name in STREAMS for half in (0, 1) for kv_type in ("f32", "int8", "int4")]
        cases += [(name, 0, "int8", True) for name in WITHOUT_STATE]
        with tempfile.TemporaryDirectory() as folder:
            for name, half, kv_type, own in cases:
                with self.subTest(preset=name, half=half, kv_type=kv_type, own=own), \
                        Server(circle(folder, half, name, own), "--threads", 1, "--kv-type", kv_type, "--speculate", 4) as server:
                    prompt = [FIRST + 7]
                    want = [FIRST + (8 + i) % DIM for i in range(100)]
                    ids, accepted, rejected, _ = self.complete(server, prompt, 100)
                    self.assertEqual(ids, want)
                    self.assertEqual(rejected, 0)
                    self.assertGreater(accepted, 70)
                    # The conversation continues after its cached part. It ends at the end of a page, inside one, or before the
                    # newest token of a page.
                    for n_known in (40, 63, 64, 65, 70):
                        ids, accepted, rejected, usage = self.complete(server, prompt + want[:n_known], 12)
                        self.assertEqual(ids, want[n_known:n_known + 12])
                        self.assertEqual(rejected, 0)
                        self.assertGreater(accepted, 6)
                    self.assertEqual(self.complete(server, prompt, 50, speculate=False)[:3], (want[:50], 0, 0))

    def test_disk_pages_include_the_state_of_the_mtp_head(self):
        for name in ("test-qwen35", "test-nemotronhmoe", "test-puzzle", "test-glm5next", *STREAMS, *WITHOUT_STATE):
            with self.subTest(preset=name), tempfile.TemporaryDirectory() as folder:
                model, flags = circle(folder, 1, name), ("--threads", 1, "--speculate", 4, "--disk", os.path.join(folder, "pages"))
                want = [FIRST + (8 + i) % DIM for i in range(55)]
                with Server(model, *flags) as server:
                    self.assertEqual(self.complete(server, [FIRST + 7], 40)[0], want[:40])
                    server.stop()
                with Server(model, *flags) as server:
                    ids, accepted, rejected, usage = self.complete(server, [FIRST + 7] + want[:40], 15)
                    self.assertEqual(ids, want[40:])
                    self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], 32)
                    self.assertEqual(rejected, 0)
                    self.assertGreater(accepted, 8)

    def test_mtp_head_is_right_in_any_batch(self):
        for name in ("test-qwen35", "test-nemotronhmoe", "test-puzzle", "test-glm5next", *STREAMS, *WITHOUT_STATE):
            with self.subTest(preset=name), tempfile.TemporaryDirectory() as folder, \
                    Server(circle(folder, 1, name), "--threads", 1, "--speculate", 4, "--kv-memory", "8MiB", "--ctx", 64) as server:
                answers = in_parallel(*[lambda i=i: self.complete(server, [FIRST + i], 50) for i in range(12)])
                for i, (ids, accepted, rejected, _) in enumerate(answers):
                    self.assertEqual(ids, [FIRST + (i + 1 + k) % DIM for k in range(50)])
                    self.assertEqual(rejected, 0)
                    self.assertGreater(accepted, 10)


def split(path, folder):
    """Writes a model without its MTP layers, and a file of these alone, as llama.cpp's converter does (--no-mtp, --mtp)."""
    main, side = os.path.join(folder, "model.gguf"), os.path.join(folder, "mtp-model.gguf")
    file = gguf.Gguf(path)
    arch = file.get("general.architecture").decode()
    n_all, n_mtp = file.get(f"{arch}.block_count"), file.get(f"{arch}.nextn_predict_layers")
    n_layers = n_all - n_mtp
    layer_of = {t[0]: int(t[0].split(".")[1]) for t in file.tensors if t[0].startswith("blk.")}
    without = gguf.Gguf(path).drop(f"{arch}.nextn_predict_layers").set(f"{arch}.block_count", gguf.U32, n_layers)
    for key, kind, value in list(without.metadata):
        if kind == gguf.ARR and key.startswith(arch) and len(value[1]) == n_all:
            without.set(key, kind, (value[0], value[1][:n_layers]))
    for name, layer in layer_of.items():
        (without if layer >= n_layers else file).without_tensor(name)
    for to, made in ((main, without), (side, file)):
        with open(to, "wb") as f:
            f.write(made.bytes())
    return main, side


class SeparateFile(unittest.TestCase):
    """A file of MTP layers is used as if they were in the model's file."""

    def test_drafts_are_those_of_the_whole_file(self):
        for name, own in (*((name, []) for name in PRESETS), ("test-glm4moe", ["--mtp-own"])):
            with self.subTest(preset=name, own=own), tempfile.TemporaryDirectory() as folder:
                path, tokens = model(name, "q8_0", 0, *own), kvik.random_tokens(50, 260, 4)
                main, side = split(path, folder)
                self.assertNotIn(b"MTP head", kvik.output("show", main))
                self.assertEqual(drafts(main, tokens, 7, side), drafts(path, tokens, 7))
                self.assertEqual(kvik.logits_text(main, tokens, all=True), kvik.logits_text(path, tokens, all=True))

    def test_it_is_found_beside_the_model(self):
        want = [FIRST + (8 + i) % DIM for i in range(40)]
        for name in ("test-qwen35", "test-glm4moe", "test-nemotronhmoe"):
            with self.subTest(preset=name), tempfile.TemporaryDirectory() as folder:
                main, side = split(circle(folder, 1, name), folder)
                os.mkdir(os.path.join(folder, "other"))
                os.rename(split(model("test-step35"), os.path.join(folder, "other"))[1], os.path.join(folder, "mtp-other.gguf"))

                def accepted(*flags, at=main):
                    with Server(at, "--threads", 1, "--speculate", 4, *flags) as server:
                        reply = server.complete([FIRST + 7], max_tokens=40, return_token_ids=True, ignore_eos=True)
                        self.assertEqual(reply["choices"][0]["token_ids"], want)
                        server.stop()
                        return reply["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], server.said()
                n, log = accepted()
                self.assertGreater(n, 20)
                self.assertIn(f"the MTP head {side} beside the model drafts tokens", log)
                n, log = accepted("--draft", "none")
                self.assertNotIn("MTP head", log)
                moved = os.path.join(folder, "elsewhere.gguf")
                os.rename(side, moved)
                self.assertNotIn("MTP head", accepted()[1])
                n, log = accepted("--draft", moved)
                self.assertGreater(n, 20)
                self.assertIn(f"the MTP head {moved} drafts tokens", log)

    def assert_damaged_keys_are_named(self, main, side):
        with open(side, "rb") as f:
            whole = f.read()
        for key, value, message in (("nextn_predict_layers", 0, "'glm4moe.block_count' is 4 and 'nextn_predict_layers' is 0, expected 3 layers before the MTP"),
                                    ("block_count", 9, "'glm4moe.block_count' is 9"),
                                    ("embedding_length", 96, "'glm4moe.embedding_length' is 96, expected the 64 rows of tensor 'blk.3.nextn.eh_proj.weight'")):
            damaged = gguf.Gguf(side).set(f"glm4moe.{key}", gguf.U32, value).bytes()
            with open(side, "wb") as f:
                f.write(damaged)
            done = kvik.run("run", main, "-p", "a", "-n", 2)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"the MTP head beside the model is not used: '{side}' as MTP head: {message}", done.stderr.decode())
            done = kvik.run("run", main, "--draft", side, "-p", "a", "-n", 2)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr.decode())
            with open(side, "wb") as f:
                f.write(whole)

    def test_layers_of_another_model_are_refused(self):
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "other"))
            main, side = split(model("test-glm4moe"), root)
            other = split(model("test-mla"), os.path.join(root, "other"))[1]
            done = kvik.run("run", main, "--draft", other, "-p", "a", "-n", 2)
            self.assertEqual(done.returncode, 1)
            self.assertIn("the MTP layers are those of a model 'deepseek2' with 3 layers of 64 dimensions, expected 'glm4moe'", done.stderr.decode())
            self.assertIn(other, done.stderr.decode())
            self.assert_damaged_keys_are_named(main, side)
            file = gguf.Gguf(side)
            data = bytearray(file.data)
            at = file.tensor(tensor_of(file, "enorm"))[3]
            data[at:at + 4] = np.float32(np.inf).tobytes()
            file.data = bytes(data)
            with open(side, "wb") as f:
                f.write(file.bytes())
            done = kvik.run("run", main, "-p", "a", "-n", 2)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"the MTP head beside the model is not used: '{side}' as MTP head: tensor 'blk.3.nextn.enorm.weight' holds a number that is "
                          "not finite", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
