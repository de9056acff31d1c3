#!/usr/bin/python3
"""Measures the cost of thousands of slow connections for a Kvik server and for quick streams.

    slow_streams.py --url http://127.0.0.1:8080 --pid $(pidof kvik) --streams 2000 --kind slow

Measures the time between tokens of --users quick streams with and without the crowd, and the
server's resident memory per stream of the crowd. Start the server with a small --kv-memory, which is filled first. The crowd is one of
  idle     connected, keep-alive, a /health every 30 s
  waiting  requests that wait because the engine is full: start the server with
           --max-running equal to --users and a --max-queue that holds the crowd, and make --out
           long enough for all measurements
  slow     readers of 256 bytes a second, of answers longer than the kernel's buffers
Python's standard library only; traffic goes only to a loopback address.
"""
import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import resource
import socket
import threading
import time
import urllib.request
from urllib.parse import urlparse

from serve_load import WORDS, pct


def metrics(a):
    """Returns {name: value}; labeled samples are 'name{state="free"}' without the model's name."""
    head = {"Authorization": f"Bearer {a.key}"} if a.key else {}
    with urllib.request.urlopen(urllib.request.Request(a.url + "/metrics", headers=head), timeout=30) as f:
        text = f.read().decode()
    text = re.sub(r'model_name="[^"]*",?', "", text).replace("{}", "")
    return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*) (\S+)$", text, re.M)}


def touch_all_pages(a):
    """Sends prompts until no page is free, so that resident memory afterwards grows only for other reasons."""
    while metrics(a)['kvik_kv_pages{state="free"}'] > 0:
        body = {"prompt": [random.randrange(10, 1000) for _ in range(500)], "max_tokens": 1}
        head = {"Authorization": f"Bearer {a.key}"} if a.key else {}
        with urllib.request.urlopen(urllib.request.Request(a.url + "/v1/completions", json.dumps(body).encode(), head), timeout=60) as answer:
            answer.read()


