#!/usr/bin/python3
"""Simulates fleets of servers: hit rates of routing and of a shared tier, waiting times of prompts, and the balance of the load.

    tools/measure/fleet_sim.py                                    1, 10, 100 servers, 500 conversations each
    tools/measure/fleet_sim.py --servers 1,10,100,1000 --per-server 1000    a million conversations each; an hour of processor time

A server computes prompts one after the other at --prefill tokens a second and caches --held tokens, evicting the least recently used
conversation (and a system prompt after the last conversation that uses it). Conversations arrive by a Poisson process that gives every
server a load of --load, measured as the work of computing each conversation with only its own cache. They begin with one of --prefixes
system prompts (Zipf), have turns with pauses, and send the whole conversation so far. Tokens that are not in memory are read from the tier,
if there is one, at --tier tokens a second, or computed. The routing modes:

    round robin     the next server
    session         a hash of the conversation
    prefix          a hash of the system prompt, on a ring with bounded load (1.5 times the mean, as in deploy/haproxy.cfg)
    session bound   a hash of the conversation, with the same bound
    events          the server that would answer first, according to KV events of eight random servers, of the server of the last
                    turn and of the server that used the system prompt last

Imbalance is the busiest server's work divided by the mean. Decoding is not simulated, because it affects all servers alike.
"""
import argparse
import heapq
import itertools
import json
import random
import sys
from collections import OrderedDict


class Server:
    __slots__ = ("held", "n_held", "prefixes", "free_at", "busy_s", "running")

    def __init__(self):
        self.held = OrderedDict()  # conversation -> (system prompt, tokens of its own), least recently used first
        self.prefixes = {}         # system prompt -> number of conversations that use it
        self.n_held = 0
        self.free_at = self.busy_s = 0.0
        self.running = 0           # prompts that wait or are being computed

    def finds(self, prefix, conversation, n_system):
        own = self.held.get(conversation)
        return n_system + own[1] if own else n_system if prefix in self.prefixes else 0

    def keep(self, prefix, conversation, n_own, n_system, limit):
        old = self.held.pop(conversation, None)
        if old:
            self.n_held -= old[1]
        else:
            n = self.prefixes.get(prefix, 0)
            self.prefixes[prefix] = n + 1
            self.n_held += 0 if n else n_system
        self.held[conversation] = (prefix, n_own)
        self.n_held += n_own
        while self.n_held > limit and len(self.held) > 1:
            _, (gone, n) = self.held.popitem(last=False)
            self.n_held -= n
            self.prefixes[gone] -= 1
            if not self.prefixes[gone]:
                del self.prefixes[gone]
                self.n_held -= n_system


class Router:
    def __init__(self, way, servers, rng, options):
        self.way, self.servers, self.rng, self.options = way, servers, rng, options
        self.turn = itertools.count()
        self.last, self.had_prefix = {}, {}
        self.n_running = 0

    def ring(self, key):
        """Returns the first server after the key's position whose load is below 1.5 times the mean."""
        n = len(self.servers)
        bound = 1.5 * (self.n_running + 1) / n
        order = random.Random(key)
        for _ in range(4 * n):
            at = order.randrange(n)
            if self.servers[at].running < bound:
                return at
        return self.rng.randrange(n)

    def soonest(self, now, prefix, conversation, n_prompt):
        n, o = len(self.servers), self.options
        some = {self.rng.randrange(n) for _ in range(8)} | {self.last.get(conversation, 0), self.had_prefix.get(prefix, 0)}
        return min(some, key=lambda i: max(self.servers[i].free_at - now, 0) +
                   (n_prompt - self.servers[i].finds(prefix, conversation, o.system)) / o.prefill)

    def choose(self, now, prefix, conversation, n_prompt):
        n = len(self.servers)
        if self.way == "round robin":
            return next(self.turn) % n
        if self.way == "session":
            return random.Random(conversation).randrange(n)
        if self.way == "session bound":
            return self.ring(conversation)
        if self.way == "prefix":
            return self.ring(~prefix)
        at = self.soonest(now, prefix, conversation, n_prompt)
        self.last[conversation] = self.had_prefix[prefix] = at
        return at


