#!/usr/bin/python3
"""Measures the server's cost per token in addition to the model: HTTP, JSON, scheduling, detokenizing.

  tools/measure/server_overhead.py [--kvik build/kvik] [--streams 64] [--tokens 400] [--api completions|chat|messages] [--tools | --system CHARS]

Concurrent streams run against `kvik serve demo --threads 1`. The processor time of each server thread is read from /proc between
the first token of the last stream and the last token of the first. The network thread only does HTTP
and JSON. The engine thread plans, computes, samples, detokenizes and wakes the network thread; the time of the computation, measured by
`kvik bench` for the same batch at the middle depth, twice and right afterwards, is subtracted.

ITL: the client's mean over all streams and the engine's own mean (sum and count of its histogram). Their difference bounds the
additional delay of a token after the engine.
"""
import argparse
import json
import os
import selectors
import socket
import subprocess
import sys
import time
import urllib.request

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def threads_of(pid):
    """Returns {tid: (nice, CPU seconds)}; schedstat counts nanoseconds, stat only ticks."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
            found[tid] = (int(fields[16]), int(f.read().split()[0]) / 1e9)
    return found


def tool(api):
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    if api == "messages":
        return {"name": "read_file", "input_schema": schema}
    return {"type": "function", "function": {"name": "read_file", "parameters": schema}}


def request(api, i, n_tokens, has_tools, n_system):
    words = f"Speak of the {i}th crown, my lord."
    # Without speculation, because accepted draft tokens are sent together as one event.
    common = {"max_tokens": n_tokens, "ignore_eos": True, "stream": True, "temperature": 0, "speculate": False}
    chat = {"messages": [{"role": "user", "content": words}], **common}
    if n_system:  # as long as a prompt with tools
        text = ("The king is dead, long live the king. " * (n_system // 38 + 1))[:n_system]
        if api == "messages":
            chat["system"] = text
        else:
            chat["messages"].insert(0, {"role": "system", "content": text})
    if has_tools:  # the answer is searched for tool calls
        chat["tools"] = [tool(api)]
    path, body = {"completions": ("/v1/completions", {"prompt": words, **common}),
                  "chat": ("/v1/chat/completions", chat), "messages": ("/v1/messages", chat)}[api]
    data = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


class Reader:
    """Counts the events of one stream by their marks and records their arrival times."""
    MARKS = {"completions": b'"text":"', "chat": b'"delta":{', "messages": b'_delta","text"'}

    def __init__(self, port, i, options):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.mark, self.times, self.tail, self.is_done = self.MARKS[options.api], [], b"", False
        self.socket.sendall(request(options.api, i, options.tokens, options.tools, options.system))
        self.socket.setblocking(False)

    def read(self, now):
        data = self.socket.recv(65536)
        text = self.tail + data
        n = text.count(self.mark)
        self.times += [now] * n
        keep = len(self.mark) - 1
        self.tail = text[-keep:] if not text.endswith(self.mark) else b""
        self.is_done = not data or text.endswith(b"0\r\n\r\n")


def metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        page = answer.read().decode()
    return {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in page.splitlines()
            if line.startswith(("kvik_inter_token_latency_seconds_sum", "kvik_inter_token_latency_seconds_count",
                                "kvik_generated_tokens_total", "vllm:prompt_tokens_total"))}


def forward_us(kvik, n_streams, depth):
    """Returns the microseconds of one thread per token of a batch, without a server."""
    done = subprocess.run([kvik, "bench", "demo", "--prefill", "0", "--decode", "64", "--depth", str(depth), "--batch", str(n_streams),
                           "--repeat", "3", "--threads", "1", "--fill", "--json"], capture_output=True, text=True, check=True)
    speed = next(r for r in json.loads(done.stdout) if r["test"] == "decode")
    return 1e6 / speed["tok_s"]


def measure(server, port, options):
    readers = [Reader(port, i, options) for i in range(options.streams)]
    selector = selectors.DefaultSelector()
    for reader in readers:
        selector.register(reader.socket, selectors.EVENT_READ, reader)
    before = threads_before = after = threads_after = None
    # Blanks that may precede a call are sent with the following words, so there are fewer events than tokens.
    n_events = options.tokens * (5 if options.tools else 9) // 10
    n_open = len(readers)
    while n_open:
        for key, _ in selector.select():
            reader = key.data
            reader.read(time.monotonic())
            if reader.is_done:
                selector.unregister(reader.socket)
                n_open -= 1
        if threads_before is None and all(r.times for r in readers):
            before, threads_before = metrics(port), threads_of(server.pid)
        if threads_before and threads_after is None and min(len(r.times) for r in readers) >= n_events:
            after, threads_after = metrics(port), threads_of(server.pid)
    n_tokens = after["kvik_generated_tokens_total"] - before["kvik_generated_tokens_total"]
    spent = {tid: (nice, s - threads_before.get(tid, (0, 0))[1]) for tid, (nice, s) in threads_after.items()}
    network = [s for nice, s in spent.values() if nice < 0] or sorted(s for _, s in spent.values())[-2:-1]
    engine = max(s for nice, s in spent.values() if nice >= 0)
    itl = "kvik_inter_token_latency_seconds"
    return {"network_us": 1e6 * sum(network) / n_tokens, "engine_us": 1e6 * engine / n_tokens,
            "all_us": 1e6 * sum(s for _, s in spent.values()) / n_tokens, "tokens": n_tokens,
            "depth": round((after["vllm:prompt_tokens_total"] + n_tokens / 2) / options.streams),
            "engine_itl_ms": 1e3 * (after[itl + "_sum"] - before[itl + "_sum"]) / (after[itl + "_count"] - before[itl + "_count"]),
            "client_itl_ms": 1e3 * sum(r.times[-1] - r.times[0] for r in readers) / sum(len(r.times) - 1 for r in readers)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kvik", default="build/kvik")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--api", default="completions", choices=Reader.MARKS)
    parser.add_argument("--tools", action="store_true", help="requests of chats have a tool")
    parser.add_argument("--system", type=int, default=0, metavar="CHARS",
                        help="requests of chats have a system prompt as long")
    options = parser.parse_args()
    if options.api == "completions" and (options.tools or options.system):
        parser.error("completions have no tools and no system prompt")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([options.kvik, "serve", "demo", "--threads", "1", "--kv-memory", "256MiB", "--port", str(port),
                               "--max-running", str(options.streams)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
                break
            except OSError:
                time.sleep(0.05)
        result = measure(server, port, options)
    finally:
        server.terminate()
        server.wait()
    forward = sum(forward_us(options.kvik, options.streams, result["depth"]) for _ in range(2)) / 2
    result["forward_us"] = forward
    result["overhead_us"] = result["all_us"] - forward
    result["itl_difference_ms"] = result["client_itl_ms"] - result["engine_itl_ms"]
    json.dump({name: round(value, 3) for name, value in result.items()}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
