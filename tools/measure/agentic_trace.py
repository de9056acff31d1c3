#!/usr/bin/python3
"""Writes sessions of agents as the traces that AIPerf's agentic replay reads (`--custom-dataset-type weka-trace`).

    agentic_trace.py agent_sessions.jsonl FOLDER [--sessions 2] [--most-tokens 65536] [--shrink 8] [--requests 40]

Input: a JSON object a line, {"id", "block", "r": [[t, prompt tokens, answer tokens, blocks, parent, shared blocks, stop, think s, api s, depth], …]}.
Takes the first sessions of at least that many requests whose prompts have at most --most-tokens, without the requests of sub-agents. --shrink divides the size
of blocks and the numbers of tokens, so that a small model's context holds a session; which blocks requests share stays the same. Prints what it wrote.
"""
import argparse
import json
import pathlib


def requests_of(session, n, shrink):
    block = session["block"] // shrink
    blocks, made, new = [], [], 0
    for t, n_prompt, n_answer, n_blocks, parent, shared, stop, think_s, api_s, depth, *_ in session["r"]:
        kept = blocks[parent][:shared] if parent >= 0 else []
        ids = kept + list(range(new, new + n_blocks - len(kept)))
        new += n_blocks - len(kept)
        blocks.append(ids)
        if depth == 0 and len(made) < n:
            made.append({"t": t, "type": "s", "model": "model", "in": min(n_prompt // shrink, len(ids) * block), "out": max(1, n_answer // shrink), "hash_ids": ids,
                         "stop": {"t": "tool_use", "e": "end_turn"}.get(stop, ""), "think_time": think_s, "api_time": api_s})
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sessions_file")
    parser.add_argument("folder")
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--most-tokens", type=int, default=65536)
    parser.add_argument("--shrink", type=int, default=8)
    parser.add_argument("--requests", type=int, default=40)
    args = parser.parse_args()
    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    n_left = args.sessions
    with open(args.sessions_file) as file:
        for session in map(json.loads, file):
            own = [r for r in session["r"] if r[9] == 0][:args.requests]
            if n_left == 0 or len(own) < args.requests or max(r[1] for r in own) > args.most_tokens:
                continue
            n_left -= 1
            made = requests_of(session, args.requests, args.shrink)
            trace = {"id": session["id"], "models": ["model"], "block_size": session["block"] // args.shrink, "hash_id_scope": "local",
                     "tool_tokens": session["tool"] // args.shrink, "system_tokens": session["system"] // args.shrink, "requests": made}
            (folder / (session["id"] + ".json")).write_text(json.dumps(trace))
            seen, n_new = set(), 0
            for request in made:
                n_new += len(set(request["hash_ids"]) - seen) * trace["block_size"]
                seen |= set(request["hash_ids"])
            print(f"{session['id']}: {len(made)} requests, {sum(r['in'] for r in made)} prompt tokens, at most {max(r['in'] for r in made)}, about {n_new} of them "
                  f"new; {sum(r['out'] for r in made)} answer tokens")


if __name__ == "__main__":
    main()
