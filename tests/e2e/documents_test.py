"""Every code block of every document is run here, or by a test that is named here, or is listed here with the reason why it is not run. A new block
that is none of these fails the test.

Shell blocks of a document run in their order, in one folder, with `model.gguf` and the like as in FILES. See document_commands.py for the commands
that they find."""
import collections
import fnmatch
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

import kvik
from document_blocks import blocks_of, json_values
from launch_test import AGENTS
from server import Server

HERE = os.path.dirname(os.path.abspath(__file__))
ADAPTERS = tempfile.TemporaryDirectory()

# Blocks that another test runs: document, words in the block, that test.
COVERED = [
    ("docs/reference/cli.md", "", "tests/e2e/cli_reference_test.py"),  # the help texts; their examples run here
    ("docs/reference/http_api.md", "", "tests/e2e/http_api_reference_test.py"),
    ("docs/guides/claude_code.md", "export ANTHROPIC_BASE_URL", "tests/e2e/agents_test.py"),
    ("docs/guides/codex.md", "\ncodex\n", "tests/e2e/agents_test.py"),
    ("docs/guides/opencode.md", "\nopencode\n", "tests/e2e/agents_test.py"),
    ("docs/guides/qwen_code.md", "export OPENAI_BASE_URL", "tests/e2e/agents_test.py"),
    ("docs/guides/frameworks.md", "llm = OpenAILike", "tests/frameworks/llama_index_example.py"),
    ("docs/guides/frameworks.md", "model = OpenAIChatModel", "tests/frameworks/pydantic_ai_example.py"),
    ("docs/guides/frameworks.md", "model = OpenAIResponsesModel", "tests/frameworks/openai_agents_example.py"),
    ("docs/guides/frameworks.md", "model = OpenAIServerModel", "tests/frameworks/smolagents_example.py"),
    ("docs/guides/frameworks.md", "dspy.configure", "tests/frameworks/dspy_example.py"),
    ("docs/guides/frameworks.md", "instructor.from_openai", "tests/frameworks/instructor_example.py"),
    ("docs/guides/frameworks.md", "litellm.completion", "tests/frameworks/litellm_example.py"),
    ("docs/guides/frameworks.md", "createOpenAICompatible", "tests/clients/ai_sdk_example.mjs"),
    ("docs/guides/langchain.md", "ChatOpenAI(base_url", "tests/frameworks/langchain_example.py"),
    ("docs/guides/several_machines.md", "haproxy -f", "tests/e2e/fleet_test.py"),
    ("docs/guides/choosing_a_model.md", "kvik plan -hf", "tests/e2e/pull_test.py"),
    ("docs/guides/choosing_a_model.md", "kvik pull", "tests/e2e/pull_test.py"),
    ("docs/guides/install.md", "tools/package.sh", "tests/e2e/installation_test.py"),
    ("docs/guides/install.md", "apt install ./kvik", "tests/e2e/installation_test.py"),
    ("docs/guides/install.md", "sh install.sh", "tests/e2e/package_test.py"),
    ("docs/guides/install.md", "tar -xzf", "tests/e2e/installation_test.py"),
    ("docs/guides/install.md", "pipx install", "tests/e2e/package_test.py"),
    ("docs/guides/install.md", "cmake --install", "tests/e2e/package_test.py"),
    ("docs/guides/library.md", "cmake --install", "tests/e2e/library_test.py"),
    ("docs/guides/library.md", "kvik_request_start", "docs/examples/stream.c"),
    ("docs/guides/python.md", "ChatOpenAI(", "tests/frameworks/in_process_example.py"),
    ("docs/guides/python.md", "make_tasks.py", "tests/e2e/python_adapters_test.py"),
    ("docs/guides/python.md", "kvik.lm_eval", "tests/e2e/python_adapters_test.py"),
    ("docs/guides/python.md", "", "tests/e2e/python_test.py"),
    ("docs/design/add_a_model_family.md", "family_skeleton.py", "tests/e2e/family_skeleton_test.py"),
    ("docs/guides/python_tutorial.md", "", "tests/e2e/python_adapters_test.py"),
]
# Blocks that no test runs: document, words in the block, reason.
NOT_RUN = [
    ("README.md", "./run ", "builds and downloads"),
    ("docs/guides/quick_start.md", "./run ", "builds and downloads"),
    ("docs/guides/install.md", "./run ", "builds and downloads"),
    ("bench/peers/README.md", "", "needs other engines, and hours"),
    ("docs/guides/langchain.md", "pip install", "downloads packages"),
    ("docs/guides/open_webui.md", "open-webui serve", "needs a package of several gigabytes"),
    ("docs/guides/frameworks.md", "lm_eval", "needs lm_eval and its data"),
    ("docs/guides/frameworks.md", "aiperf", "needs aiperf"),
    ("docs/guides/frameworks.md", "guidellm", "needs guidellm"),
    ("docs/guides/frameworks.md", "llama-benchy", "needs llama-benchy"),
    ("docs/reference/reference_values.md", "pip install torch", "downloads gigabytes"),
    ("docs/design/kv_cache.md", "KvCache  ", "a drawing"),
    ("docs/design/kv_cache.md", "──take()──▶", "a drawing"),
    ("ARCHITECTURE.md", "tensor, base", "a drawing"),
    ("docs/reference/configuration.md", "chosen: context", "a line of the log"),
    ("docs/guides/install.md", "systemctl enable", "changes the services of the machine; installation_test.py does it in a container"),
    ("docs/guides/install.md", "docker build", "needs a Docker engine"),
    ("docs/guides/install.md", "kubectl apply", "needs a cluster"),
]
# Exit codes other than 0: document, words in the block, code.
EXIT_CODES = [("docs/guides/structured_output.md", "kvik constrain MODEL", 1)]
# Programs that a block needs and that may be missing here.
NEEDS = [("docs/guides/several_machines.md", "redis-server", "redis-server"), ("docs/guides/several_machines.md", "redis-server", "redis-cli"),
         ("docs/guides/security.md", "openssl", "openssl")]
