"""Tests GPU failures: they cause one sentence and exit code 1, and data written by tiers remains.

Most tests use the whole program with a GPU simulated on the host (tests/host_run_program/). Tests of failures before a GPU is opened use the
program itself with a fake driver (tests/fake_driver/).
"""
import http.client
import json
import os
import re
import shutil
import signal
import tempfile
import time
import unittest
from unittest import mock

import kvik
import program
from server import Server

TESTS = os.path.join(os.environ.get("KVIK_BUILD", os.path.join(kvik.ROOT, "build")), "tests")
MODEL = "synthetic:test-llama:q4_0"
N_VOCAB = 260
PROMPT = kvik.random_tokens(70, N_VOCAB, 1)
OTHER = kvik.random_tokens(40, N_VOCAB, 2)
LEAN = ("--ctx", 512, "--kv-memory", "16MiB", "--max-running", 1, "--threads", 1, "--speculate", "off")
ON_GPU = ("--device", "cuda", *LEAN)
MIB = 1 << 20
SPARE = 512 * MIB  # memory of the GPU that no plan uses
SEEN_AS_EXPERIMENTAL = "GPU support is experimental"
GONE = "the GPU is gone: asked to be, in a test: cannot continue without the GPU"


class HostRun(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kvik-cuda-faults-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        on_host = mock.patch.object(program, "BINARY", os.path.join(TESTS, "kvik_on_host_run"))
        on_host.start()
        self.addCleanup(on_host.stop)

    def path(self, name):
        return os.path.join(self.folder, name)

    def touch(self, name):
        with open(self.path(name), "wb"):
            pass

    def serve(self, env):
        """Starts a server that must exit by itself at once."""
        return kvik.run("serve", MODEL, "--port", 0, *ON_GPU, env=env, timeout=60)

    def assert_refused(self, done, sentence):
        """Checks that the program exits with one sentence, after the lines that every start prints."""
        self.assertEqual((done.returncode, done.stdout), (1, b""), done.stderr)
        *before, last = done.stderr.decode().splitlines()
        self.assertRegex(last, sentence)
        self.assertEqual([line for line in before if " info " not in line and SEEN_AS_EXPERIMENTAL not in line], [])

    def assert_ended(self, server, sentence):
        """Checks that the server exits by itself with exit code 1, and that its last line gives the reason."""
        self.assertEqual(server.process.wait(30), 1, server.said())
        *before, last = server.said().splitlines()
        self.assertRegex(last, f" error {sentence}$")
        self.assertEqual([line for line in before if " error " in line], [])

    def send(self, server, **fields):
        """Returns a connection on which a completion was requested."""
        body = json.dumps({"temperature": 0, "ignore_eos": True, **fields}).encode()
        connection = server.connect()
        self.addCleanup(connection.close)
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return connection

    def plan_bytes(self):
        """Returns the memory that a rejected server reports as needed, rounded down."""
        done = self.serve({"KVIK_HOST_RUN_MEMORY": "1MiB"})
        size = re.search(r"take ([\d.]+) MiB of the memory of cuda/host run", done.stderr.decode())
        self.assertTrue(size, done.stderr)
        return int(float(size[1]) * MIB)


def rest_of(connection):
    """Reads until the other side closes the connection properly; a reset raises an exception."""
    out = b""
    while piece := connection.recv(65536):
        out += piece
    return out


class TheWholeServer(HostRun):
    def test_the_live_view_names_the_device(self):
        with Server(MODEL, *ON_GPU) as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            connection.request("GET", "/kvik/live")
            event = next(line for line in connection.getresponse() if line.startswith(b"data: "))
            connection.close()
            self.assertEqual(json.loads(event[6:])["backend"], "cuda/host run")

    def test_tokens_are_those_of_the_processor(self):
        for model in (MODEL, "synthetic:test-qwen35:q8_0"):
            with self.subTest(model=model):
                self.assertEqual(kvik.greedy(model, PROMPT, 6, device="cuda"), kvik.greedy(model, PROMPT, 6))

    def test_there_is_one_gpu(self):
        done = kvik.run("run", MODEL, "--tokens", "5", "--device", "cuda:1")
        self.assert_refused(done, "^kvik: there is no GPU 1: the machine has 1, counted from 0$")


class Disappearing(HostRun):
    def test_while_serving_ends_the_server_and_the_disk_keeps_what_was_written(self):
        disk = ("--disk", self.path("disk"), "--disk-size", "64MiB")
        with Server(MODEL, *ON_GPU, *disk, env={"KVIK_HOST_RUN_GONE": self.path("gone")}) as server:
            first = server.complete(PROMPT, max_tokens=6, ignore_eos=True)
            deadline = time.monotonic() + 30
            while server.metrics().value("kvik_tier_pages") < len(PROMPT) // 32:
                self.assertLess(time.monotonic(), deadline, "nothing is written")
                time.sleep(0.02)
            connection = self.send(server, prompt=OTHER, max_tokens=400, stream=True)
            read = b""
            while read.count(b"data: ") < 2:
                read += connection.recv(65536)
            self.touch("gone")
            read += rest_of(connection)
            self.assertNotIn(b"[DONE]", read)
            self.assert_ended(server, GONE)
        with Server(MODEL, *LEAN) as server:
            self.assertEqual(server.text(PROMPT, max_tokens=6, ignore_eos=True), first["choices"][0]["text"])
        with Server(MODEL, *LEAN, *disk) as server:
            again = server.complete(PROMPT, max_tokens=6, ignore_eos=True)
            self.assertGreaterEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], len(PROMPT) // 32 * 32)
            self.assertEqual(again["choices"][0]["text"], first["choices"][0]["text"])
        self.assertEqual(kvik.run("cache", "verify", self.path("disk")).returncode, 0)

    def test_at_any_launch_is_one_sentence(self):
        for n in (0, 1, 7, 30, 60, 100):
            with self.subTest(launches=n):
                done = kvik.run("run", MODEL, "--tokens", kvik.joined(PROMPT[:5]), "--max-tokens", 8, "--temperature", 0, "--ids", "--ignore-eos",
                                "--device", "cuda", env={"KVIK_HOST_RUN_GONE_AFTER": n})
                self.assertEqual(done.returncode, 1, done.stderr)
                *before, last = done.stderr.decode().splitlines()
                self.assertTrue(last.endswith(" error " + GONE), last)
                self.assertEqual([line for line in before if SEEN_AS_EXPERIMENTAL not in line], [])