def simulate(n_servers, way, has_tier, o):
    rng = random.Random(o.seed)
    servers = [Server() for _ in range(n_servers)]
    router = Router(way, servers, random.Random(o.seed + 1), o)
    n_conversations = n_servers * o.per_server
    weights = list(itertools.accumulate(1 / (i + 1) for i in range(o.prefixes)))
    mean_turns = (o.turns + 1) / 2
    new_tokens = o.system + mean_turns * o.own  # tokens that a conversation computes with a cache of its own
    rate = n_servers * o.load * o.prefill / new_tokens  # conversations a second
    begins, events = 0.0, []
    for c in range(n_conversations):
        begins += rng.expovariate(rate)
        events.append((begins, c, 0))  # (time, conversation, turn); turn -1: a prompt is finished
    heapq.heapify(events)
    begun = {}
    n_prompt_tokens = n_found = n_tier = n_computed = 0
    ttft = []
    while events:
        now, c, turn = heapq.heappop(events)
        if turn < 0:
            servers[c].running -= 1
            router.n_running -= 1
            continue
        if turn == 0:
            begun[c] = (rng.choices(range(o.prefixes), cum_weights=weights)[0], rng.randint(1, o.turns))
        prefix, turns = begun[c]
        before = turn * (o.own + o.answer)
        n_prompt = o.system + before + o.own
        at = router.choose(now, prefix, c, n_prompt)
        server = servers[at]
        found = min(server.finds(prefix, c, o.system), n_prompt - 1)
        known = o.system + before if turn else o.system if prefix in router.had_prefix else 0
        from_tier = max(known - found, 0) if has_tier else 0
        computed = n_prompt - found - from_tier
        work = computed / o.prefill + from_tier / o.tier
        start = max(server.free_at, now)
        server.free_at = start + work
        server.busy_s += work
        server.running += 1
        router.n_running += 1
        heapq.heappush(events, (server.free_at, at, -1))
        server.keep(prefix, c, before + o.own + o.answer, o.system, o.held)
        router.had_prefix.setdefault(prefix, at)
        ttft.append(server.free_at - now)
        n_prompt_tokens += n_prompt
        n_found += found
        n_tier += from_tier
        n_computed += computed
        if turn + 1 < turns:
            heapq.heappush(events, (server.free_at + o.answer / o.decode + rng.expovariate(1 / o.pause), c, turn + 1))
        else:
            del begun[c]
    ttft.sort()
    work = [s.busy_s for s in servers]
    return {"servers": n_servers, "way": way, "tier": bool(has_tier), "conversations": n_conversations, "prompts": len(ttft),
            "found": n_found / n_prompt_tokens, "from_tier": n_tier / n_prompt_tokens, "computed": n_computed / n_prompt_tokens,
            "ttft_p50_s": ttft[len(ttft) // 2], "ttft_p99_s": ttft[int(len(ttft) * 0.99)], "imbalance": max(work) * n_servers / sum(work)}


WAYS = ("round robin", "session", "prefix", "session bound", "events")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="1,10,100")
    parser.add_argument("--per-server", type=int, default=500, help="conversations")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--tiers", default="no,yes", help="without and with a tier that all share")
    parser.add_argument("--prefixes", type=int, default=200, help="system prompts")
    parser.add_argument("--system", type=int, default=2000, help="tokens of each")
    parser.add_argument("--own", type=int, default=300, help="new tokens a turn")
    parser.add_argument("--answer", type=int, default=200)
    parser.add_argument("--turns", type=int, default=8, help="at most; at least one")
    parser.add_argument("--pause", type=float, default=30, help="seconds between an answer and the next turn, in the mean")
    parser.add_argument("--held", type=int, default=200_000, help="tokens that a server's memory holds")
    parser.add_argument("--prefill", type=float, default=400, help="tokens a second that a server computes")
    parser.add_argument("--decode", type=float, default=20, help="tokens a second of an answer")
    parser.add_argument("--tier", type=float, default=20_000, help="tokens a second that the tier gives")
    parser.add_argument("--load", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    o = parser.parse_args()
    rows = []
    print("| servers | route | tier | found in memory | from the tier | computed | TTFT p50 | p99 | imbalance |\n|---|---|---|---|---|---|---|---|---|")
    for n in map(int, o.servers.split(",")):
        for way in o.ways.split(",") if n > 1 else ["round robin"]:
            for tier in o.tiers.split(","):
                row = simulate(n, way, tier == "yes", o)
                rows.append(row)
                print(f"| {n:,} | {way} | {tier} | {row['found']:.1%} | {row['from_tier']:.1%} | {row['computed']:.1%} | {row['ttft_p50_s']:.2f} s | "
                      f"{row['ttft_p99_s']:.1f} s | {row['imbalance']:.2f} |", flush=True)
    if o.json:
        with open(o.json, "w") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
