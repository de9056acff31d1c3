#!/usr/bin/python3
"""Attacks its own server as an outsider would, and reports the effect on other clients.

    tools/measure/attack.py                          100,000 requests by 12 clients in an hour
    tools/measure/attack.py --minutes 1 --requests 1500
    tools/measure/attack.py --kinds                  lists the kinds of requests and their weights

It starts `kvik serve` on loopback with keys, a small cache and a disk tier. First 12 well-behaved clients run, to measure the user's
latency for comparison. Then the same number of clients is hostile in about half of their requests: oversized answers and fields, bodies of
31 MiB, slow and silent connections, floods of priorities, pins, guesses of others' prompts, bytes that are not HTTP, clients that disconnect
at any moment. Meanwhile a well-behaved user streams one answer after the other, and a watch samples memory, files and threads. At the end
every page must be accounted for. The last line is 'held' (exit code 0), or 'broken' (1) after a line for each broken promise.
"""
import argparse
import asyncio
import collections
import contextlib
import json
import multiprocessing
import os
import queue
import random
import signal
import statistics
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "client"))
from attackers import KINDS, Target, kind_named  # noqa: E402
from server import Server, events  # noqa: E402

MIB = 1 << 20
PROMPT = "ROMEO:\nO, speak again, bright angel! for thou art\n"
USER, WATCH = "user-key", "watch-key"
N_HOSTILE_KEYS = 6


def key_file(folder):
    path = os.path.join(folder, "keys")
    lines = [f"{USER} user", f"{WATCH} watch operator"] + [f"hostile-key-{i} hostile-{i}" for i in range(N_HOSTILE_KEYS)]
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return path


# --- the clients: separate processes, so that the user's clock does not wait for them ---

def clients(target, options, seed, out):
    """Runs one process of clients. Reports (kind, outcome) counts from time to time, and ends on the event."""
    os.nice(10)  # leaves the machine to the server
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(run_clients(target, options, seed, out))


async def run_clients(target, options, seed, out):
    counts = collections.Counter()
    tasks = [asyncio.create_task(run_client(target, options, random.Random(f"{seed}/{i}"), counts)) for i in range(options["clients"])]
    while True:
        done, _ = await asyncio.wait(tasks, timeout=1)
        out.put(dict(counts))
        counts.clear()
        if len(done) == len(tasks):
            for task in done:
                task.result()
            break
    out.put(None)


async def run_client(target, options, rng, counts):
    """Sends requests at the target rate until the time is over and enough were sent, but for at most one and a half times the planned time."""
    kinds = [k for k in KINDS if k.is_hostile or not options["hostile"]]
    first = [k for k in kinds if options["hostile"]]  # each kind once, even rare ones
    rng.shuffle(first)
    weights = [k.weight for k in kinds]
    due, done = time.monotonic(), options["done"]
    last = options["until"] + options["seconds"] / 2

    def is_running():
        now = time.monotonic()
        return now < options["until"] or (done.value < options["requests"] and now < last)

    while is_running():
        if options["hostile"] and rng.random() < 0.5:
            kind = first.pop() if first else rng.choices(kinds, weights)[0]
        else:
            kind = kind_named("behave")
        counts[kind.name, await outcome(kind, target, rng)] += 1
        with done.get_lock():
            done.value += 1 + target.more_requests
        target.more_requests = 0
        due += options["every_s"]
        await asyncio.sleep(max(0, min(due, options["until"]) - time.monotonic()))


async def outcome(kind, target, rng):
    """Returns a status, or the reason why there is none."""
    try:
        return str(await asyncio.wait_for(kind.act(target, rng), 120))
    except (ConnectionError, asyncio.IncompleteReadError, EOFError):
        return "cut off"
    except (asyncio.TimeoutError, TimeoutError):
        return "no end"


