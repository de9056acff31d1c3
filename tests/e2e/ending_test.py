"""Tests the end of the process: signals at any moment, tiers that do not answer, a second signal."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import kvik
import preload
from server import Server

PROMPT = "ROMEO: " + "what light through yonder window breaks " * 40
TIERS_END_S = 10  # seconds that the server waits for its tiers
SLACK_S = 8  # tolerance for a loaded machine
# Signals that request the end, except SIGINT, and signals that have no meaning for a server.
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGXCPU, signal.SIGPWR)
MEANINGLESS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGXFSZ, signal.SIGPIPE,
               signal.SIGRTMIN, signal.SIGRTMIN + 5, signal.SIGRTMAX)


class SlowRedis:
    """A Redis server that answers each command after a pause and never with an error."""

    def __init__(self, pause_s):
        self.pause_s = pause_s
        self.n_commands = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with connection, connection.makefile("rb") as lines:
                while head := lines.readline():
                    words = [lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
                    self.n_commands += 1
                    if words[0] != b"SELECT":
                        time.sleep(self.pause_s)
                    connection.sendall(b":1\r\n" if words[0] in (b"SADD", b"DBSIZE") else b"+OK\r\n")
        except (OSError, ValueError):
            pass

    def close(self):
        self.listener.close()


def fill(server):
    """Sends a prompt of about 30 pages and waits until the first page is being written."""
    server.complete(PROMPT, max_tokens=1)
    time.sleep(0.5)


@unittest.skipIf(kvik.SANITIZED, "a sanitizer's runtime has to be the first library")
class EarlySignals(unittest.TestCase):
    def ended_by(self, number, *args):
        env = kvik.environment(LD_PRELOAD=preload.library(preload.RAISES_EARLY), RAISE=int(number))
        return subprocess.run(kvik.command(*args), capture_output=True, env=env, timeout=60).returncode

    def test_a_signal_while_libraries_are_initialized_ends_with_130(self):
        for number in (signal.SIGINT, *ENDING):
            with self.subTest(signal=number):
                self.assertEqual(self.ended_by(number, "--version"), 130)

    def test_signals_that_mean_nothing_are_ignored_from_the_beginning(self):
        for number in MEANINGLESS:
            with self.subTest(signal=number):
                self.assertEqual(self.ended_by(number, "--version"), 0)


class EverySignal(unittest.TestCase):
    def test_a_server_ignores_signals_that_mean_nothing(self):
        with Server("demo") as server:
            for number in MEANINGLESS:
                server.interrupt(number)
            self.assertTrue(server.text("ROMEO:", max_tokens=3))
            self.assertEqual(server.stop(), 0)

    def test_each_signal_that_asks_for_the_end_drains_the_server(self):
        for number in ENDING:
            with self.subTest(signal=number), Server("demo") as server:
                connection, answer = server.open_stream("ROMEO:", max_tokens=300, ignore_eos=True)
                self.assertTrue(answer.readline())
                server.interrupt(number)
                text = answer.read()
                connection.close()
                self.assertIn(b'"finish_reason":"length"', text)
                self.assertTrue(text.endswith(b"data: [DONE]\n\n"), text[-100:])
                self.assertEqual(server.process.wait(30), 0, server.said())

    def test_the_end_of_processor_time_is_one_request_to_end_however_often_it_is_said(self):
        with Server("demo") as server:
            connection, answer = server.open_stream("ROMEO:", max_tokens=300, ignore_eos=True)
            self.assertTrue(answer.readline())
            server.interrupt(signal.SIGXCPU)
            while "draining" not in server.said():
                time.sleep(0.02)
            server.interrupt(signal.SIGXCPU)
            text = answer.read()
            connection.close()
            self.assertIn(b'"finish_reason":"length"', text)
            self.assertEqual(server.process.wait(30), 0, server.said())

    def test_a_quit_that_the_caller_ignores_is_ignored(self):
        before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)  # inherited by child processes
        try:
            server = Server("demo")
        finally:
            signal.signal(signal.SIGQUIT, before)
        with server:
            server.interrupt(signal.SIGQUIT)
            self.assertTrue(server.text("ROMEO:", max_tokens=3))
            self.assertEqual(server.stop(), 0)

    @unittest.skipIf(kvik.SANITIZED, "a sanitizer reports faults itself")
    def test_a_fault_ends_the_process_as_the_system_has_it(self):
        for number in (signal.SIGSEGV, signal.SIGABRT):
            with self.subTest(signal=number), Server("demo") as server:
                server.interrupt(number)
                self.assertEqual(server.process.wait(30), -number)


class HangingTiers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def ends(self, server, first=signal.SIGTERM):
        """Returns the seconds from the first signal to the end, and the exit code."""
        begin = time.monotonic()
        server.interrupt(first)
        try:
            code = server.process.wait(TIERS_END_S + SLACK_S)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()
            self.fail(f"the server still ran {TIERS_END_S + SLACK_S} s after the signal: {server.said()[-1000:]}")
        return time.monotonic() - begin, code

    def slow_redis(self):
        redis = SlowRedis(1.5)
        self.addCleanup(redis.close)
        return redis

    def stalled(self):
        return {"LD_PRELOAD": preload.library(preload.STALLS), "STALLED": self.folder}

    def test_a_slow_redis_does_not_keep_the_server_from_ending(self):
        redis = self.slow_redis()
        with Server("demo", "--redis", redis.url) as server:
            fill(server)
            self.assertGreater(redis.n_commands, 1)
            _, code = self.ends(server)
            self.assertEqual(code, 0, server.said())

    def test_a_second_signal_ends_the_server_at_once_with_130(self):
        redis = self.slow_redis()
        with Server("demo", "--redis", redis.url) as server:
            fill(server)
            server.interrupt(signal.SIGTERM)
            while "draining" not in server.said():
                time.sleep(0.02)
            seconds, code = self.ends(server)
            self.assertEqual(code, 130, server.said())
            self.assertLess(seconds, 2)

    def test_a_second_signal_does_not_wait_for_requests(self):
        with Server("demo", env={"KVIK_ISA": "scalar"}) as server:
            connection, answer = server.open_stream("ROMEO:", max_tokens=900, ignore_eos=True)
            self.assertTrue(answer.readline())
            server.interrupt(signal.SIGINT)
            while "draining" not in server.said():
                time.sleep(0.02)
            seconds, code = self.ends(server, signal.SIGINT)
            connection.close()
            self.assertEqual(code, 130, server.said())
            self.assertLess(seconds, 1)

    @unittest.skipIf(kvik.SANITIZED, "a sanitizer's runtime has to be the first library")
    def test_a_hung_shared_folder_does_not_keep_the_server_from_ending(self):
        with Server("demo", "--shared", self.folder, env=self.stalled()) as server:
            fill(server)
            _, code = self.ends(server)
            self.assertEqual(code, 0, server.said())

    @unittest.skipIf(kvik.SANITIZED, "a sanitizer's runtime has to be the first library")
    def test_a_run_ends_though_its_shared_folder_hangs(self):
        args = ("run", "demo", "-p", PROMPT, "--max-tokens", 3, "--temperature", 0, "--shared", self.folder)
        want = kvik.output(*args[:-2])
        done = subprocess.run(kvik.command(*args), capture_output=True, env=kvik.environment(**self.stalled()),
                              timeout=TIERS_END_S + SLACK_S + 10)
        self.assertEqual((done.returncode, done.stdout), (0, want), done.stderr)


if __name__ == "__main__":
    unittest.main()
