"""Encoders: hidden states and scores beside Transformers (tests/e2e/encoders/*.json) and a float64 forward pass, the bits of a text in any
company, and the routes of a server whose model generates no text."""
import base64
import concurrent.futures
import glob
import json
import os
import shutil
import signal
import tempfile
import unittest

import numpy as np

import gguf
import hf_folder as folder_case
import kvik  # adds tools/ to the path
import counter_weights
import gguf_file
import reference_encoder
import transformers_test
from server import Server

FOLDER = os.path.join(kvik.ROOT, "tests/e2e/encoders")
BOUND = 2e-5  # relative to the largest value
BEGIN, END = 2, 3


def write_tokenizer(path, n_vocab):
    """Writes a vocabulary of single characters, with a token before and one after each text."""
    vocab = {chr(33 + i): i for i in range(n_vocab) if 33 + i < 127}
    vocab.update({f"unused{i}": i for i in range(len(vocab), n_vocab)})
    specials = [{"id": i, "content": chr(33 + i), "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
                for i in (BEGIN, END)]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"version": "1.0", "added_tokens": specials, "normalizer": None,
                   "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                   "post_processor": {"type": "BertProcessing", "cls": [chr(33 + BEGIN), BEGIN], "sep": [chr(33 + END), END]},
                   "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocab, "merges": []}}, f)


def text_of(tokens):
    return "".join(chr(33 + t) for t in tokens)


class Variant:
    """One file of FOLDER, and its model folder."""

    def __init__(self, name):
        with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as f:
            self.all = json.load(f)
        self.tokens, self.second_segment = self.all["tokens"], self.all["second_segment"]
        self.ranks = "ForSequenceClassification" in self.all["config"]["architectures"][0]

    def values(self, which):
        flat = np.frombuffer(base64.b64decode(self.all[which]), "<f4").astype(np.float64)
        return flat if self.ranks else flat.reshape(len(self.tokens), -1)

    def write(self, folder, pooling=None):
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(self.all["config"], f)
        write_tokenizer(os.path.join(folder, "tokenizer.json"), self.all["config"]["vocab_size"])
        transformers_test.write_safetensors(os.path.join(folder, "model.safetensors"), self.all["tensors"])
        if not pooling:
            return
        os.makedirs(os.path.join(folder, "1_Pooling"), exist_ok=True)
        with open(os.path.join(folder, "modules.json"), "w", encoding="utf-8") as f:
            json.dump([{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                       for i, (kind, path) in enumerate((("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")))], f)
        with open(os.path.join(folder, "1_Pooling/config.json"), "w", encoding="utf-8") as f:
            json.dump({"word_embedding_dimension": 48, pooling: True}, f)

    def pair(self):
        """Returns the two texts whose tokens are those of the file."""
        n_ends = 2 if "roberta" in self.all["config"]["model_type"] else 1
        return text_of(self.tokens[1:self.second_segment - n_ends]), text_of(self.tokens[self.second_segment:-1])


def names():
    return sorted(os.path.basename(path).removesuffix(".json") for path in glob.glob(os.path.join(FOLDER, "*.json")))


def embed(server, texts, **fields):
    answer = server.post("/v1/embeddings", {"input": texts, **fields})
    if answer.status != 200:
        raise AssertionError(f"{answer.status}: {answer.body[:500]!r}")
    return np.array([one["embedding"] for one in answer.json["data"]])


def pooled(states):
    return {"mean": states.mean(0), "cls": states[0], "last": states[-1]}


class EncoderCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.root.cleanup()

    def folder(self, name, pooling=None):
        folder = os.path.join(self.root.name, f"{name}-{pooling}")
        if not os.path.isdir(folder):
            os.mkdir(folder)
            Variant(name).write(folder, pooling)
        return folder

    def gguf(self, name):
        path = os.path.join(self.root.name, name + ".gguf")
        if not os.path.exists(path):
            kvik.output("quantize", self.folder(name), path, "--type", "f16", "--threads", 1)
        return path

    def assert_close(self, got, want, bound=BOUND):
        self.assertLessEqual(float(np.abs(np.asarray(got) - want).max() / np.abs(want).max()), bound)


class Values(EncoderCase):
    def test_the_table_covers_every_family_of_folders(self):
        self.assertEqual({Variant(name).all["config"]["model_type"] for name in names()}, {"bert", "roberta", "xlm-roberta", "modernbert", "gemma3_text"})


def compare(name):
    def test(self):
        variant = Variant(name)
        oracle = reference_encoder.Encoder(self.gguf(name))
        for kind, path in (("folder", self.folder(name)), ("gguf", self.gguf(name))):
            for isa in dict.fromkeys(("scalar", kvik.isas()[-1])):
                with self.subTest(kind=kind, isa=isa), Server(path, "--threads", 1, env={"KVIK_ISA": isa}) as server:
                    if variant.ranks:
                        self.compare_scores(variant, oracle, server)
                    else:
                        self.compare_states(variant, oracle, server)
    return test


def compare_states(self, variant, oracle, server):
    want, formula = pooled(variant.values("one")), pooled(oracle.states(variant.tokens))
    for pooling, vector in want.items():
        got = embed(server, [variant.tokens], pooling=pooling, normalize=False)[0]
        self.assert_close(got, vector)
        self.assert_close(got, formula[pooling])
        self.assert_close(embed(server, [variant.tokens], pooling=pooling)[0], vector / np.linalg.norm(vector))
    # Shorter texts than a page, alone and beside others.
    for n in (1, 2, 31, 33):
        got = embed(server, [variant.tokens[:n], variant.tokens], normalize=False)[0]
        self.assert_close(got, oracle.states(variant.tokens[:n]).mean(0))


def compare_scores(self, variant, oracle, server):
    self.assert_close(embed(server, [variant.tokens])[0], variant.values("one"))
    self.assert_close(oracle.scores(variant.tokens), variant.values("one"))
    if len(variant.values("one")) > 1:
        answer = server.post("/v1/rerank", {"query": "%", "documents": ["&"]})
        self.assertEqual(answer.status, 400)
        self.assertIn("3 labels", answer.error["message"])
        return
    first, second = variant.pair()
    answer = server.post("/v1/score", {"text_1": first, "text_2": second, "raw_scores": True})
    self.assertEqual(answer.status, 200, answer.body)
    self.assertEqual(answer.json["usage"]["prompt_tokens"], len(variant.tokens))
    which = "pair" if "pair" in variant.all else "one"
    self.assert_close([answer.json["data"][0]["score"]], variant.values(which))


Values.compare_states, Values.compare_scores = compare_states, compare_scores
for _name in names():
    setattr(Values, "test_" + _name.replace("-", "_"), compare(_name))


NOMIC = {"n_layers": 3, "dim": 48, "ffn_dim": 80, "n_heads": 3, "n_vocab": 96}


def write_nomic(path):
    """Writes a small nomic-bert GGUF file with llama.cpp's names: no folder of that family is read."""
    dim, ffn_dim, n_vocab = NOMIC["dim"], NOMIC["ffn_dim"], NOMIC["n_vocab"]
    words = [b"[PAD]", b"[UNK]", b"[CLS]", b"[SEP]", *(f"\u2581w{i}".encode() for i in range(n_vocab - 4))]
    keys = [("general.architecture", gguf.STR, b"nomic-bert"), ("nomic-bert.block_count", gguf.U32, NOMIC["n_layers"]),
            ("nomic-bert.context_length", gguf.U32, 64), ("nomic-bert.embedding_length", gguf.U32, dim),
            ("nomic-bert.feed_forward_length", gguf.U32, ffn_dim), ("nomic-bert.attention.head_count", gguf.U32, NOMIC["n_heads"]),
            ("nomic-bert.attention.layer_norm_epsilon", gguf.F, 1e-12), ("nomic-bert.attention.causal", gguf.BOOL, False),
            ("nomic-bert.pooling_type", gguf.U32, 1), ("nomic-bert.rope.freq_base", gguf.F, 1000.0),
            ("tokenizer.ggml.token_type_count", gguf.U32, 2), ("tokenizer.ggml.model", gguf.STR, b"bert"),
            ("tokenizer.ggml.tokens", gguf.ARR, (gguf.STR, words)), ("tokenizer.ggml.token_type", gguf.ARR, (gguf.I32, [3] * 4 + [1] * (n_vocab - 4))),
            ("tokenizer.ggml.unknown_token_id", gguf.U32, 1), ("tokenizer.ggml.cls_token_id", gguf.U32, BEGIN),
            ("tokenizer.ggml.seperator_token_id", gguf.U32, END)]
    shapes = {"token_embd.weight": (n_vocab, dim), "token_types.weight": (2, dim), "token_embd_norm.weight": (dim,), "token_embd_norm.bias": (dim,)}
    for layer in range(NOMIC["n_layers"]):
        of_layer = {"attn_qkv.weight": (3 * dim, dim), "attn_output.weight": (dim, dim), "attn_output_norm.weight": (dim,),
                    "attn_output_norm.bias": (dim,), "ffn_gate.weight": (ffn_dim, dim), "ffn_up.weight": (ffn_dim, dim),
                    "ffn_down.weight": (dim, ffn_dim), "layer_output_norm.weight": (dim,), "layer_output_norm.bias": (dim,)}
        shapes.update({f"blk.{layer}.{name}": shape for name, shape in of_layer.items()})
    tensors = [(name, shape, gguf_file.F32, counter_weights.weights(name, shape).tobytes) for name, shape in shapes.items()]
    gguf_file.write_gguf(path, {key: (kind, value) for key, kind, value in keys}, tensors)


class Nomic(EncoderCase):
    def test_states_are_those_of_the_formula(self):
        path = os.path.join(self.root.name, "nomic.gguf")
        write_nomic(path)
        oracle = reference_encoder.Encoder(path)
        for isa in dict.fromkeys(("scalar", kvik.isas()[-1])):
            with self.subTest(isa=isa), Server(path, "--threads", 1, env={"KVIK_ISA": isa}) as server:
                for n in (1, 33, 60):
                    tokens = [4 + int(t) % 90 for t in kvik.random_tokens(n, 90, seed=n)]
                    self.assert_close(embed(server, [tokens], normalize=False)[0], oracle.states(tokens).mean(0))


class DenseModules(EncoderCase):
    """EmbeddingGemma has two matrices after pooling, in folders of sentence-transformers."""

    def write(self, name, **changed):
        folder = os.path.join(self.root.name, name)
        os.mkdir(folder)
        Variant("embedding-gemma").write(folder, "pooling_mode_mean_tokens")
        modules = [{"type": f"sentence_transformers.models.{kind}", "path": path}
                   for kind, path in (("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Dense", "3_Dense"), ("Normalize", "4_Normalize"))]
        files = {"modules.json": modules}
        for path, n_in, n_out in (("2_Dense", 48, 112), ("3_Dense", 112, 48)):
            os.mkdir(os.path.join(folder, path))
            transformers_test.write_safetensors(os.path.join(folder, path, "model.safetensors"), {"linear.weight": [n_out, n_in]})
            files[path + "/config.json"] = {"in_features": n_in, "out_features": n_out, "bias": False,
                                            "activation_function": "torch.nn.modules.linear.Identity", **changed}
        for file, content in files.items():
            with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
                json.dump(content, f)
        return folder

    def test_they_map_the_pooled_state(self):
        folder, variant = self.write("dense"), Variant("embedding-gemma")
        path = os.path.join(self.root.name, "dense.gguf")
        kvik.output("quantize", folder, path, "--type", "f16", "--threads", 1)
        out, back = (counter_weights.weights("linear.weight", shape).astype(np.float64) for shape in ([112, 48], [48, 112]))
        want = back @ (out @ variant.values("one").mean(0))
        self.assert_close(reference_encoder.Encoder(path).embedding(variant.tokens), want)
        got = []
        for model in (folder, path):
            with self.subTest(model=model), Server(model, "--threads", 1) as server:
                raw = embed(server, [variant.tokens], normalize=False)[0]
                self.assert_close(raw, want)
                self.assert_close(embed(server, [variant.tokens])[0], want / np.linalg.norm(want))
                self.assert_close(embed(server, [variant.tokens], dimensions=20)[0], want[:20] / np.linalg.norm(want[:20]))
                got.append([embed(server, [variant.tokens[:n]]).tolist() for n in (1, 7, 33, 45)])
        self.assertEqual(*got)

    def test_other_modules_are_refused(self):
        for name, changed, message in (("bias", {"bias": True}, "'bias' is true, expected false"),
                                       ("tanh", {"activation_function": "torch.nn.modules.activation.Tanh"}, "expected torch.nn.modules.linear.Identity"),
                                       ("wide", {"out_features": 64}, "tensor 'linear.weight' of module '2_Dense' is f32 of the shape [112, 48], "
                                        "expected floats of the shape [64, 48]")):
            folder = self.write(name, **changed)
            for command in (("serve", folder, "--port", 0), ("show", folder)):
                done = kvik.run(*command)
                self.assertEqual(done.returncode, 1)
                self.assertIn(message, done.stderr.decode())

    def test_a_matrix_before_pooling_is_refused(self):
        folder = self.write("early")
        path = os.path.join(folder, "modules.json")
        with open(path, encoding="utf-8") as f:
            modules = json.load(f)
        modules[1:3] = modules[2:0:-1]
        with open(path, "w", encoding="utf-8") as f:
            json.dump(modules, f)
        done = kvik.run("serve", folder, "--port", 0)
        self.assertEqual(done.returncode, 1)
        self.assertIn("modules.json has the module '2_Dense' before Pooling, expected it after that", done.stderr.decode())


class Decoders(folder_case.FolderCase):
    """Models that generate compute embeddings, too, pooled as their folders say (Qwen3-Embedding)."""

    def test_a_folder_without_prefixes_and_with_pooling_is_read(self):
        plain = folder_case.folder_of(kvik.preset("test-qwen3"))
        folder = os.path.join(self.root.name, "embedder")
        shutil.copytree(plain, folder)
        for name, content in (("modules.json", [{"type": "sentence_transformers.models.Transformer", "path": ""},
                                                {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]),
                              ("1_Pooling/config.json", {"pooling_mode_lasttoken": True})):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                json.dump(content, f)
        tokens = [[5, 6, 7, 80, 90]]
        with Server(folder, "--kv-memory", "64MiB") as server, Server(plain, "--kv-memory", "64MiB") as other:
            np.testing.assert_array_equal(embed(server, tokens), embed(other, tokens, pooling="last"))
            self.assertGreater(np.abs(embed(server, tokens) - embed(other, tokens)).max(), 1e-3)
            self.assertEqual(server.post("/v1/completions", {"prompt": [5, 6], "max_tokens": 2}).status, 200)
            self.assertEqual(server.post("/v1/rerank", {"query": "a", "documents": ["b"]}).status, 400)
        for path in ("../1_Pooling", "/1_Pooling"):
            with open(os.path.join(folder, "modules.json"), "w", encoding="utf-8") as f:
                json.dump([{"type": "sentence_transformers.models.Pooling", "path": path}], f)
            done = kvik.run("show", folder)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(b"leaves the model's folder", done.stderr)


class Bits(EncoderCase):
    """The bytes of an embedding do not depend on other texts, threads or instruction sets."""

    def test_a_text_has_the_same_bits_in_any_company(self):
        texts = [kvik.random_tokens(n, 90, seed=n) for n in (1, 5, 31, 32, 33, 45, 60, 64)]
        texts = [[4 + int(t) % 86 for t in text] for text in texts]
        for name in ("bert", "modernbert", "embedding-gemma"):
            want = None
            for isa in kvik.isas():
                if isa in kvik.ROUND_TO_BF16:
                    continue  # rounds bf16 products in its own way; f32 weights are the same
                for flags in (("--threads", 1), ("--threads", 2), ("--threads", 2, "--max-running", 1)):
                    with self.subTest(model=name, isa=isa, flags=flags), Server(self.folder(name), *flags, env={"KVIK_ISA": isa}) as server:
                        alone = [server.post("/v1/embeddings", {"input": [text]}).json["data"][0]["embedding"] for text in texts]
                        want = want or alone
                        self.assertEqual(alone, want)
                        together = [one["embedding"] for one in server.post("/v1/embeddings", {"input": texts}).json["data"]]
                        self.assertEqual(together, want)
                        with concurrent.futures.ThreadPoolExecutor(8) as pool:
                            many = pool.map(lambda text: server.post("/v1/embeddings", {"input": [text]}).json["data"][0]["embedding"], texts * 4)
                            self.assertEqual(list(many), want * 4)


class Routes(EncoderCase):
    def server(self, *flags, pooling="pooling_mode_mean_tokens"):
        return Server(self.folder("bert", pooling), "--threads", 1, *flags)

    def test_pooling_comes_from_the_folder_unless_the_request_names_one(self):
        tokens = Variant("bert").tokens
        for flag, pooling in (("pooling_mode_cls_token", "cls"), ("pooling_mode_mean_tokens", "mean"), ("pooling_mode_lasttoken", "last")):
            with self.server(pooling=flag) as server:
                own = embed(server, [tokens])
                np.testing.assert_array_equal(own, embed(server, [tokens], pooling=pooling))
                self.assertGreater(np.abs(own - embed(server, [tokens], pooling="last" if pooling != "last" else "cls")).max(), 1e-3)

    def test_norms_are_those_of_llama_cpp(self):
        with self.server() as server:
            raw = embed(server, ["%&()"], embd_normalize=-1)[0]
            np.testing.assert_allclose(embed(server, ["%&()"])[0], raw / np.linalg.norm(raw), rtol=1e-5)
            np.testing.assert_allclose(embed(server, ["%&()"], embd_normalize=1)[0], raw / np.abs(raw).sum(), rtol=1e-5)
            np.testing.assert_allclose(embed(server, ["%&()"], embd_normalize=0)[0], raw / np.abs(raw).max() * 32760, rtol=1e-5)
            np.testing.assert_array_equal(embed(server, ["%&()"], normalize=False)[0], raw)
            self.assertEqual(len(embed(server, ["%&()"], dimensions=7)[0]), 7)
            self.assertEqual(server.post("/v1/embeddings", {"input": "%", "embd_normalize": -2}).status, 400)

    def test_routes_that_generate_refuse_with_one_sentence(self):
        bodies = {"/v1/completions": {"prompt": "%"}, "/v1/chat/completions": {"messages": [{"role": "user", "content": "%"}]},
                  "/v1/responses": {"input": "%"}, "/v1/messages": {"max_tokens": 4, "messages": [{"role": "user", "content": "%"}]},
                  "/api/generate": {"prompt": "%"}, "/completion": {"prompt": "%"},
                  "/v1/rerank": {"query": "%", "documents": ["&"]}, "/apply-template": {"messages": [{"role": "user", "content": "%"}]}}
        with self.server() as server:
            for path, body in bodies.items():
                with self.subTest(path=path):
                    answer = server.post(path, body)
                    self.assertEqual(answer.status, 400, answer.body)
                    message = answer.json["error"] if isinstance(answer.json["error"], str) else answer.error["message"]
                    self.assertIn("classifier" if path == "/v1/rerank" else "generates no text", message)
            self.assertEqual(server.post("/api/show", {"model": "any"}).status, 404)
            self.assertEqual(server.get("/health").status, 200)
            self.assertEqual(server.get("/props").status, 200)

    def test_long_texts_are_an_error_unless_they_are_truncated(self):
        with self.server() as server:
            answer = server.post("/v1/embeddings", {"input": "%" * 63})
            self.assertEqual(answer.status, 400)
            self.assertEqual(answer.error["code"], "context_length_exceeded")
            self.assertIn("65 tokens", answer.error["message"])
            fits = embed(server, ["%" * 62])
            np.testing.assert_array_equal(embed(server, ["%" * 70], truncate=True), fits)
            np.testing.assert_array_equal(embed(server, ["%" * 70], truncate_prompt_tokens=-1), fits)
            np.testing.assert_array_equal(embed(server, ["%" * 70], truncate_prompt_tokens=10), embed(server, ["%" * 8]))
            ollama = server.post("/api/embed", {"model": self.model_id(server), "input": ["%" * 70]})
            np.testing.assert_allclose(ollama.json["embeddings"], fits)
            self.assertEqual(server.post("/api/embed", {"model": self.model_id(server), "input": "%" * 70, "truncate": False}).status, 400)

    def test_a_call_of_many_texts_is_drained(self):
        texts = ["%" * (1 + i % 60) for i in range(2000)]
        with self.server() as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(server.post, "/v1/embeddings", {"input": texts})
            while not server.metrics().values("kvik_prompt_tokens_total", "source").get("computed"):
                self.assertFalse(answer.done())
            server.interrupt(signal.SIGTERM)
            self.assertEqual(answer.result().status, 200, answer.result().body)
            self.assertEqual(len(answer.result().json["data"]), len(texts))
            self.assertEqual(server.process.wait(30), 0)

    def model_id(self, server):
        return server.get("/v1/models").json["data"][0]["id"]

    def test_usage_counts_the_tokens_around_each_text(self):
        with self.server() as server:
            answer = server.post("/v1/embeddings", {"input": ["%&", "("]}).json
            self.assertEqual(answer["usage"]["prompt_tokens"], 7)
            shown = server.post("/api/show", {"model": self.model_id(server)}).json
            self.assertEqual(shown["capabilities"], ["embedding"])
            self.assertEqual(server.metrics().values("kvik_prompt_tokens_total", "source")["computed"], 7)

    def test_the_plan_has_no_kv_cache(self):
        with self.server() as server:
            self.assertIn("KV cache 0", server.said())

    def test_commands_that_generate_refuse(self):
        for command in (("run", self.folder("bert"), "-p", "%"), ("bench", self.folder("bert")), ("perplexity", self.folder("bert"), __file__)):
            done = kvik.run(*command)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("is an encoder (bert) and generates no text", done.stderr.decode())

    def test_flags_that_an_encoder_cannot_follow_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            disk = os.path.join(folder, "disk")
            for flags, sentence in ((("--ctx", 65), "--ctx 65 is more than the longest text of this encoder (bert), 64 tokens"),
                                    (("--disk", disk), "--disk keeps pages of a KV cache, and this model is an encoder (bert)"),
                                    (("--shared", disk), "--shared keeps pages of a KV cache")):
                done = kvik.run("serve", self.folder("bert"), "--port", 0, *flags)
                self.assertIn(done.returncode, (1, 2), flags)
                self.assertIn(sentence, done.stderr.decode())
            self.assertFalse(os.path.exists(disk))
            with Server(self.folder("bert"), "demo", "--ctx", 256, "--disk", disk, "--kv-memory", "64MiB", "--threads", 1) as server:
                name = server.get("/v1/models").json["data"][0]["id"]
                embed(server, ["%&("], model=name)
                self.assertEqual(server.get(f"/props?model={name}").json["default_generation_settings"]["n_ctx"], 64)
                self.assertEqual(server.complete("a", model="demo", max_tokens=1)["usage"]["completion_tokens"], 1)
                self.assertEqual(server.get("/props?model=demo").json["default_generation_settings"]["n_ctx"], 256)

    def test_a_pooling_or_module_that_is_not_supported_is_refused(self):
        folder = self.folder("bert", "pooling_mode_max_tokens")
        done = kvik.run("serve", folder, "--port", 0)
        self.assertEqual(done.returncode, 1)
        self.assertIn("pooling 'max' is not supported, expected mean, cls or lasttoken", done.stderr.decode())


class Rerank(EncoderCase):
    def test_documents_come_by_descending_score(self):
        documents = [text_of(4 + int(t) % 86 for t in kvik.random_tokens(3 + i, 90, seed=i)) for i in range(12)]
        with Server(self.folder("bert-reranker"), "--threads", 1) as server:
            scores = server.post("/v1/score", {"text_1": "%&(", "text_2": documents, "raw_scores": True}).json["data"]
            raw = np.array([one["score"] for one in scores])
            answer = server.post("/v1/rerank", {"query": "%&(", "documents": documents, "return_documents": True}).json
            order = [one["index"] for one in answer["results"]]
            self.assertEqual(order, list(np.argsort(-raw, kind="stable")))
            for one in answer["results"]:
                self.assertAlmostEqual(one["relevance_score"], 1 / (1 + np.exp(-raw[one["index"]])), places=6)
                self.assertEqual(one["document"]["text"], documents[one["index"]])
            best = server.post("/rerank", {"query": "%&(", "documents": [{"text": d} for d in documents], "top_n": 3}).json["results"]
            self.assertEqual([one["index"] for one in best], order[:3])
            self.assertNotIn("document", best[0])
            tei = server.post("/rerank", {"query": "%&(", "texts": documents, "return_text": True, "raw_scores": True}).json
            self.assertEqual([one["index"] for one in tei], order)
            self.assertAlmostEqual(tei[0]["score"], raw.max(), places=5)
            self.assertEqual(tei[0]["text"], documents[order[0]])

    def test_the_order_for_100_queries_is_that_of_the_formula(self):
        oracle = reference_encoder.Encoder(self.gguf("bert-reranker"))

        def text(n, seed):
            return [4 + int(t) % 86 for t in kvik.random_tokens(n, 90, seed=seed)]
        with Server(self.folder("bert-reranker"), "--threads", 1) as server:
            for query in range(100):
                first = text(2 + query % 9, query)
                documents = [text(1 + (7 * query + 11 * i) % 40, 1000 + 8 * query + i) for i in range(6)]
                want = [oracle.scores([BEGIN, *first, END, *d, END], len(first) + 2)[0] for d in documents]
                body = {"query": text_of(first), "documents": [text_of(d) for d in documents], "raw_scores": True}
                results = server.post("/v1/rerank", body).json["results"]
                self.assertEqual([one["index"] for one in results], list(np.argsort(-np.array(want))), query)
                self.assert_close([one["relevance_score"] for one in results], np.array(sorted(want, reverse=True)))

    def test_pairs_match_one_to_one_or_one_to_many(self):
        with Server(self.folder("xlm-roberta-reranker"), "--threads", 1) as server:
            def scores(first, second):
                return [one["score"] for one in server.post("/v1/score", {"text_1": first, "text_2": second}).json["data"]]
            self.assertEqual(scores(["%", "&&"], ["(", ")"]), [scores("%", "(")[0], scores("&&", ")")[0]])
            self.assertEqual(scores("%", ["(", ")"]), [scores("%", "(")[0], scores("%", ")")[0]])
            answer = server.post("/v1/score", {"text_1": ["%", "&"], "text_2": ["(", ")", "*"]})
            self.assertEqual(answer.status, 400)
            self.assertIn("text_1 holds 2 texts and text_2 holds 3", answer.error["message"])
            for body in ({"documents": ["%"]}, {"query": "%"}, {"query": "%", "documents": []}, {"query": "%", "documents": ["&"], "top_n": 0}):
                self.assertEqual(server.post("/v1/rerank", body).status, 400, body)
            chat = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "%"}]})
            self.assertIn("use /v1/rerank", chat.error["message"])

    def test_a_long_document_is_an_error_unless_it_is_truncated(self):
        with Server(self.folder("bert-reranker"), "--threads", 1) as server:
            body = {"query": "%&(", "documents": ["%" * 80]}
            self.assertEqual(server.post("/v1/rerank", body).status, 400)
            cut = server.post("/v1/rerank", {**body, "truncate": True}).json["results"]
            fits = server.post("/v1/rerank", {"query": "%&(", "documents": ["%" * (64 - 6)]}).json["results"]
            self.assertEqual(cut, fits)


if __name__ == "__main__":
    unittest.main()