class Crowd:
    """The client processes and their reports."""

    def __init__(self, target, n_clients, requests, seconds, hostile, seed):
        self.counts = collections.Counter()
        self.reports = multiprocessing.Queue()
        self.done = multiprocessing.Value("q", 0)
        self.seconds = seconds
        n_processes = min(3, n_clients)
        self.until = time.monotonic() + seconds
        self.processes = []
        for i in range(n_processes):
            n = n_clients // n_processes + (i < n_clients % n_processes)
            options = {"clients": n, "every_s": seconds * n_clients / max(requests, 1), "until": self.until, "seconds": seconds, "hostile": hostile,
                       "requests": requests, "done": self.done}
            self.processes.append(multiprocessing.Process(target=clients, args=(target, options, f"{seed}/{i}", self.reports), daemon=True))
        for p in self.processes:
            p.start()

    def join(self, watch):
        """Waits until all clients have finished or the server has exited."""
        left = len(self.processes)
        deadline = self.until + self.seconds / 2 + 180
        while left and watch.is_server_alive() and time.monotonic() < deadline:
            try:
                report = self.reports.get(timeout=1)
            except queue.Empty:
                continue
            if report is None:
                left -= 1
            else:
                self.counts.update(report)
        for p in self.processes:
            p.join(5)
            if p.is_alive():
                p.kill()


# --- the user ---

class User(threading.Thread):
    """Streams one answer after the other; all answers must be the same."""

    def __init__(self, server, **fields):
        """fields: additional fields of its requests."""
        super().__init__(daemon=True)
        self.server, self.fields, self.ends = server, fields, threading.Event()
        self.gaps, self.ttfts, self.texts, self.errors = [], [], collections.Counter(), collections.Counter()
        self.start()

    def run(self):
        with contextlib.suppress(PermissionError):  # high priority: the user does not wait for a core, as if it had its own machine
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        while not self.ends.is_set():
            try:
                self.answer()
            except Exception as e:  # noqa: BLE001: the user sees every error
                self.errors[f"{type(e).__name__}: {e}"[:120]] += 1
                time.sleep(0.1)

    def answer(self):
        started = time.monotonic()
        connection, answer = self.server.open_stream(PROMPT, max_tokens=48, ignore_eos=True, **self.fields)
        last, text = None, ""
        for event in events(answer):
            now = time.monotonic()
            if event == "[DONE]":
                self.texts[text] += 1
                break
            choices = json.loads(event).get("choices")
            if choices and choices[0]["text"]:
                text += choices[0]["text"]
                (self.ttfts if last is None else self.gaps).append(now - (started if last is None else last))
                last = now
        connection.close()

    def stop(self):
        self.ends.set()
        self.join(60)

    def figures(self):
        return {"answers": sum(self.texts.values()), "texts": len(self.texts), "ttft_ms": quantiles(self.ttfts), "itl_ms": quantiles(self.gaps),
                "troubles": dict(self.errors)}


def quantiles(seconds):
    if len(seconds) < 2:
        return {}
    q = statistics.quantiles(seconds, n=1000, method="inclusive")
    return {"p50": round(q[499] * 1e3, 2), "p99": round(q[989] * 1e3, 2), "max": round(max(seconds) * 1e3, 1)}


class UserServer(Server):
    """A server whose requests carry a key."""

    def __init__(self, key, *args, **options):
        self.key = key
        super().__init__(*args, **options)

    def request(self, method, path, body=None, headers=None, timeout=60):
        return super().request(method, path, body, {"x-api-key": self.key, **(headers or {})}, timeout)

    def open_stream(self, prompt, **fields):
        import http.client
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = {"prompt": prompt, "temperature": 0, "stream": True, **fields}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", "x-api-key": USER})
        answer = connection.getresponse()
        if answer.status != 200:
            connection.close()
            raise RuntimeError(f"status {answer.status}")
        return connection, answer


# --- the watch ---

