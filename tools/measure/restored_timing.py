#!/usr/bin/python3
"""Measures whether the time of a request tells one API key what the server remembers of another key's answers.

    tools/measure/restored_timing.py build/kvik [--model demo] [--conversations 400]

One key has conversations whose answers the server keeps (--answer-memory). A second key, with a salt of its own (--share key), sends half of these
conversations on, as an attacker does who suspects a question and its answer, and half with the words of the question in another order, which nobody
has asked. Both kinds have as many tokens, and each is sent once. The owner does the same, which shows the difference that the attacker looks for.

For each key it prints the medians of the time until the answer's only token, and the share of pairs in which a wrong conversation takes longer than a
right one: 50% is no difference, and the bounds are those of chance for so many pairs (Mann and Whitney 1947, 95%)."""
import argparse
import http.client
import json
import math
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "client"))

# Keeps the reasoning of earlier turns, so that an answer without it is restored with it.
TEMPLATE = ("{% for m in messages %}{% if m.role == 'user' %}user:\n{% else %}assistant:\n{% endif %}{% if m.reasoning_content %}<think>\n"
            "{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}<|end|>\n{% endfor %}{% if add_generation_prompt %}assistant:\n<think>\n{% endif %}")
WORDS = "my lord the king shall come with night and speak no more of war till blood is shed upon our land where men do weep for love".split()
QUESTION_WORDS, REASONING_TOKENS, ANSWER_TOKENS = 60, 24, 60
KEYS = {"owner": "secret-owner", "other key": "secret-other"}


class Client:
    """A connection of one key."""

    def __init__(self, port, key):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEYS[key]}"}

    def chat(self, messages, n_tokens):
        """Returns the answer and the seconds that it took."""
        return self.post("/v1/chat/completions", {"messages": messages, "max_tokens": n_tokens, "reasoning_budget": REASONING_TOKENS, "temperature": 1,
                                                  "seed": 1})

    def post(self, path, body):
        text = json.dumps(body)
        begin = time.perf_counter()
        self.connection.request("POST", path, text, self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        seconds = time.perf_counter() - begin
        if answer.status != 200:
            raise SystemExit(f"{path}: status {answer.status}: {text[:300]!r}")
        return json.loads(text), seconds

    def count(self, words):
        return len(self.post("/tokenize", {"content": " ".join(words)})[0]["tokens"])


def question(draw):
    return [draw.choice(WORDS) for _ in range(QUESTION_WORDS)]


def reordered(words, draw, client):
    """Returns the words in another order, with as many tokens."""
    n_tokens = client.count(words)
    while True:
        other = draw.sample(words, len(words))
        if other != words and client.count(other) == n_tokens:
            return other


def share_longer(wrong, right):
    """Returns the share of pairs in which the wrong conversation takes longer. Equal times count as one half."""
    return sum((w > r) + (w == r) / 2 for w in wrong for r in right) / (len(wrong) * len(right))


def measure(port, n, draw):
    owner = Client(port, "owner")
    known = []
    for _ in range(n):
        words = question(draw)
        answer, _ = owner.chat([{"role": "user", "content": " ".join(words)}], ANSWER_TOKENS)
        message = answer["choices"][0]["message"]
        if message["content"] and message.get("reasoning_content"):
            known.append((words, message["content"]))
    draw.shuffle(known)
    half = len(known) // 2
    rows = []
    for key, conversations in (("other key", known[:half]), ("owner", known[half:])):
        client = Client(port, key)
        times, counts, n_restored = {True: [], False: []}, {True: [], False: []}, 0
        for i, (words, content) in enumerate(conversations):
            is_right = i % 2 == 0
            other = reordered(words, draw, client)  # also where it is not sent, so that both kinds follow the same requests
            asked = " ".join(words if is_right else other)
            answer, seconds = client.chat([{"role": "user", "content": asked}, {"role": "assistant", "content": content},
                                           {"role": "user", "content": "What more?"}], 1)
            times[is_right].append(1000 * seconds)
            counts[is_right].append(answer["usage"]["prompt_tokens"])
            n_restored += answer["usage"].get("kvik", {}).get("restored_tokens", 0) > 0
        rows.append((key, times, counts, n_restored))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvik")
    parser.add_argument("--model", default="demo")
    parser.add_argument("--conversations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ["KVIK_BINARY"] = os.path.abspath(options.kvik)
    from server import Server
    with tempfile.TemporaryDirectory() as folder:
        keys, template = pathlib.Path(folder, "keys"), pathlib.Path(folder, "template")
        keys.write_text("".join(f"{secret} {name.split()[0]}\n" for name, secret in KEYS.items()))
        keys.chmod(0o600)
        template.write_text(TEMPLATE)
        with Server(options.model, "--api-key-file", keys, "--share", "key", "--chat-template", template, "--threads", 2, "--kv-memory", "1GiB",
                    "--answer-memory", "64MiB") as server:
            rows = measure(server.port, options.conversations, random.Random(options.seed))
    print("| key | requests | with restored tokens | prompt tokens, right / wrong | median, right | median, wrong | wrong takes longer | by chance |\n"
          "|---|---|---|---|---|---|---|---|")
    for key, times, counts, n_restored in rows:
        right, wrong = times[True], times[False]
        margin = 1.96 * math.sqrt((len(right) + len(wrong) + 1) / (12 * len(right) * len(wrong)))
        print(f"| {key} | {len(right) + len(wrong)} | {n_restored} | {statistics.mean(counts[True]):.1f} / {statistics.mean(counts[False]):.1f} | "
              f"{statistics.median(right):.2f} ms | {statistics.median(wrong):.2f} ms | {100 * share_longer(wrong, right):.1f}% | "
              f"{50 - 100 * margin:.1f} to {50 + 100 * margin:.1f}% |")


if __name__ == "__main__":
    main()
