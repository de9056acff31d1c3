"""Tests the Python package with the library of this build. Needs no package but numpy, which the other tests need too."""
import asyncio
import copy
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import document_blocks
import kvik as helpers

BUILD = os.path.abspath(os.environ.get("KVIK_BUILD", os.path.join(helpers.ROOT, "build")))
PACKAGE = os.path.join(helpers.ROOT, "python")
os.environ["KVIK_LIBRARY"] = os.path.join(BUILD, "libkvik.so.0")


def load():
    """Imports the package; the module `kvik` of these tests has the same name."""
    saved = sys.modules.pop("kvik")
    sys.path.insert(0, PACKAGE)
    try:
        import kvik
        return kvik
    finally:
        sys.path.remove(PACKAGE)
        sys.modules["kvik"] = saved


kvik = None if helpers.SANITIZED else load()
FIXED = {"max_tokens": 12, "temperature": 0, "ignore_eos": True}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}}}


def demo_model():
    if helpers.SANITIZED:
        raise unittest.SkipTest("Python has no sanitizer")
    return kvik.LLM("demo", threads=2, kv_bytes=64 << 20)


def setUpModule():
    global LLM
    LLM = demo_model()


def tearDownModule():
    LLM.close()


class Completions(unittest.TestCase):
    def test_an_answer_has_text_and_usage(self):
        answer = LLM.generate("ROMEO:", **FIXED)
        self.assertEqual((str(answer), answer.finish_reason, answer.usage["completion_tokens"]), (answer.text, "length", 12))
        self.assertEqual(answer.text, LLM.generate(LLM.tokenize("ROMEO:"), **FIXED).text)

    def test_a_stream_has_the_same_text(self):
        pieces = list(LLM.stream("ROMEO:", **FIXED))
        self.assertGreater(len(pieces), 3)
        self.assertEqual("".join(pieces), LLM.generate("ROMEO:", **FIXED).text)

    def test_a_stream_that_is_left_is_canceled(self):
        for _ in LLM.stream("ROMEO:", max_tokens=900, ignore_eos=True):
            break
        end = time.monotonic() + 60
        while LLM.statistics["running"] and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(LLM.statistics["running"], 0)

    def test_a_batch_has_the_answers_of_single_prompts(self):
        prompts = [f"{name}:" for name in ("ROMEO", "JULIET", "NURSE", "TYBALT")] * 80  # more than run at a time
        before = LLM.statistics["steps"]
        answers = LLM.generate(prompts, **FIXED)
        n_steps = LLM.statistics["steps"] - before
        self.assertEqual(len(answers), len(prompts))
        self.assertLess(n_steps, 12 * len(prompts) / 8)  # they share steps
        alone = {prompt: LLM.generate(prompt, **FIXED).text for prompt in prompts[:4]}
        self.assertEqual([answer.text for answer in answers], [alone[prompt] for prompt in prompts])
        self.assertEqual(LLM.generate([]), [])

    def test_a_batch_waits_for_places_in_a_short_queue(self):
        prompts = [f"{name}:" for name in ("ROMEO", "JULIET", "NURSE", "TYBALT")] * 5
        with kvik.LLM("demo", threads=1, kv_bytes=64 << 20, max_queue=2, max_running=3) as llm:
            self.assertEqual([answer.text for answer in llm.generate(prompts, **FIXED)],
                             [answer.text for answer in LLM.generate(prompts, **FIXED)])

    def test_a_batch_reports_its_answers(self):
        seen = []
        LLM.generate(["ROMEO:", "JULIET:", "NURSE:"], progress=lambda done, whole: seen.append((done, whole)), max_tokens=2)
        self.assertEqual(seen, [(1, 3), (2, 3), (3, 3)])
        self.assertEqual(len(LLM.run_all("/tokenize", ({"content": text} for text in "ab"))), 2)
        with self.assertRaisesRegex(RuntimeError, "enough"):
            LLM.generate(["ROMEO:"] * 3, progress=lambda done, whole: (_ for _ in ()).throw(RuntimeError("enough")), max_tokens=2)

    def test_threads_share_a_model(self):
        alone = LLM.generate("ROMEO:", **FIXED).text
        texts = []
        threads = [threading.Thread(target=lambda: texts.append(LLM.generate("ROMEO:", **FIXED).text)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(texts, [alone] * 6)

    def test_a_constraint_holds(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 3}}, "required": ["n"], "additionalProperties": False}
        self.assertEqual(json.loads(LLM.generate("a", json_schema=schema, max_tokens=30).text), {"n": 3})

    def test_interrupting_a_program_ends_it(self):
        code = ("import kvik\nllm = kvik.LLM('demo', threads=1, kv_bytes=64 << 20)\nprint('ready', flush=True)\n"
                "while True:\n    llm.generate('ROMEO:', max_tokens=900, ignore_eos=True)\n")
        program = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": PACKAGE}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(program.stdout.readline(), "ready\n")
        program.send_signal(signal.SIGINT)
        errors = program.communicate(timeout=60)[1]
        self.assertIn("KeyboardInterrupt", errors)


