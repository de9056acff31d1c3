"""Tests EAGLE-3 heads, which draft from hidden states of some layers of the model: their values against the oracle, and that answers do not change."""
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

import numpy as np

import gguf
import kvik
import folder_files
import make_hf_model
from gguf_file import F32
from reference_logits import rms_norm, rope, softmax
from server import Server, in_parallel

TOOL = os.path.join(os.environ.get("KVIK_BUILD", os.path.join(kvik.ROOT, "build")), "tests", "mtp_head_logits")
DIM, FFN, N_HEADS, N_KV_HEADS, HEAD_DIM, BASE = 64, 96, 4, 2, 16, 5e5
FIRST = 4  # first of DIM tokens that follow each other in a circle, one per dimension
# Other layouts of K and V, other activations and norms, a state, an MTP head that the EAGLE-3 head replaces, and narrower layers.
PRESETS = ("test-llama", "test-gptoss", "test-glm4moe", "test-mla", "test-qwen35", "test-ministral3")
TYPES = {np.dtype(np.float32): "F32", np.dtype(np.int64): "I64", np.dtype(np.int8): "I8", np.dtype(bool): "BOOL"}


def n_vocab_of(path):
    return len(gguf.Gguf(path).get("tokenizer.ggml.tokens")[1])


def n_layers_of(path):
    meta, _ = kvik.weights(path)
    arch = meta["general.architecture"].decode()
    return meta[f"{arch}.block_count"] - meta.get(f"{arch}.nextn_predict_layers", 0)


