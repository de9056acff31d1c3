"""Tests the process's environment: closed, full or abandoned streams, signals, and threads that cannot be started.

Exit codes are as documented: 0; 1 failed; 2 wrong usage; 130 interrupted.
"""
import http.client
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import kvik
from server import Server, free_port

RUN = ("run", "demo", "-p", "ROMEO:", "--max-tokens", 5, "--seed", 1)
PRINTING = (RUN, (*RUN, "--ids"), ("show", "demo"), ("tokenize", "demo", "ROMEO:"), ("plan", "demo"), ("logits", "demo", "--tokens", "1"),
            ("--help",), ("run", "--help"), ("--version",))
SLOW_TO_LOAD = "synthetic:llama-3.2-1b:q4_k"  # takes seconds
NO_SPACE, BAD_DESCRIPTOR = b"No space left on device", b"Bad file descriptor"


def call(*args, streams="", **options):
    """Runs a command with redirections of the shell, such as 2>/dev/full."""
    return subprocess.run(["bash", "-c", f'exec "$0" "$@" {streams}', *kvik.command(*args)], stdin=subprocess.DEVNULL, capture_output=True,
                          env=kvik.environment(), timeout=60, **options)


class Streams(unittest.TestCase):
    def test_a_stdout_that_takes_nothing_is_a_failure_that_says_why(self):
        for streams, why in ((">/dev/full", NO_SPACE), (">&-", BAD_DESCRIPTOR)):
            for args in PRINTING:
                with self.subTest(args=args, streams=streams):
                    done = call(*args, streams=streams)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(b"stdout: " + why, done.stderr)
                    self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)

    def test_a_stderr_that_takes_nothing_changes_no_exit_code(self):
        for streams in ("2>/dev/full", "2>&-"):
            for code, args in ((1, ("show", "/nonexistent")), (2, ("sing",)), (2, ("run", "demo", "--threads", "x")), (0, ("show", "demo")),
                               (0, (*RUN, "--stats"))):
                with self.subTest(args=args, streams=streams):
                    self.assertEqual(call(*args, streams=streams).returncode, code)

    def test_without_any_stream_exit_codes_are_those_documented(self):
        for code, args in ((1, ("show", "/nonexistent")), (2, ("sing",)), (1, ("show", "demo")), (1, RUN)):
            with self.subTest(args=args):
                self.assertEqual(call(*args, streams="<&- >&- 2>&-").returncode, code)

    def test_no_file_gets_what_a_closed_stream_was_meant_to_get(self):
        with tempfile.TemporaryDirectory() as folder:
            call(*RUN, "--disk", folder, "--stats", streams="<&- >&- 2>&-")
            self.assertEqual(kvik.run("cache", "verify", folder).returncode, 0)

    def test_a_reader_that_leaves_ends_it_without_a_word(self):
        for args in (("show", "demo"), (*RUN, "--ids"), ("logits", "demo", "--tokens", "1,2,3", "--all")):
            with self.subTest(args=args), subprocess.Popen(kvik.command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                           env=kvik.environment()) as process:
                process.stdout.close()
                process.stdout = None
                self.assertEqual((process.wait(60), process.stderr.read()), (0, b""))