class Memory(HostRun):
    def test_a_model_that_does_not_fit_is_refused_before_it_is_loaded(self):
        done = self.serve({"KVIK_HOST_RUN_MEMORY": SPARE + 10 * MIB})
        self.assert_refused(done, r"^kvik: the model, its pages and buffers take [\d.]+ MiB of the memory of cuda/host run, of which 10.00 MiB are "
                                  r"free: less --kv-memory or --ctx, or --device cpu$")

    def test_a_run_whose_weights_do_not_fit_is_refused(self):
        done = kvik.run("run", MODEL, "--tokens", "5", "--device", "cuda", env={"KVIK_HOST_RUN_MEMORY": "30KiB"})
        self.assert_refused(done, r"^kvik: synthetic:test-llama:q4_0: there are no \d+ more bytes of the GPU's memory: .+$")

    def test_that_is_used_up_while_growing_ends_the_server(self):
        with Server(MODEL, *ON_GPU, env={"KVIK_HOST_RUN_FULL": self.path("full")}) as server:
            self.touch("full")
            self.assertEqual(rest_of(self.send(server, prompt=PROMPT, max_tokens=6)), b"")
            self.assert_ended(server, r"there are no \d+ more bytes of the GPU's memory: .+: cannot continue without the GPU")

    def test_two_processes_share_what_one_gpu_has(self):
        env = {"KVIK_HOST_RUN_SHARED": self.path("shared"), "KVIK_HOST_RUN_MEMORY": SPARE + self.plan_bytes() + 4 * MIB}
        for how_it_ends in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(signal=how_it_ends), Server(MODEL, *ON_GPU, env=env) as first:
                text = first.text(PROMPT, max_tokens=4, ignore_eos=True)
                done = self.serve(env)
                self.assert_refused(done, r"^kvik: the model, its pages and buffers take [\d.]+ MiB of the memory of cuda/host run, of which "
                                          r"[\d.]+ MiB are free: .+$")
                self.assertEqual(first.text(PROMPT, max_tokens=4, ignore_eos=True), text)
                first.interrupt(how_it_ends)
                first.process.wait(30)
                with Server(MODEL, *ON_GPU, env=env) as second:
                    self.assertEqual(second.text(PROMPT, max_tokens=4, ignore_eos=True), text)


