#!/usr/bin/python3
"""Measures the loss of quality from weight types, int8 activations and KV types: Kvik against the float64 oracle.

    quality.py tables --text plays.txt --plays --last 0.05      # perplexity and KL divergence, every type
    quality.py needle --text plays.txt --plays --last 0.05      # repeated text, by distance and KV type
    quality.py recall                                           # one key among thousands, by KV type

Runs `kvik logits --all` on windows of a held-out text and compares each position's
distribution with tools/oracle/reference_logits.py on the same weights. Perplexities are of the windows' tokens; KL is
KL(oracle || Kvik) in nats, mean over positions and maximum; `same token` is the share of positions where both have the same
most likely token. --plays treats blank lines as the end of a speech, as train_demo_model.py does, and --last 0.05 selects the
part that it held out. Any model and text can be used. `recall` asks a model built for it (recall_model.py) for the
value of one token in a long context. Needs numpy only.
"""
import argparse
import contextlib
import os
import subprocess
import sys
import tempfile

import numpy as np

TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TOOLS, "make"), os.path.join(TOOLS, "oracle")]
import recall_model  # noqa: E402
import reference_logits  # noqa: E402
from gguf_file import TYPES, read_metadata  # noqa: E402

PAGES = ("f32", "bf16", "int8", "int4")


class Kvik:
    def __init__(self, binary):
        self.binary = binary

    def run(self, *args, stdin=b""):
        done = subprocess.run([self.binary, *map(str, args)], input=stdin, capture_output=True)
        if done.returncode:
            sys.exit(f"kvik {' '.join(map(str, args))[:100]}: {done.stderr.decode()}")
        return done.stdout

    def tokenize(self, model, text):
        return [int(t) for t in self.run("tokenize", model, "--no-bos", "--parse-special", "-", stdin=text.encode()).split()]

    def log_probabilities(self, model, tokens, kv_type):
        """Returns log probabilities as [tokens, n_vocab] float64."""
        out = self.run("logits", model, "--all", "--kv-type", kv_type, "--tokens", ",".join(map(str, tokens)))
        return log_softmax(np.array(out.split(), np.float64).reshape(len(tokens), -1))

    def last_log_probabilities(self, model, tokens, kv_type):
        out = self.run("logits", model, "--kv-type", kv_type, "--tokens", ",".join(map(str, tokens)))
        return log_softmax(np.array(out.split(), np.float64))

    def knows(self, model, kv_type):
        command = [self.binary, "logits", model, "--tokens", "1", "--kv-type", kv_type]
        return subprocess.run(command, capture_output=True).returncode == 0


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def held_back(kvik, a):
    """Returns the tokens of the last part of the text."""
    with open(a.text, encoding="utf-8") as f:
        text = f.read()
    if a.plays:
        text = "".join(speech.strip() + "<|end|>\n" for speech in text.split("\n\n") if speech.strip())
    tokens = kvik.tokenize(a.model, text)
    return tokens[len(tokens) - int(len(tokens) * a.last):]


def windows_of(tokens, begin, a):
    """Returns windows evenly spaced over the text, each after a BOS token."""
    n_own = a.length - 1
    starts = np.linspace(0, len(tokens) - n_own, a.windows).astype(int)
    return [[begin, *tokens[i:i + n_own]] for i in starts]


# --- tables ---

class Score:
    """Sums of the log-likelihood and of the distance from the oracle, over positions."""

    def __init__(self):
        self.nll, self.kl, self.same = [], [], []

    def add(self, tokens, got, want):
        rows = np.arange(len(tokens) - 1)
        self.nll += (-got[rows, tokens[1:]]).tolist()
        self.kl += (np.exp(want) * (want - got)).sum(-1).tolist()
        self.same += (got.argmax(-1) == want.argmax(-1)).tolist()

    def perplexity(self):
        return np.exp(np.mean(self.nll))


