"""Tests the MTP head, which drafts the token after the next one: its values against the oracle, and that answers do not change when it is used."""
import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import gguf
import kvik
import make_hf_model
from server import Server, in_parallel

TOOL = os.path.join(os.environ.get("KVIK_BUILD", os.path.join(kvik.ROOT, "build")), "tests", "mtp_head_logits")
PRESETS = ("test-qwen35", "test-qwen35moe", "test-qwen3next")
DIM, FIRST = 64, 4  # of test-qwen35; first of DIM tokens that follow each other in a circle, one per dimension


def model(name, element_type="f32", seed=0):
    return kvik.preset(name, element_type, seed, "--mtp-layers", 1)


def drafts(path, tokens, chunk):
    done = subprocess.run([TOOL, path, kvik.joined(tokens), str(chunk)], capture_output=True, check=True)
    return done.stdout


def rows(text):
    return np.array([np.array(line.split(), np.float64) for line in text.splitlines()])


class MtpHead(unittest.TestCase):
    def test_mtp_head_logits_match_the_oracle(self):
        for name, seed in itertools.product(PRESETS, (1, 2)):
            with self.subTest(preset=name, seed=seed):
                path, tokens = model(name, "f32", seed), kvik.random_tokens(70, 260, seed)
                meta, weights = kvik.weights(path)
                want = kvik.reference_logits.forward(meta, weights, tokens, drafts=True)
                got = rows(drafts(path, tokens, 1))
                self.assertEqual(got.shape, want.shape)
                error = (np.abs(got - want).max(1) / np.abs(want).max(1)).max()
                # Twice the bound: the model's final hidden state is normalized once more and projected, so its errors enter before those of the
                # layer.
                self.assertLess(error, 2 * kvik.f32_bound(meta, weights, tokens, want, drafts=True))

    def test_chunks_change_no_byte(self):
        path, tokens = kvik.preset("test-qwen35", "q8_0"), kvik.random_tokens(70, 260, 3)
        one_by_one = drafts(path, tokens, 1).splitlines()
        for chunk in (7, 32, 33):
            ends = [min(n, len(tokens) - 1) for n in range(chunk, len(tokens) - 1 + chunk, chunk)]
            self.assertEqual(drafts(path, tokens, chunk).splitlines(), [one_by_one[n - 1] for n in ends])


    def test_a_folder_has_the_bytes_of_its_file(self):
        with tempfile.TemporaryDirectory() as root:
            for name in PRESETS:
                with self.subTest(preset=name):
                    path, tokens, folder = model(name, "bf16"), kvik.random_tokens(40, 260, 4), os.path.join(root, name)
                    subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/make/make_hf_model.py"), path, folder], check=True)
                    self.assertIn("mtp.fc.weight", folder_tensors(folder))
                    self.assertEqual(drafts(folder, tokens, 1), drafts(path, tokens, 1))
                    self.assertIn(b"an MTP head", kvik.output("show", folder))

    def test_a_file_without_it_is_served_without(self):
        """The MTP head is ignored whatever the metadata says: quantized files may leave out its tensors."""
        path = kvik.preset("test-qwen35")
        self.assertIn(b"MTP head", kvik.output("show", path))
        with tempfile.TemporaryDirectory() as root:
            for lost in (["eh_proj"], ["blk.5."]):
                file = gguf.Gguf(path)
                for name in [t[0] for t in file.tensors if any(part in t[0] for part in lost)]:
                    file.without_tensor(name)
                model = os.path.join(root, f"{lost[0]}gguf")
                with open(model, "wb") as f:
                    f.write(file.bytes())
                self.assertNotIn(b"MTP head", kvik.output("show", model))
                tokens = kvik.random_tokens(40, 260, 4)
                self.assertEqual(kvik.logits_text(model, tokens, all=True), kvik.logits_text(path, tokens, all=True))


    def test_a_folder_with_a_part_of_it_or_a_head_of_its_own_is_served_without(self):
        path, tokens = kvik.preset("test-qwen35", "bf16"), kvik.random_tokens(40, 260, 4)
        want = kvik.logits_text(path, tokens, all=True)
        for change in (lambda t: t.pop("mtp.norm.weight"), lambda t: t.pop("mtp.layers.0.mlp.up_proj.weight"),
                       lambda t: t.update({"mtp.lm_head.weight": t["mtp.fc.weight"]})):
            with tempfile.TemporaryDirectory() as folder:
                made = make_hf_model.Folder(path)
                change(made.tensors)
                make_hf_model.write_json(f"{folder}/config.json", made.config())
                make_hf_model.write_vocabulary(folder, made.metadata)
                make_hf_model.write_tensors(folder, made.tensors, 1)
                self.assertNotIn(b"MTP head", kvik.output("show", folder))
                self.assertEqual(kvik.logits_text(folder, tokens, all=True), want)

    def test_without_layers_that_have_a_state_there_is_none(self):
        """No layer would hold the state that the MTP head needs for the newest token."""
        file = gguf.Gguf(kvik.preset("test-qwen35"))
        file.set("qwen35.full_attention_interval", gguf.U32, 1)
        with tempfile.TemporaryDirectory() as root:
            path = os.path.join(root, "all.gguf")
            with open(path, "wb") as f:
                f.write(file.bytes())
            self.assertNotIn(b"MTP head", kvik.output("show", path))