class Watch(threading.Thread):
    """Samples the server's memory, files and threads, and the latency of /health."""

    def __init__(self, server, every_s):
        super().__init__(daemon=True)
        self.server, self.every_s, self.ends = server, every_s, threading.Event()
        self.samples = []  # (time, resident bytes, files, threads)
        self.health = []
        self.start()

    def is_server_alive(self):
        return self.server.process.poll() is None

    def sample(self):
        pid = self.server.process.pid
        return (time.monotonic(), self.server.rss_bytes(), len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")))

    def run(self):
        while not self.ends.wait(self.every_s):
            try:
                self.samples.append(self.sample())
                started = time.monotonic()
                status = self.server.get("/health", timeout=30).status
                self.health.append((time.monotonic() - started, status))
            except (OSError, ValueError):
                if not self.is_server_alive():
                    return
                self.health.append((30.0, 0))

    def stop(self):
        self.ends.set()
        self.join(60)


def planned_bytes(output):
    """Returns the memory that the server planned, from its line 'memory: 1.50 GiB = …'."""
    unit = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}
    for line in output.splitlines():
        if " memory: " in line:
            number, name = line.split(" memory: ")[1].split()[:2]
            return float(number) * unit[name]
    raise RuntimeError("the server did not say what memory it plans to take")


