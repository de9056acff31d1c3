#!/usr/bin/python3
"""Runs MaskBench's schemas (github.com/guidance-ai/jsonschemabench, maskbench/data) through `kvik constrain --batch`.

    tools/measure/maskbench.py FOLDER VOCAB [--kvik build/kvik] [--list FILE] [--only TEXT]

Prints the number of completely correct schemas, the keywords in the others, and the times of compilation and masks.
--list writes a line for each schema that is wrong or did not compile: its name, the kind of error, the reason."""
import argparse
import collections
import contextlib
import glob
import json
import os
import re
import subprocess
import sys
import tempfile


def read(folder, only):
    """Yields (name, file contents) of each schema."""
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        if only in path:
            with open(path, encoding="utf-8") as file:
                yield os.path.basename(path)[:-5], json.load(file)


def reason(error):
    """Returns a message without locations and values, so that missing features can be counted."""
    path, _, text = error.partition(": ")
    keyword = re.sub(r"\d+", "N", path.rsplit("/", 1)[-1]) if path.startswith("#") else ""
    text = re.sub(r"at (character|byte) \d+", r"at \1 N", text if keyword else error)
    if keyword == "$ref":
        text = re.sub(r"^\S+ is not", "… is not", text)
    return f"{keyword}: {text[:110]}" if keyword else text[:110]


def verdict(entry, outcome):
    """Returns the kind of error of a schema (or None), and the reason or the number of the test."""
    if not outcome["compiled"]:
        return "not compiled", outcome["error"]
    if outcome["error"]:
        return "ran out", outcome["error"]
    for i, (test, accepted) in enumerate(zip(entry["tests"], outcome["tests"])):
        if test["valid"] and not accepted:
            return "valid refused", f"test {i}"
    for i, (test, accepted) in enumerate(zip(entry["tests"], outcome["tests"])):
        if not test["valid"] and accepted:
            return "invalid accepted", f"test {i}"
    return None, None


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("vocabulary")
    parser.add_argument("--kvik", default="build/kvik")
    parser.add_argument("--list")
    parser.add_argument("--only", default="", help="schemas whose path holds this text")
    parser.add_argument("--formats", default="keep", choices=("keep", "ignore"))
    arguments = parser.parse_args()

    with tempfile.TemporaryFile("w+b") as lines:
        names = []
        for name, entry in read(arguments.folder, arguments.only):
            tests = [{"valid": test["valid"], "data": test["data"]} for test in entry["tests"]]
            line = {"id": name, "schema": entry["schema"], "tests": tests}
            lines.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
            names.append(name)
        lines.seek(0)
        with subprocess.Popen([arguments.kvik, "constrain", arguments.vocabulary, "--batch", "-", "--formats", arguments.formats],
                              stdin=lines, stdout=subprocess.PIPE) as process:
            outcomes = [json.loads(line) for line in process.stdout]
    if process.returncode != 0 or len(outcomes) != len(names):
        sys.exit(f"kvik constrain ended with {process.returncode} after {len(outcomes)} of {len(names)} schemas")

    kinds = collections.Counter()
    reasons = collections.defaultdict(collections.Counter)
    entries = read(arguments.folder, arguments.only)
    compile_us, p50, p99, most, n_tokens = [], [], [], [], 0
    with open(arguments.list, "w", encoding="utf-8") if arguments.list else contextlib.nullcontext() as listing:
        for outcome, (name, entry) in zip(outcomes, entries):
            kind, why = verdict(entry, outcome)
            kinds[kind or "right"] += 1
            compile_us.append(outcome["compile_us"])
            if outcome["tokens"]:
                p50.append(outcome["mask_us"][0]), p99.append(outcome["mask_us"][1]), most.append(outcome["mask_us"][2])
                n_tokens += outcome["tokens"]
            if not kind:
                continue
            if kind in ("not compiled", "ran out"):
                reasons[kind][reason(why)] += 1
            else:
                for feature in entry.get("meta", {}).get("features", []):
                    reasons[kind][feature] += 1
            if listing:
                print(name, kind, why, sep="\t", file=listing)

    print(f"{kinds.pop('right')} of {len(outcomes)} schemas are wholly right; " +
          ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    for kind, counts in sorted(reasons.items()):
        print(f"\n{kind}:")
        for what, n in counts.most_common(40):
            print(f"  {n:5} {what}")
    print(f"\ncompile_us p50 {quantile(compile_us, .5):.0f}, p90 {quantile(compile_us, .9):.0f}, p99 {quantile(compile_us, .99):.0f}, "
          f"most {max(compile_us):.0f}")
    print(f"mask_us of {n_tokens} tokens, by schema: p50 of p50 {quantile(p50, .5):.2f}, p50 of p99 {quantile(p99, .5):.2f}, "
          f"p99 of p99 {quantile(p99, .99):.1f}, most {max(most, default=0):.0f}")


if __name__ == "__main__":
    main()
