"""Runs tools/measure/attack.py: for a minute, or with --long for an hour and 100,000 requests (KVIK_ATTACK_MINUTES overrides the time)."""
import os
import subprocess
import sys
import unittest

import kvik

MINUTES = float(os.environ.get("KVIK_ATTACK_MINUTES", 60 if kvik.LONG else 0.75))
REQUESTS = int(MINUTES * 100_000 / 60)
# Only the long run checks latency. A minute has few gaps between tokens, and other work on the machine distorts them.
SHORT = () if kvik.LONG else ("--untimed", "--scale", 0.5)


class Attack(unittest.TestCase):
    def test_attack_breaks_no_promise(self):
        command = [sys.executable, os.path.join(kvik.ROOT, "tools/measure/attack.py"), "--minutes", MINUTES, "--requests", REQUESTS, *SHORT]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr[-4000:]}")
        self.assertEqual(done.stdout.splitlines()[-1], "held")


if __name__ == "__main__":
    unittest.main()
