"""Tests `bench/peers/compare.py` with fake peers: the order of runs, the commands and the table."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import kvik

COMPARE = os.path.join(kvik.ROOT, "bench/peers/compare.py")

# Records its arguments, and prints the output of llama-bench or the table of a sweep.
PEER = """import json, sys
name, speed, *rest = sys.argv[1:]
if "--help" in rest: print("-gp <pp,tg>" if name == "old" else "-d, --n-depth"); sys.exit()
open({log!r}, "a").write(json.dumps([name, rest]) + chr(10))
if "-c" in rest:
    print("|  PP | TG | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s |")
    print("|-----|----|------|--------|----------|--------|----------|")
    for depth in (0, 8, 16): print(f"| 8 | 2 | {{depth}} | 1.0 | {{1000 - depth}}.5 | 1.0 | 7.0 |")
else:
    print(json.dumps([{{"samples_ts": [float(speed), float(speed) + 1, 5000.0]}}]))
"""


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = os.path.join(folder.name, "log")
        self.peer = os.path.join(folder.name, "peer.py")
        with open(self.peer, "w") as f:
            f.write(PEER.format(log=self.log))

    def command(self, name, speed):
        return f"{name}={sys.executable} {self.peer} {name} {speed}"

    def compare(self, *args):
        done = subprocess.run([sys.executable, COMPARE, kvik.DEMO, *args], capture_output=True, text=True, env=kvik.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def calls(self):
        with open(self.log) as f:
            return [json.loads(line) for line in f]

    def test_engines_alternate_and_the_first_is_compared_with_the_others(self):
        table = self.compare("--kvik", "", "--peer-bench", self.command("new", 99), "--peer-bench", self.command("old", 49),
                             "--test", "decode:4", "--rounds", "3")
        self.assertEqual([name for name, _ in self.calls()], ["new", "old"] * 3)
        row = table.splitlines()[-1]
        self.assertIn("100.0 (100.0 … 100.0) | 50.0", row)  # the median of the samples
        self.assertIn("2.00×", row)

    def test_a_context_is_asked_for_in_the_words_that_a_peer_knows(self):
        self.compare("--kvik", "", "--peer-bench", self.command("new", 1), "--peer-bench", self.command("old", 1),
                     "--peer-sweep", self.command("old", 1), "--test", "decode:4@16", "--test", "prefill:8@16", "--rounds", "1")
        asked = [(name, " ".join(args)) for name, args in self.calls()]
        self.assertIn("-n 4 -d 16", asked[0][1])
        self.assertIn("-gp 16,4", asked[1][1])
        self.assertIn("-p 8 -n 0 -d 16", asked[2][1])
        self.assertIn("-c 32 -b 8 -ub 8", asked[3][1])

    def test_a_sweep_gives_the_row_at_the_wanted_depth(self):
        out = self.compare("--kvik", "", "--peer-bench", self.command("old", 1), "--peer-sweep", self.command("old", 1),
                           "--test", "prefill:8@16", "--rounds", "1", "--json")
        self.assertEqual(json.loads(out)[0]["tok_s"], [984.5])

    def test_kvik_runs_on_the_same_file(self):
        out = self.compare("--kvik", kvik.BINARY, "--peer-bench", self.command("new", 1), "--test", "decode:4@16", "--rounds", "1", "--json")
        self.assertEqual([row["contestant"] for row in json.loads(out)], ["kvik", "new"])
        self.assertGreater(json.loads(out)[0]["tok_s"][0], 1)
        self.assertIn(kvik.DEMO, self.calls()[0][1])


if __name__ == "__main__":
    unittest.main()