# Ways in which a driver can fail before there is a device: (behavior, message). NEWER stands for the CUDA version of the build.
DRIVERS = (
    ({"VERSION": 0}, "there is no NVIDIA driver here"),
    ({"VERSION": 11080}, "the driver supports CUDA 11, expected NEWER or later"),
    ({"VERSION": 12090}, "the driver supports CUDA 12, expected NEWER or later"),
    ({"INIT": 35}, "CUDA driver version is insufficient for CUDA runtime version"),
    ({"INIT": 100}, "no CUDA-capable device is detected"),
    ({"INIT": 2}, "the driver reports 'out of memory'"),
    ({"INIT": 46}, "the driver reports 'CUDA-capable device(s) is/are busy or unavailable'"),
    ({"INIT": 214}, "the driver reports 'uncorrectable ECC error encountered'"),
    ({"INIT": 802}, "the driver reports 'system not yet initialized'"),
    ({"INIT": 803}, "the driver reports 'system has unsupported display driver / cuda driver combination'"),
    ({"INIT": 999}, "the driver reports 'unknown error'"),
    ({"INIT": 12345}, "the driver reports 'unrecognized error code'"),
    ({"LACKS": "all"}, "there is no NVIDIA driver here"),
    ({"LACKS": "cuDriverGetVersion"}, "there is no NVIDIA driver here"),
    ({"LACKS": "cuInit"}, "the driver reports 'API call is not supported in the installed CUDA driver'"),
    ({"LACKS": "cuGetExportTable"}, "the driver reports 'API call is not supported in the installed CUDA driver'"),
    # The device is lost after cuInit(), and the driver is not NVIDIA's.
    ({"TABLES": 46}, "the driver reports 'CUDA-capable device(s) is/are busy or unavailable'"),
    ({"TABLES": 719}, "the driver reports 'unspecified launch failure'"),
    ({}, "the driver reports 'named symbol not found'"),
)
RUN = ("run", "demo", "-p", "ROMEO:", "--max-tokens", 3, "--temperature", 0)


class FakeDriver(unittest.TestCase):
    def setUp(self):
        if b"has no GPU support" in kvik.run(*RUN, "--device", "cuda").stderr:
            self.skipTest("this build has no CUDA, and asks for no driver")

    def run_with(self, does, *args):
        env = {"LD_LIBRARY_PATH": os.path.join(TESTS, "fake_driver"), **{f"KVIK_FAKE_DRIVER_{name}": value for name, value in does.items()}}
        return kvik.run(*args, env=env, timeout=60)

    def test_a_driver_of_no_use_is_one_sentence(self):
        for does, output in DRIVERS:
            for command in (RUN, ("serve", "demo", "--port", 0)):
                with self.subTest(does=does, command=command[0]):
                    done = self.run_with(does, *command, "--device", "cuda")
                    sentence = re.escape(f"kvik: no GPU can be used: {output}\n").replace("NEWER", r"1[3-9]")
                    self.assertEqual((done.returncode, done.stdout), (1, b""), done.stderr)
                    self.assertRegex(done.stderr.decode(), rf"\A{sentence}\Z")

    def test_the_processor_computes_without_asking_for_one(self):
        self.assertEqual(self.run_with({"ABORTS": 1}, *RUN, "--device", "cuda").returncode, -signal.SIGABRT)  # the driver is found
        self.assertEqual(self.run_with({"ABORTS": 1}, *RUN).stdout, kvik.output(*RUN))

    def test_an_invalid_library_is_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "libcuda.so.1"), "wb") as f:
                f.write(b"no library")
            done = kvik.run(*RUN, "--device", "cuda", env={"LD_LIBRARY_PATH": folder})
        self.assertEqual((done.returncode, done.stderr), (1, b"kvik: no GPU can be used: there is no NVIDIA driver here\n"))


if __name__ == "__main__":
    unittest.main()
