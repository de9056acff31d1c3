#!/usr/bin/env python3
"""What guessed tokens bring, Kvik beside llama.cpp, on the prompts of replays:

    speculation.py model.gguf replay.jsonl… [--kvik build/kvik] [--node-modules FOLDER] [--threads 2] [--tokens 128]
                   [--temperature 0] [--serve=--draft=FILE] [--no-peer]

Each engine gives answers of its own, of the same length, with guesses and without; so the ratios compare what each
makes of its own answers, not of one text. The time runs from the first token of an answer to its last.
"""
import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent


def answer(port, prompt, n_tokens, temperature, speculate):
    """(tokens behind the first, seconds, drafted, accepted)"""
    body = {"prompt": prompt, "max_tokens": n_tokens + 1, "temperature": temperature, "seed": 1, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}, "speculate": speculate,
            "cache_salt": f"speculation {speculate}"}  # or one way would guess what the other one answered
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode())
    first = usage = None
    with urllib.request.urlopen(request) as events:
        for line in events:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            if event["choices"]:
                last = time.monotonic()
                first = first or last
    details = usage.get("completion_tokens_details") or {}
    return (usage["completion_tokens"] - 1, last - first, details.get("accepted_prediction_tokens", 0),
            details.get("rejected_prediction_tokens", 0))


def of_kvik(options, model, replay):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([options.kvik, "serve", model, "--threads", str(options.threads), "--port", str(port),
                               "--ctx", "4096", *options.serve], stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
                break
            except OSError:
                time.sleep(0.1)
        prompts = [json.loads(line)["prompt"] for line in open(replay, encoding="utf-8")]
        answer(port, prompts[0], 8, 0, False)  # warms up
        sums = {False: [0, 0, 0, 0], True: [0, 0, 0, 0]}
        for prompt in prompts:
            for speculate in sums:
                one = answer(port, prompt, options.tokens, options.temperature, speculate)
                sums[speculate] = [a + b for a, b in zip(sums[speculate], one)]
    finally:
        server.terminate()
        server.wait()
    speeds = {way: n / seconds for way, (n, seconds, _, _) in sums.items()}
    return {"tok_s": speeds[True], "tok_s_off": speeds[False], "ratio": speeds[True] / speeds[False],
            "validated": sums[True][2], "refuted": sums[True][3]}


def of_llama_cpp(options, model, replay):
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(Path(options.node_modules).resolve(), f"{folder}/node_modules")
        shutil.copy(HERE / "llama_cpp_speculation.mjs", folder)
        done = subprocess.run(["node", "llama_cpp_speculation.mjs", os.path.abspath(model), os.path.abspath(replay), str(options.threads),
                               str(options.tokens), str(options.temperature)], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("replays", nargs="+")
    parser.add_argument("--kvik", default="build/kvik")
    parser.add_argument("--node-modules", default=str(HERE / "node_modules"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--serve", action="append", default=[], help="a further flag of kvik serve")
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    for replay in options.replays:
        for name, measure in (("kvik", of_kvik), ("llama.cpp", of_llama_cpp))[:1 if options.no_peer else 2]:
            result = measure(options, options.model, replay)
            json.dump({"replay": Path(replay).stem, "engine": name, **{k: round(v, 2) for k, v in result.items()}}, sys.stdout)
            print(flush=True)


if __name__ == "__main__":
    main()
