"""Tests `kvik launch`: with fake agents in every run, and with the agents of npm and a trained model with `./test --long`."""
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest

import agent_session
import kvik
import scripted_model
import trained
from agents_test import NODE_MODULES, WITH_LOOPBACK, why_not
from server import Server, free_port

AGENTS = ("claude", "codex", "opencode", "qwen")
PAGES = {"claude": "claude_code", "codex": "codex", "opencode": "opencode", "qwen": "qwen_code"}
PACKAGES = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex", "opencode": "opencode-ai", "qwen": "@qwen-code/qwen-code"}
# A program that reports how it was started, then does what $FAKE says.
FAKE = r"""#!/usr/bin/python3
import json, os, sys, urllib.request
config = os.environ.get("OPENCODE_CONFIG")
report = {"arguments": sys.argv[1:], "variables": dict(os.environ), "config": open(config).read() if config else None, "config_path": config}
report["mode"] = os.stat(config).st_mode & 0o777 if config else None
url = os.environ.get("FAKE_URL") or os.environ.get("ANTHROPIC_BASE_URL")
if url:
    key = os.environ.get("ANTHROPIC_AUTH_TOKEN", "none")
    request = urllib.request.Request(url + "/v1/models", headers={"Authorization": "Bearer " + key})
    report["models"] = json.load(urllib.request.urlopen(request))
with open(os.environ["FAKE_REPORT"] + ".part", "w") as f:
    json.dump(report, f)
os.rename(os.environ["FAKE_REPORT"] + ".part", os.environ["FAKE_REPORT"])
exec(os.environ.get("FAKE", "pass"))
"""


def setting(arguments):
    """Returns Codex' settings (-c KEY=VALUE) as the table that they make, and the other arguments."""
    lines, rest = [], []
    words = iter(arguments)
    for word in words:
        if word == "-c":
            lines.append(next(words))
        else:
            rest.append(word)
    return tomllib.loads("\n".join(lines)), rest


class Printed:
    """The output of `kvik launch AGENT --print`, read."""

    def __init__(self, text):
        self.text = text
        self.variables = {name: shlex.split(value)[0] for name, value in re.findall(r"^export (\w+)=(.*)$", text, re.M)}
        self.files = dict(re.findall(r"""^cat > "\$folder/([\w.]+)" <<'END'\n(.*?)^END$""", text, re.M | re.S))
        self.command = shlex.split(text.splitlines()[-1])


class Case(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.home, self.bin, self.temporary = (os.path.join(folder, name) for name in ("home", "bin", "tmp"))
        for path in (self.home, self.bin, self.temporary):
            os.mkdir(path)
        self.report_path = os.path.join(folder, "report")

    def install(self, *names):
        for name in names:
            path = os.path.join(self.bin, name)
            with open(path, "w") as f:
                f.write(FAKE)
            os.chmod(path, 0o755)

    def environment(self, **extra):
        return {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": self.home, "TMPDIR": self.temporary, "FAKE_REPORT": self.report_path,
                "KVIK_API_KEY": None, **extra}

    def launch(self, *args, **extra):
        return kvik.run("launch", *args, env=self.environment(**extra))

    def launched(self, *args, **extra):
        """Returns the report of the fake agent."""
        done = self.launch(*args, **extra)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.report_path) as f:
            return json.load(f)

    def refused(self, code, *args, **extra):
        done = self.launch(*args, **extra)
        said = done.stderr.decode()
        self.assertEqual((done.returncode, said.count("\n"), done.stdout), (code, 1, b""), said)
        return said


