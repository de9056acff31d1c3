"""Runs `kvik serve` as systemd does: with a notify socket, a watchdog, and a listening socket that the service manager keeps."""
import ctypes
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import kvik

FLAGS = ("--threads", "1", "--kv-memory", "64MiB")
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
LIBC = ctypes.CDLL(None, use_errno=True)


class Manager:
    """A service manager that starts one process and receives its messages."""

    def __init__(self, *args, watchdog_s=None, passed=None, env=None):
        self.folder = tempfile.mkdtemp()
        path = os.path.join(self.folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        variables = {"NOTIFY_SOCKET": path, **(env or {})}
        if watchdog_s:
            variables["WATCHDOG_USEC"] = int(watchdog_s * 1e6)
        command = kvik.command("serve", "demo", *FLAGS, *args)
        options = {}
        if passed is not None:
            variables |= {"LISTEN_FDS": 1, "LISTEN_FDNAMES": "kvik.socket"}
            # The shell makes the socket descriptor 3, and its process, of which LISTEN_PID is the id, becomes the server.
            command = ["bash", "-c", f'exec 3<&{passed.fileno()}; LISTEN_PID=$$ exec "$0" "$@"', *command]
            options["pass_fds"] = [passed.fileno()]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=kvik.environment(**variables),
                                        **options)
        self.messages = []

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def message(self, at_most):
        """Returns the next message, or None if none arrives in time."""
        self.socket.settimeout(max(at_most, 1e-6))
        try:
            self.messages.append(self.socket.recv(4096).decode())
            return self.messages[-1]
        except TimeoutError:
            return None

    def wait_for(self, assignment, at_most=60):
        """Returns the message that has this assignment."""
        end = time.monotonic() + at_most
        while time.monotonic() < end:
            message = self.message(min(0.2, end - time.monotonic()))
            if message and assignment in message.split("\n"):
                return message
            if message is None and self.process.poll() is not None:
                break
        raise AssertionError(f"no {assignment} in {self.messages}: {self.said()}")

    def port(self):
        return int(re.search(r"listening on https?://\S+:(\d+)", self.said())[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.socket.close()
        self.log.close()
        shutil.rmtree(self.folder)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def get(connection, path="/health"):
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def complete(port, prompt, stream=False):
    """Sends a completion request and returns the connection and the answer, of which only the header is read."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = f'{{"prompt": "{prompt}", "max_tokens": 40, "temperature": 0, "ignore_eos": true, "stream": {str(stream).lower()}}}'
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    return connection, connection.getresponse()


def threads_named(pid, name):
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm") as f:
            if f.read().strip() == name:
                yield int(task)


class Hang:
    """Stops one thread of a child process, as a deadlock would."""

    def __init__(self, thread):
        self.thread = thread
        for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
            if LIBC.ptrace(request, thread, None, None) != 0:
                raise unittest.SkipTest(f"ptrace is not allowed here: {os.strerror(ctypes.get_errno())}")
        os.waitpid(thread, 0x40000000)  # __WALL

    def end(self):
        LIBC.ptrace(PTRACE_DETACH, self.thread, None, None)


class Notifications(unittest.TestCase):
    def test_loading_readiness_and_the_end_are_reported(self):
        with Manager("--port", 0) as manager:
            ready = manager.wait_for("READY=1")
            self.assertIn(f"STATUS=serving demo on http://127.0.0.1:{manager.port()}", ready.split("\n"))
            loading = [m for m in manager.messages if m.startswith("STATUS=loading ")]
            self.assertTrue(loading, manager.messages)
            for message in loading:
                self.assertRegex(message, r"^STATUS=loading \d+%\nEXTEND_TIMEOUT_USEC=\d+$")
            self.assertEqual(get(http.client.HTTPConnection("127.0.0.1", manager.port())), 200)
            # SIGTERM lets the running answer finish.
            connection, answer = complete(manager.port(), "ROMEO:", stream=True)
            answer.readline()
            manager.process.send_signal(signal.SIGTERM)
            self.assertIn("STATUS=draining", manager.wait_for("STOPPING=1"))
            self.assertIn(b"data: [DONE]", answer.read())
            connection.close()
            self.assertEqual(manager.process.wait(30), 0, manager.said())

    def test_a_start_that_fails_is_never_ready(self):
        with Manager("--port", 0, "--chat-template", "/nonexistent") as manager:
            self.assertNotEqual(manager.process.wait(30), 0)
            while manager.message(0.1):
                pass
            self.assertNotIn("READY=1", "\n".join(manager.messages).split("\n"))


class Watchdog(unittest.TestCase):
    def test_signs_of_life_stop_with_the_engine_thread(self):
        with Manager("--port", 0, watchdog_s=1) as manager:
            manager.wait_for("READY=1")
            for _ in range(4):  # an idle engine answers
                manager.wait_for("WATCHDOG=1", 1)
            [engine] = threads_named(manager.process.pid, "kvik-engine")
            hang = Hang(engine)
            try:
                manager.message(0.5)  # sent before
                while manager.message(0.01):
                    pass
                self.assertIsNone(manager.message(1.5), manager.said())
                self.assertEqual(get(http.client.HTTPConnection("127.0.0.1", manager.port()), "/livez"), 200)  # only the engine hangs
            finally:
                hang.end()
            manager.wait_for("WATCHDOG=1", 1)

    def test_a_busy_engine_is_alive(self):
        with Manager("--port", 0, watchdog_s=1) as manager:
            manager.wait_for("READY=1")
            ends = threading.Event()
            statuses = []

            def work():
                while not ends.is_set():
                    connection, answer = complete(manager.port(), f"ROMEO {len(statuses)}: " * 20)
                    answer.read()
                    statuses.append(answer.status)
                    connection.close()

            clients = [threading.Thread(target=work) for _ in range(2)]
            for client in clients:
                client.start()
            try:
                for _ in range(5):
                    manager.wait_for("WATCHDOG=1", 1)
            finally:
                ends.set()
                for client in clients:
                    client.join()
            self.assertGreater(len(statuses), 2)
            self.assertEqual(set(statuses), {200})


class SocketActivation(unittest.TestCase):
    def test_a_passed_socket_replaces_host_and_port(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            client.connect()
            client.request("GET", "/health")  # before the server exists; it is answered when the model is loaded
            with Manager("--port", 1, passed=listening) as manager:
                manager.wait_for("READY=1")
                self.assertEqual(manager.port(), port)
                self.assertEqual(client.getresponse().status, 200)
                client.close()
                manager.process.terminate()
                self.assertEqual(manager.process.wait(30), 0)
            # The manager still has the socket: clients wait for the next process.
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            client.connect()
            with Manager(passed=listening) as manager:
                manager.wait_for("READY=1")
                self.assertEqual(get(client), 200)

    def test_a_unix_domain_socket_serves_too(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
            path = os.path.join(folder, "kvik.sock")
            listening.bind(path)
            listening.listen()
            with Manager(passed=listening) as manager:
                self.assertIn(f"STATUS=serving demo on unix:{path}", manager.wait_for("READY=1").split("\n"))
                self.assertEqual(get(UnixConnection(path)), 200)

    def test_a_public_socket_needs_keys_as_a_public_host_does(self):
        with socket.create_server(("0.0.0.0", 0)) as listening:
            with Manager(passed=listening) as manager:
                self.assertEqual(manager.process.wait(30), 2)
                self.assertIn("0.0.0.0 is open to others", manager.said())
            with Manager("--allow-no-key", passed=listening) as manager:
                manager.wait_for("READY=1")

    def test_a_socket_that_does_not_listen_is_one_sentence(self):
        with socket.socket() as idle, Manager(passed=idle) as manager:
            self.assertEqual(manager.process.wait(30), 2)
            self.assertIn("descriptor 3 of LISTEN_FDS is not a listening stream socket", manager.said())


class Restart(unittest.TestCase):
    def test_the_cache_on_disk_is_warm_after_a_restart(self):
        prompt = "ROMEO: " + "But soft, what light through yonder window breaks? " * 20
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            cached = []
            for _ in range(2):
                with Manager("--disk", folder, "--disk-size", "64MiB", passed=listening) as manager:
                    manager.wait_for("READY=1")
                    connection, answer = complete(port, prompt)
                    cached.append(int(re.search(rb'"cached_tokens": ?(\d+)', answer.read())[1]))
                    connection.close()
                    manager.process.terminate()
                    manager.wait_for("STOPPING=1")
                    self.assertEqual(manager.process.wait(30), 0, manager.said())
        self.assertEqual(cached[0], 0)
        self.assertGreater(cached[1], 100)


if __name__ == "__main__":
    unittest.main()
