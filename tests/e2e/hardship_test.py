"""Tests external faults: the user's task limit is reached, the clock is set, processes are killed while they write to shared tiers, a terminal
closes under load."""
import mmap
import os
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import kvik
import preload
from server import Server, events, free_port

FLAGS = ("--threads", 1, "--kv-memory", "64MiB")
TOKENS = kvik.random_tokens(600, kvik.DEMO_BOS, 5)
UNUSED_UID = 64321  # a user that runs nothing else


@unittest.skipIf(kvik.SANITIZED, "a sanitizer takes terabytes of addresses")
class AddressSpace(unittest.TestCase):
    """`ulimit -v` limits the address space of a process."""

    def limited(self, mib, *args):
        def become():
            resource.setrlimit(resource.RLIMIT_AS, (int(mib * (1 << 20)),) * 2)
        done = subprocess.run(kvik.command(*args), stdin=subprocess.DEVNULL, capture_output=True, env=kvik.environment(), timeout=60,
                              preexec_fn=become)
        return done.returncode, done.stderr.decode().splitlines()

    def test_a_kv_cache_that_cannot_be_mapped_is_named_with_what_to_lower(self):
        for mib in (200, 800):
            code, output = self.limited(mib, "serve", "demo", "--port", free_port(), "--kv-memory", "1GiB")
            self.assertEqual(code, 1, output)
            self.assertRegex(output[-1], r"^kvik: the system refuses the 1\.\d+ GiB of memory that this process needs "
                                       r"\(weights .+, KV cache 102\d.* MiB\): give less --kv-memory")

    def test_no_limit_ends_a_command_but_with_a_sentence(self):
        ended, done = set(), set()
        for mib in range(40, 300, 6):
            code, output = self.limited(mib, "run", "demo", "-p", "ROMEO:", "--max-tokens", 2, "--threads", 1)
            # Below this limit the system cannot load the program, or the C++ runtime cannot reserve memory for exceptions, and they print their own
            # messages. That must not happen again where the program has reported an error itself.
            is_before_main = code < 0 and output in ([], ["terminate called without an active exception"]) and not ended | done
            if code == 127 or is_before_main:
                continue
            self.assertIn(code, (0, 1), (mib, output))
            if code == 0:
                done.add(mib)
            else:
                self.assertRegex(output[-1], "^kvik: ", mib)
                ended.add(mib)
        self.assertTrue(ended and done, (ended, done))

    def test_memory_that_runs_out_during_an_answer_ends_the_command(self):
        """Below the least memory with which it succeeds is a megabyte with which the model loads and a step finds too little."""
        sentences = set()

        def succeeds(kib):
            code, output = self.limited(kib / 1024, "run", "demo", "-p", "ROMEO: what " * 150, "--max-tokens", 2, "--threads", 1, "--ctx", 1024)
            if code != 0:
                self.assertIn(code, (1, 127), (kib, output))
                sentences.add(output[-1])
            return code == 0

        enough = next(kib for kib in range(80 << 10, 400 << 10, 400) if succeeds(kib))
        for kib in range(enough - 1200, enough, 200):
            succeeds(kib)
        self.assertIn("kvik: there is no memory for the rest of the answer", sentences)


