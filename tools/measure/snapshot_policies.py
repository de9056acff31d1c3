#!/usr/bin/python3
"""Compares policies for placing state snapshots of recurrent models: cached tokens and bytes of snapshots.

    snapshot_policies.py                     # all workloads, all policies, at several budgets
    snapshot_policies.py --json

Workloads are trees of texts such as servers get: chats whose reasoning is removed when they are sent again, an agent's loop of tool
results with branches, a document with many questions, all with system prompts shared by users. A request hits up to the
latest snapshot of its beginning. K and V of all tokens are assumed to be cached, so that only the policy is measured. Snapshots have
one size; the cache holds a fixed number of them and evicts the least recently used. The policies:

    kvik      like src/engine/schedule/snapshot_policy.cpp: before the template's beginning of an answer, where a second
              prompt diverges from a known one, on a sparse grid, and at the end of an answer
    every-N   after every N tokens of a prompt, and at its end
    last      only at the end of each answer
    slots     llama.cpp's: checkpoints of four slots, each with its own, near the end of a prompt and every 8,192 tokens of it; a
              prompt goes to the slot with the longest common prefix
"""
import argparse
import json
import random

GENERATION = 5  # tokens with which the template begins an answer
GRID = 3200     # tokens whose K and V are as large as a snapshot


class Text:
    """A list of tokens in pieces (id, length); equal pieces are equal tokens."""

    def __init__(self, pieces=()):
        self.pieces = tuple(pieces)

    def __add__(self, piece):
        return Text((*self.pieces, piece))

    def __len__(self):
        return sum(n for _, n in self.pieces)

    def prefix(self, n):
        out = []
        for name, length in self.pieces:
            if n <= 0:
                break
            out.append((name, min(n, length)))
            n -= length
        return tuple(out)


def shared(a, b):
    n = 0
    for (x, m), (y, k) in zip(a.pieces, b.pieces):
        if x != y:
            return n
        n += min(m, k)
        if m != k:
            return n
    return n


class Cache:
    """Snapshots by the text before them. Eviction order: superseded ones, then those without a hit, then those with hits, each least recently used
    first. Those with hits are evicted first if they are three quarters of all."""

    def __init__(self, size):
        self.size, self.kept, self.n_kept = size, {}, 0

    def keep(self, text, n, kind="", rank=1):
        key = text.prefix(n)
        if n <= 0:
            return
        old = self.kept.pop(key, None)
        self.n_kept += old is None
        self.kept[key] = [n, old[1] if old else rank, old[2] if old else kind]
        while len(self.kept) > self.size:
            self.kept.pop(self.victim())

    def victim(self):
        hot = [k for k, v in self.kept.items() if v[1] == 2]
        outdated = [k for k, v in self.kept.items() if v[1] == 0]
        if outdated:
            return outdated[0]
        if len(hot) * 4 > len(self.kept) * 3 or len(hot) == len(self.kept):
            return hot[0]
        return next(k for k, v in self.kept.items() if v[1] == 1)

    def find(self, text, limit):
        """Returns the number of cached tokens and the entry."""
        best = None
        for key, (n, _, _) in self.kept.items():
            if n <= limit and (best is None or n > self.kept[best][0]) and text.prefix(n) == key:
                best = key
        if best is None:
            return 0, None
        entry = self.kept.pop(best)
        self.kept[best] = entry
        entry[1] = 2
        return entry[0], entry


class Policy:
    def __init__(self, size):
        self.cache, self.seen = Cache(size), []

    def run(self, prompt, border, answer):
        """Returns the cached tokens of a prompt. border: end of its last message; answer: the prompt with its answer."""
        found, entry = self.cache.find(prompt, len(prompt) - 1)
        self.keep(prompt, border, answer, found, entry)
        self.seen.append(answer)
        return found


class Kvik(Policy):
    def __init__(self, size):
        super().__init__(size)
        kinds = ("border", "end", "grid")
        self.taken, self.found, self.wanted = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0)

    def is_worthwhile(self, kind):
        """Returns whether prompts continue from places of this kind; kinds without hits are retried now and then."""
        self.wanted[kind] += 1
        return self.taken[kind] < 8 or self.found[kind] * 16 >= self.taken[kind] or self.wanted[kind] % 16 == 0

    def keep(self, prompt, border, answer, found, entry):
        if entry and entry[2] in self.found:
            self.found[entry[2]] += 1
        known = max((shared(prompt, text) for text in self.seen), default=0)
        places = {}
        at = GRID
        while at < len(prompt):
            if at > found:
                places[at] = "grid"
            at *= 2
        if places and self.is_worthwhile("grid"):
            self.taken["grid"] += 1
        else:
            places = {}
        if border > found and self.is_worthwhile("border"):
            places[border] = "border"
            self.taken["border"] += 1
        if known >= found + 64 and known < len(prompt):
            places[known] = "branch"
        is_continued = bool(entry) and entry[2] in ("border", "end")  # a text that was continued once will be continued again
        for at in sorted(places):
            self.cache.keep(prompt, at, places[at], 2 if places[at] == "branch" or (is_continued and places[at] == "border") else 1)
        if self.is_worthwhile("end"):
            self.cache.keep(answer, len(answer) - 1, "end", 2 if is_continued else 1)
            self.taken["end"] += 1
        if entry and entry[2] in ("border", "end") and len(prompt) - found > 1:
            entry[1] = 0  # superseded by the snapshots of its own answer