# Examples of help texts that another test runs, because they need a hub: beginning, that test.
EXAMPLES_COVERED = [
    ("kvik pull ", "tests/e2e/pull_test.py"), ("kvik cp ", "tests/e2e/pull_test.py"), ("kvik rm ", "tests/e2e/pull_test.py"),
    ("kvik run qwen", "tests/e2e/pull_test.py"), ("kvik plan -hf ", "tests/e2e/pull_test.py"),
    ("kvik cache export model.gguf work.kvp --session ", "tests/e2e/prefix_file_test.py"),
]
# Beginnings of examples for which a server runs.
SERVED = ("kvik launch ", "kvik ps")
# Examples of help texts that take long, and what is run in their place.
SHORTER = [("synthetic:llama-3-8b:q4_k", "synthetic:test-llama:q4_k"), ("--depth 0,4k --batch 1,8", "--depth 0,64 --batch 1,2")]


def documents():
    found = glob.glob("*.md", root_dir=kvik.ROOT) + glob.glob("docs/**/*.md", root_dir=kvik.ROOT, recursive=True)
    return sorted(found + glob.glob("bench/**/README.md", root_dir=kvik.ROOT, recursive=True))


def all_blocks():
    found = []
    for path in documents():
        with open(os.path.join(kvik.ROOT, path), encoding="utf-8") as file:
            found += blocks_of(path, file.read())
    return found


def examples_of_help_texts():
    """Returns the examples at the end of `kvik COMMAND --help`, as docs/reference/cli.md shows them."""
    with open(os.path.join(kvik.ROOT, "docs/reference/cli.md"), encoding="utf-8") as file:
        page = file.read()
    return {line.strip() for part in re.findall(r"^Examples:\n((?:  .*\n)+)", page, re.M) for line in part.splitlines()}


def entry(table, block):
    """Returns the last field of the first row of a table that has this block, or None."""
    return next((row[-1] for row in table if fnmatch.fnmatch(block.path, row[0]) and row[1] in "\n" + block.text), None)


def file_name(block):
    """Returns the file that a block shows, from a first line such as "# keys.txt: …". Configurations of kvik are kvik.toml."""
    named = re.match(r"# ([\w-]+\.(?:txt|toml))\b", block.text)
    if named:
        return named[1]
    if block.language == "toml" and re.search(r"^\[(serve|run)\]", block.text, re.M):
        return "kvik.toml"
    return "keys.txt" if block.text.startswith("# KEY ") else None


def kind(block):
    """Returns how a block is tested; None if it is not."""
    if entry(COVERED, block):
        return "covered"
    if entry(NOT_RUN, block):
        return "not run"
    if file_name(block):
        return "file"
    return {"sh": "shell", "": "shell", "bash": "shell", "console": "shell", "json": "json", "toml": "toml", "yaml": "yaml", "promql": "promql",
            "cpp": "source", "python": "python"}.get(block.language)


