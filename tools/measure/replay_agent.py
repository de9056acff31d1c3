#!/usr/bin/python3
"""Replays the requests of one recorded agent session against a server with llama.cpp's /completion route, one after the other: TTFT per turn, total time.

    replay_agent.py agent_sessions.jsonl SESSION --url http://127.0.0.1:8080 [--vocabulary 32000] [--max-answer N] [--requests N] [--shrink N]

The file has a JSON object a line, {"id", "block", "r": [[t, prompt tokens, answer tokens, blocks, parent, shared blocks, …, depth], …]}. Prompts are
random token ids of the recorded lengths; each begins with the blocks that it shares with its parent's prompt, and contains the server's own answer where it
shares all of them, as an agent's next turn does. Answers have exactly the recorded number of tokens. Pauses are left out. --shrink divides all numbers of
tokens, for models with a short context. Traffic goes only to a loopback address.
"""
import argparse
import http.client
import json
import random
import statistics
import time
from urllib.parse import urlparse


def session_of(path, name):
    with open(path) as f:
        for line in f:
            session = json.loads(line)
            if session["id"] == name:
                return session
    raise SystemExit(f"{path} has no session {name}")


def ask(url, prompt, n):
    """Returns the answer's ids, TTFT and total time in s, and how many tokens the server says it computed."""
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=3600)
    body = {"prompt": prompt, "n_predict": n, "temperature": 0, "ignore_eos": True, "stream": True, "return_tokens": True, "cache_prompt": True}
    begin = time.perf_counter()
    connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise SystemExit(f"status {response.status}: {response.read(500).decode(errors='replace')}")
    first, ids, computed = None, [], None
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        new = event.get("tokens") or []
        if first is None and (new or event.get("content")):
            first = time.perf_counter()
        if not event.get("stop"):
            ids += new
        computed = event.get("timings", {}).get("prompt_n", computed)
    connection.close()
    end = time.perf_counter()
    return ids, (first or end) - begin, end - begin, computed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sessions")
    parser.add_argument("session")
    parser.add_argument("--url", required=True)
    parser.add_argument("--vocabulary", type=int, default=32000, help="ids are below it")
    parser.add_argument("--max-answer", type=int, default=1 << 30, help="longer answers are cut to this many tokens")
    parser.add_argument("--requests", type=int, default=1 << 30, help="the first so many")
    parser.add_argument("--shrink", type=int, default=1, help="divides all numbers of tokens")
    args = parser.parse_args()
    url = urlparse(args.url)
    if url.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise SystemExit(f"{args.url} is not a loopback address")
    if args.shrink < 1:
        raise SystemExit(f"--shrink {args.shrink}: expected a number from 1 on")
    session = session_of(args.sessions, args.session)
    draw = random.Random(1)
    prompts, answers, ttfts, total, n_computed = [], [], [], 0.0, 0
    print("| request | prompt | new | answer | computed | TTFT [ms] | total [s] |\n|---|---|---|---|---|---|---|")
    for i, (_, n_prompt, n_answer, _, parent, shared, *_) in enumerate(session["r"][:args.requests]):
        n_prompt, n_answer = max(2, n_prompt // args.shrink), max(1, n_answer // args.shrink)
        prompt = []
        if parent >= 0:
            block = max(1, session["block"] // args.shrink)
            n_shared = shared * block
            whole = n_shared + block > len(prompts[parent])
            prompt = prompts[parent] + answers[parent] if whole else prompts[parent][:n_shared]
        prompt = prompt[:n_prompt - 1]
        n_new = n_prompt - len(prompt)
        prompt = prompt + [draw.randrange(1000, args.vocabulary) for _ in range(n_new)]
        answer, ttft, took, computed = ask(url, prompt, min(n_answer, args.max_answer))
        prompts.append(prompt)
        answers.append(answer)
        ttfts.append(ttft)
        total += took
        n_computed += computed or 0
        print(f"| {i + 1} | {n_prompt} | {n_new} | {len(answer)} | {computed} | {ttft * 1e3:.0f} | {took:.1f} |", flush=True)
    later = ttfts[1:] or ttfts
    print(f"\n{len(ttfts)} requests, {sum(map(len, prompts))} prompt tokens, {n_computed} computed, {sum(map(len, answers))} generated; total {total:.1f} s; "
          f"TTFT of the first {ttfts[0]:.2f} s, of the others: median {statistics.median(later):.2f} s, most {max(later):.2f} s")


if __name__ == "__main__":
    main()
