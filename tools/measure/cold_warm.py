#!/usr/bin/python3
"""Measures whether a server's cache, batches and restarts change its answers. Works with any server that has OpenAI's /v1/completions.

    tools/measure/cold_warm.py http://127.0.0.1:8080 [--model NAME] [--restart 'COMMAND'] [--beside 3] [--prompts 6] [--tokens 64] [--logprobs 5]

Each prompt is answered greedily:
  cold       by a server that has not seen it
  warm       again at once: the whole prompt is in the cache
  extended   after a longer prompt that begins with it, so that the end of the prompt is shared
  company    again, while --beside other prompts are answered
  partial    other prompts, of which only a third is in the cache; compared with their answers when the whole prompt is
  restarted  after --restart, a shell command that ends when the server answers again (with pages restored from disk, if it keeps them)
A row says how many answers equal the cold one in all tokens and in all log probabilities, where the first other token is, and the largest
difference of a log probability before it. Start the server with an empty cache; for speculative decoding, start it with drafts, and compare with
--against URL of a server without."""
import argparse
import concurrent.futures
import json
import random
import subprocess
import time
import urllib.request

SEED = 11
WORDS = ("the cache of a server holds pages of keys and values which later prompts may share and each answer ought to be what it was before any "
         "other request came no matter how many users write at once or in which order their prompts are computed by the engine").split()


def ask(url, prompt, options, n_tokens=None):
    body = {"prompt": prompt, "max_tokens": n_tokens or options.tokens, "temperature": 0, "seed": 1, "logprobs": options.logprobs}
    if options.model:
        body["model"] = options.model
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=1800) as answer:
        choice = json.load(answer)["choices"][0]
    return choice["text"], tokens_of(choice.get("logprobs") or {})


def tokens_of(logprobs):
    """Returns pairs of a token and its log probability. llama.cpp's server writes them as chats have them."""
    if "content" in logprobs:
        return [(each["token"], each["logprob"]) for each in logprobs["content"]]
    return list(zip(logprobs.get("tokens", ()), logprobs.get("token_logprobs", ())))


def prompts_of(options):
    rng = random.Random(SEED)
    lengths = [40 + 700 * i // max(1, options.prompts - 1) for i in range(options.prompts)]
    return [" ".join(rng.choice(WORDS) for _ in range(n)) for n in lengths]


def company(url, prompts, options):
    """Answers each prompt while others are answered."""
    rng = random.Random(SEED + 1)
    answers = []
    with concurrent.futures.ThreadPoolExecutor(options.beside + 1) as users:
        for prompt in prompts:
            others = [" ".join(rng.choice(WORDS) for _ in range(rng.randrange(20, 400))) for _ in range(options.beside)]
            running = [users.submit(ask, url, other, options) for other in others]
            time.sleep(0.2)
            answers.append(ask(url, prompt, options))
            for each in running:
                each.result()
    return answers


def after(url, prompts, options, other):
    answers = []
    for prompt in prompts:
        ask(url, other(prompt), options, 1)
        answers.append(ask(url, prompt, options))
    return answers


def compare(cold, answers):
    """Returns the numbers of equal texts and of equal log probabilities, the first different token, and the largest difference before it."""
    n_texts = n_exact = 0
    first, largest = None, 0.0
    for (text, tokens), (other_text, other_tokens) in zip(cold, answers):
        n_texts += text == other_text
        n_exact += text == other_text and tokens == other_tokens
        for i, (a, b) in enumerate(zip(tokens, other_tokens)):
            if a[0] != b[0]:
                first = i if first is None else min(first, i)
                break
            if a[1] is not None and b[1] is not None:
                largest = max(largest, abs(a[1] - b[1]))
    return n_texts, n_exact, first, largest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model")
    parser.add_argument("--restart", help="shell command that restarts the server and waits for it")
    parser.add_argument("--against", help="URL of another server; its cold answers are compared as well")
    for name, default in (("beside", 3), ("prompts", 6), ("tokens", 64), ("logprobs", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    prompts, url = prompts_of(options), options.url.rstrip("/")
    cold = [ask(url, prompt, options) for prompt in prompts]
    rows = {"warm": [ask(url, prompt, options) for prompt in prompts],
            "extended": after(url, prompts, options, lambda prompt: prompt + " and all that came later"),
            "company": company(url, prompts, options)}
    others = [" ".join(reversed(prompt.split())) for prompt in prompts]
    rows["partial"] = after(url, others, options, lambda prompt: prompt[:len(prompt) // 3])
    whole = [ask(url, prompt, options) for prompt in others]
    if options.restart:
        subprocess.run(options.restart, shell=True, check=True)
        rows["restarted"] = [ask(url, prompt, options) for prompt in prompts]
    if options.against:
        rows["other server"] = [ask(options.against.rstrip("/"), prompt, options) for prompt in prompts]
    print("| answers | same tokens | same log probabilities | first other token | largest difference before it |\n|---|---|---|---|---|")
    for name, answers in rows.items():
        n_texts, n_exact, first, largest = compare(whole if name == "partial" else cold, answers)
        print(f"| {name} | {n_texts} of {len(prompts)} | {n_exact} of {len(prompts)} | {'none' if first is None else first} | {largest:.2g} |")


if __name__ == "__main__":
    main()
