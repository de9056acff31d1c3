#!/usr/bin/python3
"""Runs many conversations with a KV budget that holds only a few of them, and reports errors, wrong answers and cached tokens.

    tools/measure/conversations.py KVIK MODEL [--conversations 64] [--turns 8] [--held 10] [--users 64] [--verify 32]

Starts `kvik serve` with a KV budget for `--held` conversations at their full length. Each turn sends the whole conversation so far:
`--system` common ids, then `--own` new ids per turn and the answers of `--out` tokens. `--users` requests run at a time, chosen at random
among the conversations that are not waiting for an answer.

`found` is the number of cached tokens that the server reports. `lru` is the number of cached tokens of an LRU over whole conversations (as llama.cpp
stores them in host memory) for the same trace, with memory for as many tokens (and states, if the model is recurrent). It is simulated
in its favor: longest common prefix without page rounding (but whole pages before the last one if the type has open pages, which use its
memory as well). `lru_beside` is the same with separate memory for running conversations. `--verify` repeats so many requests afterwards,
one at a time with their own salts, so that nothing is cached; `differ` counts the answers that changed. If `--held` covers all conversations,
`new` is the number of prompt tokens that were never computed before, which is the minimum. `rss` is the peak of the server's anonymous
memory; `planned` is the amount that `kvik plan` reports for weights, buffers and this budget.
"""
import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from urllib.parse import urlparse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve_load import common_prefix, count_new, pct, request  # noqa: E402
from tier_ttft import free_port  # noqa: E402

PAGE_TOKENS = 32


class Sizes:
    """Bytes per token, bytes of the recurrent state (0 if there is none), and bytes of the two open pages of a running sequence (0 if the type has
    none), one of which is cached."""

    def __init__(self, token, state, open=0):
        self.token, self.state, self.open = token, state, open

    def of(self, n_tokens):
        return n_tokens * self.token + self.state

    def of_kept(self, n_tokens):
        return self.of(n_tokens) + self.open / 2


class WholeConversations:
    """An LRU whose entries are all tokens of a conversation and its last state, which only serves prompts that continue the whole conversation."""

    def __init__(self, n_bytes, sizes):
        self.n_bytes, self.sizes, self.held = n_bytes, sizes, []  # least recently used first
        self.running = 0  # bytes of running conversations, if they use the same memory

    def found(self, prompt, held):
        n = min(common_prefix(prompt, held), len(prompt) - 1)
        if self.sizes.open and n < len(held) - len(held) % PAGE_TOKENS:  # not in its last page
            n -= n % PAGE_TOKENS
        return n if self.sizes.state == 0 or n == len(held) else 0

    def find(self, prompt):
        return max((self.found(prompt, held) for held in self.held), default=0)

    def make_room(self):
        n_held = sum(self.sizes.of_kept(len(held)) for held in self.held)
        while self.held and n_held + self.running > self.n_bytes:
            n_held -= self.sizes.of_kept(len(self.held.pop(0)))

    def keep(self, tokens):
        # A continued conversation replaces its previous version; one that only shares a prefix is stored beside it.
        self.held = [held for held in self.held if common_prefix(held, tokens) < len(held)] + [tokens]


def found_by_lru(runs, n_bytes, sizes, running_share):
    """Returns the cached prompt tokens of a trace of (t_first, t_end, prompt, answer). Lookups happen when a request starts to run, not when it
    was sent. Running conversations take this share of their size from the same memory: 1 or 0."""
    lru = WholeConversations(n_bytes, sizes)
    events = [(run[0], 1, run) for run in runs] + [(run[1], 0, run) for run in runs]
    found = 0
    for _, is_begin, (_, _, prompt, answer) in sorted(events, key=lambda event: event[:2]):
        n_own = running_share * (sizes.of(len(prompt) + len(answer)) + sizes.open)
        if is_begin:
            found += lru.find(prompt)
            lru.running += n_own
        else:
            lru.running -= n_own
            lru.keep(prompt + answer[:-1])
        lru.make_room()
    return found


class Server:
    def __init__(self, args, kv_bytes):
        self.port = free_port()
        self.process = subprocess.Popen([args.kvik, "serve", args.model, "--port", str(self.port), "--kv-memory", str(kv_bytes),
                                         "--kv-type", args.kv_type, *args.flags.split()], stderr=subprocess.DEVNULL)
        self.url = urlparse(f"http://127.0.0.1:{self.port}")
        self.rss = 0

    def status_kib(self, name):
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(name + ":"))

    async def watch(self):
        while True:
            self.rss = max(self.rss, 1024 * self.status_kib("RssAnon"))
            await asyncio.sleep(0.02)

    async def wait_until_ready(self):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                is_ready = b" 200 " in await reader.readline()
                writer.close()
                if is_ready:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.05)


