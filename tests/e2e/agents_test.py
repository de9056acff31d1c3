"""Tests unmodified coding agents from npm, each with the server in its own network namespace. `./test --long` installs and runs them.

Each agent has two sessions with a scripted model (scripted_model.py), which makes it read a file and write it."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import agent_session
import kvik

PAGE_TOKENS = 32
NODE_MODULES = pathlib.Path(__file__).resolve().parents[1] / "agents/node_modules"
# Runs a command in a network namespace with loopback only. A user other than root creates it as root of a new user namespace.
ALONE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--user", "--map-root-user"]
WITH_LOOPBACK = [*ALONE, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


def why_not():
    if not kvik.LONG:
        return "./test --long runs the agents"
    if not NODE_MODULES.exists():
        return "the agents are not installed (tools/install_agents.sh)"
    tried = subprocess.run([*WITH_LOOPBACK, "true"], capture_output=True, text=True)
    return f"no network of its own can be had here: {tried.stderr.strip()}" if tried.returncode else None


class Agents(unittest.TestCase):
    maxDiff = None

    def check(self, name):
        if reason := why_not():
            self.skipTest(reason)
        script = pathlib.Path(agent_session.__file__)
        done = subprocess.run([*WITH_LOOPBACK, sys.executable, script, name, NODE_MODULES], capture_output=True, text=True, timeout=600,
                              env=os.environ | {"KVIK_BINARY": os.path.abspath(kvik.BINARY)})
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        report = json.loads(done.stdout)
        self.assertEqual(report["refused"], [], report)
        self.assertEqual(len(report["sessions"]), 2)
        for session in report["sessions"]:
            self.assertEqual(session["exit_code"], 0, session)
            self.assertEqual(session["story"], agent_session.AFTER, session)
            self.assertIn(agent_session.LAST_WORDS, session["said"], session)
            self.assertGreaterEqual(len(session["requests"]), 3, session)
        later = report["reuse"][1:]
        for row in later:
            if row["could_find"] < PAGE_TOKENS:
                continue  # such as the first words of a system prompt that another prompt shares: less than a page is computed again
            self.assertGreaterEqual(row["found"], 0.99 * row["could_find"], report["reuse"])
        # The first request of the second session repeats the whole prompt of the first session.
        could, found = (sum(row[key] for row in later) for key in ("could_find", "found"))
        print(f"{name}: {len(report['reuse'])} requests, {sum(r['prompt'] for r in report['reuse'])} tokens of prompts; {found} of {could} reusable "
              f"tokens of later requests found; sessions took {[s['s'] for s in report['sessions']]} s", file=sys.stderr)
        self.assertGreater(could, 0.5 * sum(row["prompt"] for row in later), report["reuse"])

    def test_claude_code(self):
        self.check("claude")

    def test_codex(self):
        self.check("codex")

    def test_qwen_code(self):
        self.check("qwen")

    def test_opencode(self):
        self.check("opencode")


if __name__ == "__main__":
    unittest.main()
