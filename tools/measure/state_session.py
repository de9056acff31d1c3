#!/usr/bin/python3
"""Runs an agent's session on a server: a long prefix, turns with tool results, two branches; reports cached tokens and latency of each turn.

    kvik serve synthetic:qwen3.6-35b-a3b:q4_0:8 --kv-memory 2GiB --ctx 65536 &
    state_session.py --port 8080 --prefix 30000 --turns 20

Prompts are token ids, so that a random model can be used. "reusable" is the common prefix of a prompt with everything computed before;
cached over reusable tokens measures the cache. A random model's text may be delayed by detokenization: with --answer 1 the time to the first
token is exact. --llama uses a server of the llama.cpp family through its own /completion, which does not report cached tokens (`prompt_n` is of
its last batch). Needs only Python.
"""
import argparse
import http.client
import json
import random
import time


class Client:
    def __init__(self, port):
        self.port = port

    def post(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise SystemExit(response.read().decode())
        for line in response:
            if line.startswith(b"data: {"):
                yield json.loads(line[6:])
        connection.close()

    def complete(self, prompt, n):
        """Returns (ids of the answer, cached tokens or None, seconds to the first token)."""
        body = {"prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True, "stream": True, "return_token_ids": True,
                "stream_options": {"include_usage": True}}
        begin, first, ids, found = time.monotonic(), None, [], 0
        for event in self.post("/v1/completions", body):
            if event.get("usage"):
                found = event["usage"]["prompt_tokens_details"]["cached_tokens"]
            for choice in event.get("choices", []):
                ids += choice.get("token_ids") or []
                first = first or time.monotonic()
        return ids, found, (first or time.monotonic()) - begin


class LlamaClient(Client):
    def complete(self, prompt, n):
        body = {"prompt": prompt, "n_predict": n, "temperature": 0, "ignore_eos": True, "stream": True, "cache_prompt": True, "return_tokens": True}
        begin, first, ids = time.monotonic(), None, []
        for event in self.post("/completion", body):
            ids += event.get("tokens") or []
            first = first or time.monotonic()
        return ids, None, (first or time.monotonic()) - begin


def shared(a, b):
    n = 0
    for x, y in zip(a, b):
        if x != y:
            break
        n += 1
    return n


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--port", type=int, default=8080)
    ap.add_argument("--prefix", type=int, default=30000)
    ap.add_argument("--turns", type=int, default=20)
    ap.add_argument("--result", type=int, default=400, help="tokens of a tool's result, about")
    ap.add_argument("--answer", type=int, default=32)
    ap.add_argument("--llama", action="store_true")
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    rng, client = random.Random(1), (LlamaClient if a.llama else Client)(a.port)
    some = lambda n: [rng.randrange(300, 20000) for _ in range(n)]
    text, middle, known, rows = some(a.prefix), None, [], []
    for turn in range(a.turns):
        if turn == a.turns // 2:
            middle = text
        if turn == 3 * a.turns // 4:
            text = middle[:-a.result // 2] + some(20)  # another branch
        prompt = text
        reusable = min(max((shared(prompt, other) for other in known), default=0), len(prompt) - 1)
        ids, found, ttft = client.complete(prompt, a.answer)
        known.append(prompt + ids[:-1])
        rows.append({"turn": turn, "prompt": len(prompt), "reusable": reusable, "found": found, "computed": None if found is None else len(prompt) - found,
                     "ttft_s": ttft})
        text = prompt + ids + some(a.result // 2 + rng.randrange(a.result))
    if a.json:
        print(json.dumps(rows))
        return
    print(f"{'turn':>4}{'prompt':>8}{'reusable':>10}{'found':>8}{'share':>8}{'computed':>10}{'TTFT':>10}")
    for r in rows:
        output = f"{'':>26}"
        if r["found"] is not None:
            output = f"{r['found']:>8}{r['found'] / (r['reusable'] or 1):>8.1%}{r['computed']:>10}"
        print(f"{r['turn']:>4}{r['prompt']:>8}{r['reusable']:>10}{output}{r['ttft_s']:>9.3f}s")
    print(f"TTFT of turn 1 is {rows[1]['ttft_s'] / rows[0]['ttft_s']:.2%} of turn 0's")


if __name__ == "__main__":
    main()
