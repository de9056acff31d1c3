#!/usr/bin/python3
"""Measures swaps of models on one server: TTFT of a known conversation after a swap, and memory under load.

swap_ttft.py MODEL OTHER THIRD [--tokens 4096] [--memory SIZE] [--swaps 1,2,10] [--no-load-test] [-- flags of kvik serve]

1. Each model computes a prompt cold and answers it again from the cache. After it was unloaded and loaded again --swaps times, it answers
   the same conversation with a new end: TTFT, of which loading, and the rest as a share of the cold prefill.
2. 8 clients send 200 requests to the three models in turn. The resident memory of all processes and kept pages is sampled.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import pathlib
import random
import sys
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "client"))
from server import Server  # noqa: E402

PAGE = os.sysconf("SC_PAGE_SIZE")


def processes_of(pid):
    """Returns the process and its children."""
    found = [pid]
    for task in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(task) as f:
            found += [int(child) for child in f.read().split()]
    return found


def proportional_bytes(pid):
    """Returns the memory of a process; pages that several processes map count in parts."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return sum(int(line.split()[1]) for line in f if line.startswith("Pss:")) << 10
    except OSError:
        return 0


def kept_bytes():
    """Returns the memory of the pages that unloaded models left; other routers must not run."""
    total = 0
    for path in glob.glob("/dev/shm/kvik-warm-*/**", recursive=True):
        try:
            total += os.stat(path).st_blocks * 512
        except OSError:
            pass
    return total


class Swaps:
    def __init__(self, server, models, n_tokens, goals):
        self.server, self.models, self.n_tokens, self.goals = server, models, n_tokens, goals

    def state(self, name):
        listed = {m["id"]: m for m in self.server.get("/v1/models").json["data"]}
        return listed[name]

    def ttft(self, name, tokens):
        """Returns the seconds to the first token, and the number of cached prompt tokens."""
        body = json.dumps({"model": name, "prompt": tokens, "max_tokens": 2, "stream": True, "ignore_eos": True,
                           "stream_options": {"include_usage": True}, "temperature": 0}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}/v1/completions", body, {"Content-Type": "application/json"})
        begin = time.monotonic()
        first, cached = None, 0
        with urllib.request.urlopen(request) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                if event.get("error"):
                    raise SystemExit(event["error"]["message"])
                if first is None and event.get("choices"):
                    first = time.monotonic() - begin
                if event.get("usage"):
                    cached = event["usage"].get("prompt_tokens_details", {}).get("cached_tokens", 0)
        return first, cached

    def tokens(self, seed):
        draw = random.Random(seed)
        return [draw.randrange(10, 250) for _ in range(self.n_tokens)]

    def swap_out(self, name):
        self.server.request("POST", "/v1/models/unload", {"model": name})
        while self.state(name)["state"] != "unloaded":
            time.sleep(0.01)

    def measure(self):
        print(f"{'model':<40} {'cold s':>8} {'cached s':>9} {'swaps':>6} {'TTFT s':>8} {'load s':>7} {'rest / cold':>12} {'cached tokens':>14}")
        for i, name in enumerate(self.models):
            tokens = self.tokens(i)
            self.ttft(name, tokens[:32])  # loads it
            cold, _ = self.ttft(name, tokens)
            warm, _ = self.ttft(name, tokens + [101, 102, 103])
            n_swaps = 0
            for goal in self.goals:
                while n_swaps < goal:
                    self.swap_out(name)
                    n_swaps += 1
                    if n_swaps < goal:
                        self.ttft(name, tokens + [104 + n_swaps])
                after, cached = self.ttft(name, tokens + [200 + goal, 7, 8])
                load = self.state(name)["load_seconds"]
                print(f"{os.path.basename(name):<40} {cold:8.3f} {warm:9.3f} {goal:6d} {after:8.3f} {load:7.3f} {(after - load) / cold:12.1%} "
                      f"{cached:7d}/{len(tokens) + 3}")

    def load_test(self, n_requests=200, n_clients=8):
        peak, is_over = [0, 0], threading.Event()
        pid = self.server.process.pid

        def sample():
            while not is_over.wait(0.05):
                processes = sum(proportional_bytes(p) for p in processes_of(pid))
                kept = kept_bytes()
                peak[0], peak[1] = max(peak[0], processes + kept), max(peak[1], kept)

        def one(i):
            name = self.models[i % len(self.models)]
            answer = self.server.request("POST", "/v1/completions", {"model": name, "prompt": self.tokens(i % 5)[:256] + [10 + i % 240],
                                                                     "max_tokens": 8, "ignore_eos": True}, timeout=600)
            if answer.status != 200:
                print(f"{name}: {answer.status} {answer.body[:300]!r}")
            return answer.status

        sampler = threading.Thread(target=sample)
        sampler.start()
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(n_clients) as pool:
            statuses = list(pool.map(one, range(n_requests)))
        is_over.set()
        sampler.join()
        loads = sum(self.state(name)["loads"] for name in self.models)
        planned = ", ".join(f"{name} {self.state(name)['memory_bytes'] / 2**20:.0f} MiB" for name in self.models)
        print(f"planned: {planned}")
        print(f"{n_requests} requests by {n_clients} clients in {time.monotonic() - begin:.1f} s, {loads} loads in all; "
              f"errors: {sum(s != 200 for s in statuses)}; peak memory {peak[0] / 2**20:.0f} MiB, of which kept pages at most {peak[1] / 2**20:.0f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--memory", default="8GiB")
    parser.add_argument("--swaps", default="1,2,10", help="numbers of swaps before the measured answers")
    parser.add_argument("--no-load-test", action="store_true")
    own = sys.argv[1:]
    flags = own[own.index("--") + 1:] if "--" in own else []
    args = parser.parse_args(own[:own.index("--")] if "--" in own else own)
    with Server(args.models[0], *args.models[1:], "--memory", args.memory, *flags) as server:
        names = [m["id"] for m in server.get("/v1/models").json["data"]]
        swaps = Swaps(server, names, args.tokens, [int(n) for n in args.swaps.split(",")])
        swaps.measure()
        if not args.no_load_test:
            swaps.load_test()


if __name__ == "__main__":
    main()
