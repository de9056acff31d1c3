"""Tests models, values and errors of the Python package (python_test.py)."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import kvik as helpers
import python_test

kvik = python_test.kvik
FIXED = python_test.FIXED
PACKAGE = python_test.PACKAGE


def setUpModule():
    global LLM
    LLM = python_test.demo_model()


def tearDownModule():
    LLM.close()


class Models(unittest.TestCase):
    def test_errors_are_classes_with_the_library_s_sentence(self):
        with self.assertRaisesRegex(kvik.NotFoundError, "/none.gguf"):
            kvik.LLM("/none.gguf")
        with self.assertRaisesRegex(kvik.InvalidArgumentError, "did you mean threads"):
            kvik.LLM("demo", thread=3)
        with self.assertRaisesRegex(ValueError, "temperature"):
            LLM.generate("a", temperature=-1)
        with self.assertRaises(kvik.ContextLengthError):
            LLM.generate([5] * (LLM.context + 1))
        with self.assertRaisesRegex(kvik.NotFoundError, "no /v1/none"):
            LLM.request("/v1/none")
        with self.assertRaisesRegex(kvik.InvalidArgumentError, "a token is -1"):
            LLM.detokenize([-1])
        self.assertTrue(issubclass(kvik.CorruptError, kvik.KvikError))

    def test_values_that_c_would_cut_are_errors(self):
        with LLM.session([1, 2, 3]) as session, tempfile.TemporaryDirectory() as folder:
            for cut in (lambda: session.truncate(1 << 64), lambda: session.truncate(1.5), lambda: session.truncate(-1),
                        lambda: LLM.session("a", keep_s=(1 << 32) + 5), lambda: LLM.detokenize([1.7]),
                        lambda: session.save(os.path.join(folder, "a\0b")), lambda: LLM.request("/v1/models\0x"), lambda: kvik.LLM("demo\0junk")):
                with self.assertRaises(kvik.InvalidArgumentError):
                    cut()
            self.assertEqual((session.tokens, os.listdir(folder)), ([1, 2, 3], []))

    def test_what_is_no_text_and_no_list_is_no_prompt(self):
        wrong = None, 5, 5.5, b"ROMEO:", {"a": 1}, {1, 2}
        for call in LLM.generate, LLM.logits, LLM.score, LLM.embed, LLM.session, LLM.chat, lambda prompt: next(LLM.stream(prompt)):
            for value in wrong:
                with self.assertRaisesRegex(kvik.InvalidArgumentError, " is .+, expected a text"):
                    call(value)
        for value in ["a", 5], [5.5], [True], [-1], [1 << 40], [[5], [6.5]]:
            with self.assertRaises(kvik.InvalidArgumentError):
                LLM.generate(value)
        for value in None, 5, b"a", ["a"]:
            with self.assertRaisesRegex(kvik.InvalidArgumentError, "the text is "):
                LLM.tokenize(value)
        with self.assertRaisesRegex(kvik.InvalidArgumentError, "tokens is None, expected a list"):
            LLM.detokenize(None)
        with self.assertRaisesRegex(kvik.InvalidArgumentError, "the continuation has no tokens"):
            LLM.score_after("a", "")
        with self.assertRaisesRegex(TypeError, "receive is 5"):
            kvik.set_log(5)

    def test_values_that_json_cannot_hold_are_named(self):
        holds_itself = {}
        holds_itself["a"] = holds_itself
        for fields, expected in ({"temperature": float("nan")}, "float"), ({"stop": ["\ud800"]}, "surrogates"), ({"kvik": holds_itself}, "Circular"):
            with self.assertRaisesRegex(kvik.InvalidArgumentError, "cannot be written as JSON: .*" + expected):
                LLM.generate("a", **fields)
        with self.assertRaisesRegex(TypeError, "a bytes cannot be written as JSON: b'x'"):
            LLM.generate("a", stop=b"x")
        with self.assertRaisesRegex(kvik.InvalidArgumentError, "is no Unicode text"):
            LLM.tokenize("\ud800")

    def test_values_of_numpy_and_paths_are_taken(self):
        tokens = LLM.tokenize("ROMEO:")
        expected = LLM.generate(tokens, **FIXED).text
        self.assertEqual(LLM.generate(np.array(tokens), **{**FIXED, "max_tokens": np.int64(12), "temperature": np.float32(0)}).text, expected)
        self.assertEqual([answer.text for answer in LLM.generate(np.array([tokens, tokens]), **FIXED)], [expected] * 2)
        with LLM.session(np.array(tokens)) as session:
            self.assertEqual(session.tokens, tokens)
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        kvik.LLM("demo", threads=np.int64(1), kv_bytes=64 << 20, disk=pathlib.Path(folder, "pages")).close()
        self.assertEqual(os.listdir(folder), ["pages"])

    def test_a_forked_process_cannot_use_the_model(self):
        child = os.fork()
        if child == 0:
            try:
                LLM.generate("a", **FIXED)
                os._exit(1)
            except kvik.UnavailableError:
                LLM.close()
                os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(LLM.generate("a", **FIXED).text)

    def test_a_closed_model_is_an_error(self):
        llm = kvik.LLM("demo", threads=1, kv_bytes=16 << 20)
        stream = llm.stream("ROMEO:", **FIXED)
        first = next(stream)
        llm.close()
        llm.close()
        self.assertTrue(first + "".join(stream))  # a request keeps its model
        with self.assertRaisesRegex(ValueError, "the model is closed"):
            llm.tokenize("a")
        for prompt in "a", [1]:
            with self.assertRaisesRegex(kvik.InvalidArgumentError, "the model is closed"):
                llm.embed(prompt)

    def test_a_call_outlives_the_handle_that_another_thread_closes(self):
        llm = kvik.LLM("demo", threads=1, kv_bytes=64 << 20)
        tokens = [5] * 1000
        expected = llm.score(tokens)
        scores = []
        thread = threading.Thread(target=lambda: scores.append(llm.score(tokens)))
        thread.start()
        while not llm.statistics["running"] and thread.is_alive():
            time.sleep(0.001)
        llm.close()
        thread.join()
        self.assertEqual(scores, [expected])

    def test_progress_and_log_reach_functions(self):
        seen, lines = [], []
        kvik.set_log(lambda level, message: lines.append((level, message)))
        try:
            kvik.LLM("demo", ctx=1 << 20, threads=1, overcommit=True, kv_bytes=16 << 20, progress=lambda done, whole: seen.append((done, whole))).close()
        finally:
            kvik.set_log(None)
        self.assertEqual(seen[-1][0], seen[-1][1])
        self.assertIn("warn", {level for level, _ in lines})
        with self.assertRaisesRegex(ValueError, "'loud'"):
            kvik.set_log(None, "loud")

    def test_an_error_of_the_progress_function_ends_the_load(self):
        def fail(done, whole):
            raise RuntimeError("enough")
        with self.assertRaisesRegex(RuntimeError, "enough"):
            kvik.LLM("demo", threads=1, kv_bytes=16 << 20, progress=fail)
        with self.assertRaisesRegex(TypeError, "progress is 3"):
            kvik.LLM("demo", progress=3)

    def test_texts_survive_tokens(self):
        text = "ROMEO: ü 文 \U0001F98A"
        self.assertEqual(LLM.detokenize(LLM.tokenize(text, add_special=False)), text)
        self.assertEqual(LLM.tokenize("", add_special=False), [])

    def test_logits_are_those_of_the_program(self):
        tokens = [int(t) for t in helpers.random_tokens(20, 2000, 4)]
        expected = helpers.logits("demo", tokens, all=True)
        self.assertEqual(LLM.logits(tokens, all=True).tobytes(), np.asarray(expected, np.float32).tobytes())
        self.assertEqual(LLM.logits(tokens).tobytes(), np.asarray(expected[-1], np.float32).tobytes())

    def test_scores_and_perplexity_are_those_of_the_logits(self):
        tokens = LLM.tokenize("ROMEO:\nBut soft")
        logits = LLM.logits(tokens, all=True).astype(np.float64)
        log_sums = np.log(np.exp(logits).sum(axis=1))
        expected = [logits[i, tokens[i + 1]] - log_sums[i] for i in range(len(tokens) - 1)]
        np.testing.assert_allclose(LLM.score(tokens)[1:], expected, atol=1e-4)
        self.assertAlmostEqual(LLM.perplexity(tokens), np.exp(-np.mean(expected)), places=3)
        with self.assertRaises(ValueError):
            LLM.perplexity([5])

    def test_embeddings_have_length_one(self):
        mean, last = LLM.embed("ROMEO:"), LLM.embed("ROMEO:", pooling="last")
        self.assertEqual((mean.shape, mean.dtype), ((LLM.info["model_dim"],), np.float32))
        self.assertAlmostEqual(float(np.linalg.norm(mean)), 1, places=5)
        self.assertFalse(np.array_equal(mean, last))
        with self.assertRaisesRegex(ValueError, "'max'"):
            LLM.embed("a", pooling="max")

    def test_it_needs_numpy_for_arrays_alone(self):
        code = ("import sys; sys.modules['numpy'] = None; import kvik\n"
                "with kvik.LLM('demo', ctx=512) as llm:\n"
                "    print(len(llm.score('ROMEO:')), llm.generate('ROMEO:', max_tokens=2).finish_reason)\n"
                "    try:\n        llm.logits('a')\n    except ImportError as e:\n        print(e)\n")
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, r"^\d+ length\nlogits and embeddings are numpy arrays")


if __name__ == "__main__":
    unittest.main()
