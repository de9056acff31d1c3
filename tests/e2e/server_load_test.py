"""Tests sixteen users at once: no errors, every token counted, and a clean shutdown."""
import json
import os
import subprocess
import sys
import unittest

import kvik
from server import Server


def load(server, **options):
    done = subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/measure/serve_load.py"), "--url", f"http://127.0.0.1:{server.port}", "--json",
                           *kvik.flags(options)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0 or "error:" in done.stdout:
        raise AssertionError(f"{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[0])


class Load(unittest.TestCase):
    def test_sixteen_users_on_the_demo(self):
        with Server("demo") as server:
            got = load(server, users=16, requests=64, shared=120, own=24, out=32)
            self.assertEqual((got["requests"], got["errors"]), (64, 0))
            self.assertEqual(round(got["output_tok_s"] * got["wall_s"]), 64 * 32)
            self.assertGreater(got["prompt_tokens"], 64 * 144)
            self.assertEqual(server.stop(), 0)

    def test_conversations(self):
        with Server("demo") as server:
            got = load(server, users=4, requests=8, shared=50, own=10, out=16, turns=3)
            self.assertEqual((got["requests"], got["errors"]), (24, 0))
            self.assertEqual(round(got["output_tok_s"] * got["wall_s"]), 24 * 16)

    def test_a_budget_for_two_serves_sixteen(self):
        with Server("demo", "--kv-memory", "7MiB") as server:
            got = load(server, users=16, requests=32, shared=100, own=24, out=48)
            self.assertEqual((got["requests"], got["errors"]), (32, 0))
            self.assertEqual(round(got["output_tok_s"] * got["wall_s"]), 32 * 48)

    def test_memory_stays_within_the_budget(self):
        """The memory is 32 MiB of pages, 6 MiB of weights and 26 MiB of buffers of the step and the server, plus the 64 MiB that are always
        allowed."""
        with Server("demo", "--kv-memory", "32MiB") as server:
            load(server, users=16, requests=48, shared=100, own=100, out=100)
            self.assertLess(server.rss_bytes(), (32 + 6 + 26 + 64) * 2**20)

    def test_batched_answers_equal_those_of_single_requests(self):
        """Greedy and seeded requests, with little memory and with a latency target that splits prompts; only new tokens are computed."""
        for flags in [("--itl-target", "2ms"), ("--kv-memory", "9MiB"), ("--itl-target", "0", "--max-running", "3")]:
            with self.subTest(flags=flags), Server("demo", *flags) as server:
                got = load(server, users=12, requests=24, shared=100, own=20, out=24, ids=True, sampled=True, verify=True)
                self.assertEqual((got["requests"], got["errors"]), (24, 0))
                self.assertEqual((got["verified"], got["differ"]), (50, 0))

    def test_turns_compute_what_is_new_and_no_more(self):
        with Server("demo") as server:
            got = load(server, users=4, requests=8, shared=200, own=24, out=16, turns=6, ids=True)
            self.assertLessEqual(got["computed_tokens"], 1.02 * got["new_tokens"])
            self.assertGreater(got["new_tokens"], 8 * 6 * 20)


if __name__ == "__main__":
    unittest.main()
