"""Runs the simplest examples of Python frameworks and of the AI SDK against Qwen2.5-Coder 1.5B, with only the base URL changed. Runs with ./test
--models."""
import os
import subprocess
import unittest

import kvik
import packages
import trained
from server import Server

EXAMPLE_S = 600  # for one example; its own requests time out after two minutes
FRAMEWORKS = {
    "langchain": ("langchain", "langchain-openai", "langgraph"),
    "pydantic_ai": ("pydantic-ai-slim[openai]",),
    "instructor": ("instructor",),
    "openai_agents": ("openai-agents",),
    "smolagents": ("smolagents[openai]",),
    "llama_index": ("llama-index-core", "llama-index-llms-openai-like"),
    "litellm": ("litellm",),
    "dspy": ("dspy",),
}
NODE = os.path.join(kvik.ROOT, "tests/clients/node_modules/.bin/node")


class Frameworks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(trained.model("qwen2.5-coder"), "--ctx", "8192", "--kv-memory", "300MiB", "--alias", "kvik")

    @classmethod
    def tearDownClass(cls):
        if hasattr(cls, "server"):
            cls.server.__exit__()


    def run_example(self, program, path):
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "KVIK_URL": f"http://127.0.0.1:{self.server.port}/v1",
                       "ANONYMIZED_TELEMETRY": "false", "DO_NOT_TRACK": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        run = subprocess.run([program, os.path.join(kvik.ROOT, path)], capture_output=True, text=True, timeout=EXAMPLE_S, env=environment)
        print(f"{path}: {', '.join(run.stdout.splitlines())}", flush=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr[-4000:])

    @unittest.skipUnless(os.path.exists(NODE), "the clients are not installed (tools/install_clients.sh)")
    def test_ai_sdk(self):
        self.run_example(NODE, "tests/clients/ai_sdk_example.mjs")


def add_test(name, requirements):
    def test(self):
        self.run_example(packages.python(*requirements), f"tests/frameworks/{name}_example.py")
    setattr(Frameworks, f"test_{name}", test)


for _name, _requirements in FRAMEWORKS.items():
    add_test(_name, _requirements)

if __name__ == "__main__":
    unittest.main()
