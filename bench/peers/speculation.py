#!/usr/bin/python3
"""Measures the speedup of speculative decoding in Kvik, llama.cpp and its forks, on the prompts of replays:

    speculation.py model.gguf replay.jsonl… [--kvik build/kvik] [--node-modules FOLDER] [--threads 2] [--tokens 128]
                   [--temperature 0] [--serve=--draft=FILE] [--no-npm]
                   [--peer-server 'fork=llama-server -rtr' --peer-speculation-flags '--spec-type ngram-simple']

Each engine generates its own answers of the same length with and without draft tokens, so the ratios compare the speedup on the
engine's own answers, not on one common text. The time runs from the first token of an answer to its last.
"""
import argparse
import contextlib
import functools
import json
import os
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from node_script import run_node

HERE = Path(__file__).resolve().parent


def answer(port, prompt, n_tokens, temperature, speculate):
    """Returns (tokens after the first, seconds, drafted, accepted)."""
    body = {"prompt": prompt, "max_tokens": n_tokens + 1, "temperature": temperature, "seed": 1, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}, "speculate": speculate,
            "cache_salt": f"speculation {speculate}"}  # separate caches: otherwise one variant would draft from the other's answer
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    first, usage = None, {}
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
    return (usage.get("completion_tokens", n_tokens + 1) - 1, last - first, details.get("accepted_prediction_tokens", 0),
            details.get("rejected_prediction_tokens", 0))


@contextlib.contextmanager
def serving(command, ready):
    """Yields the port of a running server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            if server.poll() is not None:
                raise SystemExit(f"{shlex.join(command)} ended: {server.returncode}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}").close()
                break
            except OSError:
                time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait()


def compare(options, replay, ports):
    """Measures each prompt without and with draft tokens. `ports` maps the variant to the port of its server."""
    prompts = [json.loads(line)["prompt"] for line in open(replay, encoding="utf-8")]
    for port in set(ports.values()):
        answer(port, prompts[0], 8, 0, False)  # warms up
    sums = {way: [0, 0, 0, 0] for way in ports}
    for prompt in prompts:
        for way, port in ports.items():
            one = answer(port, prompt, options.tokens, options.temperature, way)
            sums[way] = [a + b for a, b in zip(sums[way], one)]
    speeds = {way: n / seconds for way, (n, seconds, _, _) in sums.items()}
    return {"tok_s": speeds[True], "tok_s_off": speeds[False], "ratio": speeds[True] / speeds[False],
            "validated": sums[True][2], "refuted": sums[True][3]}


def of_kvik(options, model, replay):
    command = [options.kvik, "serve", model, "--threads", str(options.threads), "--ctx", "4096", *options.serve]
    with serving(command, "/readyz") as port:
        return compare(options, replay, {False: port, True: port})


def of_peer_server(options, model, replay, command):
    """Starts two servers of the same program, one with the flags for speculation."""
    command = [*shlex.split(command), "-m", model, "-t", str(options.threads), "-c", "4096", "-np", "1"]
    with serving(command, "/health") as off, serving([*command, *shlex.split(options.peer_speculation_flags)], "/health") as on:
        return compare(options, replay, {False: off, True: on})


def of_llama_cpp(options, model, replay):
    printed = run_node(options.node_modules, "llama_cpp_speculation.mjs", os.path.abspath(model), os.path.abspath(replay), options.threads,
                       options.tokens, options.temperature)
    return json.loads(printed.splitlines()[-1])


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
    parser.add_argument("--no-npm", action="store_true", help="without the llama.cpp that npm carries")
    parser.add_argument("--peer-server", action="append", default=[], help="NAME=COMMAND of a server with llama.cpp's flags")
    parser.add_argument("--peer-speculation-flags", default="", help="the flags that enable speculation in those servers")
    options = parser.parse_args()
    engines = {"kvik": of_kvik}
    if not options.no_npm:
        engines["llama.cpp"] = of_llama_cpp
    for peer in options.peer_server:
        name, _, command = peer.partition("=")
        engines[name] = functools.partial(of_peer_server, command=command)
    for replay in options.replays:
        for name, measure in engines.items():
            result = measure(options, options.model, replay)
            json.dump({"replay": Path(replay).stem, "engine": name, **{k: round(v, 2) for k, v in result.items()}}, sys.stdout)
            print(flush=True)


if __name__ == "__main__":
    main()
