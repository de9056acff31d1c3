#!/usr/bin/python3
"""Measures how many changes of recorded answers `kvik verify` finds.

    tools/measure/verify_changes.py KVIK MODEL [--changes 1000] [--seed 1] [--flags="--threads 2"]

A server answers requests with "kvik": {"attest": true}: greedy and sampled, several choices, from cached prefixes. A change is one of: a token, a
link of the chain of logits, the seed, a sampling parameter, a token of the prompt, the end of the answer; and, for a GGUF file, a bit of its weights.
A changed page is one whose K or V was changed on disk, with new checksums, before the server read it for its answer; those that leave every bit of
the logits as it was, because attention gives the token no weight, do not count.
Unchanged answers are verified too: they must be equal."""
import argparse
import collections
import copy
import ctypes
import glob
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../client"))

PROMPTS = ("The keys and values of a prompt", "To write a parser that keeps the last line,", "Once upon a time", "def read_lines(path):")
BATCH = 100  # answers of one run of kvik verify


def changed_token(answer, rng):
    ids = rng.choice(answer["choices"])["token_ids"]
    at = rng.randrange(len(ids))
    ids[at] = ids[at] + 1 if ids[at] == 0 or rng.random() < 0.5 else ids[at] - 1


def changed_link(answer, rng):
    links = rng.choice(answer["kvik"]["attest"]["choices"])["links"]
    at = rng.randrange(len(links))
    links[at] = f"{int(links[at], 16) ^ 1 << rng.randrange(64):016x}"


def changed_seed(answer, rng):
    prompt = rng.choice(answer["kvik"]["attest"]["prompts"])
    prompt["seed"] = str(int(prompt["seed"]) + 1)


def changed_parameter(answer, rng):
    sampling = answer["kvik"]["attest"]["sampling"]
    name, value = rng.choice((("temperature", 0.5), ("top_p", 0.75), ("top_k", 3), ("min_p", 0.25), ("repetition_penalty", 1.5)))
    sampling[name] = value if sampling[name] != value else value + 0.125 if name != "top_k" else 4


def changed_prompt(answer, rng):
    prompt = rng.choice(answer["kvik"]["attest"]["prompts"])["prompt"]
    prompt[rng.randrange(len(prompt))] += 1


def changed_end(answer, rng):
    i = rng.randrange(len(answer["choices"]))
    ids, links = answer["choices"][i]["token_ids"], answer["kvik"]["attest"]["choices"][i]["links"]
    if rng.random() < 0.5:
        ids.append(rng.randrange(100))
        links.append(f"{rng.getrandbits(64):016x}")
    else:
        n = rng.randrange(1, len(ids))
        del ids[n:], links[n:]


CHANGES = (changed_token, changed_link, changed_seed, changed_parameter, changed_prompt, changed_end)


def recorded(options):
    """Returns answers of a server; the second half comes from cached prefixes."""
    from server import Server
    with Server(options.model, "--ctx", 2048, *shlex.split(options.flags), ready_s=600) as server:
        answers = []
        for turn in range(2):
            for i, prompt in enumerate(PROMPTS):
                sampled = {"temperature": 0.9, "top_p": 0.95, "n": 2} if i % 2 else {"temperature": 0}
                body = {"prompt": prompt, "max_tokens": 24, "seed": i + 10 * turn, "kvik": {"attest": True}, **sampled}
                answer = server.post("/v1/completions", body)
                assert answer.status == 200, answer.body[:500]
                answers.append(answer.json)
    return answers


