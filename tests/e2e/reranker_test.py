"""Qwen3-Reranker: scores of a model that generates, beside Transformers' logits and a float64 forward pass, from folders and GGUF files."""
import concurrent.futures
import json
import os
import tempfile
import time
import unittest

import numpy as np

import gguf
import kvik
import transformers_test
from server import Server

BOUND = 2e-5  # relative to the largest logit
YES, NO, BEGIN, END, SPACE, LINE = 93, 63, 90, 92, 94, 95  # in place of '~', '`', '{' and '}', which the texts do not have
SPECIAL = {"<|im_start|>": BEGIN, "<|im_end|>": END}
BEFORE = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can "
          "only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
          "<Query>: ")
BETWEEN, AFTER = "\n<Document>: ", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
QUERY = "When does the ferry leave?"
DOCUMENTS = ["At nine.", "It is red, and it has two decks.", "The last one leaves at <|im_end|> ten.", "x"]


def write_tokenizer(path):
    """Writes a vocabulary of single characters with the tokens "yes" and "no"."""
    vocab = {chr(33 + i): i for i in range(94)}
    for character, token, i in (("~", "yes", YES), ("`", "no", NO), ("{", "<|im_start|>", BEGIN), ("}", "<|im_end|>", END)):
        del vocab[character]
        vocab[token] = i
    vocab |= {"\u0120": SPACE, "\u010a": LINE}
    specials = [{"id": i, "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
                for text, i in SPECIAL.items()]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"version": "1.0", "added_tokens": specials, "normalizer": None,
                   "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                   "post_processor": None, "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocab, "merges": []}}, f)


def plain(text):
    return [{" ": SPACE, "\n": LINE}.get(c, ord(c) - 33) for c in text]


def with_special(text):
    for name, i in SPECIAL.items():
        text = text.replace(name, chr(0x1000 + i))
    return [ord(c) - 0x1000 if ord(c) >= 0x1000 else plain(c)[0] for c in text]


def prompt(query, document, before=BEFORE, between=BETWEEN, after=AFTER):
    return with_special(before) + plain(query) + with_special(between) + plain(document) + with_special(after)


def embeddings(server, inputs, **fields):
    answer = server.post("/v1/embeddings", {"input": inputs, **fields})
    if answer.status != 200:
        raise AssertionError(f"{answer.status}: {answer.body[:500]!r}")
    return [one["embedding"] for one in answer.json["data"]], answer.json


def scores(server, query, documents, **fields):
    answer = server.post("/v1/score", {"text_1": query, "text_2": documents, **fields})
    if answer.status != 200:
        raise AssertionError(f"{answer.status}: {answer.body[:500]!r}")
    return [one["score"] for one in answer.json["data"]]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.TemporaryDirectory()
        cls.variant = transformers_test.Variant("qwen3")
        cls.folder = cls.write_folder("Qwen3-Reranker-tiny")
        cls.gguf = os.path.join(cls.root.name, "reranker.gguf")
        kvik.output("quantize", cls.folder, cls.gguf, "--type", "f16", "--threads", 1)
        cls.weights = kvik.weights(cls.gguf)

    @classmethod
    def tearDownClass(cls):
        cls.root.cleanup()

    @classmethod
    def write_folder(cls, name, files=(), **config):
        folder = os.path.join(cls.root.name, name)
        os.makedirs(folder)
        cls.variant.write(folder)
        write_tokenizer(os.path.join(folder, "tokenizer.json"))
        config = {**cls.variant.all["config"], "max_position_embeddings": 1024, **config}
        for file, content in (("config.json", config), *dict(files).items()):
            os.makedirs(os.path.dirname(os.path.join(folder, file)), exist_ok=True)
            with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
                f.write(content if isinstance(content, str) else json.dumps(content))
        return folder

    def want(self, tokens):
        logits = kvik.reference_logits.forward(*self.weights, tokens)[-1]
        return logits[YES] - logits[NO], np.abs(logits).max()

    def assert_close(self, got, want, largest):
        self.assertLessEqual(abs(got - want) / largest, BOUND)


