"""Tests that pages on disk are reused after a restart, up to the last token, however the process ended."""
import glob
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import tempfile
import time
import unittest

import kvik
from server import Server

TOKENS = kvik.random_tokens(700, kvik.DEMO_BOS, 23)
KV_TYPES = ("f32", "bf16", "int8", "int4", "int8/int4")
OPEN_TYPES = ("int8", "int4", "int8/int4")  # types whose last page is stored together with its open page
N_KILLS = 300 if kvik.LONG else 20


def n_stored(kv_type):
    """Returns the number of pages of a sequence of TOKENS, including those that hold its open page."""
    plan = json.loads(kvik.output("plan", "demo", "--kv-type", kv_type, "--json"))
    return -(-len(TOKENS) // 32) + -(-(plan["open_page_bytes"] // 2) // (32 * plan["kv_bytes_per_token"]))


class DiskTest(unittest.TestCase):
    def setUp(self):
        base = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.mkdtemp(prefix="kvik-disk-", dir=base)
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.flags = ("--disk", self.folder, "--disk-size", "256MiB")

    def verified(self):
        done = kvik.run("cache", "verify", self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return int(done.stdout.split()[0])


class Restart(DiskTest):
    def test_logits_after_pages_from_disk_are_the_same_bytes(self):
        for kv_type in KV_TYPES:
            cold = kvik.logits_text("demo", TOKENS, kv_type=kv_type)
            for _ in range(2):  # the first run stores, the second one hits
                stored = kvik.logits_text("demo", TOKENS, kv_type=kv_type, disk=self.folder)
                self.assertEqual(stored, cold, kv_type)
        n_pages = 0
        for kv_type in KV_TYPES:
            n_pages += n_stored(kv_type)
        self.assertEqual(self.verified(), n_pages)

    def test_with_open_pages_a_prompt_is_found_to_the_page_or_in_the_last_one_by_another_process(self):
        for kv_type in OPEN_TYPES:
            flags = (*self.flags, "--kv-type", kv_type)
            with Server("demo", *flags) as server:
                server.complete(TOKENS[:690], max_tokens=1)
            for n in (700, 685, 650, 64, 63, 33, 31):
                with self.subTest(kv_type=kv_type, n=n), Server("demo", *flags) as server:
                    tokens = TOKENS[:n] + ([TOKENS[n] ^ 1] + TOKENS[:5] if n < len(TOKENS) else [])
                    got = server.complete(tokens, max_tokens=24, ignore_eos=True)
                    n_found = min(n, 690)
                    if n < 672:
                        n_found -= n % 32
                    self.assertEqual(got["usage"]["prompt_tokens_details"]["cached_tokens"], n_found)
                    alone = kvik.demo_text(kvik.greedy("demo", tokens, 24, kv_type=kv_type)).decode()
                    self.assertEqual(got["choices"][0]["text"], alone)

    def test_a_prompt_is_found_to_the_token_by_another_process(self):
        flags = (*self.flags, "--kv-type", "bf16")
        with Server("demo", *flags) as server:
            first = server.complete(TOKENS, max_tokens=24, ignore_eos=True)
            self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        for n in (len(TOKENS), 650, 64, 63, 33, 31, 1):
            with self.subTest(n=n), Server("demo", *flags) as server:
                tokens = TOKENS[:n] + ([TOKENS[n] ^ 1] + TOKENS[:5] if n < len(TOKENS) else [])
                got = server.complete(tokens, max_tokens=24, ignore_eos=True)
                cached = got["usage"]["prompt_tokens_details"]["cached_tokens"]
                self.assertEqual(cached, min(n, len(tokens) - 1))
                alone = kvik.demo_text(kvik.greedy("demo", tokens, 24, kv_type="bf16")).decode()
                self.assertEqual(got["choices"][0]["text"], alone)

    def test_a_conversation_continues_after_every_kill(self):
        tokens, n_computed = TOKENS[:100], 0
        for turn in range(8):
            with Server("demo", *self.flags) as server:
                got = server.complete(tokens, max_tokens=30, ignore_eos=True)
                cached = got["usage"]["prompt_tokens_details"]["cached_tokens"]
                self.assertEqual(cached, n_computed, f"turn {turn}")
                time.sleep(1)  # the documented limit for storing pages is two seconds
                server.process.kill()
                server.process.wait()
            tokens = tokens + kvik.greedy("demo", tokens, 30)
            n_computed = len(tokens) - 1  # the last token of an answer was never computed
            tokens = tokens + TOKENS[100 + 10 * turn:110 + 10 * turn]

    def test_another_model_kv_type_or_salt_finds_nothing(self):
        with Server("demo", *self.flags) as server:
            server.complete(TOKENS)
        with Server("demo", *self.flags, "--kv-type", "bf16") as server:
            self.assertEqual(server.complete(TOKENS)["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        with Server("demo", *self.flags) as server:
            salted = server.complete(TOKENS, cache_salt="another")
            self.assertEqual(salted["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        with Server(kvik.demo_as("f32"), *self.flags) as server:
            self.assertEqual(server.complete(TOKENS)["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_a_drain_writes_all_that_is_left(self):
        with Server("demo", *self.flags) as server:
            server.complete(TOKENS, max_tokens=4, ignore_eos=True)
            self.assertEqual(server.stop(), 0)
        self.assertGreaterEqual(self.verified(), len(TOKENS) // 32)


class Kill(DiskTest):
    def test_a_kill_at_any_moment_leaves_whole_pages_alone(self):
        rng = random.Random(5)
        want = {}
        for n in range(N_KILLS):
            start = rng.randrange(40)
            tokens = TOKENS[start:start + rng.choice((200, 330, 500))]
            with Server("demo", *self.flags) as server:
                got = server.complete(tokens, max_tokens=8, ignore_eos=True)
                key = tuple(tokens)
                if key not in want:
                    want[key] = kvik.demo_text(kvik.greedy("demo", tokens, 8)).decode()
                self.assertEqual(got["choices"][0]["text"], want[key], f"after {n} kills")
                connection, _ = server.open_stream(TOKENS[n % 300 + 1:] + tokens[:n % 50], max_tokens=64, ignore_eos=True)
                time.sleep(rng.random() * 0.1)
                server.process.send_signal(signal.SIGKILL)
                server.process.wait()
                connection.close()
            if n % 10 == 9 or n == N_KILLS - 1:
                self.verified()


class Faults(DiskTest):
    def wait_for(self, server, words, at_most=30):
        deadline = time.monotonic() + at_most
        while words not in server.said():
            self.assertLess(time.monotonic(), deadline, f"{words!r} not in {server.said()}")
            time.sleep(0.02)

    def wait_until(self, server, name, holds, at_most=30):
        """Waits until a metric's value satisfies the condition, without sending requests."""
        deadline = time.monotonic() + at_most
        while not holds(server.metrics().value(name)):
            self.assertLess(time.monotonic(), deadline, name)
            time.sleep(0.02)

    def test_a_folder_removed_while_serving_is_noticed_once_and_made_again(self):
        with Server("demo", *self.flags) as server:
            text = server.text(TOKENS)
            self.wait_until(server, "kvik_tier_pages", lambda n: n >= len(TOKENS) // 32)
            self.assertEqual(server.metrics().value("kvik_tier_up"), 1)
            shutil.rmtree(self.folder)
            self.wait_for(server, "the tier 'disk' is degraded")
            self.assertEqual(server.text(TOKENS), text)
            self.wait_for(server, "the tier 'disk' is back")
            self.wait_until(server, "kvik_tier_up", lambda up: up == 1)
            self.assertEqual(server.metrics().value("kvik_tier_write_errors_total"), 1)
            self.assertEqual(server.said().count("the tier 'disk' is degraded"), 1)
        self.assertGreaterEqual(self.verified(), len(TOKENS) // 32)  # pages in memory were stored again

    def test_serving_continues_while_the_disk_is_full(self):
        # Files cannot grow: this has the same effect on a writer as a full disk. The log is a file as well.
        with Server("demo", *self.flags) as server:
            limit = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            text = server.text(TOKENS)
            self.wait_until(server, "kvik_tier_up", lambda up: up == 0)
            self.assertEqual(server.text(TOKENS), text)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limit)
            self.wait_for(server, "the tier 'disk' is back")
            self.wait_until(server, "kvik_tier_pages", lambda n: n >= len(TOKENS) // 32)
        self.assertGreaterEqual(self.verified(), len(TOKENS) // 32)

    def test_a_folder_that_cannot_be_written_to_is_refused_at_the_start_in_one_sentence(self):
        for folder in ("/proc/none", "/dev/null"):  # fails for root as a read-only file system does
            done = kvik.run("serve", "demo", "--port", "0", "--disk", folder)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1), done.stderr)
            self.assertIn(folder.encode(), done.stderr)

    def test_hits_and_misses_are_counted_by_reason(self):
        with Server("demo", *self.flags) as server:
            server.text(TOKENS)
        with Server("demo", *self.flags) as server:
            server.text(TOKENS)
            page = server.metrics()
            self.assertEqual(page.value("kvik_tier_hit_tokens_total"), len(TOKENS) - 1)
            self.assertEqual(page.values("kvik_tier_pages_total", "direction")["read"], n_stored("int8"))
            server.text(kvik.random_tokens(100, kvik.DEMO_BOS, 5))
            self.assertEqual(server.metrics().value("kvik_tier_misses_total", reason="absent"), 1)

    def test_damaged_segments_are_a_miss(self):
        with Server("demo", *self.flags) as server:
            text = server.text(TOKENS)
        for path in glob.glob(self.folder + "/*.segment"):
            with open(path, "r+b") as f:
                size = os.path.getsize(path)
                f.seek(0)
                f.write(os.urandom(size // 2))
        with Server("demo", *self.flags) as server:
            self.assertEqual(server.text(TOKENS), text)
            self.assertEqual(server.metrics().value("kvik_tier_misses_total", reason="damaged"), 1)

    def test_files_are_the_users_alone(self):
        folder = os.path.join(self.folder, "new/inner")
        kvik.output("run", "demo", "--tokens", kvik.joined(TOKENS), "--max-tokens", 1, "--ids", "--disk", folder)
        modes = {path: os.stat(path).st_mode & 0o777 for path in [*glob.glob(folder + "/*"), folder, os.path.dirname(folder)]}
        self.assertEqual({m for p, m in modes.items() if os.path.isdir(p)}, {0o700}, modes)
        self.assertEqual({m for p, m in modes.items() if not os.path.isdir(p)}, {0o600}, modes)

    def test_a_hostile_folder_costs_pages_and_neither_the_start_nor_the_end(self):
        with Server("demo", *self.flags) as server:
            text = server.text(TOKENS)
            self.assertEqual(server.stop(), 0)
        database = sqlite3.connect(os.path.join(self.folder, "index.db"))
        endless = "SELECT count(*) FROM (WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c)"
        for event in ("INSERT", "UPDATE", "DELETE"):
            database.execute(f"CREATE TRIGGER endless_{event} AFTER {event} ON page BEGIN {endless}; END")
        database.commit()
        database.close()
        os.mkfifo(os.path.join(self.folder, "00000007-8192.segment"))
        os.mkdir(os.path.join(self.folder, "probe"))
        with open(os.path.join(self.folder, "00000008-8192.segment"), "wb") as f:
            f.truncate(1 << 40)
        with Server("demo", *self.flags) as server:
            self.assertEqual(server.text(TOKENS), text)
            self.assertEqual(server.text(kvik.random_tokens(300, kvik.DEMO_BOS, 24)), server.text(kvik.random_tokens(300, kvik.DEMO_BOS, 24)))
            server.interrupt(signal.SIGTERM)
            self.assertEqual(server.process.wait(20), 0)
        self.assertGreaterEqual(self.verified(), len(TOKENS) // 32)

    def test_a_second_process_is_refused(self):
        with Server("demo", *self.flags):
            for command in (("run", "demo", "--tokens", "1,2,3", "--disk", self.folder), ("cache", "verify", self.folder)):
                done = kvik.run(*command)
                self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1), done.stderr)
                self.assertIn(b"another process", done.stderr)
            self.assertIn(b"in use    yes", kvik.output("cache", "stat", self.folder))


class Care(DiskTest):
    def test_the_folder_is_counted_verified_and_cleared(self):
        kvik.output("run", "demo", "--tokens", kvik.joined(TOKENS), "--max-tokens", 1, "--ids", *self.flags)
        n_pages = n_stored("int8")
        self.assertRegex(kvik.output("cache", "stat", self.folder), rb"pages +%d " % n_pages)
        self.assertEqual(self.verified(), n_pages)
        kvik.output("cache", "gc", self.folder)
        self.assertEqual(self.verified(), n_pages)
        kvik.output("cache", "clear", self.folder)
        self.assertEqual(self.verified(), 0)
        self.assertEqual(glob.glob(self.folder + "/*.segment"), [])

    def test_a_folder_that_is_none_is_refused(self):
        for verb in ("stat", "verify", "gc", "clear"):
            done = kvik.run("cache", verb, self.folder)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1), done.stderr)
        self.assertEqual(kvik.run("cache").returncode, 2)


if __name__ == "__main__":
    unittest.main()