def resident_bytes(a):
    with open(f"/proc/{a.pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor_s(pid):
    """Returns {thread id: user and system seconds} of a process."""
    out = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        out[task] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return out


def kernel_tcp_bytes():
    with open("/proc/net/sockstat") as f:
        return int(re.search(r"TCP:.* mem (\d+)", f.read())[1]) * os.sysconf("SC_PAGE_SIZE")


def post(a, body):
    data = json.dumps(body).encode()
    key = f"Authorization: Bearer {a.key}\r\n" if a.key else ""
    return f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n{key}Content-Length: {len(data)}\r\n\r\n".encode() + data


def crowd_request(a):
    if a.kind == "idle":
        return b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = {"prompt": "Once upon a time", "max_tokens": a.crowd_out, "temperature": 0, "ignore_eos": True, "stream": True}
    return post(a, {**body, **json.loads(a.crowd_extra)})


def crowd(a, commands):
    """Runs in its own process: opens the streams, reports it, and serves them until told to end."""
    url, sockets = urlparse(a.url), []
    for _ in range(a.streams):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((url.hostname, url.port))
        s.sendall(crowd_request(a))
        s.setblocking(False)
        sockets.append(s)
    commands.send("open")
    turn, turns = 0, {"idle": 300, "waiting": 10, "slow": 10}[a.kind]  # in units of 100 ms
    n_ended = 0
    while not commands.poll(0.1):
        for s in sockets[turn::turns]:
            try:
                if s.recv(256) == b"":
                    n_ended += 1
                    sockets.remove(s)
                elif a.kind == "idle":
                    s.sendall(crowd_request(a))
            except BlockingIOError:
                if a.kind == "idle":
                    s.sendall(crowd_request(a))
            except OSError:
                n_ended += 1
                sockets.remove(s)
        turn = (turn + 1) % turns
    commands.send(n_ended)


class QuickUsers:
    """A thread with --users streams, one answer after the other each, that records the arrival time of each token."""

    def __init__(self, a):
        self.a, self.gaps, self.failures, self.is_over = a, [], [], False  # gaps: (time, seconds since the previous token)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.run()))
        self.thread.start()

    async def run(self):
        await asyncio.gather(*(self.user(i) for i in range(self.a.users)))

    async def user(self, i):
        body = {"prompt": " ".join(WORDS[i:i + 40]), "max_tokens": self.a.out, "temperature": 0, "ignore_eos": True, "stream": True}
        while not self.is_over:
            try:
                await self.stream(body)
            except Exception as e:
                self.failures.append(repr(e))
                return

    async def stream(self, body):
        url = urlparse(self.a.url)
        r, w = await asyncio.open_connection(url.hostname, url.port)
        w.write(post(self.a, body))
        last = None
        while not self.is_over and (line := await r.readline()):
            if not line.startswith(b"data: "):
                continue
            now = time.perf_counter()
            if line.startswith(b"data: [DONE]"):
                break
            if last:
                self.gaps.append((now, now - last))
            last = now
        w.close()

    def stop(self):
        self.is_over = True
        self.thread.join()


def measure(a, users, name, crowd_pid=None):
    crowd_before = sum(processor_s(crowd_pid).values()) if crowd_pid else 0
    before, started = processor_s(a.pid), time.perf_counter()
    time.sleep(a.seconds)
    end = time.perf_counter()
    after = processor_s(a.pid)
    crowd_s = sum(processor_s(crowd_pid).values()) - crowd_before if crowd_pid else 0
    itl = [gap for when, gap in users.gaps if started < when < end]
    shares = sorted(((s - before.get(t, 0)) / (end - started) for t, s in after.items()), reverse=True)
    out = {"itl_ms_p50": 1e3 * pct(itl, 50), "itl_ms_p99": 1e3 * pct(itl, 99), "tokens": len(itl), "thread_shares": [round(s, 3) for s in shares[:4]],
           "crowd_share": round(crowd_s / (end - started), 3)}
    print(f"{name:8}", json.dumps(out), flush=True)
    return out


def wait_until_settled(a):
    """Waits until the crowd's answers are generated and the memory no longer changes."""
    if a.kind == "waiting":
        time.sleep(2)
        return
    while True:
        now = metrics(a)
        if now["kvik_requests_waiting"] == 0 and now["kvik_requests_running"] <= a.users:
            time.sleep(1)
            return
        time.sleep(0.5)


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--url", default="http://127.0.0.1:8080")
    ap.add_argument("--pid", type=int, required=True, help="of the server")
    ap.add_argument("--key")
    ap.add_argument("--streams", type=int, default=2000)
    ap.add_argument("--kind", choices=("idle", "waiting", "slow"), default="slow")
    ap.add_argument("--crowd-out", type=int, default=256, help="tokens of each of the crowd's answers")
    ap.add_argument("--crowd-extra", default="{}", help="JSON merged into the crowd's requests")
    ap.add_argument("--users", type=int, default=4)
    ap.add_argument("--out", type=int, default=128, help="tokens of each quick answer")
    ap.add_argument("--seconds", type=float, default=8, help="of each measurement")
    return ap.parse_args()


def main():
    a = arguments()
    assert urlparse(a.url).hostname in ("127.0.0.1", "localhost", "::1"), "loopback only"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(a.streams + 256, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),) * 2)
    touch_all_pages(a)
    users = QuickUsers(a)
    time.sleep(2)
    before = measure(a, users, "without")
    memory, kernel = resident_bytes(a), kernel_tcp_bytes()
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.Process(target=crowd, args=(a, theirs))
    child.start()
    ours.recv()
    wait_until_settled(a)
    per_stream = (resident_bytes(a) - memory) / a.streams
    per_stream_kernel = (kernel_tcp_bytes() - kernel) / a.streams
    now = metrics(a)
    during = measure(a, users, "with", child.pid)
    ours.send("end")
    n_ended = ours.recv()
    child.join()
    time.sleep(2)
    after = measure(a, users, "after")
    users.stop()
    for failure in users.failures:
        print("error:", failure)
    calm = (before["itl_ms_p99"] + after["itl_ms_p99"]) / 2
    print(json.dumps({"kind": a.kind, "streams": a.streams, "ended_early": n_ended, "connections": now["kvik_http_connections"],
                      "waiting": now["kvik_requests_waiting"], "resident_bytes_per_stream": round(per_stream),
                      "kernel_bytes_per_stream_both_ends": round(per_stream_kernel), "itl_p99_ratio": during["itl_ms_p99"] / calm,
                      "itl_p50_ratio": during["itl_ms_p50"] / ((before["itl_ms_p50"] + after["itl_ms_p50"]) / 2)}))


if __name__ == "__main__":
    main()
