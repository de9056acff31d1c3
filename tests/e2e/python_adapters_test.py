"""Tests what programs for other engines and frameworks find in the Python package: kvik.llama_cpp, kvik.vllm, kvik.openai, kvik.lm_eval, and the tutorial.

The packages that frameworks need are installed into virtual environments; large ones only with ./test --models."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import document_blocks
import kvik as helpers
import packages
import python_test
import trained

kvik = python_test.kvik
FIXED = {"max_tokens": 12, "temperature": 0, "ignore_eos": True}
ENVIRONMENT = {**os.environ, "PYTHONPATH": python_test.PACKAGE, "PATH": f"{os.path.dirname(helpers.BINARY)}:{os.environ['PATH']}",
               "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "DO_NOT_TRACK": "1"}


def setUpModule():
    global LLM
    if helpers.SANITIZED:
        raise unittest.SkipTest("Python has no sanitizer")
    LLM = kvik.LLM("demo", threads=1, kv_bytes=64 << 20)


def tearDownModule():
    LLM.close()


def submodule(name):
    """Imports a module of the package; these tests have a module `kvik` of their own."""
    saved = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "kvik"}
    sys.modules["kvik"] = kvik
    sys.path.insert(0, python_test.PACKAGE)
    try:
        return __import__(f"kvik.{name}", fromlist=["*"])
    finally:
        sys.path.remove(python_test.PACKAGE)
        sys.modules.update(saved)


class LlamaCpp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llama = submodule("llama_cpp").Llama("demo", n_ctx=0, n_threads=1, n_gpu_layers=-1, verbose=False, kv_bytes=64 << 20)
        cls.addClassCleanup(cls.llama.close)

    def test_completions_are_those_of_the_model(self):
        answer = self.llama("ROMEO:", **FIXED)
        self.assertEqual(answer["choices"][0]["text"], LLM.generate("ROMEO:", **FIXED).text)
        events = list(self.llama.create_completion(self.llama.tokenize(b"ROMEO:"), stream=True, **FIXED))
        self.assertEqual("".join(event["choices"][0]["text"] for event in events), answer["choices"][0]["text"])
        self.assertEqual(self.llama("ROMEO:", max_tokens=30, grammar='root ::= "yes" | "no"')["choices"][0]["text"] in ("yes", "no"), True)

    def test_chats_take_tools_and_schemas(self):
        messages = [{"role": "user", "content": "add"}]
        answer = self.llama.create_chat_completion(messages, tools=[python_test.TOOL], max_tokens=80,
                                                   tool_choice={"type": "function", "function": {"name": "add"}})
        self.assertEqual(json.loads(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]), {"a": 1})
        schema = {"type": "object", "properties": {"n": {"const": 5}}, "required": ["n"], "additionalProperties": False}
        answer = self.llama.create_chat_completion(messages, response_format={"type": "json_object", "schema": schema})
        self.assertEqual(json.loads(answer["choices"][0]["message"]["content"]), {"n": 5})
        deltas = [event["choices"][0]["delta"].get("content") or "" for event in self.llama.create_chat_completion(messages, stream=True, **FIXED)]
        self.assertEqual("".join(deltas), self.llama.create_chat_completion(messages, **FIXED)["choices"][0]["message"]["content"])

    def test_tokens_and_sizes(self):
        text = "ROMEO: ü".encode()
        self.assertEqual(self.llama.detokenize(self.llama.tokenize(text, add_bos=False)), text)
        self.assertEqual(self.llama.tokenize(text)[0], self.llama.token_bos())
        self.assertEqual((self.llama.token_bos(), self.llama.token_eos()), (helpers.DEMO_BOS, helpers.DEMO_EOS))
        self.assertEqual((self.llama.n_ctx(), self.llama.n_vocab()), (LLM.context, LLM.vocabulary))

    def test_embeddings_have_the_model_s_size(self):
        one, other = self.llama.embed(["ROMEO:", "JULIET:"])
        self.assertEqual(self.llama.embed("ROMEO:"), one)
        self.assertEqual(len(other), self.llama.n_embd())

    def test_a_sequence_is_evaluated_saved_and_restored(self):
        tokens = self.llama.tokenize(b"ROMEO:\nBut soft")
        self.llama.eval(tokens[:2])
        state = self.llama.save_state()
        self.llama.eval(tokens[2:])
        self.assertEqual(self.llama.input_ids, tokens)
        self.assertEqual(self.llama.eval_logits, [LLM.logits(tokens).tolist()])
        self.llama.load_state(state)
        self.assertEqual(self.llama.n_tokens, 2)
        self.llama.reset()
        self.assertEqual(self.llama.n_tokens, 0)

    def test_unknown_parameters_are_errors(self):
        with self.assertRaisesRegex(ValueError, "'n_contxt'"):
            submodule("llama_cpp").Llama("demo", n_contxt=5)
        with self.assertRaisesRegex(ValueError, "temperature"):
            self.llama("a", temperature=-1)
        for value in None, 5, b"a", ["a"]:
            with self.assertRaisesRegex(ValueError, " is .*, expected "):
                self.llama(value)
        with self.assertRaisesRegex(TypeError, "text is 'a', expected bytes"):
            self.llama.tokenize("a")


class Vllm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.module = submodule("vllm")
        cls.llm = cls.module.LLM("demo", dtype="auto", gpu_memory_utilization=0.9, threads=1, kv_bytes=64 << 20)
        cls.addClassCleanup(cls.llm.close)

    def test_prompts_are_answered_in_order(self):
        params = self.module.SamplingParams(n=2, max_tokens=6, temperature=0, ignore_eos=True)
        tokens = LLM.tokenize("JULIET:")
        outputs = self.llm.generate(["ROMEO:", {"prompt": "NURSE:"}, {"prompt_token_ids": tokens}, tokens], params, use_tqdm=False)
        self.assertEqual([output.prompt for output in outputs], ["ROMEO:", "NURSE:", None, None])
        self.assertEqual(outputs[3].prompt_token_ids, tokens)
        for output, prompt in zip(outputs, ("ROMEO:", "NURSE:", "JULIET:", "JULIET:")):
            expected = LLM.generate(prompt, **{**FIXED, "max_tokens": 6}).text
            self.assertEqual([(one.index, one.text, len(one.token_ids)) for one in output.outputs], [(0, expected, 6), (1, expected, 6)])

    def test_each_prompt_may_have_its_own_parameters(self):
        params = [self.module.SamplingParams(max_tokens=n, ignore_eos=True) for n in (2, 5)]
        outputs = self.llm.generate(["a", "b"], params)
        self.assertEqual([len(output.outputs[0].token_ids) for output in outputs], [2, 5])
        with self.assertRaisesRegex(ValueError, "2 sampling_params for 1 prompts"):
            self.llm.generate("a", params)

    def test_log_probabilities_and_structured_outputs(self):
        params = self.module.SamplingParams(max_tokens=2, logprobs=1, prompt_logprobs=1, ignore_eos=True)
        output = self.llm.generate("ROMEO:", params)[0]
        self.assertEqual(len(output.outputs[0].logprobs["token_logprobs"]), 2)
        self.assertEqual(len(output.prompt_logprobs), len(LLM.tokenize("ROMEO:")))
        params = self.module.SamplingParams(max_tokens=20, structured_outputs={"choice": ["yes", "no"]})
        self.assertIn(self.llm.generate("a", params)[0].outputs[0].text, ("yes", "no"))

    def test_conversations(self):
        params = self.module.SamplingParams(max_tokens=6, temperature=0, logprobs=1)
        one = [{"role": "user", "content": "ROMEO:"}]
        outputs = self.llm.chat([one, one], params)
        self.assertEqual([output.outputs[0].text for output in outputs], [LLM.chat(one, max_tokens=6, temperature=0).content] * 2)
        self.assertEqual(self.llm.chat(one, params)[0].outputs[0].text, outputs[0].outputs[0].text)

    def test_unknown_parameters_are_errors(self):
        with self.assertRaisesRegex(TypeError, "'best_off'"):
            self.module.SamplingParams(best_off=2)
        with self.assertRaisesRegex(ValueError, "'max_len'"):
            self.module.LLM("demo", max_len=5)

    def test_what_is_no_prompt_is_named(self):
        for value in None, 5, b"a", {}, {"promt": "a"}, {"prompt": 5}, [None], [b"a"]:
            with self.assertRaisesRegex(ValueError, " is .*, expected "):
                self.llm.generate(value)
        for value in None, 5, "a", [5]:
            with self.assertRaisesRegex(ValueError, "messages is .*, expected a list"):
                self.llm.chat(value)
        with self.assertRaisesRegex(ValueError, "sampling_params is {'n': 1}, expected SamplingParams"):
            self.llm.generate("a", {"n": 1})
        with self.assertRaisesRegex(TypeError, "sampling_params has 5, expected SamplingParams"):
            self.llm.generate("a", [5])


class Frameworks(unittest.TestCase):
    def run_example(self, name, *requirements):
        program = packages.python(*requirements)
        done = subprocess.run([program, os.path.join(helpers.ROOT, "tests/frameworks/in_process_example.py"), name], capture_output=True, text=True,
                              timeout=600, env={**ENVIRONMENT, "KVIK_MODEL": self.model})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-4000:])
        self.assertIn(f"{name} ok", done.stdout)

    def test_openai(self):
        self.model = "demo"
        self.run_example("openai", "openai")


def add_framework(name, *requirements):
    def test(self):
        self.model = trained.model("qwen2.5-coder")
        self.run_example(name, *requirements)
    setattr(Frameworks, f"test_{name}", test)


add_framework("langchain", "langchain", "langchain-openai", "langgraph")
add_framework("llama_index", "llama-index-core", "llama-index-llms-openai-like")
add_framework("instructor", "instructor")
add_framework("dspy", "dspy")
add_framework("outlines", "outlines", "openai")


class LmEval(unittest.TestCase):
    """Scores of lm-evaluation-harness are computed again from logits. docs/guides/python.md compares them with those of Transformers."""

    def test_the_harness_gets_log_probabilities_and_answers(self):
        if not trained.ALL:
            self.skipTest("lm-eval is installed by ./test --models")
        text = os.path.join(helpers.DATA, "tinyshakespeare.txt")
        if not os.path.exists(text):
            self.skipTest("the text of the items is not here")
        program = packages.python("lm-eval")
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run([sys.executable, os.path.join(helpers.ROOT, "tests/frameworks/lm_eval/make_tasks.py"), text, folder, "--items", "16"], check=True)
        done = subprocess.run([program, "-m", "kvik.lm_eval", "--model", "kvik", "--model_args", "pretrained=demo,threads=1,kv_bytes=67108864",
                               "--include_path", folder, "--tasks", "kvik_next_line,kvik_continue,kvik_passage", "--log_samples", "--output_path", folder],
                              capture_output=True, text=True, timeout=600, env=ENVIRONMENT, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])

        def samples(task):
            path, = glob.glob(f"{folder}/**/samples_{task}_*.jsonl", recursive=True)
            with open(path, encoding="utf-8") as f:
                return [json.loads(line) for line in f]

        items = samples("kvik_next_line")
        self.assertEqual(len(items), 16)
        for item in items:
            context = LLM.tokenize(item["doc"]["context"].rstrip())
            for choice, (found, _) in zip(item["doc"]["choices"], item["filtered_resps"]):
                tokens = LLM.tokenize(item["doc"]["context"] + choice)
                self.assertAlmostEqual(float(found), sum(LLM.score(tokens)[len(context):]), places=4)
        for item in samples("kvik_passage"):
            tokens = [helpers.DEMO_BOS, *LLM.tokenize(item["doc"]["passage"], add_special=False)]
            self.assertAlmostEqual(float(item["filtered_resps"][0]), sum(LLM.score(tokens)), places=3)
        for item in samples("kvik_continue"):
            text = LLM.generate(item["doc"]["context"], max_tokens=24, temperature=0, stop="\n").text
            self.assertEqual(item["filtered_resps"], [text])


class Tutorial(unittest.TestCase):
    def test_it_runs_and_draws(self):
        program = packages.python("numpy", "matplotlib")
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(helpers.DEMO, os.path.join(folder, "model.gguf"))
        with open(os.path.join(helpers.ROOT, "docs/guides/python_tutorial.md"), encoding="utf-8") as file:
            blocks = [block.text for block in document_blocks.blocks_of("python_tutorial.md", file.read())]
        done = subprocess.run([program, "-c", "\n".join(blocks)], env=ENVIRONMENT, cwd=folder, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"add \{.*\} = \d+")
        self.assertGreater(int(done.stdout.split(" % of the prompt tokens")[0].split()[-1]), 80)
        with open(os.path.join(folder, "saved.svg"), encoding="utf-8") as file:
            self.assertIn("<svg", file.read())


if __name__ == "__main__":
    unittest.main()
