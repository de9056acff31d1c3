"""Ollama's Python clients against real servers: each test of the suites in tests/ollama is one test here. The packages, whose versions are locked,
are installed in an environment of their own."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import kvik
import packages
import scripted_model
import trained
from server import Server

FOLDER = pathlib.Path(kvik.ROOT) / "tests/ollama"
RESULT = re.compile(r"^(test_\w+) \(([\w.]+)\) \.\.\. (ok|FAIL|ERROR|skipped '(.*)')$")
SUITE_S = 600
SCRIPT = {"task": "kvik-task-3", "thought": "Two walls, two coats.", "words": "Let me paint.", "last_words": "Both walls are painted.",
          "arguments": [{"colour": "red", "n": 1}, {"colour": "green \"x\"", "n": 2}]}


def write_scripted_model(path):
    calls = "\n".join(scripted_model.call("paint", arguments) for arguments in SCRIPT["arguments"])
    scripted_model.write(path, [f"<think>\n{SCRIPT['thought']}\n</think>\n\n{SCRIPT['words']}\n{calls}", "One is left.", SCRIPT["last_words"]],
                         SCRIPT["task"], "hermes")


class Servers:
    """The servers that the suites use, by the variables that name their addresses."""

    def __init__(self, folder):
        self.servers = {}
        small = ("--threads", 1, "--kv-memory", "64MiB")
        path = os.path.join(folder, "scripted.gguf")
        write_scripted_model(path)
        try:
            self.servers["KVIK_DEMO_URL"] = Server("demo", *small)
            self.servers["KVIK_SCRIPTED_URL"] = Server(path, *small)
            self.add("KVIK_TRAINED_URL", "smollm2", "--alias", "smollm2", "--kv-memory", "128MiB")
            self.add("KVIK_TOOL_MODEL_URL", "qwen2.5-coder", "--alias", "kvik", "--ctx", "8192", "--kv-memory", "300MiB")
        except BaseException:
            self.stop()
            raise

    def add(self, variable, name, *flags):
        try:
            self.servers[variable] = Server(trained.model(name), *flags)
        except unittest.SkipTest as reason:
            print(f"{variable}: {reason}", flush=True)

    def environment(self):
        return {variable: f"http://127.0.0.1:{server.port}" for variable, server in self.servers.items()}

    def stop(self):
        for server in self.servers.values():
            server.__exit__()


def run(python, suite, environment):
    """Returns [(name, state, details)] of a suite."""
    done = subprocess.run([python, "-W", "ignore", "-m", "unittest", "-v", suite], cwd=FOLDER, capture_output=True, text=True, timeout=SUITE_S,
                          env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONDONTWRITEBYTECODE": "1", "DO_NOT_TRACK": "1",
                               "KVIK_SCRIPT": json.dumps(SCRIPT), **environment})
    results = [(match[2], match[3].split()[0], match[4] or done.stderr[-8000:]) for match in map(RESULT.match, done.stderr.splitlines()) if match]
    is_failure_known = any(state in ("FAIL", "ERROR") for _, state, _ in results)
    if done.returncode and not is_failure_known or f"Ran {len(results)} test" not in done.stderr:
        results.append((suite, "ERROR", done.stdout[-3000:] + done.stderr[-3000:]))
    return results


def case(name, state, details):
    def test():
        if state == "skipped":
            raise unittest.SkipTest(details)
        if state != "ok":
            raise AssertionError(details)
    return unittest.FunctionTestCase(test, description=name)


def load_tests(_loader, _tests, _pattern):
    try:
        python = packages.python(*(FOLDER / "requirements.txt").read_text(encoding="utf-8").split())
    except unittest.SkipTest as reason:
        return unittest.TestSuite([case("the clients", "skipped", str(reason))])
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(folder)
        try:
            results = [result for path in sorted(FOLDER.glob("*_suite.py")) for result in run(python, path.stem, servers.environment())]
        finally:
            servers.stop()
    return unittest.TestSuite(case(*result) for result in results)


if __name__ == "__main__":
    unittest.main()