async def converse(args, server):
    """Runs all conversations; returns runs, times and the error messages."""
    rng = random.Random(args.seed)

    def some(n):
        return [rng.randrange(10, args.vocabulary) for _ in range(n)]

    system = some(args.system)
    output = [list(system) for _ in range(args.conversations)]
    turns = [0] * args.conversations
    idle = list(range(args.conversations))
    runs, ttft, itl, cached, errors = [], [], [], 0, []
    n_left = args.conversations * args.turns

    async def user():
        nonlocal cached, n_left
        while n_left > 0:
            if not idle:
                await asyncio.sleep(0.001)
                continue
            who = idle.pop(rng.randrange(len(idle)))
            n_left -= 1
            turns[who] += 1
            prompt = output[who] + some(args.own)
            try:
                sent, times, usage, answer = await request(server.url, "/v1/completions", body(prompt, args.out), None)
            except Exception as e:
                errors.append(str(e))
                n_left -= args.turns - turns[who]
                continue
            ttft.append(times[0] - sent)
            itl.extend(y - x for x, y in zip(times, times[1:]))
            cached += usage["prompt_tokens_details"]["cached_tokens"]
            runs.append((times[0], time.perf_counter(), prompt, answer))
            output[who] = prompt + answer
            if turns[who] < args.turns:
                idle.append(who)

    begin = time.perf_counter()
    await asyncio.gather(*(user() for _ in range(args.users)))
    return runs, time.perf_counter() - begin, ttft, itl, cached, errors


def body(prompt, n, **fields):
    return {"prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True, "stream": True, "return_token_ids": True,
            "stream_options": {"include_usage": True}, **fields}


async def verify(args, server, runs):
    """Returns the number of answers that differ when they are computed alone with an empty cache."""
    some = random.Random(args.seed).sample(runs, min(args.verify, len(runs)))
    n_differ = 0
    for i, (_, _, prompt, answer) in enumerate(some):
        alone = await request(server.url, "/v1/completions", body(prompt, args.out, cache_salt=f"alone {i}"), None)
        assert alone[2]["prompt_tokens_details"]["cached_tokens"] == 0
        n_differ += alone[3] != answer
    return len(some), n_differ


async def play(args):
    plan = json.loads(subprocess.check_output([args.kvik, "plan", args.model, "--kv-type", args.kv_type, "--json"]))
    n_final = args.system + args.turns * (args.own + args.out)
    n_tokens = args.held * -(-n_final // PAGE_TOKENS) * PAGE_TOKENS
    sizes = Sizes(plan["kv_bytes_per_token"], plan.get("state_bytes", 0), plan.get("open_page_bytes", 0))
    kv_bytes = n_tokens * sizes.token + args.held * (sizes.state + sizes.open)
    server = Server(args, kv_bytes)
    try:
        await server.wait_until_ready()
        watcher = asyncio.create_task(server.watch())
        runs, wall, ttft, itl, cached, errors = await converse(args, server)
        n_verified, n_differ = await verify(args, server, runs)
        watcher.cancel()
    finally:
        server.process.terminate()
        code = server.process.wait()
    n_prompt = sum(len(run[2]) for run in runs)
    mib = 2**20
    least = {"new": count_new([(run[0], run[2], run[3]) for run in runs])} if args.held >= args.conversations else {}
    return {**least, "computed": n_prompt - cached, "requests": len(runs), "errors": len(errors), "exit_code": code, "verified": n_verified, "differ": n_differ,
            "kv_tokens": n_tokens, "kv_mib": kv_bytes / mib,
            "planned_mib": (plan["weights_bytes"] + plan["buffers_bytes"] + kv_bytes) / mib, "rss_mib": server.rss / mib,
            "wall_s": wall, "output_tok_s": sum(len(run[3]) for run in runs) / wall, "prompt_tok_s": n_prompt / wall,
            "ttft_ms_p50": 1e3 * pct(ttft, 50), "ttft_ms_p99": 1e3 * pct(ttft, 99), "itl_ms_p50": 1e3 * pct(itl, 50),
            "itl_ms_p99": 1e3 * pct(itl, 99), "prompt_tokens": n_prompt, "found_percent": 100 * cached / n_prompt,
            "lru_percent": 100 * found_by_lru(runs, kv_bytes, sizes, 1) / n_prompt,
            "lru_beside_percent": 100 * found_by_lru(runs, kv_bytes, sizes, 0) / n_prompt, "error_messages": sorted(set(errors))[:3]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvik")
    parser.add_argument("model")
    parser.add_argument("--conversations", type=int, default=64)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--held", type=int, default=10)
    parser.add_argument("--users", type=int, default=64, help="requests at a time")
    parser.add_argument("--system", type=int, default=64)
    parser.add_argument("--own", type=int, default=24)
    parser.add_argument("--out", type=int, default=16)
    parser.add_argument("--verify", type=int, default=32)
    parser.add_argument("--kv-type", default="int8")
    parser.add_argument("--vocabulary", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flags", default="", help="for kvik serve")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = asyncio.run(play(args))
    if args.json:
        return print(json.dumps(result))
    for name, value in result.items():
        print(f"{name:15} {value:.1f}" if isinstance(value, float) else f"{name:15} {value}")


if __name__ == "__main__":
    main()
