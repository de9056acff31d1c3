#!/usr/bin/python3
"""Measures the TTFT of prompts that are computed, cached in memory, or read from each tier by a server that did not compute them, and the tier's
cost.

    tools/measure/tier_ttft.py KVIK MODEL [--tokens 1024] [--kv-type int8] [--vocabulary 32000] [--tiers disk,shared,redis] [--samples 3]

For each tier, one server computes --samples prompts, and a server that was just started gets them as its first requests. Then
Redis is stopped (SIGSTOP) and new prompts are sent: the first one waits for Redis, the others should not. Bytes and processor
time of the tier's own threads are per thousand tokens.
"""
import argparse
import atexit
import http.client
import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time

from fleet import Redis, free_port
from prometheus import Page


class Server:
    def __init__(self, args, flags=()):
        self.port = free_port()
        self.process = subprocess.Popen([args.kvik, "serve", args.model, "--port", str(self.port), "--kv-memory", "1GiB", "--kv-type",
                                         args.kv_type, *flags], stderr=subprocess.DEVNULL)
        atexit.register(self.stop)
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
        """Returns TTFT and ITL in ms, cached tokens, and the answer: ids and log probabilities."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = {"prompt": tokens, "max_tokens": n, "temperature": 0, "ignore_eos": True, "stream": True, "return_token_ids": True,
                "logprobs": 5, "stream_options": {"include_usage": True}}
        begin = time.perf_counter()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"the server answered {response.status}: {response.read().decode()}")
        times, cached, output = [], None, []
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("choices"):
                times.append(time.perf_counter())
                output += [(c.get("token_ids"), c.get("logprobs")) for c in event["choices"]]
            if event.get("usage"):
                cached = event["usage"]["prompt_tokens_details"]["cached_tokens"]
        connection.close()
        return (times[0] - begin) * 1e3, (times[-1] - times[0]) * 1e3 / (n - 1), cached, output

    def metric(self, name, **labels):
        """Returns the sum of all samples with these labels."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics")
        page = Page(connection.getresponse().read().decode())
        connection.close()
        return sum(value for (its, pairs), value in page.samples.items() if its == name and labels.items() <= dict(pairs).items())

    def wait_until_written(self):
        """Waits until no page is waiting to be written, five times in a row, because the engine passes pages on when there is room."""
        n, before = 0, None
        while n < 5:
            now = (self.metric("kvik_tier_queue_pages"), self.metric("kvik_tier_bytes_total", direction="written"))
            n = n + 1 if now == before and now[0] == 0 else 0
            before = now
            time.sleep(0.1)

    def seconds_of(self, ending):
        """Returns the processor time of the threads whose names have this ending."""
        nanoseconds = 0
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/comm") as f:
                name = f.read().strip()
            if name.startswith("kvik-") and name.endswith(ending):
                with open(f"/proc/{self.process.pid}/task/{task}/schedstat") as f:
                    nanoseconds += int(f.read().split()[0])
        return nanoseconds / 1e9

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Run:
    def __init__(self, args):
        self.args = args
        self.rng = random.Random(1)
        self.cold = None

    def prompts(self, n):
        return [[self.rng.randrange(10, self.args.vocabulary) for _ in range(self.args.tokens)] for _ in range(n)]

    def show(self, name, samples, more=""):
        ttfts = [ttft for ttft, _, _, _ in samples]
        middle = statistics.median(ttfts)
        self.cold = self.cold or middle
        itl = statistics.median(itl for _, itl, _, _ in samples)
        print(f"{name:24} TTFT {' '.join(f'{ttft:8.1f}' for ttft in ttfts)} ms, median {100 * middle / self.cold:5.1f}% of cold, {middle / itl:5.1f} decode steps, "
              f"{[cached for _, _, cached, _ in samples]} cached{more}", flush=True)

    def tier(self, name, flags, redis=None):
        args, prompts = self.args, self.prompts(self.args.samples)
        a_thousand = args.samples * args.tokens / 1000
        server = Server(args, flags)
        computed = [server.ask(tokens) for tokens in prompts]
        server.wait_until_written()
        n_bytes, seconds = server.metric("kvik_tier_bytes_total", direction="written"), server.seconds_of("-w")
        self.show(f"computed, {name}", computed, f"; written for 1,000 tokens: {n_bytes / a_thousand / 1e6:.2f} MB in {1e3 * seconds / a_thousand:.1f} ms of processor time")
        if name == "disk":
            server.stop()  # a folder can be used by only one server
        other = Server(args, flags)
        found = [other.ask(tokens) for tokens in prompts]
        n_bytes, seconds = other.metric("kvik_tier_bytes_total", direction="read"), other.seconds_of("-r")
        same = [one[3] for one in computed] == [one[3] for one in found]
        self.show(f"another server, {name}", found, f"; read for 1,000 tokens: {n_bytes / a_thousand / 1e6:.2f} MB in {1e3 * seconds / a_thousand:.1f} ms of "
                  f"processor time; {'the same answers' if same else 'OTHER ANSWERS'}")
        if redis:
            redis.process.send_signal(signal.SIGSTOP)
            self.show("stopped Redis, the first", [other.ask(self.prompts(1)[0])])
            self.show("stopped Redis, then", [other.ask(tokens) for tokens in self.prompts(args.samples)])
            redis.process.send_signal(signal.SIGCONT)
        other.stop()
        if name != "disk":
            server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvik")
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--kv-type", default="int8")
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--tiers", default="disk,shared,redis")
    parser.add_argument("--tcp", action="store_true", help="Redis over loopback; `tc qdisc add dev lo root tbf …` limits its rate")
    parser.add_argument("--samples", type=int, default=3)
    args = parser.parse_args()
    run = Run(args)
    server = Server(args)
    prompts = run.prompts(args.samples)
    server.ask(run.prompts(1)[0])
    run.show("computed, no tier", [server.ask(tokens) for tokens in prompts])
    run.show("in memory", [server.ask(tokens) for tokens in prompts])
    server.stop()
    for name in args.tiers.split(","):
        with tempfile.TemporaryDirectory() as folder:
            if name == "redis":
                redis = Redis(folder, args.tcp)
                run.tier(name, ("--redis", redis.url), redis)
                redis.stop()
            else:
                run.tier(name, (f"--{name}", folder))


if __name__ == "__main__":
    main()
