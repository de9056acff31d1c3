#!/usr/bin/python3
"""Compares engines' Python packages on one call with 200 prompts, in alternation (A B C A B C …): generated tokens per second, and ratios.

    batch.py --text FILE kvik=PYTHON:MODEL.gguf llama-cpp-python=PYTHON:MODEL.gguf ctranslate2=PYTHON:FOLDER 'vllm=PYTHON:FOLDER --type bfloat16'

PYTHON is that of an environment with the package; after MODEL may come flags of batch_one.py. The same engine may be named twice. The prompts are
passages of the text; with --shared all of them begin with the same passage of that many words.
"""
import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def prompts_of(text, options):
    words = text.split()
    rng = random.Random(3)

    def passage(n):
        start = rng.randrange(len(words) - n)
        return " ".join(words[start:start + n])

    shared = passage(options.shared) + "\n\n" if options.shared else ""
    return [shared + passage(options.words) for _ in range(options.prompts)]


def parts_of(contestant):
    """Returns engine, Python and the list of arguments of ENGINE=PYTHON:ARGUMENTS."""
    engine, _, rest = contestant.partition("=")
    python, _, arguments = rest.partition(":")
    return engine, python, shlex.split(arguments)


def run_in_environment(python, script, *arguments):
    """Runs a script of this folder with that Python, and returns the JSON in its last line."""
    command = [python, os.path.join(HERE, script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(contestant, path, options):
    engine, python, model = parts_of(contestant)
    return run_in_environment(python, "batch_one.py", engine, *model, path, "--tokens", str(options.tokens), "--threads", str(options.threads))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contestants", nargs="+", metavar="ENGINE=PYTHON:MODEL")
    parser.add_argument("--text", required=True)
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--words", type=int, default=60, help="of each prompt")
    parser.add_argument("--shared", type=int, default=0, help="words of a beginning that all prompts share")
    parser.add_argument("--tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with open(options.text, encoding="utf-8") as f:
        prompts = prompts_of(f.read(), options)
    speeds = {contestant: [] for contestant in options.contestants}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "prompts.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(prompts, f)
        for number in range(options.rounds):
            for contestant, found in speeds.items():
                figures = measure(contestant, path, options)
                found.append(figures["tokens"] / figures["seconds"])
                print(f"round {number + 1}: {contestant}: {found[-1]:.1f} tokens/s {figures['system']}", file=sys.stderr, flush=True)
    first = statistics.median(speeds[options.contestants[0]])
    print("| engine and model | tokens/s (each round) | first / this |\n|---|---|---|")
    for contestant, found in speeds.items():
        name, _, (model, *flags) = parts_of(contestant)
        label = " ".join((name, os.path.basename(model), *flags))
        print(f"| {label} | {', '.join(f'{speed:.1f}' for speed in found)} | {first / statistics.median(found):.2f}× |")


if __name__ == "__main__":
    main()
