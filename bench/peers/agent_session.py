#!/usr/bin/python3
"""Replays a coding agent's session, turn by turn, and prints the time to first token and the total time of each turn.

    agent_session.py agent_sessions.jsonl --session trace_0674 --url old=http://127.0.0.1:8081 --url new=http://127.0.0.1:8082
    agent_session.py agent_sessions.jsonl --session trace_0674 --npm model.gguf --threads 2

The file has one session a line: {"id", "block", "r": [[second, prompt tokens, answer tokens, blocks, parent, shared blocks, …], …]}: the first
shared blocks of a prompt equal those of its parent's. Tokens are random, the same for every server; answers are greedy, do not end early, and are
not part of the next prompt, as the trace has its own tokens there. Servers run one after the other; each is sent the same turns. Pauses between
turns are left out. --url servers need /v1/completions with token ids (Kvik, vLLM, llama-server); --npm uses the llama.cpp of node-llama-cpp,
whose sequence keeps the common prefix. --shrink divides all numbers of tokens, for models with a short context.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request

FOLDER = os.path.dirname(os.path.abspath(__file__))


def read_turns(path, session, answer_share, n_turns, shrink):
    """Returns [(prompt tokens, number of answer tokens, tokens shared with the parent)] of one session."""
    with open(path) as f:
        found = next((s for s in map(json.loads, f) if s["id"] == session), None)
    if found is None:
        sys.exit(f"{path} has no session {session}")
    size, numbers = max(1, found["block"] // shrink), random.Random(session)
    blocks, turns = [], []
    for _, n_prompt, n_answer, n_blocks, parent, shared, *_ in found["r"][:n_turns]:
        own = list(blocks[parent][:shared]) if parent >= 0 else []
        own += [[numbers.randrange(300, 1300) for _ in range(size)] for _ in range(n_blocks - len(own))]
        blocks.append(own)
        prompt = [token for block in own for token in block][:max(1, n_prompt // shrink)]
        turns.append((prompt, max(1, round(n_answer * answer_share / shrink)), shared * size if parent >= 0 else 0))
    return turns


def replay_over_http(url, turns):
    """Returns [(time to first token, time of the turn)] in seconds."""
    times = []
    for prompt, n_answer, _ in turns:
        body = {"prompt": prompt, "max_tokens": n_answer, "temperature": 0, "ignore_eos": True, "stream": True,
                "logprobs": 1}  # so that a token without text is an event, too
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        begin, first = time.monotonic(), None
        with urllib.request.urlopen(request, timeout=3600) as events:
            for line in events:
                if first is None and line.startswith(b"data: {"):
                    first = time.monotonic() - begin
        times.append((first, time.monotonic() - begin))
    return times


def replay_with_npm(model, threads, kv_type, turns):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([{"prompt": prompt, "n": n_answer} for prompt, n_answer, _ in turns], file)
        file.flush()
        command = ["node", os.path.join(FOLDER, "llama_cpp_session.mjs"), model, file.name, str(threads), kv_type]
        return [tuple(pair) for pair in json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sessions")
    parser.add_argument("--session", required=True)
    parser.add_argument("--url", action="append", default=[], metavar="NAME=URL")
    parser.add_argument("--npm", metavar="MODEL.gguf")
    parser.add_argument("--npm-kv-type", default="q8_0")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=1000, help="only the first ones")
    parser.add_argument("--shrink", type=int, default=1, metavar="N")
    parser.add_argument("--answer-share", type=float, default=1.0, help="part of each answer that is generated")
    options = parser.parse_args()
    turns = read_turns(options.sessions, options.session, options.answer_share, options.turns, options.shrink)
    runs = {}
    for given in options.url:
        name, _, url = given.partition("=")
        runs[name] = replay_over_http(url, turns)
    if options.npm:
        runs["llama.cpp"] = replay_with_npm(options.npm, options.threads, options.npm_kv_type, turns)
    print(f"{'turn':>4} {'prompt':>7} {'new':>6} {'answer':>6}" + "".join(f"  {name + ' TTFT':>14} {'total':>7}" for name in runs))
    for i, (prompt, n_answer, shared) in enumerate(turns):
        print(f"{i + 1:4} {len(prompt):7} {len(prompt) - shared:6} {n_answer:6}"
              + "".join(f"  {run[i][0]:14.2f} {run[i][1]:7.2f}" for run in runs.values()))
    for name, run in runs.items():
        print(f"{name}: TTFT {sum(first for first, _ in run):.1f} s, all {sum(whole for _, whole in run):.1f} s")


if __name__ == "__main__":
    main()