class Head:
    """The tensors of a head and the keys of its config.json. tokens: those of its output projection; None: all."""

    def __init__(self, path, seed=0, taps=(0, 1, 2), tokens=None, own_embedding=False, normed=False):
        rng = np.random.default_rng(seed)
        n_vocab = n_vocab_of(path)
        n_rows = n_vocab if tokens is None else len(tokens)
        mat = lambda rows, cols: (rng.standard_normal((rows, cols)) / np.sqrt(cols)).astype(np.float32)
        vec = lambda n: (1 + 0.1 * rng.standard_normal(n)).astype(np.float32)
        self.taps, self.tokens, self.normed, self.n_vocab = taps, tokens, normed, n_vocab
        layer = {"input_layernorm.weight": vec(DIM), "hidden_norm.weight": vec(DIM), "post_attention_layernorm.weight": vec(DIM),
                 "self_attn.q_proj.weight": mat(N_HEADS * HEAD_DIM, 2 * DIM), "self_attn.k_proj.weight": mat(N_KV_HEADS * HEAD_DIM, 2 * DIM),
                 "self_attn.v_proj.weight": mat(N_KV_HEADS * HEAD_DIM, 2 * DIM), "self_attn.o_proj.weight": mat(DIM, N_HEADS * HEAD_DIM),
                 "mlp.gate_proj.weight": mat(FFN, DIM), "mlp.up_proj.weight": mat(FFN, DIM), "mlp.down_proj.weight": mat(DIM, FFN)}
        self.tensors = {f"midlayer.{name}": x for name, x in layer.items()}
        self.tensors |= {"fc.weight": mat(DIM, len(taps) * DIM), "norm.weight": vec(DIM), "lm_head.weight": 4 * mat(n_rows, DIM)}
        if own_embedding:
            self.tensors["embed_tokens.weight"] = 8 * mat(n_vocab, DIM)
        if tokens is not None:
            self.tensors["d2t"] = np.array([token - row for row, token in enumerate(tokens)], np.int64)
            self.tensors["t2d"] = np.isin(np.arange(n_vocab), tokens)
        self.config = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": DIM, "intermediate_size": FFN,
                       "num_attention_heads": N_HEADS, "num_key_value_heads": N_KV_HEADS, "head_dim": HEAD_DIM, "num_hidden_layers": 1,
                       "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": BASE, "max_position_embeddings": 2048, "vocab_size": n_vocab,
                       "draft_vocab_size": n_rows, "tie_word_embeddings": False, "norm_before_residual": normed,
                       "eagle_aux_hidden_state_layer_ids": list(taps)}

    def write(self, folder, **config):
        os.makedirs(folder, exist_ok=True)
        folder_files.write_json(f"{folder}/config.json", self.config | config)
        header, data = {}, b""
        for name, x in self.tensors.items():
            header[name] = {"dtype": TYPES[x.dtype], "shape": list(x.shape), "data_offsets": [len(data), len(data) + x.nbytes]}
            data += np.ascontiguousarray(x).tobytes()
        text = json.dumps(header).encode()
        with open(f"{folder}/model.safetensors", "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + data)
        return folder

    def write_gguf(self, path, types=()):
        """Writes a file as llama.cpp's converter does: rows of Q and K that RoPE rotates together are adjacent, and "d2t" has tokens. types: numbers of
        other types by name."""
        names = {"input_layernorm": "attn_norm", "hidden_norm": "attn_norm_2", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
                 "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
                 "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
        top = {"fc.weight": "fc.weight", "norm.weight": "output_norm.weight", "lm_head.weight": "output.weight", "embed_tokens.weight": "token_embd.weight"}
        tensors, data = [], b""
        for name, x in self.tensors.items():
            if name == "t2d":
                continue
            if name == "d2t":
                to, x = name, x + np.arange(len(x))
            elif name in top:
                to = top[name]
            else:
                part = name.removeprefix("midlayer.").removesuffix(".weight")
                to = f"blk.0.{names[part]}.weight"
                if part in ("self_attn.q_proj", "self_attn.k_proj"):
                    x = x.reshape(-1, 2, HEAD_DIM // 2, x.shape[1]).swapaxes(1, 2).reshape(x.shape)
            data += b"\0" * (-len(data) % 32)
            tensors.append([to, list(x.shape[::-1]), dict(types).get(to, 27 if x.dtype == np.int64 else F32), len(data)])
            data += np.ascontiguousarray(x).tobytes()
        file = gguf.Gguf(kvik.preset("test-llama"))
        file.metadata, file.tensors, file.data = [], tensors, data
        file.set("general.architecture", gguf.STR, b"eagle3")
        for key, value_type, value in (("block_count", gguf.U32, 1), ("embedding_length", gguf.U32, DIM), ("feed_forward_length", gguf.U32, FFN),
                                       ("attention.head_count", gguf.U32, N_HEADS), ("attention.head_count_kv", gguf.U32, N_KV_HEADS),
                                       ("attention.key_length", gguf.U32, HEAD_DIM), ("rope.freq_base", gguf.F, BASE),
                                       ("attention.layer_norm_rms_epsilon", gguf.F, 1e-5), ("target_hidden_size", gguf.U32, DIM),
                                       ("norm_before_residual", gguf.BOOL, self.normed), ("extract_layers", gguf.ARR, (gguf.I32, list(self.taps)))):
            file.set(f"eagle3.{key}", value_type, value)
        with open(path, "wb") as f:
            f.write(file.bytes())
        return path


def reference(path, head, tokens, chained=False):
    """Returns the head's logits [T - 1, n_vocab] in float64 (Li et al. 2025): x = g + attention([norm(embedding), norm(g)]), then an MLP, where g is a
    projection of the hidden states at the token before; if chained, after the first token, the head's own x of that token."""
    meta, w = kvik.weights(path)
    arch = meta["general.architecture"].decode()
    eps = meta[f"{arch}.attention.layer_norm_rms_epsilon"]
    inputs = []
    kvik.reference_logits.forward(meta, w, tokens, inputs=inputs)
    t = {name.removeprefix("midlayer."): x.astype(np.float64) for name, x in head.tensors.items() if x.dtype == np.float32}
    g = np.concatenate([inputs[i] for i in head.taps], 1) @ t["fc.weight"].T
    embedded = t.get("embed_tokens.weight", w["token_embd.weight"])[tokens[1:]]
    if not chained:
        x = eagle_layer(t, embedded, g[:-1], eps, head.normed)
    else:
        before = g[:1]
        for n in range(1, len(tokens)):
            x = eagle_layer(t, embedded[:n], before, eps, head.normed)
            before = np.concatenate([before, x[-1:]])
    logits = rms_norm(x, t["norm.weight"], eps) @ t["lm_head.weight"].T
    if head.tokens is None:
        return logits
    of_all = np.full((len(logits), head.n_vocab), -np.inf)
    of_all[:, head.tokens] = logits
    return of_all


def eagle_layer(t, embedded, g, eps, normed):
    T = len(g)
    h = rms_norm(g, t["hidden_norm.weight"], eps)
    both = np.concatenate([rms_norm(embedded, t["input_layernorm.weight"], eps), h], 1)
    q, k, v = (both @ t[f"self_attn.{n}_proj.weight"].T for n in "qkv")
    angles = np.arange(1, T + 1)[:, None] * BASE ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    q, k = (rope(y.reshape(T, -1, HEAD_DIM), angles, 1.0, False) for y in (q, k))
    k, v = np.repeat(k, N_HEADS // N_KV_HEADS, 1), np.repeat(v.reshape(T, -1, HEAD_DIM), N_HEADS // N_KV_HEADS, 1)
    s = np.einsum("thd,shd->hts", q, k) / np.sqrt(HEAD_DIM)
    s = np.where(np.arange(T)[:, None] < np.arange(T)[None], -np.inf, s)
    x = (h if normed else g) + np.einsum("hts,shd->thd", softmax(s), v).reshape(T, -1) @ t["self_attn.o_proj.weight"].T
    m = rms_norm(x, t["post_attention_layernorm.weight"], eps)
    gate = m @ t["mlp.gate_proj.weight"].T
    return x + (gate / (1 + np.exp(-gate)) * (m @ t["mlp.up_proj.weight"].T)) @ t["mlp.down_proj.weight"].T


def drafts(path, tokens, chunk, head):
    done = subprocess.run([TOOL, path, kvik.joined(tokens), str(chunk), head], capture_output=True)
    if done.returncode:
        raise AssertionError(done.stderr.decode())
    return np.array([np.array(line.split(), np.float64) for line in done.stdout.splitlines() if not line.startswith(b"[")])


class EagleHead(unittest.TestCase):
    def assert_close(self, got, want):
        self.assertEqual(got.shape, want.shape)
        np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
        got, want = (np.where(np.isinf(x), 0, x) for x in (got, want))
        self.assertLess((np.abs(got - want).max(1) / np.abs(want).max(1)).max(), 1e-5)

    def test_logits_match_the_oracle(self):
        with tempfile.TemporaryDirectory() as root:
            for seed, name in enumerate(PRESETS):
                path, tokens = kvik.preset(name), kvik.random_tokens(70, 260, seed)
                last = n_layers_of(path)
                few = list(range(7, 200, 3))
                for i, options in enumerate(({"taps": (0, 1, last)}, {"taps": (1, last, last), "tokens": few, "own_embedding": True, "normed": True})):
                    head = Head(path, seed, **options)
                    folder = head.write(os.path.join(root, f"{name}-{i}"))
                    for chunk in (1, 0):
                        with self.subTest(preset=name, options=options, chunk=chunk):
                            self.assert_close(drafts(path, tokens, chunk, folder), reference(path, head, tokens, chunk == 0))

    def test_chunks_and_forms_change_no_value(self):
        path, tokens = kvik.preset("test-llama", "q8_0"), kvik.random_tokens(70, 260, 3)
        head = Head(path, tokens=list(range(250, 50, -2)))
        with tempfile.TemporaryDirectory() as root:
            folder = head.write(os.path.join(root, "head"))
            one_by_one = drafts(path, tokens, 1, folder)
            for chunk in (7, 32, 33):
                ends = [min(n, len(tokens) - 1) for n in range(chunk, len(tokens) - 1 + chunk, chunk)]
                np.testing.assert_array_equal(drafts(path, tokens, chunk, folder), one_by_one[[n - 1 for n in ends]])
            file = head.write_gguf(os.path.join(root, "head.gguf"))
            np.testing.assert_allclose(drafts(path, tokens, 1, file), one_by_one, rtol=1e-4, atol=1e-4)
            # SpecForge and SGLang state layers whose outputs are the hidden states, and Speculators a layer's config of its own.
            head.config.pop("eagle_aux_hidden_state_layer_ids")
            head.taps = (1, 2, 2)
            head.config["eagle_aux_hidden_state_layer_ids"] = [1, 2, 2]
            want = drafts(path, tokens, 1, head.write(os.path.join(root, "inputs")))
            head.config.pop("eagle_aux_hidden_state_layer_ids")
            outputs = head.write(os.path.join(root, "outputs"), eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 1, 1]})
            np.testing.assert_array_equal(drafts(path, tokens, 1, outputs), want)
            layer = {key: head.config[key] for key in head.config if key not in ("architectures", "norm_before_residual", "draft_vocab_size")}
            head.config = {"architectures": ["Eagle3Speculator"], "transformer_layer_config": layer, "eagle_aux_hidden_state_layer_ids": [1, 2, 2]}
            np.testing.assert_array_equal(drafts(path, tokens, 1, head.write(os.path.join(root, "speculators"))), want)

    def test_bad_heads_get_one_sentence(self):
        path = kvik.preset("test-llama")

        def lacking(head):
            del head.tensors["midlayer.hidden_norm.weight"]

        def misshapen(head):
            head.tensors["fc.weight"] = head.tensors["fc.weight"][:, :-1]

        def unknown(head):
            head.tensors["midlayer.self_attn.q_norm.weight"] = np.ones(HEAD_DIM, np.float32)

        def beyond(head):
            head.tensors["d2t"][3] = 10 ** 12

        def of_other_dims(head):
            head.config["hidden_size"] = 128

        def of_other_layers(head):
            head.config["eagle_aux_hidden_state_layer_ids"] = [2, 16, 29]

        def of_many_layers(head):
            head.config["num_hidden_layers"] = 2

        def unnamed(head):
            head.config = {"architectures": ["LlamaForCausalLM"]}

        cases = ((lacking, "'blk.0.attn_norm_2.weight' of the head is missing"), (misshapen, "'fc.weight' of the head has the shape [64, 191]"),
                 (unknown, "midlayer.self_attn.q_norm.weight' is not supported"), (beyond, "is token 1000000000003, expected one of the model's 260"),
                 (of_other_dims, "has 1 layer of 128 dimensions"), (of_other_layers, "16: expected at most 8 numbers of layers, 0 to 2"),
                 (of_many_layers, "has 2 layers of 64 dimensions"), (unnamed, "expected a name with Eagle3"))
        with tempfile.TemporaryDirectory() as root:
            for change, message in cases:
                with self.subTest(change=change.__name__):
                    head = Head(path, tokens=list(range(20, 60)))
                    change(head)
                    folder = head.write(os.path.join(root, change.__name__))
                    done = subprocess.run([kvik.BINARY, "run", path, "--draft", folder, "-p", "a", "-n", "2"], capture_output=True)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(message, done.stderr.decode())
                    self.assertEqual(done.stderr.decode().count("\n"), 1, done.stderr.decode())


def circle(root, preset):
    """Makes a model that predicts, for each of DIM tokens, the next one in the circle, and a head that predicts correctly from the hidden state, which
    its MLP moves by one dimension. The tokens of its output projection are in the reverse order."""
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
    put("output.weight", following)
    for name, *_ in file.tensors:
        if name.endswith(("attn_output.weight", "ssm_out.weight", "ffn_down.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight", "output.bias",
                          "ffn_down_exps.bias")):
            put(name, 0)
        elif name.endswith("output_norm.weight"):
            put(name, 1)
    file.data = bytes(data)
    path = os.path.join(root, f"{preset}.gguf")
    with open(path, "wb") as f:
        f.write(file.bytes())
    last = n_layers_of(kvik.preset(preset))
    head = Head(path, taps=(0, 1, last), tokens=list(range(FIRST + DIM - 1, FIRST - 1, -1)))
    t = head.tensors
    for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        t[f"midlayer.{name}.weight"][:] = 1
    t["norm.weight"][:] = 1
    t["midlayer.self_attn.o_proj.weight"][:] = 0
    t["fc.weight"] = np.concatenate([np.zeros((DIM, 2 * DIM)), np.eye(DIM)], 1).astype(np.float32)
    t["lm_head.weight"] = np.ascontiguousarray(following[FIRST:FIRST + DIM][::-1]).astype(np.float32)
    # A row has one dimension of value 1, thus 8 after its norm; silu(8) · 8 is 63.98.
    wide = np.concatenate([np.eye(DIM), np.zeros((FFN - DIM, DIM))]).astype(np.float32)
    t["midlayer.mlp.gate_proj.weight"] = t["midlayer.mlp.up_proj.weight"] = wide
    t["midlayer.mlp.down_proj.weight"] = ((np.roll(np.eye(DIM), 1, 0) - np.eye(DIM)) @ wide.T / 63.98).astype(np.float32)
    return path, head


class Circle(unittest.TestCase):
    """A head that is always right: all its draft tokens must be accepted, whatever happened to pages and states in between."""

    def complete(self, server, prompt, n, **body):
        reply = server.complete(prompt, max_tokens=n, return_token_ids=True, ignore_eos=True, **body)
        details = reply["usage"]["completion_tokens_details"]
        return reply["choices"][0]["token_ids"], details["accepted_prediction_tokens"], details["rejected_prediction_tokens"]

    def test_all_drafts_of_a_perfect_head_are_accepted(self):
        want = [FIRST + (8 + i) % DIM for i in range(100)]
        cases = [(name, "int8") for name in PRESETS] + [("test-llama", kv_type) for kv_type in ("f32", "int4")]
        with tempfile.TemporaryDirectory() as root:
            for name, kv_type in cases:
                path, head = circle(root, name)
                folder, disk = head.write(os.path.join(root, f"head-{name}")), os.path.join(root, f"disk-{name}-{kv_type}")
                flags = ("--threads", 1, "--kv-type", kv_type, "--speculate", 4, "--draft", folder, "--disk", disk)
                with self.subTest(preset=name, kv_type=kv_type):
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

    def test_a_head_beside_the_model_is_found(self):
        with tempfile.TemporaryDirectory() as root:
            path, head = circle(root, "test-llama")
            head.write(os.path.join(root, "My-EAGLE3-head"))

            def accepted(*flags):
                with Server(path, "--threads", 1, "--speculate", 4, *flags) as server:
                    result = self.complete(server, [FIRST + 7], 30)
                    server.stop()
                    return result[1], server.said()

            n, log = accepted()
            self.assertGreater(n, 15)
            self.assertIn("My-EAGLE3-head beside the model drafts tokens; --draft none turns it off", log)
            n, log = accepted("--draft", "none")
            self.assertNotIn("EAGLE", log)
            self.assertEqual(n, 0)
            shutil.copytree(os.path.join(root, "My-EAGLE3-head"), os.path.join(root, "eagle3"))
            self.assertIn("2 draft heads are beside the model", accepted()[1])
            shutil.rmtree(os.path.join(root, "eagle3"))
            del head.tensors["fc.weight"]
            head.write(os.path.join(root, "My-EAGLE3-head"))
            n, log = accepted()
            self.assertEqual(n, 0)
            self.assertIn("the EAGLE-3 head beside the model is not used", log)
            with open(os.path.join(root, "My-EAGLE3-head", "config.json"), "w", encoding="utf-8") as f:
                f.write("{")
            n, log = accepted()
            self.assertEqual(n, 0)
            self.assertIn("My-EAGLE3-head beside the model is not used: its config.json names no EAGLE-3 head", log)
            shutil.rmtree(os.path.join(root, "My-EAGLE3-head"))
            # Beside a folder: in it, or next to it with its name.
            folder = os.path.join(root, "models", "Circle")
            subprocess.run([make_hf_model.sys.executable, make_hf_model.__file__, path, folder], check=True)
            path, head = folder, circle(root, "test-llama")[1]
            head.write(os.path.join(root, "models", "Other-eagle3"))
            self.assertEqual(accepted()[0], 0)
            for place in (os.path.join(folder, "eagle3"), folder + "-EAGLE3"):
                head.write(place)
                self.assertGreater(accepted()[0], 15)
                shutil.rmtree(place)


class HeadsThatCannotBeLoaded(unittest.TestCase):
    """The model is loaded without a head beside it, and a warning names the head's file; a head that --draft names is an error."""

    def infinite(self, head, place):
        head.tensors["fc.weight"][3, 5] = np.inf
        return head.write(place), "tensor 'fc.weight' holds a number that is not finite"

    def not_a_number(self, head, place):
        head.tensors["midlayer.input_layernorm.weight"][7] = np.nan
        return head.write(place), "input_layernorm.weight' holds a number that is not finite"

    def of_integers(self, head, place):
        head.tensors["midlayer.self_attn.q_proj.weight"] = head.tensors["midlayer.self_attn.q_proj.weight"].astype(np.int8)
        return head.write(place), "q_proj.weight' is of type i8"

    def gguf_of_integers(self, head, place):
        return head.write_gguf(place + ".gguf", {"fc.weight": 26}), "'fc.weight' is of type i32"  # as many bytes as f32

    def gguf_of_an_unknown_type(self, head, place):
        return head.write_gguf(place + ".gguf", {"fc.weight": 99}), "fc.weight' has element type 99"

    def gguf_of_no_numbers(self, head, place):
        head.tensors["lm_head.weight"][0, 0] = np.nan
        return head.write_gguf(place + ".gguf"), "'output.weight' holds a number that is not finite"

    def check(self, write):
        with tempfile.TemporaryDirectory() as root:
            path = os.path.join(root, "model.gguf")
            shutil.copy(kvik.preset("test-llama"), path)
            head, cause = write(Head(path), os.path.join(root, "the-eagle3"))

            def run(*flags):
                return subprocess.run([kvik.BINARY, "run", path, "--threads", "1", "-p", "a", "-n", "4", "--temp", "0", "--ignore-eos", *flags], capture_output=True,
                                      env=os.environ | {"KVIK_LOG": "warn"})

            found, named, without = run(), run("--draft", head), run("--draft", "none")
            self.assertEqual((found.returncode, found.stdout), (0, without.stdout), found.stderr)
            warnings = [line for line in found.stderr.decode().splitlines() if "is not used" in line]
            self.assertEqual(len(warnings), 1, found.stderr)
            self.assertNotEqual(named.returncode, 0)
            for said in (warnings[0], named.stderr.decode()):
                self.assertIn(cause, said)
                self.assertIn(head, said)
                self.assertNotIn(path, said)
            self.assertEqual(named.stderr.count(b"\n"), 1, named.stderr)

    def test_folders(self):
        for write in (self.infinite, self.not_a_number, self.of_integers):
            with self.subTest(head=write.__name__):
                self.check(write)

    def test_files(self):
        for write in (self.gguf_of_integers, self.gguf_of_an_unknown_type, self.gguf_of_no_numbers):
            with self.subTest(head=write.__name__):
                self.check(write)

    def test_keys_of_a_head_in_an_ordinary_model_are_ignored(self):
        file = gguf.Gguf(kvik.preset("test-llama"))
        file.set("eagle3.attention.head_count", gguf.U32, 4)
        file.set("gemma4-assistant.block_count", gguf.U32, 4)
        with tempfile.TemporaryDirectory() as root:
            path = os.path.join(root, "model.gguf")
            with open(path, "wb") as f:
                f.write(file.bytes())
            args = ("--threads", 1, "-p", "a", "-n", 4, "--temp", 0, "--ignore-eos")
            self.assertEqual(kvik.output("run", path, *args), kvik.output("run", kvik.preset("test-llama"), *args))

    def test_a_head_that_drafts_nothing_is_not_said_to_draft(self):
        with tempfile.TemporaryDirectory() as root:
            head = Head(kvik.preset("test-llama")).write(os.path.join(root, "head"))
            for flags, drafts in ((("--speculate", "off"), False), ((), True)):
                with Server(kvik.preset("test-llama"), "--threads", 1, "--draft", head, *flags) as server:
                    server.stop()
                    self.assertEqual("drafts tokens" in server.said(), drafts, server.said())
                    self.assertEqual("drafts nothing" in server.said(), not drafts, server.said())


class Exactness(unittest.TestCase):
    def test_answers_and_logits_do_not_change(self):
        for name in PRESETS:
            path = kvik.preset(name)
            tokens = kvik.random_tokens(40, 260, 4)
            with self.subTest(preset=name), tempfile.TemporaryDirectory() as root:
                folder = Head(path, taps=(0, 1, 1)).write(os.path.join(root, "head"))
                answers = []
                for flags in (("--draft", folder, "--speculate", 3), ("--draft", "none", "--speculate", "off")):
                    with Server(path, "--threads", 1, *flags) as server:
                        answers.append([server.complete(tokens[:n], max_tokens=20, temperature=1, seed=n, logprobs=3)["choices"] for n in (1, 31, 32, 40)])
                self.assertEqual(*answers)


if __name__ == "__main__":
    unittest.main()