class Every(Policy):
    step = 1024

    def keep(self, prompt, border, answer, found, _):
        for at in range(found // self.step * self.step + self.step, len(prompt), self.step):
            self.cache.keep(prompt, at)
        self.cache.keep(prompt, len(prompt) - 1)


class Last(Policy):
    def keep(self, prompt, border, answer, found, _):
        self.cache.keep(answer, len(answer) - 1)


class Slots(Policy):
    n_slots = 4

    def __init__(self, size):
        super().__init__(size)
        self.slots = [(Text(), Cache(max(1, size // self.n_slots))) for _ in range(self.n_slots)]

    def run(self, prompt, border, answer):
        i = max(range(self.n_slots), key=lambda i: shared(prompt, self.slots[i][0]))
        if shared(prompt, self.slots[i][0]) < len(prompt) // 10:
            i = 0  # the least recently used slot
        _, cache = self.slots.pop(i)
        found, _ = cache.find(prompt, len(prompt) - 1)
        before = cache.n_kept
        for at in range(found // 8192 * 8192 + 8192, len(prompt), 8192):
            cache.keep(prompt, at)
        cache.keep(prompt, max(1, len(prompt) - 64))
        cache.keep(answer, len(answer) - 1)
        self.cache.n_kept += cache.n_kept - before
        self.slots.append((answer, cache))
        return found


def chats(rng):
    """40 users of three system prompts, 8 turns each; reasoning before an answer is not sent again."""
    turns = []
    for user in range(40):
        text = Text([(f"system {user % 3}", 600 + 900 * (user % 3))])
        for turn in range(8):
            text = text + (f"u{user}.{turn}", rng.randint(20, 300))
            prompt = text + ("assistant", GENERATION - 2) + ("think", 2)
            answer = prompt + (f"t{user}.{turn}", rng.randint(100, 1500)) + (f"a{user}.{turn}", rng.randint(50, 600))
            turns.append((turn + rng.random() * 3, prompt, len(text), answer))
            text = text + ("assistant", GENERATION - 2) + (f"a{user}.{turn}", answer.pieces[-1][1])
    return [request for _, *request in sorted(turns, key=lambda t: t[0])]


def agents(rng):
    """6 agents with 30,000 tokens of instructions and files, 20 turns of tool results each, and two branches."""
    turns = []
    for agent in range(6):
        text = Text([("tools", 12000), (f"files {agent % 2}", 18000)])
        middle = None
        for turn in range(20):
            if turn == 10:
                middle = text
            if turn == 15:
                text = middle
            prompt = text + ("assistant", GENERATION)
            answer = prompt + (f"call {agent}.{turn}", rng.randint(30, 200))
            turns.append((turn + rng.random() * 2, prompt, len(text), answer))
            text = answer + (f"result {agent}.{turn}", rng.randint(100, 2500))
    return [request for _, *request in sorted(turns, key=lambda t: t[0])]


def documents(rng):
    """5 documents of 20,000 tokens, with 25 questions to each in turn."""
    requests = []
    for question in range(25):
        for document in range(5):
            text = Text([("system", 300), (f"document {document}", 20000), (f"q{document}.{question}", rng.randint(15, 60))])
            prompt = text + ("assistant", GENERATION)
            requests.append((prompt, len(text), prompt + (f"a{document}.{question}", rng.randint(50, 300))))
    return requests


def every(step):
    return type(f"Every{step}", (Every,), {"step": step})


POLICIES = {"kvik": Kvik, "every-512": every(512), "every-2048": every(2048), "every-8192": every(8192), "last": Last, "slots": Slots}
WORKLOADS = {"chats": chats, "agents": agents, "documents": documents}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--json", action="store_true")
    ap.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 256], help="snapshots that the budget holds")
    a = ap.parse_args()
    rows = []
    for name, make in WORKLOADS.items():
        requests = make(random.Random(1))
        seen, most = [], 0  # hits of an unlimited cache
        for prompt, _, answer in requests:
            most += max((min(shared(prompt, text), len(prompt) - 1) for text in seen), default=0)
            seen.append(answer)
        for size in a.sizes:
            for policy, kind in POLICIES.items():
                cache = kind(size)
                found = sum(cache.run(*request) for request in requests)
                rows.append({"workload": name, "snapshots": size, "policy": policy, "found": found, "findable": most, "share": found / most,
                             "kept": cache.cache.n_kept, "found_per_kept": found / max(1, cache.cache.n_kept)})
    if a.json:
        print(json.dumps(rows))
        return
    print(f"{'workload':<11}{'budget':>7}  {'policy':<12}{'found':>8}{'snapshots taken':>17}{'tokens found per snapshot':>27}")
    for row in rows:
        print(f"{row['workload']:<11}{row['snapshots']:>7}  {row['policy']:<12}{row['share']:>8.1%}{row['kept']:>17}{row['found_per_kept']:>27.0f}")


if __name__ == "__main__":
    main()
