#!/usr/bin/python3
"""Measures the effect of one key's grammars on the user of another key.

    tools/measure/grammar_attack.py                  30 hostile grammars, 8 s each
    tools/measure/grammar_attack.py --seconds 3 --only "regex"
    tools/measure/grammar_attack.py --trials 1000    random grammars, choices and batches instead, until so many requests are answered

It starts `kvik serve` on loopback with keys. A user streams one answer after the other: first alone, then with as many clients as there are
attackers, which send the same requests without a grammar, then with these clients and each grammar. The user's ITL p99 with a grammar may be twice
that without one; resident memory may be the plan, 5% and 64 MiB. For a grammar of more than 32 KiB, requests of the same size without one are
measured for comparison. The last line is 'held' (exit code 0), or 'broken' (1) after a line for each broken promise.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from attack import MIB, USER, WATCH, User, UserServer, Verdict, key_file, mib, planned_bytes, quantiles  # noqa: E402
from hostile_grammars import GRAMMARS  # noqa: E402


LARGE_BYTES = 32 << 10


class Attackers:
    """Clients that send one request after the other with their own key.

    They run in a separate process: in the user's process, the interpreter's lock would delay the user while they write large grammars.
    """

    def __init__(self, port, n, grammar="", fields_of=None):
        context = multiprocessing.get_context("spawn")
        self.ends, self.counter, self.results = context.Event(), context.Value("q", 0), context.Queue()
        self.process = context.Process(target=attack_until, args=(self.ends, self.counter, self.results, port, n, grammar, fields_of), daemon=True)
        self.process.start()

    def stop(self):
        """Stops the clients and returns the number of answers by status."""
        self.ends.set()
        statuses = self.results.get(timeout=240)
        self.process.join(60)
        return statuses

    def n_answers(self):
        return self.counter.value


def attack_until(ends, counter, results, port, n, grammar, fields_of):
    """`grammar` is JSON text that is inserted into each request."""
    statuses, lock = {}, threading.Lock()

    def run(i):
        rng = random.Random(i)
        while not ends.is_set():
            body = {"prompt": "ROMEO:", "max_tokens": 100, "temperature": 2, "seed": rng.randrange(1 << 30), "n": 2}
            text = json.dumps({**body, **(fields_of(rng) if fields_of else {})})[:-1] + grammar + "}"
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            try:
                connection.request("POST", "/v1/completions", text, {"Content-Type": "application/json", "x-api-key": "hostile-key-0"})
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except OSError as e:
                status = type(e).__name__
                time.sleep(0.1)
            finally:
                connection.close()
            with lock:
                statuses[status] = statuses.get(status, 0) + 1
                counter.value += 1

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(dict(sorted(statuses.items(), key=str)))


class Memory(threading.Thread):
    """Samples the server's memory ten times a second and keeps the maximum."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.most, self.ends = server, 0, threading.Event()
        self.start()

    def run(self):
        while not self.ends.wait(0.1):
            try:
                self.most = max(self.most, self.server.rss_bytes())
            except (OSError, ValueError):
                return


def look(server, seconds, n_attackers, grammar=None):
    """Returns the user's gaps and the attackers' statuses."""
    attackers = Attackers(server.port, n_attackers, "," + json.dumps(grammar)[1:-1] if grammar else "")
    time.sleep(1)
    user = User(server, speculate=False)  # without speculation, so that a gap is a step
    time.sleep(seconds)
    user.stop()
    statuses = attackers.stop()
    return user.figures(), statuses