def verify(options, answers, folder, model=None):
    """Returns for each answer whether it is equal to its replay."""
    paths = []
    for i, answer in enumerate(answers):
        paths.append(os.path.join(folder, f"{i}.json"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            json.dump(answer, file)
    run = subprocess.run([options.kvik, "verify", model or options.model, *paths, *shlex.split(options.flags)], capture_output=True, text=True)
    assert run.returncode in (0, 1) and not run.stderr.strip().startswith("kvik:"), run.stderr
    return [f"{path}: equal" in run.stdout for path in paths]


def changed_weights(options, answers, rng, folder):
    """Returns how many of the files with a changed bit give another answer or another fingerprint, or are refused."""
    path = os.path.join(folder, "model.gguf")
    with open(options.model, "rb") as file:
        bytes_ = bytearray(file.read())
    n_found = 0
    n = max(1, options.changes // 100)
    for _ in range(n):
        at, bit = rng.randrange(len(bytes_) // 2, len(bytes_)), 1 << rng.randrange(8)
        bytes_[at] ^= bit
        with open(path, "wb") as file:
            file.write(bytes_)
        bytes_[at] ^= bit
        n_found += not verify(options, answers[:1], folder, path)[0]
    return n_found, n


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def xxh3(data):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits.restype = Hash128
    library.XXH3_128bits.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    return bytes(library.XXH3_128bits(bytes(data), len(data)))


def change_page(pages, rng):
    """Changes the sign of a number of K or V in a full page of bf16, and the checksums (src/tier/page_record.h)."""
    head_bytes, magic_bytes, n_tokens_at, n_bytes_at, hash_at, head_hash_at = 512, 8, 112, 248, 256, 280
    path = max(glob.glob(f"{pages}/**/*.seg*", recursive=True), key=os.path.getsize)
    with open(path, "r+b") as file:
        segment = bytearray(file.read())
        magic = segment[:magic_bytes]
        heads = [at for at in range(0, len(segment) - head_bytes, head_bytes) if segment[at:at + magic_bytes] == magic]
        at = rng.choice([at for at in heads if segment[at + n_tokens_at] == 32])
        n_bytes = int.from_bytes(segment[at + n_bytes_at:at + n_bytes_at + 8], "little")
        begin = at + head_bytes
        segment[begin + rng.randrange(n_bytes) | 1] ^= 0x80
        segment[at + hash_at:at + hash_at + 16] = xxh3(segment[begin:begin + n_bytes])
        segment[at + head_hash_at:at + head_hash_at + 16] = xxh3(segment[at:at + head_hash_at])
        file.seek(0)
        file.write(segment)


def changed_pages(options, rng):
    """Returns how many answers that changed pages have changed differ from their replay, and how many there are."""
    from server import Server
    n_found = n_all = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(max(1, options.changes // 50)):
            flags = ("--ctx", 2048, "--disk", os.path.join(folder, str(i)), "--kv-type", "bf16", *shlex.split(options.flags))
            body = {"prompt": PROMPTS[i % len(PROMPTS)] * 30, "max_tokens": 24, "temperature": 0, "seed": 1, "kvik": {"attest": True}}
            with Server(options.model, *flags, ready_s=600) as server:
                before = server.post("/v1/completions", body).json["kvik"]["attest"]["choices"]
            change_page(os.path.join(folder, str(i)), rng)
            with Server(options.model, *flags, ready_s=600) as server:
                answer = server.post("/v1/completions", body).json
            n_cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert n_cached > 32, answer["usage"]
            if answer["kvik"]["attest"]["choices"] == before:
                continue
            n_found += not verify(options, [answer], folder)[0]
            n_all += 1
    return n_found, n_all


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvik")
    parser.add_argument("model")
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flags", default="--threads 2")
    options = parser.parse_args()
    os.environ["KVIK_BINARY"] = options.kvik = os.path.abspath(options.kvik)
    rng = random.Random(options.seed)
    n_found, n_all = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        answers = recorded(options)
        equal = verify(options, answers, folder)
        print(f"unchanged: {sum(equal)} of {len(equal)} equal", flush=True)
        pending = []
        for i in range(options.changes):
            change = CHANGES[i % len(CHANGES)]
            answer = copy.deepcopy(rng.choice(answers))
            change(answer, rng)
            pending.append((change.__name__, answer))
            if len(pending) < BATCH and i + 1 < options.changes:
                continue
            for (name, _), is_equal in zip(pending, verify(options, [each for _, each in pending], folder)):
                n_all[name] += 1
                n_found[name] += not is_equal
            pending = []
        n_found["changed_page"], n_all["changed_page"] = changed_pages(options, rng)
        if os.path.isfile(options.model):
            n_found["changed_weights"], n_all["changed_weights"] = changed_weights(options, answers, rng, folder)
    print("| change | found |\n|---|---|")
    for name in n_all:
        print(f"| {name.removeprefix('changed_')} | {n_found[name]} of {n_all[name]} |")


if __name__ == "__main__":
    main()