def pages_at_rest(server):
    """Returns the pages by state when no request is running, or None if one never ends."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        page = server.metrics()
        if page.value("kvik_requests_running") + page.value("kvik_requests_waiting") == 0:
            return page.values("kvik_kv_pages", "state")
        time.sleep(0.2)
    return None


# --- the verdict ---

class Verdict:
    def __init__(self):
        self.broken = []

    def hold(self, is_so, sentence):
        print(f"  {'holds ' if is_so else 'BROKEN'}  {sentence}", flush=True)
        if not is_so:
            self.broken.append(sentence)


def mib(n):
    return f"{n / MIB:,.0f} MiB"


def thirds(samples, column):
    values = [s[column] for s in samples]
    n = max(len(values) // 3, 1)
    return statistics.median(values[n:2 * n] or values), statistics.median(values[-n:])


def judge(run):
    verdict, watch, plan = Verdict(), run.watch, run.plan
    bound = 1.05 * plan + 64 * MIB
    peak = max(s[1] for s in watch.samples)
    verdict.hold(run.n_requests >= run.options.requests, f"{run.n_requests} requests, {run.options.requests} wanted")
    verdict.hold(run.exit_code == 0, f"SIGTERM ends the server with 0 (it was {run.exit_code})")
    verdict.hold(run.user["texts"] == 1 and run.before["texts"] == 1, f"the user's {run.user['answers']} answers are one and the same")
    verdict.hold(not run.user["troubles"], f"none of them failed {run.user['troubles'] or ''}")
    bad = {k: n for k, n in run.counts.items() if k[1].startswith("5") and k[1] != "503"}
    verdict.hold(not bad, f"no request is answered 500 {bad or ''}")
    lost = {k: n for k, n in run.counts.items() if k[1] == "no end"}
    verdict.hold(not lost, f"every request ends within two minutes {lost or ''}")
    verdict.hold(peak <= bound, f"resident memory at most {mib(peak)}, within plan + 5% + 64 MiB = {mib(bound)}")
    verdict.hold(run.rest_bytes <= plan + 64 * MIB, f"at rest {mib(run.rest_bytes)}, within plan + 64 MiB = {mib(plan + 64 * MIB)}")
    middle, last = thirds(watch.samples, 1)
    verdict.hold(last <= middle * 1.02 + 8 * MIB, f"memory is flat: median {mib(middle)} in the middle third, {mib(last)} in the last")
    # Allowed permanent growth: the disk tier's segments remain open, each an eighth of its size, as do its index's log and the log's memory map; and
    # the first grammar starts the two threads that compute masks. Any other growth is a leak.
    for column, name, more in ((2, "file descriptors", 8 + 2), (3, "threads", 2)):
        before, after = run.first[column], run.last[column]
        verdict.hold(after <= before + more,
                     f"{name}: {before} before, {after} at rest, at most {max(s[column] for s in watch.samples)}")
    before, after = run.before["itl_ms"].get("p99", 0), run.user["itl_ms"].get("p99", 1e9)
    output = f"the user's ITL p99 is {after} ms under attack, {before} ms among clients who behave"
    if run.options.untimed:
        print(f"  seen    {output}")
    else:
        verdict.hold(after <= 2 * before, output)
    pages = run.pages or {}
    verdict.hold(bool(pages) and pages["leased"] == pages["sealed"] == 0 and sum(pages.values()) == run.n_pages,
                 f"every page is accounted for: {pages or 'requests still run'}, {run.n_pages:.0f} in all")
    return verdict.broken


class Run:
    """One attack, from the start of the server to its end."""

    def __init__(self, options):
        self.options = options
        with tempfile.TemporaryDirectory() as folder:
            flags = ("--api-key-file", key_file(folder), "--kv-memory", options.kv_memory, "--disk", os.path.join(folder, "disk"), "--disk-size",
                     options.disk_size, *options.flags)
            with UserServer(WATCH, options.model, *flags) as server:
                self.attack(server)
                server.process.terminate()
                self.exit_code = server.process.wait(90)
                self.said = server.said()

    def attack(self, server):
        options = self.options
        self.plan = planned_bytes(server.said())
        self.n_pages = sum(pages_at_rest(server).values())
        target = Target(server.port, [f"hostile-key-{i}" for i in range(N_HOSTILE_KEYS)], options.scale)
        seconds = options.minutes * 60
        before_s = max(seconds * 0.15, 10)
        print(f"plan {mib(self.plan)}, {self.n_pages:.0f} pages; {before_s:.0f} s of {options.clients} clients who behave", flush=True)
        self.before, crowd = self.phase(server, target, before_s, options.requests * before_s / seconds, hostile=False)
        self.first = self.watch.sample()
        print(f"  {crowd.done.value} requests; user {self.before}", flush=True)
        print(f"{seconds:.0f} s under attack", flush=True)
        self.user, crowd = self.phase(server, target, seconds, options.requests, hostile=True)
        self.counts, self.n_requests = crowd.counts, crowd.done.value
        print(f"  {self.n_requests} requests; user {self.user}", flush=True)
        if not self.watch.is_server_alive():
            raise SystemExit(f"broken: the server died with {server.process.wait()}\n{server.said()[-4000:]}")
        elapsed = [s for s, _ in self.watch.health]
        print(f"  /health {quantiles(elapsed)} ms, {sum(s != 200 for _, s in self.watch.health)} times not 200", flush=True)
        self.pages = pages_at_rest(server)
        time.sleep(options.rest_s)
        self.last = self.watch.sample()
        self.rest_bytes = self.last[1]

    def phase(self, server, target, seconds, requests, hostile):
        self.watch = Watch(server, self.options.sample_s)
        user = User(server)
        crowd = Crowd(target, self.options.clients, requests, seconds, hostile, f"{self.options.seed}/{hostile}")
        crowd.join(self.watch)
        user.stop()
        self.watch.stop()
        return user.figures(), crowd


def print_counts(counts):
    by_kind = collections.defaultdict(dict)
    for (kind, status), n in sorted(counts.items()):
        by_kind[kind][status] = n
    for kind, statuses in sorted(by_kind.items()):
        print(f"  {kind:<24} " + ", ".join(f"{status}: {n}" for status, n in statuses.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--kv-memory", default="64MiB")
    parser.add_argument("--disk-size", default="256MiB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample-s", type=float, default=0.5)
    parser.add_argument("--rest-s", type=float, default=5, help="quiet time before memory at rest is looked at")
    parser.add_argument("--untimed", action="store_true", help="do not judge how long the user waits: for a machine with other work, or a short run")
    parser.add_argument("--scale", type=float, default=1.0, help="of what is huge: 0.1 for a quick look")
    parser.add_argument("--json", help="write all figures and samples here")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("flags", nargs="*", help="after --: flags of kvik serve")
    options = parser.parse_args()
    if options.kinds:
        for kind in KINDS:
            print(f"{kind.name:<24} {kind.weight:>5}  {kind.act.__doc__}")
        return 0
    run = Run(options)
    print_counts(run.counts)
    broken = judge(run)
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"plan_bytes": run.plan, "before": run.before, "user": run.user, "broken": broken, "pages": run.pages,
                       "counts": {" ".join(k): n for k, n in run.counts.items()}, "samples": run.watch.samples, "health": run.watch.health,
                       "log": run.said[-20000:]}, f)
    print("broken" if broken else "held")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