class Chats(unittest.TestCase):
    def test_an_answer_can_be_sent_back(self):
        messages = [{"role": "user", "content": "ROMEO:"}]
        answer = LLM.chat(messages, **FIXED)
        self.assertEqual((str(answer), answer.finish_reason), (answer.content, "length"))
        again = LLM.chat([*messages, answer.message(), {"role": "user", "content": "more"}], **FIXED)
        self.assertGreater(again.usage["prompt_tokens"], answer.usage["prompt_tokens"])
        self.assertEqual(LLM.chat("ROMEO:", **FIXED).content, answer.content)

    def test_a_schema_holds(self):
        schema = {"type": "object", "properties": {"n": {"const": 5}}, "required": ["n"], "additionalProperties": False}
        self.assertEqual(LLM.chat("a", schema=schema, max_tokens=30).parsed(), {"n": 5})

    def test_a_class_of_pydantic_is_a_schema(self):
        class Model:  # as far as it is used
            @classmethod
            def model_json_schema(cls):
                return {"type": "object", "properties": {"n": {"const": 5}}, "required": ["n"], "additionalProperties": False}
        self.assertEqual(LLM.chat("a", schema=Model, max_tokens=30).parsed(), {"n": 5})

    def test_a_whole_answer_is_not_streamed(self):
        with LLM.session("ROMEO:") as session:
            for call, other in ((LLM.chat, "stream_chat"), (LLM.generate, "stream"), (lambda _, **fields: session.generate(**fields), "stream")):
                with self.assertRaisesRegex(kvik.InvalidArgumentError, rf"stream is True, .* call {other}\(\)"):
                    call("a", stream=True)

    def test_a_tool_is_called(self):
        answer = LLM.chat("add", tools=[TOOL], tool_choice="required", max_tokens=80)
        self.assertEqual([(call.name, call.parsed()) for call in answer.tool_calls][:1], [("add", {"a": 1})])
        deltas = list(LLM.stream_chat("add", tools=[TOOL], tool_choice="required", max_tokens=80, parallel_tool_calls=False))
        arguments = "".join(call["function"].get("arguments", "") for delta in deltas for call in delta.tool_calls)
        self.assertEqual(json.loads(arguments), {"a": 1})
        self.assertEqual(deltas[-1].finish_reason, "tool_calls")

    def test_a_stream_has_the_same_content(self):
        self.assertEqual("".join(map(str, LLM.stream_chat("ROMEO:", **FIXED))), LLM.chat("ROMEO:", **FIXED).content)


class Async(unittest.TestCase):
    def test_requests_of_one_loop_run_together(self):
        async def run():
            return await asyncio.gather(*(LLM.agenerate("ROMEO:", **FIXED) for _ in range(40)), LLM.achat("ROMEO:", **FIXED))
        *answers, chat = asyncio.run(run())
        self.assertEqual({answer.text for answer in answers}, {LLM.generate("ROMEO:", **FIXED).text})
        self.assertEqual(chat.content, LLM.chat("ROMEO:", **FIXED).content)

    def test_streams_interleave(self):
        order = []

        async def read(name):
            text = ""
            async for piece in LLM.astream("ROMEO:", **{**FIXED, "max_tokens": 60}):
                text += piece
                order.append(name)
            return text

        async def run():
            return await asyncio.gather(read("a"), read("b"))
        one, other = asyncio.run(run())
        self.assertEqual(one, other)
        self.assertNotEqual(order, sorted(order))

    def test_errors_and_cancellation_reach_the_task(self):
        async def run():
            with self.assertRaises(kvik.InvalidArgumentError):
                await LLM.agenerate("a", temperature=-1)
            task = asyncio.ensure_future(LLM.agenerate("ROMEO:", max_tokens=900, ignore_eos=True))
            await asyncio.sleep(0.05)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            deltas = [delta async for delta in LLM.astream_chat("ROMEO:", **FIXED)]
            self.assertEqual(deltas[-1].finish_reason, "length")
        asyncio.run(run())
        self.assertEqual(asyncio.run(LLM.agenerate("ROMEO:", **FIXED)).text, LLM.generate("ROMEO:", **FIXED).text)  # another loop