@unittest.skipUnless(os.getuid() == 0, "only root may become a user that runs nothing else")
@unittest.skipIf(kvik.SANITIZED, "a sanitizer starts a task of its own")
class TaskLimit(unittest.TestCase):
    """`ulimit -u` limits the number of tasks of a user, including threads."""

    def limited(self, n):
        def become():
            os.setgroups([])
            resource.setrlimit(resource.RLIMIT_NPROC, (n, n))
            os.setresgid(UNUSED_UID, UNUSED_UID, UNUSED_UID)
            os.setresuid(UNUSED_UID, UNUSED_UID, UNUSED_UID)
        return become

    def test_a_server_with_too_few_tasks_says_so_or_serves(self):
        ended, served = [], []
        with tempfile.TemporaryDirectory() as folder:
            os.chown(folder, UNUSED_UID, UNUSED_UID)
            binary = os.path.join(folder, "kvik")
            shutil.copy(kvik.BINARY, binary)  # in a folder that the user can access
            for n in range(1, 16):
                port = free_port()
                disk = os.path.join(folder, str(n))
                process = subprocess.Popen([binary, "serve", "demo", "--port", str(port), "--threads", "2", "--kv-memory", "64MiB", "--disk", disk,
                                            "--disk-size", "64MiB", "--shared", disk + "-shared"], cwd="/", stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=kvik.environment(), preexec_fn=self.limited(n))
                try:
                    code = self.until_served(process, port)
                    if code is None:
                        served.append(n)
                        process.send_signal(signal.SIGTERM)
                        process.wait(30)
                        self.assertEqual(process.returncode, 0, (n, process.stderr.read()))
                    else:
                        output = process.stderr.read().splitlines()
                        ended.append(n)
                        self.assertEqual(code, 1, (n, output))
                        self.assertIn(b"cannot start a thread", output[-1])
                finally:
                    process.kill()
                    process.wait()
                    process.stderr.close()
        self.assertTrue(ended and served, (ended, served))

    def until_served(self, process, port):
        """Returns None once the server has answered a request, or its exit code if it ended."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if process.poll() is not None:
                return process.returncode
            try:
                with socket.create_connection(("127.0.0.1", port), 5) as s:
                    body = b'{"prompt": "ROMEO:", "max_tokens": 3}'
                    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                    answer = b""
                    while piece := s.recv(65536):
                        answer += piece
                if answer.startswith(b"HTTP/1.1 200"):
                    return None
            except OSError:
                pass
            time.sleep(0.05)
        self.fail("neither served nor ended")


@unittest.skipIf(kvik.SANITIZED, "a sanitizer's runtime has to be the first library")
class ClockSteps(unittest.TestCase):
    DAY = 24 * 3600

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        path = os.path.join(self.folder, "clock")
        with open(path, "wb") as f:
            f.write(bytes(8))
        file = os.open(path, os.O_RDWR)
        self.clock = mmap.mmap(file, 8)
        os.close(file)
        self.env = {"LD_PRELOAD": preload.library(preload.STEPS_CLOCK), "CLOCK_STEP": path}

    def step(self, seconds):
        self.clock[:8] = struct.pack("<q", seconds)

    def test_a_clock_that_is_set_changes_no_answer_and_stops_nothing(self):
        flags = (*FLAGS, "--disk", f"{self.folder}/disk", "--disk-size", "64MiB", "--shared", f"{self.folder}/shared")
        want = kvik.demo_text(kvik.greedy("demo", TOKENS, 30)).decode()
        with Server("demo", *flags, env=self.env) as server:
            for seconds in (0, 400 * self.DAY, -400 * self.DAY, 30_000 * self.DAY, 3600, -int(time.time()) + 5, 0):
                connection, answer = server.open_stream("ROMEO:", max_tokens=200, ignore_eos=True)
                self.assertTrue(answer.readline())
                self.step(seconds)  # in the middle of a stream
                last = [e for e in events(answer)][-1]
                connection.close()
                self.assertEqual(last, "[DONE]")
                begin = time.monotonic()
                got = server.complete(TOKENS, max_tokens=30, ignore_eos=True)
                self.assertEqual(got["choices"][0]["text"], want)
                self.assertLess(abs(got["created"] - time.time() - seconds), 100, "the clock was set")
                self.assertLess(time.monotonic() - begin, 20)
                self.assertEqual(server.get("/health").status, 200)
                response = server.post("/v1/responses", {"input": "Speak.", "max_output_tokens": 3}).json["id"]
                self.assertEqual(server.get(f"/v1/responses/{response}").status, 200)
            self.assertEqual(server.stop(), 0)
        self.step(-1000 * self.DAY)  # data written in the future is still read
        with Server("demo", *flags, env=self.env) as server:
            again = server.complete(TOKENS, max_tokens=30, ignore_eos=True)
            self.assertEqual(again["choices"][0]["text"], want)
            self.assertGreater(again["usage"]["prompt_tokens_details"]["cached_tokens"], 500)
            self.assertEqual(server.get(f"/v1/responses/{response}").status, 200)


class Kills(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def check_kills(self, tier, *flags):
        rng = random.Random(7)
        prompts = [kvik.random_tokens(400 + 64 * i, kvik.DEMO_BOS, i) for i in range(4)]
        want = [kvik.demo_text(kvik.greedy("demo", p, 6)).decode() for p in prompts]
        for _ in range(8):
            with Server("demo", *FLAGS, *flags) as server:
                for i in rng.sample(range(4), 2):
                    self.assertEqual(server.complete(prompts[i], max_tokens=6, ignore_eos=True)["choices"][0]["text"], want[i])
                time.sleep(rng.random() / 20)
                server.process.kill()  # while pages are being written
                server.process.wait()
        with Server("demo", *FLAGS, *flags) as server:
            cached = 0
            for prompt, text in zip(prompts, want):
                got = server.complete(prompt, max_tokens=6, ignore_eos=True)
                self.assertEqual(got["choices"][0]["text"], text)
                cached += got["usage"]["prompt_tokens_details"]["cached_tokens"]
            self.assertGreater(cached, 400)
            self.assertEqual(server.metrics().value("kvik_tier_misses_total", tier=tier, reason="damaged"), 0)

    def test_kills_while_a_shared_folder_is_written_leave_whole_pages_alone(self):
        self.check_kills("shared", "--shared", self.folder)

    @unittest.skipUnless(shutil.which("redis-server"), "no redis-server here")
    def test_kills_while_redis_is_written_leave_whole_pages_alone(self):
        path = os.path.join(self.folder, "redis.sock")
        redis = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not os.path.exists(path):
                time.sleep(0.02)
            self.check_kills("redis", "--redis", f"unix://{path}")
        finally:
            redis.kill()
            redis.wait()


class Hangup(unittest.TestCase):
    def test_a_hangup_under_load_finishes_what_runs_and_takes_nothing_new(self):
        n = 12
        with Server("demo", "--threads", 2, "--kv-memory", "64MiB") as server:
            streams = [server.open_stream("ROMEO:", max_tokens=150, ignore_eos=True, seed=i) for i in range(n)]
            ended, odd = [], []
            stop = threading.Event()

            def read(stream):
                connection, answer = stream
                ended.append(b"".join(answer))
                connection.close()

            def push():
                while not stop.is_set():
                    try:
                        status = server.post("/v1/completions", {"prompt": "x", "max_tokens": 1}, timeout=30).status
                        if status not in (200, 503):
                            odd.append(status)
                    except OSError:
                        time.sleep(0.01)
                    except Exception as e:  # a truncated answer
                        if server.process.poll() is None:
                            odd.append(repr(e))

            threads = [threading.Thread(target=read, args=(s,)) for s in streams] + [threading.Thread(target=push) for _ in range(3)]
            for t in threads:
                t.start()
            server.interrupt(signal.SIGHUP)
            self.assertEqual(server.process.wait(40), 0, server.said())
            stop.set()
            for t in threads:
                t.join(30)
            self.assertEqual(odd, [])
            self.assertEqual(len(ended), n)
            for text in ended:
                self.assertIn(b'"finish_reason":"length"', text)
                self.assertTrue(text.endswith(b"data: [DONE]\n\n"), text[-100:])


if __name__ == "__main__":
    unittest.main()
