#!/usr/bin/python3
"""Compares Kvik with other engines on the same model file, in alternation (A B C A B C …): medians and ratios.

    npm install --prefix bench/peers            # once: the llama.cpp of npm's node-llama-cpp
    compare.py model.gguf --npm --rounds 5
    compare.py model.gguf --peer-bench 'fork=/opt/fork/llama-bench -rtr 1' --peer-sweep 'fork=…' --test prefill:512@8192
    compare.py model.gguf --url kvik=http://127.0.0.1:8080 --url other=http://127.0.0.1:8081

Prints a Markdown table of tokens per second. README.md in this folder lists the requirements for each kind of peer. Needs only Python's standard
library.
"""
import argparse
import json
import os
import statistics
import sys

from contestants import PEER_CACHE_TYPES, Kvik, LlamaBench, Server, Setting, Test

HERE = os.path.dirname(os.path.abspath(__file__))
NPM = f"node {os.path.join(HERE, 'llama_cpp_npm.mjs')}"


def named(entries):
    """Converts ["a=x", …] to {"a": "x"}."""
    pairs = [entry.partition("=")[::2] for entry in entries]
    for name, value in pairs:
        if not name or not value:
            sys.exit(f"'{name}={value}' is no peer; expected NAME=COMMAND or NAME=URL")
    return dict(pairs)


def contestants(a):
    bench, sweep, batched = map(named, (a.peer_bench, a.peer_sweep, a.peer_batched))
    found = [Kvik(a.kvik)] if a.kvik else []
    if a.npm:
        found.append(LlamaBench("llama.cpp (npm)", NPM))
    found += [LlamaBench(name, command, sweep.get(name), batched.get(name)) for name, command in bench.items()]
    return found + [Server(name, url) for name, url in named(a.url).items()]


def show(tests, names, speeds):
    """Prints the table. `speeds` maps (test, name) to one figure per round; the others are compared with the first name."""
    print("| tok/s, median (min … max) | " + " | ".join(names) + " | " + " | ".join(f"{names[0]} / {n}" for n in names[1:]) + " |")
    print("|" + "---|" * (2 * len(names)))
    for test in tests:
        medians = {n: statistics.median(speeds[test, n]) if speeds[test, n] else None for n in names}
        cells = [f"{medians[n]:.1f} ({min(speeds[test, n]):.1f} … {max(speeds[test, n]):.1f})" if medians[n] else "–" for n in names]
        ratios = [f"{medians[names[0]] / medians[n]:.2f}×" if medians[n] and medians[names[0]] else "–" for n in names[1:]]
        print(f"| {test} | " + " | ".join(cells + ratios) + " |")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", help="a .gguf file that all can read")
    ap.add_argument("--kvik", default=os.path.join(HERE, "../../build/kvik"), help="the binary; '' leaves it out")
    ap.add_argument("--npm", action="store_true", help="the llama.cpp of npm's node-llama-cpp")
    ap.add_argument("--peer-bench", action="append", default=[], metavar="NAME=CMD", help="speaks as llama-bench")
    ap.add_argument("--peer-sweep", action="append", default=[], metavar="NAME=CMD", help="the same peer's llama-sweep-bench")
    ap.add_argument("--peer-batched", action="append", default=[], metavar="NAME=CMD", help="the same peer's llama-batched-bench")
    ap.add_argument("--url", action="append", default=[], metavar="NAME=URL", help="an OpenAI-compatible server on loopback")
    ap.add_argument("--test", action="append", type=Test.parse, help="prefill:512 and decode:64 where none is given")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--kv-type", choices=PEER_CACHE_TYPES, default="int8", help="of Kvik's pages")
    ap.add_argument("--peer-kv-type", help="of the peers' cache, in their words; the same bits where not given")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--samples", type=int, default=3, help="of each test in each round")
    ap.add_argument("--json", action="store_true", help="all figures instead of the table")
    a = ap.parse_args()
    tests = a.test or [Test("prefill", 512), Test("decode", 64)]
    setting = Setting(os.path.abspath(a.model), a.threads, a.samples, a.kv_type, a.peer_kv_type or PEER_CACHE_TYPES[a.kv_type])
    contenders = contestants(a)
    speeds = {(test, c.name): [] for test in tests for c in contenders}
    for round_number in range(a.rounds):
        for test in tests:
            for c in contenders:
                speed = c.measure(test, setting)
                if speed is not None:
                    speeds[test, c.name].append(speed)
                print(f"round {round_number + 1}: {test}: {c.name}: {speed}", file=sys.stderr, flush=True)
    if a.json:
        print(json.dumps([{"test": str(test), "contestant": name, "tok_s": values} for (test, name), values in speeds.items()]))
    else:
        show(tests, [c.name for c in contenders], speeds)


if __name__ == "__main__":
    main()