class Sessions(unittest.TestCase):
    def test_a_fork_continues_on_its_own(self):
        with LLM.session("ROMEO:") as session:
            before = session.tokens
            with session.fork() as fork:
                answer = fork.generate(**FIXED)
                self.assertEqual(session.tokens, before)
                self.assertEqual(fork.tokens[:len(before)], before)
                self.assertEqual(len(fork), len(before) + 12)
                self.assertEqual("".join(session.stream(**FIXED)), answer.text)
                self.assertEqual(session.tokens, fork.tokens)
        with self.assertRaisesRegex(ValueError, "the session is closed"):
            session.tokens

    def test_logits_follow_the_tokens(self):
        with LLM.session("ROMEO:") as session:
            session.append("\nBut")
            self.assertEqual(session.logits().tobytes(), LLM.logits(session.tokens).tobytes())
            session.truncate(2)
            self.assertEqual(len(session), 2)
            self.assertEqual(session.logits().tobytes(), LLM.logits(session.tokens).tobytes())
            with self.assertRaises(kvik.InvalidArgumentError):
                session.truncate(3)

    def test_a_saved_session_continues_after_a_restart(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        options = {"threads": 1, "kv_bytes": 64 << 20, "disk": os.path.join(folder, "pages"), "disk_bytes": 64 << 20}
        path = pathlib.Path(folder, "a.session")
        tokens = [int(t) for t in helpers.random_tokens(500, 2000, 6)]
        with kvik.LLM("demo", **options) as llm, llm.session(tokens, keep_s=60) as session:
            session.prefill()
            session.save(path)
            text = session.generate(**FIXED).text
        with kvik.LLM("demo", **options) as llm, llm.load_session(path) as session:
            self.assertEqual(session.tokens, tokens)
            self.assertEqual(session.generate(**FIXED).text, text)
            self.assertGreaterEqual(llm.statistics["disk"]["hit_tokens"], 400)
            session.export(os.path.join(folder, "a.kvp"))
        with kvik.LLM("demo", **{**options, "disk": os.path.join(folder, "others")}) as llm:
            self.assertGreaterEqual(llm.import_pages(os.path.join(folder, "a.kvp")), 480)
            self.assertEqual(llm.generate(tokens, **FIXED).text, text)
            self.assertGreaterEqual(llm.statistics["disk"]["hit_tokens"], 400)


    def test_a_pickled_session_is_known_by_its_tokens(self):
        tokens = [int(t) for t in helpers.random_tokens(500, 2000, 7)]
        with LLM.session(tokens, keep_s=1) as session:
            text = session.fork().generate(**FIXED).text
            data = pickle.dumps(session)
        self.assertLess(len(data), 3000)
        with pickle.loads(data) as session:
            self.assertEqual(session.tokens, tokens)
            answer = session.generate(**FIXED)
        self.assertEqual(answer.text, text)
        self.assertGreaterEqual(answer.usage["prompt_tokens_details"]["cached_tokens"], 480)
        with LLM.session("ROMEO:") as session, copy.copy(session) as one, copy.deepcopy(session) as other:
            one.append("a")
            self.assertEqual((other.tokens, len(one) > len(other)), (session.tokens, True))
        with self.assertRaisesRegex(TypeError, "a model cannot be pickled"):
            pickle.dumps(LLM)

    def test_another_process_unpickles_a_session_with_its_own_model(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        options = {"threads": 1, "kv_bytes": 64 << 20, "disk": os.path.join(folder, "pages"), "disk_bytes": 64 << 20}
        tokens = [int(t) for t in helpers.random_tokens(500, 2000, 8)]
        with kvik.LLM("demo", **options) as llm, llm.session(tokens) as session:
            session.prefill()
            pathlib.Path(folder, "session").write_bytes(pickle.dumps(session))
            text = session.generate(**FIXED).text
        code = ("import json, pickle, sys, kvik\n"
                "data = open(sys.argv[1] + '/session', 'rb').read()\n"
                "try:\n    pickle.loads(data)\nexcept kvik.NotFoundError as e:\n    print(e)\n"
                "with kvik.LLM('demo', **json.loads(sys.argv[2])) as llm, pickle.loads(data) as session:\n"
                "    print(json.dumps([session.generate(**json.loads(sys.argv[3])).text, llm.statistics['disk']['hit_tokens'] >= 400]))\n")
        done = subprocess.run([sys.executable, "-c", code, folder, json.dumps(options), json.dumps(FIXED)], env={**os.environ, "PYTHONPATH": PACKAGE},
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        error, answer = done.stdout.splitlines()
        self.assertRegex(error, "^the session belongs to the model with the digest .*, which is not open in this process")
        self.assertEqual(json.loads(answer), [text, True])

    def test_calls_of_other_threads_wait(self):
        with LLM.session("ROMEO:") as session:
            n_tokens, stream = len(session), session.stream(**FIXED)
            next(stream)
            calls = {"append": lambda: session.append([5]), "tokens": lambda: session.tokens, "fork": lambda: session.fork().close(),
                     "prefill": session.prefill, "stream": lambda: list(stream)}
            for name, call in calls.items():
                thread = threading.Thread(target=call)
                with session._handle._lock:  # as during a call
                    thread.start()
                    thread.join(0.05)
                    self.assertTrue(thread.is_alive(), name)
                thread.join(60)
                self.assertFalse(thread.is_alive(), name)
            self.assertEqual(len(session), n_tokens + 1 + 12)


class Bars(unittest.TestCase):
    """Progress bars, with a module in place of tqdm."""

    TQDM = ("class tqdm:\n    n, total = 0, None\n    def __init__(self, **look): self.look = look\n    def update(self, n): self.n += n\n"
            "    def __enter__(self): return self\n    def __exit__(self, *_): print(self.look['desc'], self.n == self.total, self.total, self.look['unit'])\n")

    def output(self, code, tqdm):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        pathlib.Path(folder, "tqdm").mkdir()
        pathlib.Path(folder, "tqdm/__init__.py").write_text("")
        pathlib.Path(folder, "tqdm/auto.py").write_text(tqdm)
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": f"{folder}:{PACKAGE}"}, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.stdout

    CODE = ("import kvik, kvik.vllm\nwith kvik.LLM('demo', ctx=512, threads=1, progress=True) as llm:\n"
            "    print(len(llm.generate(['ROMEO:', 'JULIET:'], progress=True, max_tokens=2)))\n"
            "    llm.generate('ROMEO:', max_tokens=2)\n")

    def test_tqdm_shows_them(self):
        lines = self.output(self.CODE, self.TQDM).splitlines()
        self.assertRegex(lines[0], r"^loading True \d+ B$")
        self.assertEqual(lines[1:], ["answers True 2 prompt", "2"])

    def test_nothing_is_shown_without_tqdm(self):
        self.assertEqual(self.output(self.CODE, "raise ImportError('no tqdm')\n"), "2\n")


class Package(unittest.TestCase):
    def test_the_examples_of_the_docstrings_work(self):
        code = ("import doctest, sys, kvik, kvik.llama_cpp, kvik.vllm\n"
                "results = [doctest.testmod(m) for n, m in sorted(sys.modules.items()) if n.split('.')[0] == 'kvik']\n"
                "print(sum(r.failed for r in results), sum(r.attempted for r in results))\n")
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": PACKAGE}, capture_output=True, text=True)
        n_failed, n_tests = map(int, done.stdout.split()[-2:])
        self.assertEqual((n_failed, done.stderr), (0, ""), done.stdout)
        self.assertGreater(n_tests, 10)

    def test_the_guide_runs(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(helpers.DEMO, os.path.join(folder, "model.gguf"))
        with open(os.path.join(helpers.ROOT, "docs/guides/python.md"), encoding="utf-8") as file:
            blocks = [block.text for block in document_blocks.blocks_of("python.md", file.read()) if block.language == "python"]
        self.assertGreater(len(blocks), 5)
        done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], env={**os.environ, "PYTHONPATH": PACKAGE}, cwd=folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_it_has_types(self):
        self.assertTrue(os.path.exists(os.path.join(PACKAGE, "kvik/py.typed")))
        for name in ("generate", "chat", "stream", "logits", "session"):
            self.assertIn("return", getattr(kvik.LLM, name).__annotations__)


if __name__ == "__main__":
    unittest.main()
