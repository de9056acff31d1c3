"""Tests Gemma 4's assistants: small models with layers that read K and V of the model. Compares values with the oracle and answers with others."""
import json
import os
import struct
import subprocess
import tempfile
import unittest

import numpy as np

import gguf
import kvik
import folder_files
from gguf_file import F32
from reference_logits import gated, rms_norm, rope, softmax
from server import Server, in_parallel

TOOL = os.path.join(os.environ.get("KVIK_BUILD", os.path.join(kvik.ROOT, "build")), "tests", "mtp_head_logits")
DIM, WIDTH, FFN, N_HEADS, EPS = 64, 96, 128, 4, 1e-6  # width of the model and of the assistants' layers
FIRST = 4  # first of DIM tokens that follow each other in a circle, one per dimension
PRESETS = ("test-gemma4", "test-gemma4-e", "test-gemma4-moe")
NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_q_norm": "self_attn.q_norm", "attn_output": "self_attn.o_proj",
         "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm", "ffn_gate": "mlp.gate_proj",
         "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "post_ffw_norm": "post_feedforward_layernorm"}
TOP = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
       "nextn.pre_projection.weight": "pre_projection.weight", "nextn.post_projection.weight": "post_projection.weight"}


class Assistant:
    """The tensors of an assistant under their names in a GGUF file. windowed: of each layer."""

    def __init__(self, path, seed=0, windowed=(True, True, False)):
        meta, _ = kvik.weights(path)
        rng = np.random.default_rng(seed)
        self.windowed, self.n_vocab = windowed, len(meta["tokenizer.ggml.tokens"][1])
        self.key_length = {False: meta["gemma4.attention.key_length"], True: meta["gemma4.attention.key_length_swa"]}
        mat = lambda rows, cols: (rng.standard_normal((rows, cols)) / np.sqrt(cols)).astype(np.float32)
        vec = lambda n: (1 + 0.1 * rng.standard_normal(n)).astype(np.float32)
        self.tensors = {"token_embd.weight": 4 * mat(self.n_vocab, WIDTH), "output_norm.weight": vec(WIDTH),
                        "nextn.pre_projection.weight": mat(WIDTH, 2 * DIM), "nextn.post_projection.weight": mat(DIM, WIDTH)}
        for i, local in enumerate(windowed):
            q_dim = N_HEADS * self.key_length[local]
            layer = {"attn_norm": vec(WIDTH), "attn_q": mat(q_dim, WIDTH), "attn_q_norm": vec(self.key_length[local]), "attn_output": mat(WIDTH, q_dim),
                     "post_attention_norm": vec(WIDTH), "ffn_norm": vec(WIDTH), "ffn_gate": mat(FFN, WIDTH), "ffn_up": mat(FFN, WIDTH),
                     "ffn_down": mat(WIDTH, FFN), "post_ffw_norm": vec(WIDTH), "layer_output_scale": np.float32([0.7 + 0.1 * i])}
            self.tensors |= {f"blk.{i}.{name}.weight": x for name, x in layer.items()}

    def write_gguf(self, path):
        tensors, data = [], b""
        for name, x in (self.tensors | {"rope_freqs.weight": np.ones(4, np.float32)}).items():
            data += b"\0" * (-len(data) % 32)
            tensors.append([name, list(x.shape[::-1]), F32, len(data)])
            data += np.ascontiguousarray(x).tobytes()
        file = gguf.Gguf(kvik.preset("test-llama"))
        file.metadata, file.tensors, file.data = [], tensors, data
        file.set("general.architecture", gguf.STR, b"gemma4-assistant")
        for key, value_type, value in (("block_count", gguf.U32, len(self.windowed)), ("embedding_length", gguf.U32, WIDTH),
                                       ("embedding_length_out", gguf.U32, DIM), ("feed_forward_length", gguf.U32, FFN),
                                       ("attention.head_count", gguf.U32, N_HEADS), ("attention.key_length", gguf.U32, self.key_length[False]),
                                       ("attention.key_length_swa", gguf.U32, self.key_length[True]), ("nextn_predict_layers", gguf.U32, len(self.windowed)),
                                       ("attention.sliding_window_pattern", gguf.ARR, (gguf.BOOL, list(self.windowed)))):
            file.set(f"gemma4-assistant.{key}", value_type, value)
        with open(path, "wb") as f:
            f.write(file.bytes())
        return path

    def write_folder(self, folder):
        os.makedirs(folder, exist_ok=True)
        folder_files.write_json(f"{folder}/config.json", {
            "model_type": "gemma4_assistant", "architectures": ["Gemma4AssistantForCausalLM"], "backbone_hidden_size": DIM, "use_ordered_embeddings": True,
            "text_config": {"model_type": "gemma4_text", "num_hidden_layers": len(self.windowed), "hidden_size": WIDTH, "intermediate_size": FFN,
                            "num_attention_heads": N_HEADS, "head_dim": self.key_length[True], "global_head_dim": self.key_length[False],
                            "layer_types": ["sliding_attention" if local else "full_attention" for local in self.windowed]}})
        header, data = {}, b""
        for name, x in (self.tensors | {"masked_embedding.centroids.weight": np.ones((2, WIDTH), np.float32)}).items():
            if name.startswith("blk."):
                _, layer, part, *_ = name.split(".")
                name = f"model.layers.{layer}." + ("layer_scalar" if part == "layer_output_scale" else f"{NAMES[part]}.weight")
            name = TOP.get(name, name)
            header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [len(data), len(data) + x.nbytes]}
            data += np.ascontiguousarray(x).tobytes()
        text = json.dumps(header).encode()
        with open(f"{folder}/model.safetensors", "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + data)
        return folder


def reference(path, assistant, tokens, chained=False):
    """Returns the logits [T - 1, n_vocab] in float64 for the token after each but the first: the input is a projection of the token's scaled embedding
    and of the hidden state of the token before; all layers read K and V of the tokens before, from the token's position. If chained, the tokens after
    the second one are drafts, with the assistant's own hidden states, from the position of the second one."""
    meta, w = kvik.weights(path)
    inputs, kept = [], {}
    kvik.reference_logits.forward(meta, w, tokens, inputs=inputs, kept=kept)
    hidden = rms_norm(inputs[-1], w["output_norm.weight"], EPS)
    t = {name: x.astype(np.float64) for name, x in assistant.tensors.items()}
    logits, before = [], hidden[0]
    for p in range(1, len(tokens)):
        at = 1 if chained else p
        if not chained:
            before = hidden[p - 1]
        x = t["nextn.pre_projection.weight"] @ np.concatenate([w["token_embd.weight"][tokens[p]] * np.sqrt(DIM), before])
        for i, local in enumerate(assistant.windowed):
            x = layer_of(meta, w, t, i, local, x, at, [y[:at] for y in kept[local]])
        x = rms_norm(x, t["output_norm.weight"], EPS)
        logits.append(t["token_embd.weight"] @ x)
        before = t["nextn.post_projection.weight"] @ x
    return np.array(logits)


def layer_of(meta, w, t, i, local, x, position, kv):
    L = lambda name: t[f"blk.{i}.{name}.weight"]
    hd = len(L("attn_q_norm"))
    n = meta["gemma4.rope.dimension_count_swa" if local else "gemma4.rope.dimension_count"]
    base = meta["gemma4.rope.freq_base_swa" if local else "gemma4.rope.freq_base"]
    f = base ** (-np.arange(0, n, 2) / n) / (1 if local else w["rope_freqs.weight"])
    q = rms_norm((L("attn_q") @ rms_norm(x, L("attn_norm"), EPS)).reshape(1, N_HEADS, hd), L("attn_q_norm"), EPS)
    q = rope(q, position * f[None], 1, False)[0]
    k, v = (y[-meta["gemma4.attention.sliding_window"]:] if local else y for y in kv)
    s = softmax(np.einsum("hd,shd->hs", q, k))
    x = x + rms_norm(L("attn_output") @ np.einsum("hs,shd->hd", s, v).reshape(-1), L("post_attention_norm"), EPS)
    m = rms_norm(x, L("ffn_norm"), EPS)
    x = x + rms_norm(L("ffn_down") @ gated("gemma4", L("ffn_gate") @ m, L("ffn_up") @ m), L("post_ffw_norm"), EPS)
    return x * L("layer_output_scale")


def drafts(path, tokens, chunk, head):
    done = subprocess.run([TOOL, path, kvik.joined(tokens), str(chunk), head], capture_output=True)
    if done.returncode:
        raise AssertionError(done.stderr.decode())
    return np.array([np.array(line.split(), np.float64) for line in done.stdout.splitlines() if not line.startswith(b"[")])


class AssistantValues(unittest.TestCase):
    def test_logits_match_the_oracle_from_files_and_folders(self):
        with tempfile.TemporaryDirectory() as root:
            for seed, name in enumerate(PRESETS):
                path, tokens = kvik.preset(name), kvik.random_tokens(70, 260, seed)
                assistant = Assistant(path, seed)
                file, folder = assistant.write_gguf(os.path.join(root, f"{name}.gguf")), assistant.write_folder(os.path.join(root, name))
                for chunk in (1, 0):
                    with self.subTest(preset=name, chunk=chunk):
                        got, want = drafts(path, tokens, chunk, file), reference(path, assistant, tokens, chunk == 0)
                        self.assertEqual(got.shape, want.shape)
                        self.assertLess((np.abs(got - want).max(1) / np.abs(want).max(1)).max(), 2e-5)
                        np.testing.assert_array_equal(drafts(path, tokens, chunk, folder), got)
                one_by_one = drafts(path, tokens, 1, file)
                for chunk in (7, 33):
                    ends = [min(n, len(tokens) - 1) for n in range(chunk, len(tokens) - 1 + chunk, chunk)]
                    np.testing.assert_array_equal(drafts(path, tokens, chunk, file), one_by_one[[n - 1 for n in ends]])

    def test_bad_assistants_get_one_sentence(self):
        path = kvik.preset("test-gemma4")

        def lacking(assistant):
            del assistant.tensors["blk.1.attn_q_norm.weight"]

        def misshapen(assistant):
            assistant.tensors["nextn.post_projection.weight"] = assistant.tensors["nextn.post_projection.weight"][:, 1:]

        def with_keys(assistant):
            assistant.tensors["blk.1.attn_k.weight"] = assistant.tensors["blk.1.attn_q.weight"]

        def of_other_heads(assistant):
            assistant.key_length = {True: 64, False: 64}

        cases = ((lacking, "'blk.1.attn_q_norm.weight' of the head is missing"), (misshapen, "'nextn.post_projection.weight' of the head has the shape"),
                 (with_keys, "blk.1.attn_k.weight' is not supported in an assistant"), (of_other_heads, "of 64 dimensions"))
        with tempfile.TemporaryDirectory() as root:
            for change, message in cases:
                with self.subTest(change=change.__name__):
                    assistant = Assistant(path)
                    change(assistant)
                    self.assert_refused(path, assistant.write_gguf(os.path.join(root, f"{change.__name__}.gguf")), message)
            self.assert_refused(kvik.preset("test-llama"), Assistant(path).write_folder(os.path.join(root, "folder")), "drafts for Gemma 4")

    def assert_refused(self, path, head, message):
        done = subprocess.run([kvik.BINARY, "run", path, "--draft", head, "-p", "a", "-n", "2"], capture_output=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(message, done.stderr.decode())
        self.assertEqual(done.stderr.decode().count("\n"), 1, done.stderr.decode())


def circle(root, preset, half):
    """Makes a model that predicts, for each of DIM tokens, the next one in the circle, and an assistant that predicts correctly from the token (half 0)
    or from the hidden state before it (half 1)."""
    file = gguf.Gguf(kvik.preset(preset))
    data = bytearray(file.data)

    def put(name, values):
        _, dims, _, offset = file.tensor(name)
        values = np.ascontiguousarray(np.broadcast_to(values, dims[::-1]), np.float32)
        data[offset:offset + values.nbytes] = values.tobytes()

    n_vocab = file.tensor("token_embd.weight")[1][1]
    embedding, following = np.zeros((n_vocab, DIM)), np.zeros((n_vocab, DIM))
    embedding[FIRST:FIRST + DIM] = np.eye(DIM)
    following[FIRST:FIRST + DIM] = np.roll(np.eye(DIM), 1, 0)
    put("token_embd.weight", embedding)
    for name, *_ in file.tensors:
        if name.endswith(("attn_output.weight", "ffn_down.weight", "ffn_down_exps.weight", ".proj.weight")):
            put(name, 0)
        elif name.endswith(("output_norm.weight", "layer_output_scale.weight")):
            put(name, 1)
    data += b"\0" * (-len(data) % 32)
    file.tensors.append(["output.weight", [DIM, n_vocab], F32, len(data)])
    file.data = bytes(data) + following.astype(np.float32).tobytes()
    path = os.path.join(root, f"{preset}.gguf")
    with open(path, "wb") as f:
        f.write(file.bytes())
    assistant = Assistant(path)
    t = assistant.tensors
    wide = lambda x: np.concatenate([x, np.zeros((len(x), WIDTH - DIM))], 1).astype(np.float32)  # [n, DIM] to [n, WIDTH]
    for name in t:
        if name.endswith(("attn_output.weight", "ffn_down.weight")):
            t[name][:] = 0
    t["output_norm.weight"][:] = 1
    t["token_embd.weight"] = wide(following)
    of_token, moved = np.concatenate([np.eye(DIM), np.zeros((DIM, DIM))], 1), np.concatenate([np.zeros((DIM, DIM)), np.roll(np.eye(DIM), 1, 0)], 1)
    t["nextn.pre_projection.weight"] = np.concatenate([of_token if half == 0 else moved, np.zeros((WIDTH - DIM, 2 * DIM))]).astype(np.float32)
    t["nextn.post_projection.weight"] = wide(np.eye(DIM) * 8 / np.sqrt(WIDTH))
    return path, assistant


class Circle(unittest.TestCase):
    """An assistant that is always right: all its draft tokens must be accepted, whatever happened to pages in between."""

    def complete(self, server, prompt, n, **body):
        reply = server.complete(prompt, max_tokens=n, return_token_ids=True, ignore_eos=True, **body)
        details = reply["usage"]["completion_tokens_details"]
        return reply["choices"][0]["token_ids"], details["accepted_prediction_tokens"], details["rejected_prediction_tokens"]

    def test_all_drafts_of_a_perfect_assistant_are_accepted(self):
        want = [FIRST + (8 + i) % DIM for i in range(100)]
        cases = [(name, 1, "int8") for name in PRESETS] + [("test-gemma4", half, kv_type) for half in (0, 1) for kv_type in ("f32", "int4")]
        with tempfile.TemporaryDirectory() as root:
            for name, half, kv_type in cases:
                path, assistant = circle(root, name, half)
                head, disk = assistant.write_gguf(os.path.join(root, f"head-{name}.gguf")), os.path.join(root, f"disk-{name}-{half}-{kv_type}")
                flags = ("--threads", 1, "--kv-type", kv_type, "--speculate", 4, "--draft", head, "--disk", disk)
                with self.subTest(preset=name, half=half, kv_type=kv_type):
                    with Server(path, *flags) as server:
                        ids, accepted, rejected = self.complete(server, [FIRST + 7], 100)
                        self.assertEqual((ids, rejected), (want, 0))
                        self.assertGreater(accepted, 70)
                        for n_known in (40, 63, 64, 65, 70):  # the conversation continues after its cached part
                            ids, accepted, rejected = self.complete(server, [FIRST + 7] + want[:n_known], 12)
                            self.assertEqual((ids, rejected), (want[n_known:n_known + 12], 0))
                            self.assertGreater(accepted, 6)
                        self.assertEqual(self.complete(server, [FIRST + 7], 50, speculate=False), (want[:50], 0, 0))
                        answers = in_parallel(*[lambda i=i: self.complete(server, [FIRST + i], 50) for i in range(12)])
                        for i, (ids, accepted, rejected) in enumerate(answers):
                            self.assertEqual((ids, rejected), ([FIRST + (i + 1 + k) % DIM for k in range(50)], 0))
                        server.stop()
                    with Server(path, *flags) as server:
                        ids, accepted, rejected = self.complete(server, [FIRST + 7] + want[:40], 15)
                        self.assertEqual((ids, rejected), (want[40:55], 0))
                        self.assertGreater(accepted, 8)

    def test_an_assistant_beside_the_model_is_found(self):
        with tempfile.TemporaryDirectory() as root:
            path, assistant = circle(root, "test-gemma4", 1)
            assistant.write_folder(os.path.join(root, "gemma-4-assistant"))
            for flags, is_used in (((), True), (("--draft", "none"), False)):
                with Server(path, "--threads", 1, "--speculate", 4, *flags) as server:
                    ids, accepted, rejected = self.complete(server, [FIRST + 7], 30)
                    self.assertEqual(accepted > 15, is_used)
                    server.stop()
                    self.assertEqual("the assistant" in server.said(), is_used)


class Exactness(unittest.TestCase):
    def test_answers_and_logits_do_not_change(self):
        for name in PRESETS:
            path, tokens = kvik.preset(name), kvik.random_tokens(70, 260, 4)
            with self.subTest(preset=name), tempfile.TemporaryDirectory() as root:
                head, answers = Assistant(path).write_gguf(os.path.join(root, "head.gguf")), []
                for flags in (("--draft", head, "--speculate", 3), ("--draft", "none", "--speculate", "off")):
                    with Server(path, "--threads", 1, *flags) as server:
                        answers.append([server.complete(tokens[:n], max_tokens=20, temperature=1, seed=n, logprobs=3)["choices"] for n in (1, 31, 32, 64, 70)])
                self.assertEqual(*answers)


if __name__ == "__main__":
    unittest.main()
