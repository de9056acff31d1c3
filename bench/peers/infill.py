#!/usr/bin/python3
"""Compares fill-in-the-middle answers of Kvik and llama.cpp, with the same model file: POST /infill, temperature 0.

    infill.py FILE http://127.0.0.1:KVIK http://127.0.0.1:LLAMA_CPP [--gaps 20] [--tokens 24] [--seed 1] [--prefix-mark '<|fim_prefix|>']

Gaps are cut out of the lines of the file: a gap is the second half of a line and up to two more lines, with 12 lines before it and 6 after it. llama.cpp
returns the text of its prompt. Where the vocabulary has tokens for repositories, it puts a made-up project and file name before the mark of the prefix. What
follows is the same prompt if Kvik finds all but its last token in its cache. Answers are compared twice: each program's own, and Kvik's to llama.cpp's prompt.
"""
import argparse
import json
import pathlib
import random
import urllib.request

BEFORE, AFTER = 12, 6  # lines


def post(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.loads(response.read())


def gaps_of(lines, n, seed):
    """Returns (number of the line, text before, text after, what is between)."""
    draw = random.Random(seed)
    places = [i for i, line in enumerate(lines) if len(line.strip()) > 12 and BEFORE < i < len(lines) - AFTER]
    for i in sorted(draw.sample(places, n)):
        column = len(lines[i]) - len(lines[i].lstrip()) + len(lines[i].strip()) // 2
        last = i + draw.randrange(3)
        before = "\n".join(lines[i - BEFORE:i]) + "\n" + lines[i][:column]
        between = "\n".join([lines[i][column:], *lines[i + 1:last + 1]])
        yield i + 1, before, "\n" + "\n".join(lines[last + 1:last + 1 + AFTER]), between


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("kvik")
    parser.add_argument("peer")
    parser.add_argument("--gaps", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefix-mark", default="<|fim_prefix|>")
    args = parser.parse_args()
    lines = pathlib.Path(args.file).read_text().splitlines()
    sums = dict.fromkeys(("the same prompt after the mark", "the same answer", "the same first line", "the same answer to the peer's prompt"), 0)
    n_right = [0, 0]
    print("| line | prompt tokens, Kvik / peer | " + " | ".join(sums) + " | the file's own line, Kvik / peer |\n|---|---|---|---|---|---|---|")
    for number, before, after, between in gaps_of(lines, args.gaps, args.seed):
        body = {"input_prefix": before, "input_suffix": after, "n_predict": args.tokens, "temperature": 0}
        ours, theirs = (post(url, "/infill", body) for url in (args.kvik, args.peer))
        text = theirs["prompt"]
        again = post(args.kvik, "/completion", {"prompt": text[text.index(args.prefix_mark):], "n_predict": 1, "temperature": 0})
        alike = post(args.kvik, "/completion", {"prompt": text, "n_predict": args.tokens, "temperature": 0})
        firsts = [answer["content"].partition("\n")[0] for answer in (ours, theirs)]
        right = [first == between.partition("\n")[0] for first in firsts]
        found = (again["tokens_evaluated"] == ours["tokens_evaluated"] and again["timings"]["prompt_n"] == 1, ours["content"] == theirs["content"],
                 firsts[0] == firsts[1], alike["content"] == theirs["content"])
        for name, is_so in zip(sums, found):
            sums[name] += is_so
        n_right = [a + b for a, b in zip(n_right, right)]
        words = ["yes" if is_so else "no" for is_so in found]
        print(f"| {number} | {ours['tokens_evaluated']} / {theirs['tokens_evaluated']} | {' | '.join(words)} | {' / '.join('yes' if r else 'no' for r in right)} |",
              flush=True)
    print(f"\n{args.gaps} gaps: " + ", ".join(f"{n} {name}" for name, n in sums.items()) + f"; the file's own line {n_right[0]} and {n_right[1]} times")


if __name__ == "__main__":
    main()
