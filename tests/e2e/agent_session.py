"""Runs sessions of one agent against one server in the network of this process, and prints the results as JSON.

    agent_session.py NAME NODE_MODULES

The model is scripted: after a task it requests to read a file, then to write another text to it, and then it reports that it is done.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time

import agent_prompts
import kvik  # noqa: F401, needed because it adds tools/ to the path
import scripted_model
from recorder import Recorder
from server import Server

TASK_WORD = "kvik-task-7"
TASK = f"{TASK_WORD}: read story.txt, then write a better ending into it."
BEFORE, AFTER = "Once upon a time.\n", "Once upon a time, caf\u00e9s closed at \u201cnoon\u201d.\n\tThe end, {really}.\n"
LAST_WORDS = "The story has its ending now."
PATIENCE_S = 240
GUIDES = pathlib.Path(__file__).resolve().parents[2] / "docs/guides"
DOCUMENTED = "http://127.0.0.1:8080"


class Agent:
    """An agent: its configuration, read from its page in docs/guides/, and the names of its tools."""

    def __init__(self, name, format, configure, read, write):
        self.name, self.format, self.configure, self.read, self.write = name, format, configure, read, write

    def answers(self, path):
        return [scripted_model.call(*self.read(path), self.format), scripted_model.call(*self.write(path), self.format), LAST_WORDS]


def blocks(page):
    """Returns the code blocks of docs/guides/<page>.md by language. If there are several in one language, the last one is returned."""
    found = re.findall(r"^ *```(\w+)\n(.*?)^ *```", (GUIDES / f"{page}.md").read_text(), re.M | re.S)
    return {language: textwrap.dedent(block) for language, block in found}


def as_written(block, url):
    """Returns the block with this server's URL in place of the documented one."""
    if DOCUMENTED not in block:
        raise AssertionError(f"no {DOCUMENTED} in {block!r}")
    return block.replace(DOCUMENTED, url)


def command_of(block, *more):
    """Returns the command of a shell block, with further arguments, and the variables that the block exports."""
    *exports, command = block.strip().splitlines()
    variables = dict(re.fullmatch(r"export (\w+)=(\S+)", line).groups() for line in exports)
    return [*shlex.split(command), *more], variables


def arguments(name, task=TASK):
    """Returns the arguments with which an agent does a task without asking, and then ends."""
    return {"claude": ["-p", task, "--permission-mode", "acceptEdits", "--allowedTools", "Read,Write"],
            "codex": ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", task],
            "qwen": ["--yolo", task],
            "opencode": ["run", task]}[name]


def claude(home, work, url):
    return command_of(as_written(blocks("claude_code")["sh"], url), *arguments("claude"))


def codex(home, work, url):
    written = blocks("codex")
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex/config.toml").write_text(as_written(written["toml"], url))
    return command_of(written["sh"], *arguments("codex"))


def qwen(home, work, url):
    return command_of(as_written(blocks("qwen_code")["sh"], url), *arguments("qwen"))


def opencode(home, work, url):
    written = blocks("opencode")
    (work / "opencode.json").write_text(as_written(written["json"], url))
    return command_of(written["sh"], *arguments("opencode"))


def shell(command):
    return "exec_command", {"cmd": command}


AGENTS = {agent.name: agent for agent in (
    Agent("claude", "xml", claude, lambda path: ("Read", {"file_path": path}), lambda path: ("Write", {"file_path": path, "content": AFTER})),
    Agent("codex", "hermes", codex, lambda path: shell(f"cat {path}"), lambda path: shell(f"cat > {path} <<'KVIK'\n{AFTER}KVIK")),
    Agent("qwen", "hermes", qwen, lambda path: ("read_file", {"file_path": path}), lambda path: ("write_file", {"file_path": path, "content": AFTER})),
    Agent("opencode", "xml", opencode, lambda path: ("read", {"filePath": path}), lambda path: ("write", {"filePath": path, "content": AFTER})),
)}


def agent_environment(home, node_modules):
    return {"PATH": f"{node_modules}/.bin:{os.environ['PATH']}", "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8", "USER": "kvik"}


def session(agent, home, work, url, node_modules):
    story = work / "story.txt"
    story.write_text(BEFORE)
    command, extra = agent.configure(home, work, url)
    env = {**agent_environment(home, node_modules), **extra}
    begun = time.monotonic()
    done = subprocess.run(command, cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
    return {"exit_code": done.returncode, "said": done.stdout[-2000:], "errors": done.stderr[-2000:], "story": story.read_text(),
            "s": round(time.monotonic() - begun, 1)}


def main(name, node_modules, n_sessions=2):
    agent = AGENTS[name]
    with tempfile.TemporaryDirectory(prefix="kvik-agent-") as folder:
        home, work = pathlib.Path(folder, "home"), pathlib.Path(folder, "work")
        home.mkdir(), work.mkdir()
        model = f"{folder}/scripted.gguf"
        scripted_model.write(model, agent.answers(str(work / "story.txt")), TASK_WORD, agent.format)
        with Server(model, "--alias", "*", "--kv-memory", "512MiB") as server, Recorder(server.port) as recorder:
            sessions = []
            for _ in range(n_sessions):
                first = len(recorder.exchanges)
                sessions.append(session(agent, home, work, f"http://127.0.0.1:{recorder.port}", node_modules))
                sessions[-1]["requests"] = [repr(e) + ("" if e.status < 400 else f": {e.answer[:300]}") for e in recorder.exchanges[first:]]
            rows = agent_prompts.reuse(server, [e for e in recorder.exchanges if e.status == 200])
        print(json.dumps({"sessions": sessions, "refused": [repr(e) for e in recorder.exchanges if e.status >= 400],
                          "reuse": [{"path": e.path, "prompt": n, "could_find": could, "found": found} for e, n, could, found in rows]}))


if __name__ == "__main__":
    main(*sys.argv[1:3])