class UnreadLog(unittest.TestCase):
    """Tests with stderr as a full pipe that no process reads."""

    def setUp(self):
        self.reader, self.writer = os.pipe()
        self.addCleanup(os.close, self.reader)
        os.set_blocking(self.writer, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(self.writer, b"x" * 4096)
        os.set_blocking(self.writer, True)

    def test_the_server_serves_and_stops(self):
        with Server("demo", log=os.fdopen(self.writer, "wb")) as server:
            self.assertTrue(server.text("ROMEO:", max_tokens=3))
            self.assertEqual(server.stop(), 0)

    def test_a_reader_who_comes_back_is_told_what_is_missing(self):
        os.set_blocking(self.reader, False)
        with Server("demo", log=os.fdopen(self.writer, "wb")) as server:
            self.assertEqual(os.read(self.reader, 1 << 20).strip(b"x"), b"")
            self.assertEqual(server.stop(), 0)
        lines = os.read(self.reader, 1 << 20).decode().splitlines()
        self.assertRegex(lines[0], r"\d+ log lines were dropped because stderr was not read in time")
        self.assertIn("stopped", lines[-1])


class Signals(unittest.TestCase):
    def test_a_port_of_a_server_that_still_loads_fails_at_once(self):
        port, log = free_port(), tempfile.TemporaryFile()
        loading = subprocess.Popen(kvik.command("serve", SLOW_TO_LOAD, "--ctx", 512, "--kv-memory", "256MiB", "--port", port),
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=kvik.environment())
        try:
            answer = self.first_answer(port)
            self.assertEqual((answer["status"], answer["message"][:26]), ("loading", "the model is being loaded:"))
            self.assertLess(answer["progress"], 1)
            begin = time.monotonic()
            done = kvik.run("serve", SLOW_TO_LOAD, "--ctx", 512, "--kv-memory", "256MiB", "--port", port)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"kvik: cannot listen on 127.0.0.1:{port}: Address already in use".encode(), done.stderr)
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
            self.assertLess(time.monotonic() - begin, 2)
            loading.terminate()
            self.assertEqual(loading.wait(30), 130)
        finally:
            loading.kill()
            loading.wait()
            log.close()

    def first_answer(self, port):
        """Returns the JSON of the first answer of /health; connections are refused until the port is bound."""
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                connection.request("GET", "/health")
                answer = connection.getresponse()
                self.assertEqual(answer.status, 503)
                return json.loads(answer.read())
            except ConnectionRefusedError:
                time.sleep(0.01)
            finally:
                connection.close()

    def test_a_hangup_that_the_caller_ignores_is_ignored(self):
        process = subprocess.Popen(["nohup", *kvik.command("serve", "demo", "--port", free_port())], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=kvik.environment())
        try:
            while b"listening" not in (line := process.stderr.readline()):
                self.assertTrue(line)
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(30), 0)
            self.assertIn(b"stopped", process.stderr.read())
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def test_each_signal_that_ends_a_run_ends_it_with_130(self):
        slow = ("run", "demo", "-p", "ROMEO:", "--max-tokens", 900, "--ignore-eos", "--no-cache")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number), subprocess.Popen(kvik.command(*slow), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                               env=kvik.environment(KVIK_ISA="scalar")) as process:
                self.assertTrue(process.stdout.read(1))
                process.send_signal(number)
                process.communicate(timeout=30)
                self.assertEqual(process.returncode, 130)


@unittest.skipIf(kvik.SANITIZED, "a sanitizer's own beginning needs a stack of a size that is to be had")
class Threads(unittest.TestCase):
    def test_threads_that_are_not_to_be_had_are_a_failure_in_one_sentence(self):
        """A stack size larger than the memory of any machine makes the system refuse every thread."""
        def no_threads():
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 46, resource.RLIM_INFINITY))

        with tempfile.TemporaryDirectory() as folder:
            for args in (RUN, (*RUN, "--threads", 1), (*RUN, "--threads", 1, "--disk", folder), ("logits", "demo", "--tokens", "1", "--threads", 2),
                         ("serve", "demo", "--port", 0, "--threads", 1), ("bench", "demo", "--prefill", 8, "--decode", 0, "--threads", 2)):
                with self.subTest(args=args):
                    done = subprocess.run(kvik.command(*args), stdin=subprocess.DEVNULL, capture_output=True, env=kvik.environment(),
                                          timeout=60, preexec_fn=no_threads)
                    output = done.stderr.splitlines()
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(b"cannot start a thread", output[-1])
                    self.assertEqual([line for line in output[:-1] if b" info " not in line], [])


class AccessLog(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.pipe = os.path.join(folder.name, "pipe")
        os.mkfifo(self.pipe)

    def test_a_pipe_that_nobody_reads_is_refused(self):
        done = kvik.run("serve", "demo", "--port", 0, "--access-log", self.pipe, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"the pipe has no reader", done.stderr)

    def test_a_folder_that_is_missing_is_not_made(self):
        missing = os.path.join(os.path.dirname(self.pipe), "none")
        done = kvik.run("serve", "demo", "--port", 0, "--access-log", missing + "/access.jsonl", timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(missing.encode(), done.stderr)
        self.assertFalse(os.path.exists(missing))

    def test_a_stalled_log_reader_blocks_no_request(self):
        reader = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            with Server("demo", "--access-log", self.pipe) as server:
                for i in range(600):  # more than the capacity of a pipe
                    self.assertEqual(server.get("/nowhere/" + "x" * 150).status, 404)
                started = time.monotonic()
                self.assertEqual(server.stop(), 0)
                self.assertLess(time.monotonic() - started, 10)
            lines = os.read(reader, 1 << 20)
            self.assertIn(b'"path":"/nowhere/x', lines)
        finally:
            os.close(reader)

    def test_a_reader_that_leaves_ends_nothing(self):
        reader = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK)
        with Server("demo", "--access-log", self.pipe) as server:
            os.close(reader)
            for _ in range(20):
                self.assertEqual(server.get("/health").status, 200)
            self.assertEqual(server.stop(), 0)
            self.assertEqual(server.said().count("the access log: Broken pipe"), 1)


if __name__ == "__main__":
    unittest.main()