@contextlib.contextmanager
def converted(model, element_type):
    """Yields the path of the model with its matrices in another type."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        subprocess.run([sys.executable, os.path.join(TOOLS, "make/convert_gguf.py"), "--type", element_type, model, path], check=True)
        yield path


def tables(kvik, a):
    begin = begin_token(a.model)
    windows = windows_of(held_back(kvik, a), begin, a)
    original = [log_softmax(reference_logits.forward(*reference_logits.load(a.model), w)) for w in windows]
    pages = [p for p in a.pages.split(",") if kvik.knows(a.model, p)]
    print(f"{len(windows)} windows of {a.length} tokens; perplexity of {os.path.basename(a.model)} in float64: "
          f"{perplexity_of(windows, original):.4f}\n")
    print("| weights | pages | perplexity, oracle | perplexity, Kvik | change | KL mean | KL max | same token | KL to the original weights |")
    print("|---|---|---|---|---|---|---|---|---|")
    for element_type in a.weights.split(","):
        with converted(a.model, element_type) as path:
            weights = reference_logits.load(path)
            oracle = [log_softmax(reference_logits.forward(*weights, w)) for w in windows]
            base = perplexity_of(windows, oracle)
            for page in pages:
                score, drift = Score(), Score()
                for tokens, want, first in zip(windows, oracle, original):
                    got = kvik.log_probabilities(path, tokens, page)
                    score.add(tokens, got, want)
                    drift.add(tokens, got, first)
                print(f"| {element_type} | {page} | {base:.4f} | {score.perplexity():.4f} | {100 * (score.perplexity() / base - 1):+.3f}% | "
                      f"{np.mean(score.kl):.1e} | {np.max(score.kl):.1e} | {100 * np.mean(score.same):.2f}% | {np.mean(drift.kl):.1e} |",
                      flush=True)


def perplexity_of(windows, oracle):
    score = Score()
    for tokens, want in zip(windows, oracle):
        score.add(tokens, want, want)
    return score.perplexity()


def begin_token(model):
    return read_metadata(model)["tokenizer.ggml.bos_token_id"][1]


# --- needle ---

class Needles:
    """Some needles, then other text, then the same needles again; and a copy without the needles in front."""

    COUNT, LENGTH = 8, 12

    def __init__(self, tokens, begin, distance, seed):
        self.random = np.random.default_rng(seed)
        needles = [self.piece(tokens, self.LENGTH) for _ in range(self.COUNT)]
        others = [self.piece(tokens, self.LENGTH) for _ in range(self.COUNT)]
        between = self.piece(tokens, distance - self.COUNT * self.LENGTH)
        self.with_needles = [begin, *sum(needles, []), *between, *sum(needles, [])]
        self.without = [begin, *sum(others, []), *between, *sum(needles, [])]
        first = len(self.with_needles) - self.COUNT * self.LENGTH
        # The first half of each needle is the cue; these are the positions of the second halves' tokens.
        self.asked = [first + i for i in range(self.COUNT * self.LENGTH) if i % self.LENGTH >= self.LENGTH // 2]

    def piece(self, tokens, n):
        at = self.random.integers(0, len(tokens) - n)
        return list(tokens[at:at + n])

    def log_probability(self, tokens, log_p):
        """Returns the mean over the tested tokens in nats."""
        return np.mean([log_p[i - 1, tokens[i]] for i in self.asked])


def needle(kvik, a):
    text, begin = held_back(kvik, a), begin_token(a.model)
    weights = reference_logits.load(a.model)
    pages = [p for p in a.pages.split(",") if kvik.knows(a.model, p)]
    print("Mean log probability [nats a token] of the second half of a line of 12 tokens whose first half was just said again.\n")
    print("| distance | never said | said, oracle | " + " | ".join(f"said, {p} pages" for p in pages) + " |")
    print("|---|---|---|" + "---|" * len(pages))
    for distance in map(int, a.distances.split(",")):
        trials = [Needles(text, begin, distance, seed) for seed in range(a.windows)]
        oracle = lambda tokens: log_softmax(reference_logits.forward(*weights, tokens))
        without = np.mean([t.log_probability(t.without, oracle(t.without)) for t in trials])
        output = np.mean([t.log_probability(t.with_needles, oracle(t.with_needles)) for t in trials])
        cells = []
        for page in pages:
            got = [t.log_probability(t.with_needles, kvik.log_probabilities(a.model, t.with_needles, page)) for t in trials]
            cells.append(f"{np.mean(got):.4f}")
        print(f"| {distance} | {without:.4f} | {output:.4f} | " + " | ".join(cells) + " |", flush=True)


# --- recall ---

def recall_trial(n_keys, rng):
    """Returns the tokens of one statement among n_keys others followed by its question, and the token of the answer."""
    key, value = int(rng.integers(1, recall_model.N_KEYS)), int(rng.integers(recall_model.N_VALUES))
    others = [k for k in rng.integers(1, recall_model.N_KEYS, n_keys) if k != key]
    tokens = [recall_model.statement(int(k), int(rng.integers(recall_model.N_VALUES))) for k in others]
    tokens.insert(int(rng.integers(len(tokens))), recall_model.statement(key, value))
    return [*tokens, recall_model.question(key)], recall_model.answer(value)


def recall(kvik, a):
    pages = [p for p in a.pages.split(",") if kvik.knows(a.model, p)]
    print(f"Mean log probability of the right answer [nats] and how often it ranks first, {a.windows} questions each.\n")
    print("| keys in the context | large channel of K | " + " | ".join(f"{p} pages" for p in pages) + " |")
    print("|---|---|" + "---|" * len(pages))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "recall.gguf")
        for outlier in (0, 16):
            recall_model.write(path, outlier=outlier)
            for n_keys in map(int, a.keys.split(",")):
                cells = []
                for page in pages:
                    rng = np.random.default_rng(n_keys)
                    trials = [recall_trial(n_keys, rng) for _ in range(a.windows)]
                    got = [(kvik.last_log_probabilities(path, tokens, page), right) for tokens, right in trials]
                    cells.append(f"{np.mean([p[right] for p, right in got]):.4f}, {100 * np.mean([p.argmax() == right for p, right in got]):.0f}%")
                print(f"| {n_keys} | {outlier or 'none'} | " + " | ".join(cells) + " |", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("what", choices=("tables", "needle", "recall"))
    ap.add_argument("--text", help="UTF-8 text that the model has not seen")
    ap.add_argument("--plays", action="store_true", help="blank lines end a speech, as in the demo's training")
    ap.add_argument("--last", type=float, default=1.0, help="use this share of the text, from its end (1)")
    ap.add_argument("--model", default=os.path.join(TOOLS, "../models/demo.gguf"))
    ap.add_argument("--kvik", default=os.path.join(TOOLS, "../build/kvik"))
    ap.add_argument("--weights", default=",".join(TYPES), help="types, with commas between")
    ap.add_argument("--pages", default=",".join(PAGES), help="types; those that the binary lacks are left out")
    ap.add_argument("--windows", type=int, default=8, help="windows; trials or questions of each kind (8)")
    ap.add_argument("--length", type=int, default=512, help="tokens of a window (512)")
    ap.add_argument("--distances", default="128,256,512,768", help="tokens from a line to its repetition")
    ap.add_argument("--keys", default="1024,4096,16384", help="of recall's contexts; a command line holds some 20,000")
    a = ap.parse_args()
    if a.what != "recall" and not a.text:
        ap.error(f"{a.what} reads a text: --text FILE")
    {"tables": tables, "needle": needle, "recall": recall}[a.what](Kvik(a.kvik), a)


if __name__ == "__main__":
    main()