class Print(Case):
    def printed(self, name, *args, **extra):
        done = self.launch(name, "--print", *args, **extra)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Printed(done.stdout.decode())

    def test_the_pages_have_what_is_printed(self):
        """docs/guides/ describes the same settings, so that agents_test.py tests both."""
        for name in AGENTS:
            with self.subTest(agent=name):
                printed, page = self.printed(name), agent_session.blocks(PAGES[name])
                command, variables = agent_session.command_of(page["sh"])
                if name == "codex":
                    settings, rest = setting(printed.command[1:])
                    self.assertEqual((["codex", *rest], settings), (command, tomllib.loads(page["toml"])))
                    continue
                self.assertEqual(printed.command, command)
                if name == "opencode":
                    self.assertEqual(json.loads(printed.files["opencode.json"]), json.loads(page["json"]))
                    self.assertEqual(printed.variables, {"OPENCODE_CONFIG": "$folder/opencode.json"})
                else:
                    self.assertEqual(printed.variables, variables)

    def test_a_page_says_launch_first(self):
        for name in AGENTS:
            text = (agent_session.GUIDES / f"{PAGES[name]}.md").read_text()
            self.assertEqual(re.search(r"```sh\n(.*?)\n", text)[1].split(" --model")[0], f"kvik launch {name}")

    def test_the_running_server_and_its_model_are_printed(self):
        with Server("demo", "--threads", 1, "--kv-memory", "16MiB") as server:
            url = f"http://127.0.0.1:{server.port}"
            for name in AGENTS:
                printed = self.printed(name, "--", "-p", "two words", KVIK_URL=url)
                self.assertIn(url, printed.text)
                self.assertIn("demo", printed.text)
                self.assertEqual(printed.command[-2:], ["-p", "two words"])
                self.assertNotIn("No server", printed.text)

    def test_the_script_does_what_launch_does(self):
        self.install("opencode")
        script = self.printed("opencode", "--model", "some/dir/model.gguf").text
        subprocess.run(["sh", "-e"], input=script.encode(), check=True, env=kvik.environment(**self.environment()))
        with open(self.report_path) as f:
            self.assertEqual(json.loads(json.load(f)["config"])["model"], "kvik/model")

    def test_nothing_is_started_or_written(self):
        for name in AGENTS:  # they are not installed either
            self.assertIn("# No server answers", self.printed(name).text)
        self.assertEqual((os.listdir(self.home), os.listdir(self.temporary)), ([], []))


class WithServer(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", "--threads", 1, "--kv-memory", "16MiB")
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def launched(self, *args, **extra):
        return super().launched(*args, KVIK_URL=self.url, **extra)

    def test_variables_name_the_server_and_the_model(self):
        self.install(*AGENTS)
        claude = self.launched("claude", "--", "-p", "do it")
        self.assertEqual(claude["arguments"], ["-p", "do it"])
        for variable, value in {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_AUTH_TOKEN": "none", "ANTHROPIC_MODEL": "demo",
                                "ANTHROPIC_DEFAULT_HAIKU_MODEL": "demo", "HOME": self.home}.items():
            self.assertEqual(claude["variables"][variable], value)
        qwen = self.launched("qwen")
        self.assertEqual((qwen["variables"]["OPENAI_BASE_URL"], qwen["variables"]["OPENAI_MODEL"]), (f"{self.url}/v1", "demo"))
        self.assertEqual(qwen["arguments"], ["--auth-type", "openai"])
        settings, rest = setting(self.launched("codex", "--", "exec", "-c", "a=1", "hi")["arguments"])
        self.assertEqual((settings["model"], settings["model_context_window"], settings["a"], rest), ("demo", 1024, 1, ["exec", "hi"]))
        self.assertEqual(settings["model_providers"]["kvik"]["base_url"], f"{self.url}/v1")

    def test_the_configuration_is_a_private_temporary_file(self):
        self.install("opencode")
        report = self.launched("opencode")
        config = json.loads(report["config"])
        self.assertEqual(config["provider"]["kvik"]["options"], {"baseURL": f"{self.url}/v1", "apiKey": "none"})
        self.assertEqual(report["mode"], 0o600)
        self.assertTrue(report["config_path"].startswith(self.temporary))
        self.assertEqual((os.listdir(self.home), os.listdir(self.temporary)), ([], []))

    def test_a_context_that_is_too_short_is_a_warning(self):
        self.install("claude")
        done = self.launch("claude", KVIK_URL=self.url)
        self.assertIn("the context of demo is 1024 tokens, and coding agents need 32768 or more", done.stderr.decode())

    def test_the_exit_code_is_that_of_the_agent(self):
        self.install("qwen")
        self.assertEqual(self.launch("qwen", KVIK_URL=self.url, FAKE="sys.exit(7)").returncode, 7)
        self.assertEqual(self.launch("qwen", KVIK_URL=self.url, FAKE="import signal; os.kill(os.getpid(), signal.SIGKILL)").returncode, 137)

    def test_an_agent_that_is_missing_is_one_sentence_with_its_command(self):
        for name in AGENTS:
            self.assertIn(f"is not installed; npm install -g {PACKAGES[name]} installs it\n", self.refused(1, name, KVIK_URL=self.url))

    def test_names_that_are_not_served_are_refused(self):
        self.install("claude")
        self.assertEqual(self.refused(1, "claude", "--model", "hamlet", "--url", self.url), f"kvik: {self.url} does not serve hamlet\n")
        self.assertIn("emacs", self.refused(2, "emacs"))
        url = f"http://127.0.0.1:{free_port()}"
        self.assertIn(f"no server answers at {url}", self.refused(1, "claude", "--url", url))

    def test_ctrl_c_is_the_agent_s(self):
        """The terminal sends it to both; the agent decides what it means, and kvik waits for it."""
        self.install("claude")
        wait = "import signal, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(5)); open(os.environ['FAKE_REPORT'] + '.ready', 'w'); time.sleep(60)"
        process = subprocess.Popen(kvik.command("launch", "claude"), env=kvik.environment(**self.environment(KVIK_URL=self.url, FAKE=wait)),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        while not os.path.exists(self.report_path + ".ready"):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(60), 5)

    def test_a_request_to_end_is_passed_on(self):
        self.install("claude")
        wait = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(6)); open(os.environ['FAKE_REPORT'] + '.ready', 'w'); time.sleep(60)"
        process = subprocess.Popen(kvik.command("launch", "claude"), env=kvik.environment(**self.environment(KVIK_URL=self.url, FAKE=wait)),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not os.path.exists(self.report_path + ".ready"):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 6)


