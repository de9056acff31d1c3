"""Runs `kvik serve`, and has clients for it: plain, streaming, and raw."""
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time

import program
import prometheus


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class Stream:
    """The events of one streamed completion, read to the end."""

    def __init__(self, events):
        self.events = events
        chunks = [json.loads(e) for e in events if e != "[DONE]"]
        self.chunks = chunks
        self.choices = [c for chunk in chunks for c in chunk.get("choices", [])]
        self.text = "".join(c["text"] for c in self.choices)
        self.finish_reasons = [c["finish_reason"] for c in self.choices if c.get("finish_reason")]
        self.usage = next((c["usage"] for c in chunks if c.get("usage")), None)
        self.errors = [c["error"] for c in chunks if c.get("error")]


class Server:
    """with Server("demo", "--threads", 2) as server: …"""

    def __init__(self, model="demo", *flags, env=None, port=None, log=None, ready_s=60):
        self.port = port or free_port()
        self.log = log or tempfile.TemporaryFile()
        self.process = subprocess.Popen(program.command("serve", model, "--port", self.port, *flags), stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, env=program.environment(**(env or {})))
        try:
            self.wait_until_ready(ready_s)
        except BaseException:
            self.process.kill()
            raise

    def wait_until_ready(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"kvik serve ended with {self.process.returncode}: {self.said()}")
            try:
                if self.get("/health").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError("kvik serve was not ready in time")

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def stop(self, at_most=30):
        """Sends SIGINT and returns the exit code."""
        if self.process.poll() is None:
            self.interrupt()
        try:
            return self.process.wait(at_most)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"kvik serve did not end within {at_most} s: {self.said()[-2000:]}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            if self.process.poll() is None:
                self.stop()
        finally:
            self.log.close()

    def metrics(self):
        """Returns /metrics, after checking its format."""
        answer = self.get("/metrics")
        if answer.status != 200:
            raise AssertionError(f"{answer.status}: {answer.body[:500]!r}")
        return prometheus.Page(answer.body.decode())

    def rss_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    # --- clients ---

    def request(self, method, path, body=None, headers=None, timeout=300):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def complete(self, prompt, **fields):
        """Returns the JSON of a completion that must succeed."""
        answer = self.post("/v1/completions", {"prompt": prompt, "temperature": 0, "max_tokens": 20, **fields})
        if answer.status != 200:
            raise AssertionError(f"{answer.status}: {answer.body[:500]!r}")
        return answer.json

    def text(self, prompt, **fields):
        return self.complete(prompt, **fields)["choices"][0]["text"]

    def open_stream(self, prompt, **fields):
        """Opens a stream and reads the answer's header; iterate `events`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        body = {"prompt": prompt, "temperature": 0, "max_tokens": 20, "stream": True, **fields}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            output = answer.read()[:500]
            connection.close()
            raise AssertionError(f"{answer.status}: {output!r}")
        return connection, answer

    def stream(self, prompt, **fields):
        connection, answer = self.open_stream(prompt, **fields)
        try:
            return Stream(list(events(answer)))
        finally:
            connection.close()

    def connect(self, timeout=300):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def raw(self, *pieces, timeout=300):
        """Sends raw bytes and returns everything received until the server closes the connection."""
        with self.connect(timeout) as s:
            try:
                for piece in pieces:
                    s.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the server answered before it had received everything
            return read_all(s)


def events(answer):
    """Yields the data of each server-sent event."""
    for line in answer:
        if line.startswith(b"data: "):
            yield line[6:].strip().decode()


def read_all(s):
    out = b""
    try:
        while piece := s.recv(65536):
            out += piece
    except ConnectionResetError:
        pass
    return out


def status_of(response):
    """Returns the status code of a raw response, or 0 if it is empty."""
    return int(response.split(b" ", 2)[1]) if response.startswith(b"HTTP/1.") else 0


def in_parallel(*calls):
    """Runs the calls in parallel and returns their results, or raises the first exception."""
    results = [None] * len(calls)

    def work(i):
        try:
            results[i] = calls[i]()
        except BaseException as e:
            results[i] = e

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r in results:
        if isinstance(r, BaseException):
            raise r
    return results