def folder_tensors(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        return json.loads(f.read(int.from_bytes(f.read(8), "little")))


def circle(folder, half):
    """Makes a model that predicts, for each of DIM tokens, the next one in the circle. Its MTP head predicts correctly from the token (half 0) or
    from the
    hidden state before it (half 1), whose dimensions it shifts by one more."""
    file = gguf.Gguf(kvik.preset("test-qwen35"))
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
        if name.endswith(("attn_output.weight", "ssm_out.weight", "ffn_down.weight")):
            put(name, 0)
        elif name.endswith(("output_norm.weight", "enorm.weight", "hnorm.weight", "shared_head_norm.weight")):
            put(name, 1)
    moved = np.roll(np.eye(DIM), 1, 0)  # maps dimension i to i + 1
    put(next(t[0] for t in file.tensors if t[0].endswith("eh_proj.weight")),
        np.concatenate([np.eye(DIM), np.zeros((DIM, DIM))] if half == 0 else [np.zeros((DIM, DIM)), moved], 1))
    file.data = bytes(data)
    path = os.path.join(folder, f"circle-{half}.gguf")
    with open(path, "wb") as f:
        f.write(file.bytes())
    return path


def next_rows(embedding):
    """Returns rows of the output head: the row of a token matches the token before it in the circle."""
    head = np.zeros_like(embedding)
    head[FIRST:FIRST + DIM] = np.roll(np.eye(DIM), 1, 0)
    return head


class Circle(unittest.TestCase):
    """An MTP head that is always right: all its draft tokens must be accepted, whatever happened to pages and states in between."""

    def complete(self, server, prompt, n, **body):
        reply = server.complete(prompt, max_tokens=n, return_token_ids=True, ignore_eos=True, **body)
        choice, usage = reply["choices"][0], reply["usage"]
        details = usage["completion_tokens_details"]
        return choice["token_ids"], details["accepted_prediction_tokens"], details["rejected_prediction_tokens"], usage

    def test_all_drafts_of_a_perfect_mtp_head_are_accepted(self):
        with tempfile.TemporaryDirectory() as folder:
            for half in (0, 1):
                for kv_type in ("f32", "int8"):
                    with self.subTest(half=half, kv_type=kv_type), \
                            Server(circle(folder, half), "--threads", 1, "--kv-type", kv_type, "--speculate", 4) as server:
                        prompt = [FIRST + 7]
                        want = [FIRST + (8 + i) % DIM for i in range(50)]
                        ids, accepted, rejected, _ = self.complete(server, prompt, 50)
                        self.assertEqual(ids, want)
                        self.assertEqual(rejected, 0)
                        self.assertGreater(accepted, 35)
                        # The conversation continues after its cached part.
                        ids, accepted, rejected, usage = self.complete(server, prompt + want[:40], 12)
                        self.assertEqual(ids, want[40:] + [FIRST + 58, FIRST + 59])
                        self.assertEqual(rejected, 0)
                        self.assertGreater(accepted, 6)
                        self.assertEqual(self.complete(server, prompt, 50, speculate=False)[:3], (want, 0, 0))


    def test_disk_pages_include_the_state_of_the_mtp_head(self):
        with tempfile.TemporaryDirectory() as folder:
            model, flags = circle(folder, 1), ("--threads", 1, "--speculate", 4, "--disk", os.path.join(folder, "pages"))
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
        with tempfile.TemporaryDirectory() as folder, \
                Server(circle(folder, 1), "--threads", 1, "--speculate", 4, "--kv-memory", "8MiB", "--ctx", 64) as server:
            answers = in_parallel(*[lambda i=i: self.complete(server, [FIRST + i], 50) for i in range(12)])
            for i, (ids, accepted, rejected, _) in enumerate(answers):
                self.assertEqual(ids, [FIRST + (i + 1 + k) % DIM for k in range(50)])
                self.assertEqual(rejected, 0)
                self.assertGreater(accepted, 10)


if __name__ == "__main__":
    unittest.main()