class OwnServer(Case):
    def assert_gone(self, report):
        """The server of the report has ended and left nothing."""
        with self.assertRaises(OSError):
            Server.get(type("At", (), {"port": int(report["variables"]["ANTHROPIC_BASE_URL"].rsplit(":")[-1]), "request": Server.request})(), "/health")
        self.assertEqual((os.listdir(self.home), os.listdir(self.temporary)), ([], []))

    def test_one_is_started_for_the_session_and_ends_with_it(self):
        self.install("claude")
        report = self.launched("claude", "--model", "demo", KVIK_THREADS=1, KVIK_KV_MEMORY="16MiB")
        self.assertEqual([model["id"] for model in report["models"]["data"]], ["demo"])
        self.assertEqual(report["variables"]["ANTHROPIC_MODEL"], "demo")
        self.assert_gone(report)

    def test_it_has_the_key_that_the_agent_gets(self):
        self.install("claude")
        report = self.launched("claude", "--model", "demo", KVIK_API_KEY="sesame", KVIK_KV_MEMORY="16MiB")
        self.assertEqual(report["variables"]["ANTHROPIC_AUTH_TOKEN"], "sesame")
        self.assert_gone(report)

    def test_the_context_is_what_agents_need(self):
        self.install("claude")
        report = self.launched("claude", "--model", "synthetic:test-llama3", KVIK_THREADS=1)
        n_ctx = report["models"]["data"][0]["max_model_len"]
        self.assertGreaterEqual(n_ctx, min(32768, json.loads(kvik.output("plan", "test-llama3", "--json"))["ctx"]))

    def test_a_server_that_cannot_start_is_one_sentence(self):
        self.install("claude")
        self.assertIn("no server answers at http://127.0.0.1:8080: give --model MODEL", self.refused(2, "claude"))
        self.assertIn("'hamlet' is no file or folder", self.refused(1, "claude", "--model", "hamlet"))
        said = self.refused(1, "claude", "--model", "demo", KVIK_KV_MEMORY="1KiB")
        self.assertRegex(said, r"^kvik: kvik serve has ended: a KV budget of ")
        self.assertEqual(os.listdir(self.temporary), [])
        self.assertFalse(os.path.exists(self.report_path))

    def test_ctrl_c_while_it_loads_ends_both(self):
        self.install("claude")
        process = subprocess.Popen(kvik.command("launch", "claude", "--model", "synthetic:llama-3.2-1b:q4_k"), start_new_session=True,
                                   env=kvik.environment(**self.environment(KVIK_CTX=512, KVIK_KV_MEMORY="256MiB")),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (server := children.read_text().split()):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        self.assertFalse(os.path.exists(f"/proc/{server[0]}"))
        self.assertEqual((os.listdir(self.home), os.listdir(self.temporary)), ([], []))
        self.assertFalse(os.path.exists(self.report_path))


class Warm(Case):
    """`kvik cache warm`, with a fake agent that asks the question in its arguments."""
    SYSTEM = "You are an agent that works in a folder. " * 20
    ASK = f"""
body = {{"model": "demo", "max_tokens": 4, "system": {SYSTEM!r}, "messages": [{{"role": "user", "content": sys.argv[-1]}}]}}
urllib.request.urlopen(urllib.request.Request(url + "/v1/messages", json.dumps(body).encode(), {{"Content-Type": "application/json"}})).read()
"""

    def warm(self, *args, **extra):
        self.disk = os.path.join(os.path.dirname(self.report_path), "pages")
        return kvik.run("cache", "warm", *args, "-m", "demo", "--disk", self.disk, env=self.environment(KVIK_KV_MEMORY="16MiB", **extra))

    def test_a_server_finds_the_instructions_of_the_agent(self):
        self.install("claude")
        done = self.warm("claude", FAKE=self.ASK)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout.decode(), r"^Claude Code: done\n.* has \d+ pages of \d+ tokens\n$")
        with open(self.report_path) as f:
            self.assertEqual(json.load(f)["arguments"][0], "-p")
        self.assertEqual((os.listdir(self.home), os.listdir(self.temporary)), ([], []))
        body = {"model": "demo", "max_tokens": 4, "system": self.SYSTEM, "messages": [{"role": "user", "content": "What is here?"}]}
        with Server("demo", "--disk", self.disk) as server:
            usage = server.post("/v1/messages", body).json["usage"]
        n_system = len(kvik.output("tokenize", "demo", self.SYSTEM, "--no-bos").split())
        self.assertGreaterEqual(usage["cache_read_input_tokens"], n_system // 32 * 32)

    def test_what_cannot_be_warmed_is_one_sentence(self):
        self.install("claude")
        for code, names, said, extra in ((1, ["codex"], "Codex is not installed; npm install -g", {}), (2, ["claud"], "'claud' is not a coding agent", {}),
                                         (1, ["claude"], "Claude Code ended with exit code 7: no model", {"FAKE": "print('no model'); sys.exit(7)"}),
                                         (1, ["claude"], "no page was stored", {})):
            done = self.warm(*names, **extra)
            last = done.stderr.decode().splitlines()[-1]  # after a warning about the context of the demo model
            self.assertEqual((done.returncode, done.stderr.count(b"kvik: ")), (code, 1), done.stderr)
            self.assertIn(said, last)

    def test_ctrl_c_ends_the_agent_and_the_server(self):
        self.install("claude")
        wait = "import time; open(os.environ['FAKE_REPORT'] + '.ready', 'w'); time.sleep(60)"
        process = subprocess.Popen(kvik.command("cache", "warm", "claude", "-m", "demo", "--disk", f"{self.report_path}.pages"),
                                   env=kvik.environment(**self.environment(FAKE=wait, KVIK_KV_MEMORY="16MiB")), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while not os.path.exists(self.report_path + ".ready"):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        self.assertEqual(os.listdir(self.temporary), [])


class Agents(unittest.TestCase):
    """The agents of npm, each with a server that `kvik launch` starts, in a network namespace of their own."""

    def setUp(self):
        if reason := why_not():
            self.skipTest(reason)
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="kvik-agent-")))
        self.home, self.work = self.folder / "home", self.folder / "work"
        self.home.mkdir(), self.work.mkdir()
        self.story = self.work / "story.txt"

    def run_agent(self, name, model, arguments, **settings):
        """Returns what the agent printed. Afterwards its server has ended."""
        env = {**agent_session.agent_environment(self.home, NODE_MODULES), "TMPDIR": str(self.folder), "KVIK_URL": "none", **settings}
        command = kvik.command("launch", name, "--model", model, "--", *arguments)
        command[0] = os.path.abspath(command[0])  # the agent runs in another folder
        begun = time.monotonic()
        done = subprocess.run([*WITH_LOOPBACK, *command], cwd=self.work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1100)
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        self.assertEqual(list(self.folder.glob("kvik-launch-*")), [])
        return done.stdout

    def check_scripted(self, name):
        """The scripted model reads the story and writes another one."""
        agent, model = agent_session.AGENTS[name], str(self.folder / "scripted.gguf")
        scripted_model.write(model, agent.answers(str(self.story)), agent_session.TASK_WORD, agent.format)
        self.story.write_text(agent_session.BEFORE)
        said = self.run_agent(name, model, agent_session.arguments(name), KVIK_KV_MEMORY="512MiB")
        self.assertEqual(self.story.read_text(), agent_session.AFTER, said)
        self.assertIn(agent_session.LAST_WORDS, said)

    def check_trained(self, name):
        """A trained model of 1.5B calls a tool that reads a file: the events that the agent prints have the number in it, which is nowhere else.
        Agents sample with a random seed, and so small a model does not always call a tool: it has three sessions. An agent's own instructions of
        many thousand tokens, and tools that the task does not need, are too much for this model: a sentence and few tools replace them."""
        model = trained.model("qwen2.5-coder")
        self.story.write_text("The number is 48213.\n")
        tool, arguments = agent_session.AGENTS[name].read(str(self.story))
        task = f"Call the tool {tool} with the arguments {json.dumps(arguments)}. Then tell me the number in its result."
        instructions = "You answer by calling tools."
        brief = ["--system-prompt", instructions, "--output-format", "stream-json"]
        if name == "codex":
            (self.folder / "instructions.txt").write_text(instructions)
        if name == "opencode":  # the project's configuration, which extends that of kvik launch
            (self.work / "opencode.json").write_text(json.dumps({"agent": {"build": {"prompt": instructions, "tools": {"*": False, tool: True}}}}))
        given = {"claude": ["-p", task, *brief, "--verbose", "--tools", tool, "--allowedTools", tool],
                 "codex": ["exec", "--json", "-c", f'model_instructions_file="{self.folder}/instructions.txt"', "--disable", "multi_agent", "--disable", "goals",
                           *agent_session.arguments("codex", task)[1:]],
                 "opencode": ["run", "--format", "json", "--title", "A number", task],
                 "qwen": ["--yolo", "--bare", *brief, "--exclude-tools", "run_shell_command,edit,notebook_edit,get_goal,update_goal", "-p", task]}[name]
        for _ in range(3):
            said = self.run_agent(name, model, given, KVIK_DISK=str(self.folder / "disk"), CLAUDE_CODE_MAX_OUTPUT_TOKENS="512")
            if "48213" in said:
                return
        self.fail(said)

    def test_claude_code_and_a_scripted_model(self):
        self.check_scripted("claude")

    def test_codex_and_a_scripted_model(self):
        self.check_scripted("codex")

    def test_opencode_and_a_scripted_model(self):
        self.check_scripted("opencode")

    def test_qwen_code_and_a_scripted_model(self):
        self.check_scripted("qwen")

    def test_claude_code_and_a_trained_model(self):
        self.check_trained("claude")

    def test_codex_and_a_trained_model(self):
        self.check_trained("codex")

    def test_opencode_and_a_trained_model(self):
        self.check_trained("opencode")

    def test_qwen_code_and_a_trained_model(self):
        self.check_trained("qwen")


if __name__ == "__main__":
    unittest.main()
