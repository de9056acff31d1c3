"""Runs conversations with a KV budget that holds only a few of them: all finish, and each gets the same answer as it would alone."""
import json
import os
import subprocess
import sys
import unittest

import kvik  # adds tools/ to the path
import conversations

MIB = 2**20


def play(**options):
    done = subprocess.run([sys.executable, os.path.join(kvik.ROOT, "tools/measure/conversations.py"), kvik.BINARY, "demo", "--json", "--flags",
                           "--threads 1", *kvik.flags(options)], capture_output=True, text=True, timeout=600, env=kvik.environment())
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Budget(unittest.TestCase):
    def check(self, got, n, others=()):
        """Compares means over all plays: the order in which requests end changes the hit rate of one play by a few percent."""
        self.assertEqual((got["requests"], got["errors"], got["exit_code"]), (n, 0, 0), got["error_messages"])
        self.assertEqual((got["verified"], got["differ"]), (n, 0))
        if not kvik.SANITIZED:
            self.assertLessEqual(got["rss_mib"], 1.05 * got["planned_mib"] + 64)
        plays = [got, *others]
        self.assertGreaterEqual(sum(play["found_percent"] for play in plays), sum(play["lru_percent"] for play in plays))

    def test_64_conversations_share_room_for_ten(self):
        small = {"system": 32, "own": 8, "out": 4} if not kvik.LONG else {}
        self.check(play(users=64, verify=1000, **small), 64 * 8)
        self.check(play(users=8, verify=1000, **small), 64 * 8, [play(users=8, verify=0, **small) for _ in range(4)])

    def test_every_kv_type_with_a_small_budget(self):
        for kv_type in ("f32", "bf16", "int8", "int8/int4", "int4"):
            with self.subTest(kv_type=kv_type):
                self.check(play(kv_type=kv_type, conversations=16, turns=4, held=3, users=16, verify=1000, system=32, own=8, out=4), 16 * 4)


class Computed(unittest.TestCase):
    def test_with_enough_room_each_token_is_computed_once(self):
        """Tests lengths with any remainder modulo the page size."""
        for users in (1, 8):
            with self.subTest(users=users):
                got = play(kv_type="bf16", conversations=12, held=12, turns=8, users=users, system=45, own=7, out=6, verify=0)
                self.assertEqual((got["requests"], got["errors"]), (12 * 8, 0))
                self.assertEqual(got["computed"], got["new"])

    def test_open_pages_with_conversations_that_diverge_at_a_page_end(self):
        for kv_type in ("int8", "int4", "int8/int4"):
            got = play(kv_type=kv_type, conversations=12, held=24, turns=8, users=4, system=64, own=7, out=6, verify=0)
            self.assertEqual((got["requests"], got["errors"]), (12 * 8, 0))
            self.assertEqual(got["computed"], got["new"])


KV = conversations.Sizes(1, 0)


class Lru(unittest.TestCase):
    """Tests the model that cache measurements are compared with."""

    def test_a_state_is_reused_only_by_prompts_that_contain_its_whole_prefix(self):
        a = [1] * 10
        runs = [(0, 1, a, [7, 8]), (2, 3, a + [7, 9], [1]), (4, 5, a + [7, 8, 9], [1])]
        self.assertEqual(conversations.found_by_lru(runs, 100, conversations.Sizes(1, 5), 0), 11)  # the second request replaced the state
        self.assertEqual(conversations.found_by_lru(runs, 15, conversations.Sizes(1, 5), 0), 0)
        self.assertEqual(conversations.found_by_lru([runs[0], (2, 3, a + [9], [1])], 100, conversations.Sizes(1, 5), 0), 0)

    def test_hits_earlier_turns_while_there_is_room(self):
        a, b = [1] * 10, [2] * 10
        runs = [(0, 1, a, [7, 8]), (2, 3, b, [7, 8]), (4, 5, a + [7, 8, 9], [1])]
        self.assertEqual(conversations.found_by_lru(runs, 100, KV, 0), 11)
        self.assertEqual(conversations.found_by_lru(runs, 20, KV, 0), 0)

    def test_open_pages_allow_hits_in_the_last_page_and_use_memory_while_running(self):
        a = [1] * 70
        runs = [(0, 1, a, [7]), (2, 3, a, [7])]
        self.assertEqual(conversations.found_by_lru(runs, 300, KV, 0), 69)
        self.assertEqual(conversations.found_by_lru(runs, 300, conversations.Sizes(1, 0, 100), 0), 69)
        parted = [runs[0], (2, 3, a[:50] + [2] * 20, [7])]
        self.assertEqual(conversations.found_by_lru(parted, 300, KV, 0), 50)
        self.assertEqual(conversations.found_by_lru(parted, 300, conversations.Sizes(1, 0, 100), 0), 32)
        runs.insert(1, (1.5, 5, [2] * 70, [7]))  # the last request arrives while this one runs
        self.assertEqual(conversations.found_by_lru(runs, 300, conversations.Sizes(1, 0, 100), 1), 69)
        self.assertEqual(conversations.found_by_lru(runs, 300, conversations.Sizes(1, 0, 200), 1), 0)
        self.assertEqual(conversations.found_by_lru(runs, 300, conversations.Sizes(1, 0, 200), 0), 69)

    def test_running_requests_may_use_its_memory(self):
        runs = [(0, 1, [1] * 10, [7]), (2, 5, [2] * 10, [7]), (3, 4, [1] * 10, [7])]
        self.assertEqual(conversations.found_by_lru(runs, 20, KV, 0), 9)
        self.assertEqual(conversations.found_by_lru(runs, 20, KV, 1), 0)


if __name__ == "__main__":
    unittest.main()
