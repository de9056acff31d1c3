"""The simplest examples of Python frameworks, with only the base URL changed, against Qwen2.5-Coder 1.5B. Runs with ./test --models."""
import os
import subprocess
import unittest

import kvik
import packages
import trained
from server import Server

EXAMPLE_S = 600  # for an example; its own requests give up after two minutes
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


class Frameworks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(trained.model("qwen2.5-coder"), "--ctx", "8192", "--kv-memory", "300MiB", "--alias", "kvik")

    @classmethod
    def tearDownClass(cls):
        if hasattr(cls, "server"):
            cls.server.__exit__()


def add_test(name, requirements):
    def test(self):
        python = packages.python(*requirements)
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "KVIK_URL": f"http://127.0.0.1:{self.server.port}/v1",
                       "ANONYMIZED_TELEMETRY": "false", "DO_NOT_TRACK": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        example = os.path.join(kvik.ROOT, "tests/frameworks", f"{name}_example.py")
        run = subprocess.run([python, example], capture_output=True, text=True, timeout=EXAMPLE_S, env=environment)
        print(f"{name}: {', '.join(run.stdout.splitlines())}", flush=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr[-4000:])
    setattr(Frameworks, f"test_{name}", test)


for _name, _requirements in FRAMEWORKS.items():
    add_test(_name, _requirements)

if __name__ == "__main__":
    unittest.main()
