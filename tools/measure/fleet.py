#!/usr/bin/python3
"""Runs conversations through HAProxy and three servers, one of which is killed and one drained during the run.

    tools/measure/fleet.py                                   24 conversations of 8 turns, each routing mode
    tools/measure/fleet.py --conversations 6 --turns 4 --ways affinity,both --json figures.json

The modes: `round robin`; `affinity`, with deploy/haproxy.cfg; `redis`, which is round robin with one Redis shared by all servers; `both`.
Each turn sends the whole conversation so far: `--system` common ids, then `--own` new ids per turn and the answers. After a third of
the turns one server is killed (SIGKILL), after two thirds one is drained (SIGTERM). A client that gets no answer or a partial one retries
at most twice, like the official clients. A turn without an answer after that is counted as lost and ends its conversation. Answers must be
the same in every mode, because the cache changes no answer.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "client"))
from server import Server, free_port  # noqa: E402

ATTEMPTS = 3  # like the official clients: retries after half a second and after one second
WAYS = {"round robin": (False, False), "affinity": (True, False), "redis": (False, True), "both": (True, True)}


class Redis:
    """Runs Redis on a socket in the folder, or on loopback, where `tc` can slow it down to the speed of a network."""

    def __init__(self, folder, is_tcp=False):
        path, port = os.path.join(folder, "redis.sock"), free_port() if is_tcp else 0
        self.url = f"redis://127.0.0.1:{port}" if is_tcp else f"unix://{path}"
        self.process = subprocess.Popen(["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--unixsocket", path, "--save", "", "--appendonly", "no"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not os.path.exists(path):
            if time.monotonic() > deadline:
                raise RuntimeError("redis-server did not start")
            time.sleep(0.02)

    def stop(self):
        self.process.kill()
        self.process.wait()


class Proxy:
    """Runs HAProxy with deploy/haproxy.cfg; without affinity, its balance line is replaced."""

    def __init__(self, folder, servers, affinity):
        with open(os.path.join(ROOT, "deploy", "haproxy.cfg")) as f:
            text = f.read()
        if not affinity:
            text = text.replace("balance hash var(txn.route)", "balance roundrobin")
        path = os.path.join(folder, "haproxy.cfg")
        with open(path, "w") as f:
            f.write(text)
        self.port = free_port()
        places = {f"KVIK_{i + 1}": f"127.0.0.1:{s.port}" for i, s in enumerate(servers)}
        env = {**os.environ, **places, "KVIK_BIND": f"127.0.0.1:{self.port}"}
        self.process = subprocess.Popen(["haproxy", "-f", path, "-db"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while True:
            try:
                if self.ask("GET", "/health").status == 200:
                    break
            except OSError:
                pass
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("HAProxy did not start")
            time.sleep(0.05)

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.connection = connection  # must live as long as its answer
        return answer

    def stop(self):
        self.process.kill()
        self.process.wait()


class Conversation:
    def __init__(self, options, number):
        self.rng = random.Random(number)
        self.name = f"conversation-{number}"
        self.ids = [1] + random.Random("all").choices(range(20, 1900), k=options.system - 1)
        self.own, self.out = options.own, options.out
        self.answers = []

    def next_prompt(self):
        self.ids += self.rng.choices(range(20, 1900), k=self.own)
        return list(self.ids)

    def take(self, ids):
        self.answers.append(ids)
        self.ids += ids


class Figures:
    def __init__(self):
        self.lock = threading.Lock()
        self.prompt_tokens = self.found_tokens = self.retried = self.lost = 0
        self.ttft = []
        self.errors = []


def one_answer(proxy, conversation, prompt):
    """Returns the answer's ids, the number of cached prompt tokens, and the seconds to the first token."""
    began = time.monotonic()
    body = {"prompt": prompt, "max_tokens": conversation.out, "temperature": 0, "ignore_eos": True, "stream": True, "return_token_ids": True,
            "stream_options": {"include_usage": True}, "prompt_cache_key": conversation.name}
    answer = proxy.ask("POST", "/v1/completions", body)
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}: {answer.read()[:200]!r}")
    ids, first, usage, is_done = [], None, None, False
    for line in answer:
        if line.startswith(b"data: [DONE]"):
            is_done = True
        elif line.startswith(b"data: "):
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(f"error {event['error']}")
            usage = event.get("usage") or usage
            for choice in event.get("choices", []):
                ids += choice.get("token_ids") or []
                first = first or time.monotonic()
    if not is_done or not usage:
        raise ConnectionError("the answer broke off")
    return ids, usage["prompt_tokens_details"]["cached_tokens"], first - began


