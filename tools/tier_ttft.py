#!/usr/bin/env python3
"""TTFT of one prompt: computed, found in memory, and found on disk after a restart, in one run.

    tools/tier_ttft.py KVIK MODEL [--tokens 1024] [--kv-type int8] [--vocabulary 32000]
"""
import argparse
import http.client
import json
import random
import socket
import subprocess
import tempfile
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, args, folder):
        self.port = free_port()
        self.process = subprocess.Popen([args.kvik, "serve", args.model, "--port", str(self.port), "--kv-memory", "1GiB", "--kv-type",
                                         args.kv_type, *(("--disk", folder) if folder else ())], stderr=subprocess.DEVNULL)
        while True:
            try:
                return self.wait_for_health()
            except OSError:
                time.sleep(0.1)

    def wait_for_health(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status != 200:
                raise OSError("not ready")
        finally:
            connection.close()

    def ask(self, tokens, n=17):
        """TTFT and ITL in ms, cached tokens, and what was answered: ids and log probabilities."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = {"prompt": tokens, "max_tokens": n, "temperature": 0, "ignore_eos": True, "stream": True, "return_token_ids": True,
                "logprobs": 5, "stream_options": {"include_usage": True}}
        begin = time.perf_counter()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        times, cached, said = [], None, []
        for line in connection.getresponse():
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("choices"):
                times.append(time.perf_counter())
                said += [(c.get("token_ids"), c.get("logprobs")) for c in event["choices"]]
            if event.get("usage"):
                cached = event["usage"]["prompt_tokens_details"]["cached_tokens"]
        connection.close()
        return (times[0] - begin) * 1e3, (times[-1] - times[0]) * 1e3 / (n - 1), cached, said

    def stop(self):
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvik")
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--kv-type", default="int8")
    parser.add_argument("--vocabulary", type=int, default=32000)
    args = parser.parse_args()
    rng = random.Random(1)
    warm_up, tokens = ([rng.randrange(10, args.vocabulary) for _ in range(args.tokens)] for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        server = Server(args, None)
        server.ask(warm_up)
        rows.append(("cold, no disk", server.ask(tokens)))
        server.stop()
        server = Server(args, folder)
        server.ask(warm_up)
        rows.append(("cold, --disk", server.ask(tokens)))
        rows += [("in memory", server.ask(tokens)) for _ in range(3)]
        server.stop()
        for _ in range(3):
            server = Server(args, folder)
            server.ask(warm_up[:40])
            rows.append(("from disk", server.ask(tokens)))
            server.stop()
    cold = rows[0][1][0]
    for name, (ttft, itl, cached, said) in rows:
        print(f"{name:14} TTFT {ttft:8.1f} ms = {100 * ttft / cold:5.1f}% of cold, {ttft / itl:6.1f} decode steps of {itl:.1f} ms, {cached} cached, "
              f"{'the same' if said == rows[0][1][3] else 'ANOTHER'} answer")


if __name__ == "__main__":
    main()
