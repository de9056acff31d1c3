"""Tests memory held for clients apart from running requests: stored responses, silent connections, and texts that are only counted. All of it must
be within the memory that `kvik plan` reports."""
import http.client
import json
import resource
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

import kvik
from server import Answer, Server

MIB = 1 << 20
FLAGS = ("--threads", 1, "--kv-memory", "16MiB")
SLACK = 8 * MIB  # memory retained by the allocator


def planned(name):
    return json.loads(kvik.output("plan", "demo", "--threads", 1, "--json"))["buffers"][name]


def status(server, name):
    with open(f"/proc/{server.process.pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name))


def at_rest(server):
    """Returns the resident bytes after freed memory has been returned to the system."""
    least = status(server, "VmRSS")
    for _ in range(12):
        time.sleep(0.2)
        least = min(least, status(server, "VmRSS"))
    return least


class TlsServer(Server):
    def __init__(self, context, *flags):
        self.context = context
        super().__init__("demo", *flags)

    def connect(self, timeout=60):
        return self.context.wrap_socket(super().connect(timeout))

    def request(self, method, path, body=None, headers=None, timeout=60):
        with self.connect(timeout) as s:
            s.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            answer = http.client.HTTPResponse(s)
            answer.begin()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())


class HalfARecord:
    """A client that sends the first half of an encrypted message, and the rest on request."""

    def __init__(self, port, context, message):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing)
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.socket.sendall(self.outgoing.read())
                self.incoming.write(self.socket.recv(65536))
        self.tls.write(message)
        output = self.outgoing.read()
        self.rest = output[-20:]
        self.socket.sendall(output[:-20])

    def say_the_rest(self):
        self.socket.sendall(self.rest)
        while True:
            try:
                return self.tls.read(65536)
            except ssl.SSLWantReadError:
                self.incoming.write(self.socket.recv(65536))


@unittest.skipIf(kvik.SANITIZED, "a sanitizer takes memory of its own")
class Texts(unittest.TestCase):
    def test_38_texts_of_four_megabytes_take_a_few_times_their_bytes(self):
        size = 4 * MIB - 100
        texts = {"words": "to be or not " * (size // 13), "letters": "a b " * (size // 4), "one word": "a" * size,
                 "base64": "aGVsbG8Kd29y" * (size // 12), "Chinese": "我想" * (size // 6), "newlines": "\n" * (size // 2)}
        with Server("demo", *FLAGS) as server:
            server.post("/tokenize", {"content": "a b " * 100_000})
            for name, text in texts.items():
                for path, body in (("/tokenize", {"content": text}),
                                   ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": text}]})):
                    before = at_rest(server)
                    with open(f"/proc/{server.process.pid}/clear_refs", "w") as f:
                        f.write("5")  # resets the peak memory
                    body = json.dumps(body, ensure_ascii=False).encode()
                    self.assertEqual(server.post(path, body).status, 200)
                    most = 12 if name in ("words", "letters") else 24  # the other texts have no place to split them
                    self.assertLess(status(server, "VmHWM") - before, most * len(body), f"{path}: {name}")


@unittest.skipIf(kvik.SANITIZED, "a sanitizer takes memory of its own")
class KeptResponses(unittest.TestCase):
    def test_38_kept_responses_are_within_the_plan(self):
        """Five keys store ten times the capacity; the newest responses of each remain."""
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/keys", "w") as f:
                f.write("".join(f"key-{i} name-{i}\n" for i in range(5)))
            with Server("demo", *FLAGS, "--api-key-file", f"{folder}/keys") as server:
                output = [{"role": "user", "content": "x" * 20_000}] * 100 + [{"role": "user", "content": "x"}]
                body = {"input": output, "truncation": "auto", "max_output_tokens": 1}
                key = [{"Authorization": f"Bearer key-{i}"} for i in range(5)]
                server.post("/v1/responses", {**body, "store": False}, headers=key[0])
                before, newest = at_rest(server), {}
                for n in range(80):
                    answer = server.post("/v1/responses", body, headers=key[n % 5])
                    self.assertEqual(answer.status, 200, answer.body[:300])
                    newest[n % 5] = answer.json["id"]
                self.assertLess(at_rest(server) - before, planned("kept responses") + SLACK)
                for i in (3, 4):
                    self.assertEqual(server.get(f"/v1/responses/{newest[i]}", headers=key[i]).status, 200)
                    self.assertEqual(server.get(f"/v1/responses/{newest[i]}", headers=key[0]).status, 404)


@unittest.skipIf(kvik.SANITIZED, "a sanitizer takes memory of its own")
@unittest.skipIf(shutil.which("openssl") is None, "nothing makes a certificate")
class Encrypted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
        cls.addClassCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        cls.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        cls.context.check_hostname, cls.context.verify_mode = False, ssl.CERT_NONE

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        cert, key = f"{folder.name}/cert.pem", f"{folder.name}/key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-keyout", key, "-out", cert], check=True, capture_output=True)
        self.server = TlsServer(self.context, *FLAGS, "--tls-cert", cert, "--tls-key", key)
        self.addCleanup(self.server.__exit__)

    def held(self, kind):
        return self.server.metrics().value("kvik_request_memory_bytes", kind=kind)

    def test_38_four_thousand_idle_connections_are_within_the_plan(self):
        crowd = [self.server.connect() for _ in range(50)]
        for s in crowd:
            s.close()
        before = at_rest(self.server)
        crowd = []
        try:
            for _ in range(4096):
                crowd.append(self.server.connect())
            self.assertEqual(self.server.get("/health").status, 200)
            self.assertLess(status(self.server, "VmRSS") - before, planned("requests") / 4 + SLACK)
            self.assertGreater(self.server.metrics().value("kvik_http_connections"), 900)
        finally:
            for s in crowd:
                s.close()

    def test_38_records_that_come_in_part_are_counted(self):
        before = at_rest(self.server)
        crowd = []
        try:
            for _ in range(300):
                crowd.append(HalfARecord(self.server.port, self.context, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            deadline = time.monotonic() + 10
            while self.held("all") - self.held("connections") < 300 * (16 << 10) and time.monotonic() < deadline:
                time.sleep(0.1)
            self.assertGreater(self.held("all") - self.held("connections"), 300 * (16 << 10))
            self.assertLess(status(self.server, "VmRSS") - before, self.held("all") + SLACK)
            for one in crowd:
                self.assertIn(b"200 OK", one.say_the_rest())
            self.assertLess(self.held("all") - self.held("connections"), MIB)
        finally:
            for one in crowd:
                one.socket.close()


if __name__ == "__main__":
    unittest.main()