def turn(proxy, conversation, figures):
    prompt = conversation.next_prompt()
    for attempt in range(ATTEMPTS):
        try:
            ids, found, ttft = one_answer(proxy, conversation, prompt)
            break
        except (OSError, http.client.HTTPException, RuntimeError) as e:
            with figures.lock:
                figures.errors.append(f"{type(e).__name__}: {e}"[:200])
                figures.retried += attempt == 0
                figures.lost += attempt == ATTEMPTS - 1
            if attempt == ATTEMPTS - 1:
                return False
            time.sleep(0.5 * 2**attempt)
    conversation.take(ids)
    with figures.lock:
        figures.prompt_tokens += len(prompt)
        figures.found_tokens += found
        figures.ttft.append(ttft)
    return True


def run(way, options):
    affinity, with_redis = WAYS[way]
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        redis = Redis(folder) if with_redis else None
        flags = ["--threads", options.threads, "--kv-memory", options.kv_memory, *(["--redis", redis.url] if redis else [])]
        servers = [Server(options.model, *flags) for _ in range(3)]
        proxy = Proxy(folder, servers, affinity)
        try:
            conversations = [Conversation(options, i) for i in range(options.conversations)]
            done, n_all = [0], options.conversations * options.turns
            events = {n_all // 3: lambda: servers[1].process.kill(), 2 * n_all // 3: lambda: servers[2].process.send_signal(signal.SIGTERM)}

            def whole(conversation):
                for _ in range(options.turns):
                    if not turn(proxy, conversation, figures):
                        return
                    with figures.lock:
                        done[0] += 1
                        event = events.pop(done[0], None)
                    if event and options.faults:
                        event()

            with concurrent.futures.ThreadPoolExecutor(options.users) as pool:
                list(pool.map(whole, conversations))
            drained = servers[2].process.wait(60) if options.faults else None
        finally:
            proxy.stop()
            for s in servers:
                s.__exit__()
            if redis:
                redis.stop()
    ttft = sorted(figures.ttft)
    return {"way": way, "answers": done[0], "wanted": n_all, "retried": figures.retried, "lost": figures.lost,
            "found_share": round(figures.found_tokens / max(figures.prompt_tokens, 1), 4), "ttft_p50_ms": round(statistics.median(ttft) * 1e3, 1),
            "ttft_p99_ms": round(ttft[int(len(ttft) * 0.99)] * 1e3, 1), "drained_exit": drained, "troubles": sorted(set(figures.errors)),
            "texts": [c.answers for c in conversations]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--conversations", type=int, default=24)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--users", type=int, default=8, help="conversations under way at a time")
    parser.add_argument("--system", type=int, default=256)
    parser.add_argument("--own", type=int, default=40)
    parser.add_argument("--out", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kv-memory", default="64MiB")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--no-faults", dest="faults", action="store_false", help="no server is killed or drained")
    parser.add_argument("--json")
    options = parser.parse_args()
    for program in ("haproxy", "redis-server"):
        if not shutil.which(program):
            sys.exit(f"{program} is not installed")
    rows = [run(way, options) for way in options.ways.split(",")]
    turns = [{(i, j): ids for i, c in enumerate(row["texts"]) for j, ids in enumerate(c)} for row in rows]
    same = all(row[place] == turns[0].get(place, row[place]) for row in turns for place in row)
    print(f"{'way':<12} {'answers':>8} {'lost':>5} {'retried':>8} {'found':>7} {'TTFT p50':>9} {'p99 (ms)':>9}")
    for row in rows:
        print(f"{row['way']:<12} {row['answers']:>8} {row['lost']:>5} {row['retried']:>8} {row['found_share']:>7.1%} {row['ttft_p50_ms']:>9} "
              f"{row['ttft_p99_ms']:>9}")
    print("all ways gave the same answers" if same else "ANSWERS DIFFER")
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"same_answers": same, "rows": [{k: v for k, v in row.items() if k != "texts"} for row in rows]}, f, indent=1)
    return 0 if same and not any(row["lost"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