class Values(Case):
    def test_scores_are_differences_of_the_logits_of_transformers(self):
        tokens, positions, logits = self.variant.tokens, self.variant.positions, self.variant.logits
        for path in (self.folder, self.gguf):
            for isa in dict.fromkeys(("scalar", kvik.isas()[-1])):
                with self.subTest(path=path, isa=isa), Server(path, "--threads", 1, "--kv-type", "f32", env={"KVIK_ISA": isa}) as server:
                    got, _ = embeddings(server, [tokens[:p + 1] for p in positions])  # the model's own pooling is rank
                    for (score,), row in zip(got, logits):
                        self.assert_close(score, row[YES] - row[NO], np.abs(row).max())

    def test_pairs_are_put_into_the_prompt(self):
        for path in (self.folder, self.gguf):
            with self.subTest(path=path), Server(path, "--threads", 1, "--kv-type", "f32") as server:
                got = scores(server, QUERY, DOCUMENTS, raw_scores=True)
                for score, document in zip(got, DOCUMENTS):
                    self.assert_close(score, *self.want(prompt(QUERY, document)))
                want = 1 / (1 + np.exp(-np.array(got)))
                np.testing.assert_allclose(scores(server, QUERY, DOCUMENTS), want, rtol=1e-6)
                for route in ("/v1/rerank", "/rerank"):
                    results = server.post(route, {"query": QUERY, "documents": DOCUMENTS}).json["results"]
                    self.assertEqual([one["index"] for one in results], list(np.argsort(-want, kind="stable")))
                    np.testing.assert_allclose([one["relevance_score"] for one in results], sorted(want, reverse=True), rtol=1e-6)

    def test_a_file_may_have_a_prompt_of_its_own(self):
        file = gguf.Gguf(self.gguf)
        file.set("tokenizer.chat_template.rerank", gguf.STR, b"<|im_start|>{document}<|im_end|>is/it?{query}<|im_end|>")
        path = os.path.join(self.root.name, "own.gguf")
        with open(path, "wb") as f:
            f.write(file.bytes())
        with Server(path, "--threads", 1, "--kv-type", "f32") as server:
            tokens = [BEGIN, *plain("a"), END, *plain("is/it?"), *plain("b<|im_end|>"), END]
            self.assert_close(scores(server, "b<|im_end|>", ["a"], raw_scores=True)[0], *self.want(tokens))
        file.set("tokenizer.chat_template.rerank", gguf.STR, b"{query}")
        with open(path, "wb") as f:
            f.write(file.bytes())
        done = kvik.run("serve", path, "--port", 0)
        self.assertEqual(done.returncode, 1)
        self.assertIn("lacks {query} or {document}", done.stderr.decode())


class Bits(Case):
    def test_a_score_has_the_same_bits_in_any_company_and_from_the_cache(self):
        documents = [d * n for n, d in enumerate(DOCUMENTS * 3, 1)]
        want = None
        for path in (self.folder, self.gguf):
            for flags in (("--threads", 1), ("--threads", 2), ("--threads", 2, "--max-running", 1)):
                with self.subTest(path=path, flags=flags), Server(path, *flags) as server:
                    alone = [scores(server, QUERY, [d], raw_scores=True)[0] for d in documents]
                    want = want or alone
                    self.assertEqual(alone, want)
                    cold = [scores(server, QUERY, [d], raw_scores=True, cache_salt=str(i))[0] for i, d in enumerate(documents)]
                    self.assertEqual(cold, want)
                    self.assertEqual(scores(server, QUERY, documents, raw_scores=True), want)
                    with concurrent.futures.ThreadPoolExecutor(8) as pool:
                        many = pool.map(lambda d: scores(server, QUERY, [d], raw_scores=True)[0], documents * 2)
                        self.assertEqual(list(many), want * 2)

    def test_the_prompt_up_to_the_document_is_computed_once(self):
        n_shared = len(with_special(BEFORE) + plain(QUERY) + with_special(BETWEEN))
        with Server(self.folder, "--threads", 1) as server:
            def computed():
                return server.metrics().values("kvik_prompt_tokens_total", "source").get("computed", 0)
            scores(server, QUERY, DOCUMENTS[:1])
            deadline = time.monotonic() + 10
            while computed() == 0 and time.monotonic() < deadline:  # counters may follow the answer
                time.sleep(0.02)
            first = computed()
            self.assertEqual(first, len(prompt(QUERY, DOCUMENTS[0])))
            scores(server, QUERY, DOCUMENTS[1:2])
            self.assertLessEqual(computed() - first, len(prompt(QUERY, DOCUMENTS[1])) - n_shared + 32)

    def test_the_last_state_comes_from_the_cache_too(self):
        tokens = kvik.random_tokens(100, 90, 3)
        with Server(self.folder, "--threads", 1) as server:
            cold, _ = embeddings(server, [tokens], pooling="last")
            before = server.metrics().values("kvik_prompt_tokens_total", "source")["computed"]
            self.assertEqual(embeddings(server, [tokens], pooling="last")[0], cold)
            self.assertLess(server.metrics().values("kvik_prompt_tokens_total", "source")["computed"] - before, 40)
            self.assertEqual(embeddings(server, [tokens], pooling="last", cache_salt="other")[0], cold)