class Folder:
    """The folder in which the shell blocks of one document run."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.path = os.path.realpath(self.temporary.name)
        self.commands, self.state = os.path.join(self.path, ".commands"), os.path.join(self.path, ".state")
        os.mkdir(self.commands)
        os.mkdir(self.state)
        for name in ("kvik", "curl", "redis-server", "stop", *AGENTS):
            os.symlink(os.path.join(HERE, "document_commands.py"), os.path.join(self.commands, name))
        for model in ("MODEL", "model.gguf", "IN", "model-f16.gguf", "model-q4_k.gguf", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"):
            os.symlink(kvik.DEMO, os.path.join(self.path, model))
        for name, made in ((name, adapter(name)) for name in ("poet", "poet.gguf", "clerk.gguf")):
            os.symlink(made, os.path.join(self.path, name))
        os.mkdir(os.path.join(self.path, "models"))
        os.symlink(kvik.DEMO, os.path.join(self.path, "models/demo.gguf"))
        os.mkdir(os.path.join(self.path, "adapters"))
        shutil.copy(adapter("clerk.gguf"), os.path.join(self.path, "adapters/clerk.gguf"))
        os.symlink(hf_folder(), os.path.join(self.path, "hf-folder"))
        with open(os.path.join(HERE, "texts/harbor.txt"), encoding="utf-8") as file:
            text = file.read()
        schema = {"type": "object", "required": ["name", "age"], "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
        chat = {"messages": [{"role": "system", "content": "You know the harbor."}, {"role": "user", "content": "When does it open?"}]}
        for name, content in (("request.json", json.dumps(chat)), ("answer.json", attested_answer()), ("system.txt", text[:300]), ("secret.txt", "0123456789abcdef\n"),
                              ("text.txt", text), ("notes.txt", text[:200]), ("keys.txt", "key-alice alice\nkey-admin admin operator\n"),
                              ("person.schema.json", json.dumps(schema)),
                              ("person.json", json.dumps({"type": "object", "properties": {"name": {"type": "string"}}}))):
            self.write(name, content)

    def write(self, name, content):
        with open(os.path.join(self.path, name), "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
            file.write(content)

    def run(self, script, stop_at_errors=True):
        variables = {k: v for k, v in os.environ.items() if not k.startswith("KVIK_")}
        variables |= {"HOME": self.path, "PATH": f"{self.commands}:{os.environ['PATH']}", "KVIK_DOCUMENT_STATE": self.state,
                      "KVIK_DOCUMENT_BINARY": os.path.abspath(kvik.BINARY), "KVIK_DOCUMENT_CURL": shutil.which("curl") or "curl",
                      "KVIK_DOCUMENT_REDIS": shutil.which("redis-server") or "redis-server"}
        command = ["bash", *(["-e", "-o", "pipefail"] if stop_at_errors else []), "-c", script]
        return subprocess.run(command, cwd=self.path, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=variables, timeout=300)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.run("stop kvik redis-server")
        finally:
            self.temporary.cleanup()


@functools.cache
def attested_answer():
    """Returns an answer of the demo model for `kvik verify`, as JSON."""
    with Server("demo", "--kv-memory", "64MiB", "--ctx", "512") as server:
        return server.post("/v1/completions", {"prompt": "ROMEO:", "max_tokens": 8, "kvik": {"attest": True}}).body.decode()


@functools.cache
def adapter(name):
    """Returns an adapter of the demo model: a GGUF file, or a PEFT folder if the name has no suffix."""
    path = os.path.join(ADAPTERS.name, name)
    tool = os.path.join(kvik.ROOT, "tools/make/make_adapter.py")
    subprocess.run([sys.executable, tool, "--rank", "2", kvik.DEMO, path], check=True, capture_output=True)
    return path


def hf_folder():
    return kvik.made("documents-folder", "make_hf_model.py", kvik.demo_as("f16"))


class Documents(unittest.TestCase):
    maxDiff = None

    def test_every_block_is_run_or_listed(self):
        unknown = [f"{b.path}:{b.line}: {b.language} {b.text.splitlines()[:1]}" for b in all_blocks() if kind(b) is None]
        self.assertEqual(unknown, [], "neither run here, nor in COVERED or NOT_RUN")

    def test_every_entry_of_the_tables_is_needed(self):
        blocks, examples = all_blocks(), examples_of_help_texts()
        for table in (COVERED + NOT_RUN, EXIT_CODES, NEEDS):
            for i, row in enumerate(table):
                # Two programs may be needed by one block.
                before = [] if table is NEEDS else table[:i]
                self.assertTrue(any(entry([row], b) and not entry(before, b) for b in blocks), f"no block for {row}")
        for beginning in (*(row[0] for row in EXAMPLES_COVERED), *SERVED):
            self.assertTrue(any(e.startswith(beginning) for e in examples), f"no example for {beginning!r}")
        for old, _ in SHORTER:
            self.assertTrue(any(old in e for e in examples), f"no example for {old!r}")
        for *_, test in COVERED + EXAMPLES_COVERED:
            self.assertTrue(os.path.exists(os.path.join(kvik.ROOT, test)), test)

    def test_an_unknown_block_is_noticed(self):
        block, = blocks_of("docs/a.md", "Text\n```text\nkvik serve\n```\n")
        self.assertEqual((block.line, block.language, kind(block)), (2, "text", None))
        self.assertEqual(kind(blocks_of("docs/a.md", "```sh\nkvik serve\n```\n")[0]), "shell")

    def test_json_toml_yaml_and_python_blocks_parse(self):
        n = collections.Counter()
        for block in all_blocks():
            with self.subTest(f"{block.path}:{block.line}"):
                n[block.language] += 1
                if block.language == "json":
                    self.assertTrue(json_values(block.text))
                elif block.language == "toml":
                    self.assertTrue(tomllib.loads(block.text))
                elif block.language == "python":
                    compile(block.text.replace("…", "..."), block.path, "exec")
                elif block.language == "yaml":
                    self.check_prometheus(block)
                elif block.language == "promql":
                    self.check_metrics(block)
                elif block.language == "cpp":
                    self.check_source(block)
        self.assertGreater(min(n[language] for language in ("json", "toml", "python", "yaml", "promql", "cpp")), 0)

    def check_prometheus(self, block):
        promtool = shutil.which("promtool")
        if not promtool:
            yaml = __import__("yaml")
            self.assertIn("scrape_configs", yaml.safe_load(block.text))
            return
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(block.text)
            file.flush()
            subprocess.run([promtool, "check", "config", "--syntax-only", file.name], check=True, capture_output=True)

    def check_metrics(self, block):
        with open(os.path.join(kvik.ROOT, "docs/reference/metrics.md"), encoding="utf-8") as page:
            known = set(re.findall(r"`(\w+)`", page.read()))  # metrics_test.py compares that page with the server
        for name in re.findall(r"\bkvik_\w+", block.text):
            self.assertIn(re.sub(r"_(bucket|sum|count)$", "", name), known)

    def check_source(self, block):
        """A block of C++ is a part of the source, apart from white space."""
        sources = glob.glob("src/**/*.cpp", root_dir=kvik.ROOT, recursive=True)
        for path in sources:
            with open(os.path.join(kvik.ROOT, path), encoding="utf-8") as file:
                if "".join(block.text.split()) in "".join(file.read().split()):
                    return
        self.fail(f"{block.path}:{block.line} is in no file of src/")


@unittest.skipUnless(shutil.which("curl"), "the examples use curl")
class ShellBlocks(unittest.TestCase):
    def run_document(self, path):
        blocks = [b for b in all_blocks() if b.path == path and kind(b) in ("file", "shell")]
        with Folder() as folder:
            for block in (b for b in blocks if kind(b) == "file"):
                folder.write(file_name(block), block.text)
            if not any("kvik serve" in b.text for b in blocks[:1]) and any("curl " in b.text for b in blocks):
                folder.run("kvik serve MODEL")
            for block in (b for b in blocks if kind(b) == "shell"):
                with self.subTest(f"{path}:{block.line}"):
                    missing = [program for *row, program in NEEDS if entry([(*row, True)], block) and not shutil.which(program)]
                    if missing:
                        self.skipTest(f"{', '.join(missing)}: not installed")
                    code = entry(EXIT_CODES, block) or 0
                    done = folder.run(block.text, stop_at_errors=code == 0)
                    self.assertEqual(done.returncode, code, f"{block.text}{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def test_examples_of_help_texts(self):
        examples = examples_of_help_texts()
        self.assertGreater(len(examples), 20)
        heavy = re.compile(r"^kvik (bench|explain|quantize|perplexity|adapter merge)\b")
        with Folder() as folder:
            folder.run("openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 30 -subj /CN=localhost")
            folder.run("kvik serve model.gguf --disk pages && curl http://127.0.0.1:8080/v1/completions -d '{\"prompt\": \"To be\", \"max_tokens\": 40}'; stop kvik")
            for example in sorted(examples):
                if heavy.match(example) and not kvik.LONG or "--tls-cert" in example and not shutil.which("openssl"):
                    continue
                if any(example.startswith(beginning) for beginning, _ in EXAMPLES_COVERED):
                    continue
                with self.subTest(example):
                    if example.startswith(SERVED):
                        self.assertEqual(folder.run("kvik serve model.gguf").returncode, 0)
                    for old, new in SHORTER:
                        example = example.replace(old, new)
                    done = folder.run(example)
                    self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])


def add_test(path):
    def test(self):
        self.run_document(path)
    setattr(ShellBlocks, "test_" + re.sub(r"\W", "_", path.removesuffix(".md")), test)


for _path in sorted({b.path for b in all_blocks() if kind(b) == "shell"}):
    add_test(_path)

if __name__ == "__main__":
    unittest.main()