def attack(options):
    verdict = Verdict()
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--api-key-file", key_file(folder), "--kv-memory", options.kv_memory, *options.flags)
        with UserServer(WATCH, options.model, *flags) as server:
            bound = 1.05 * planned_bytes(server.said()) + 64 * MIB
            memory = Memory(server)
            alone, _ = look(server, options.seconds, 0)
            plain = [look(server, options.seconds, options.attackers) for _ in range(3)]
            before = statistics.median(f["itl_ms"]["p99"] for f, _ in plain)
            print(f"ITL p99 alone {alone['itl_ms']['p99']} ms; beside {options.attackers} clients without a grammar "
                  f"{[f['itl_ms']['p99'] for f, _ in plain]} ms", flush=True)
            for name, fields in GRAMMARS.items():
                if options.only not in name:
                    continue
                figures, statuses = look(server, options.seconds, options.attackers, fields)
                itl, compared = figures["itl_ms"], ""
                n_bytes = len(json.dumps(fields))
                if n_bytes > LARGE_BYTES:
                    same_bytes, answers = look(server, options.seconds, options.attackers, {"metadata": {"note": "x" * n_bytes}})
                    compared = f"; p99 {same_bytes['itl_ms']['p99']} beside {n_bytes} bytes without a grammar ({answers})"
                if server.process.poll() is not None:
                    raise SystemExit(f"broken: {name}: the server died with {server.process.wait()}\n{server.said()[-3000:]}")
                output = f"{name}: ITL p50 {itl.get('p50')}, p99 {itl.get('p99')}, max {itl.get('max')} ms; {statuses}; RSS {mib(server.rss_bytes())}{compared}"
                verdict.hold(itl.get("p99", 1e9) <= 2 * before and figures["texts"] == 1 and not figures["troubles"], output)
                bad = {s: n for s, n in statuses.items() if s not in (200, 400, 429)}
                if bad:
                    verdict.hold(False, f"{name}: {bad}")
            verdict.hold(memory.most <= bound, f"resident memory at most {mib(memory.most)}, within {mib(bound)}")
            server.process.terminate()
            verdict.hold(server.process.wait(60) == 0, "SIGTERM ends the server with 0")
    return verdict.broken


def random_fields(rng):
    n = lambda: rng.choice((1, 3, 20, 100))  # noqa: E731
    leaf = rng.choice(("[a-z ]", "[ab]", "(a|ab)", r"\w", "."))
    deep = leaf
    for _ in range(rng.randrange(1, 5)):
        deep = f"({deep}{rng.choice(('', leaf))}){{{rng.randrange(2)},{n()}}}"
    kind = rng.randrange(4)
    if kind == 0:
        fields = {"guided_regex": deep}
    elif kind == 1:
        fields = {"grammar": f'root ::= a{{1,{n()}}}\na ::= b{{1,{n()}}}\nb ::= [a-z ]{{1,{n()}}} | "x" a'}
    elif kind == 2:
        fields = {"guided_json": {"type": "array", "items": {"type": "string", "pattern": deep}, "uniqueItems": rng.random() < 0.3}}
    else:
        fields = dict(rng.choice(list(GRAMMARS.values())))
    return {**fields, "n": rng.choice((1, 1, 2, 4)), "max_tokens": rng.choice((2, 8, 40)), "temperature": rng.choice((0, 1, 2)),
            "cache_salt": rng.choice(("", "a"))}


def trials(options):
    """Runs random grammars at the same time: the server must survive, and every answer must have one of the allowed statuses."""
    with UserServer(USER, options.model, "--kv-memory", options.kv_memory, *options.flags) as server:
        attackers = Attackers(server.port, options.attackers, fields_of=random_fields)
        while attackers.n_answers() < options.trials and server.process.poll() is None:
            time.sleep(0.2)
        statuses = attackers.stop()
        is_alive = server.process.poll() is None
        print(f"{sum(statuses.values())} requests: {statuses}; RSS {mib(server.rss_bytes()) if is_alive else '-'}")
        return [] if is_alive and set(statuses) <= {200, 400, 429} else ["the server died" if not is_alive else "a status that may not be"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--seconds", type=float, default=8, help="for each grammar")
    parser.add_argument("--attackers", type=int, default=4)
    parser.add_argument("--kv-memory", default="64MiB")
    parser.add_argument("--only", default="", help="grammars whose name holds this")
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("flags", nargs="*", help="after --: flags of kvik serve")
    options = parser.parse_args()
    broken = trials(options) if options.trials else attack(options)
    print("broken" if broken else "held")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