class Routes(Case):
    def test_a_long_document_is_cut_and_the_end_of_the_prompt_stays(self):
        with Server(self.folder, "--threads", 1, "--kv-type", "f32", "--ctx", 512) as server:
            answer = server.post("/v1/rerank", {"query": QUERY, "documents": ["x" * 600]})
            self.assertEqual((answer.status, answer.error["code"]), (400, "context_length_exceeded"))
            got = scores(server, QUERY, ["x" * 600], raw_scores=True, truncate=True)[0]
            n_fits = 512 - len(prompt(QUERY, ""))
            self.assert_close(got, *self.want(prompt(QUERY, "x" * n_fits)))
            answer = server.post("/v1/rerank", {"query": "q" * 600, "documents": ["x"], "truncate": True})
            self.assertEqual(answer.status, 400, answer.body)
            self.assertIn("query has ", answer.error["message"])
            self.assertEqual(answer.error["param"], "query")
            whole = server.post("/v1/rerank", {"query": "q" * 600, "documents": ["x"]})
            self.assertEqual((whole.status, whole.error["param"]), (400, "query"), whole.body)
            for top_n in (0, 1.5, "2"):
                refused = server.post("/v1/rerank", {"query": "q", "documents": ["x"], "top_n": top_n})
                self.assertIn("expected an integer from 1 to 4294967295", refused.error["message"], top_n)

    def test_the_model_still_generates(self):
        with Server(self.folder, "--threads", 1) as server, Server(self.write_folder("plain"), "--threads", 1) as other:
            self.assertEqual(server.complete([5, 6], max_tokens=4)["choices"], other.complete([5, 6], max_tokens=4)["choices"])
            refused = other.post("/v1/rerank", {"query": "a", "documents": ["b"]})
            self.assertEqual(refused.status, 400)
            self.assertIn("no classifier", refused.error["message"])


class Folders(Case):
    LOGIT_SCORE = [{"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""},
                   {"type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore", "path": "1_LogitScore"}]

    def test_rerankers_are_recognized(self):
        tokens = self.variant.tokens
        cases = {"readme": {"files": {"README.md": "---\nlicense: x\n---\n# Qwen3-Reranker-0.6B\n"}},
                 "module": {"files": {"modules.json": self.LOGIT_SCORE, "1_LogitScore/config.json": {"true_token_id": YES, "false_token_id": NO}}},
                 "keys": {"classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": True},
                 "models--Qwen--Qwen3-Reranker-0.6B/snapshots/1234": {}}
        with Server(self.folder, "--threads", 1) as server:
            want = embeddings(server, [tokens], pooling="rank")[0]
        for name, given in cases.items():
            with self.subTest(case=name), Server(self.write_folder(name, **given), "--threads", 1) as server:
                self.assertEqual(embeddings(server, [tokens])[0], want)

    def test_scores_of_other_tokens_are_refused(self):
        for name, config, message in (("null", {"true_token_id": YES, "false_token_id": None}, "'false_token_id' is missing, expected 63"),
                                      ("other", {"true_token_id": 5, "false_token_id": NO}, "'true_token_id' is 5, expected 93")):
            folder = self.write_folder(name, {"modules.json": self.LOGIT_SCORE, "1_LogitScore/config.json": config})
            done = kvik.run("show", folder)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr.decode())

    def test_a_vocabulary_without_the_tokens_is_refused(self):
        folder = self.write_folder("Qwen3-Reranker-mute")
        transformers_test.write_tokenizer(os.path.join(folder, "tokenizer.json"), 96)
        done = kvik.run("show", folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("there is no token 'yes'", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
