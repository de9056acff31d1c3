#!/usr/bin/python3
"""Measures the mutual slowdown of a long prompt and running streams.

    long_prompt.py --url http://127.0.0.1:8080 --users 4 --prompt 16000

Starts --users endless streams on Kvik (with token ids), lets them settle, sends one prompt of --prompt tokens at the same time,
then the same prompt alone with another salt. Reports the streams' ITL before and during the prompt, its TTFT with the streams, its TTFT
alone, and the ratio of the two after subtracting the time of decode steps: the number of steps while it was computed times the ITL of the
streams without it, which is the mean of the medians before it arrived and after it was answered (their contexts grow meanwhile).
--verify repeats everything alone and compares the token ids. Traffic goes only to a loopback address.
"""
import argparse
import asyncio
import json
import random
import sys
import time
from urllib.parse import urlparse


from serve_load import pct, request


async def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--url", default="http://127.0.0.1:8080")
    ap.add_argument("--users", type=int, default=4)
    ap.add_argument("--prompt", type=int, default=16000)
    ap.add_argument("--own", type=int, default=64, help="tokens of each user's prompt")
    ap.add_argument("--out", type=int, default=3000, help="tokens of each user's answer at most")
    ap.add_argument("--vocab", type=int, default=250, help="ids are drawn below it")
    ap.add_argument("--settle", type=float, default=3, help="seconds before the prompt")
    ap.add_argument("--verify", action="store_true")
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()
    url = urlparse(a.url)
    assert url.hostname in ("127.0.0.1", "localhost", "::1"), "loopback only"
    rng = random.Random(a.seed)

    def body(n_prompt, n_out, seed):
        draw = {"temperature": 0.8, "seed": seed} if seed % 2 else {"temperature": 0}
        return {"prompt": [rng.randrange(3, a.vocab) for _ in range(n_prompt)], "max_tokens": n_out, "ignore_eos": True, "stream": True,
                "return_token_ids": True, "stream_options": {"include_usage": True}, "cache_salt": f"long {time.time_ns()}", **draw}

    bodies = [body(a.own, a.out, i) for i in range(a.users)]
    logs = [[] for _ in bodies]  # (time, ids) of every event
    streams = [asyncio.create_task(request(url, "/v1/completions", b, None, log)) for b, log in zip(bodies, logs)]
    await asyncio.sleep(a.settle)
    settled = time.perf_counter()
    prompt = body(a.prompt, 8, 0)
    sent, times, _, answer = await request(url, "/v1/completions", prompt, None)
    answered = time.perf_counter()
    await asyncio.sleep(a.settle)
    assert not any(stream.done() for stream in streams), "the streams ended before the prompt was answered: a larger --out is needed"
    for stream in streams:
        stream.cancel()  # the client disconnects, and the server ends the answer
    await asyncio.gather(*streams, return_exceptions=True)
    await asyncio.sleep(0.5)
    alone_sent, alone_times, _, alone_answer = await request(url, "/v1/completions", {**prompt, "cache_salt": f"alone {time.time_ns()}"}, None)

    def itl(begin, end):
        return [1e3 * (y - x) for log in logs for (x, _), (y, _) in zip(log, log[1:]) if begin <= x and y <= end]

    before, during, after = itl(settled - a.settle / 2, settled), itl(sent, times[0]), itl(answered, answered + a.settle)
    steps = max(sum(sent <= t <= times[0] for t, _ in log) for log in logs)
    ttft, alone = times[0] - sent, alone_times[0] - alone_sent
    decode = steps * (pct(before, 50) + pct(after, 50)) / 2e3
    print(json.dumps({"itl_ms_p50_before": pct(before, 50), "itl_ms_p50_after": pct(after, 50), "itl_ms_p50_during": pct(during, 50), "itl_ms_p99_during": pct(during, 99),
                      "itl_ms_max_during": max(during), "steps": steps, "ttft_s": ttft, "ttft_alone_s": alone, "decode_s": decode,
                      "ratio_decode_deducted": (ttft - decode) / alone, "answer_is_the_same": answer == alone_answer}))
    if a.verify:
        differ = 0
        for b, log in zip(bodies, logs):
            got = [i for _, ids in log for i in ids][:64]  # the beginning of the answer, generated in a batch
            again = (await request(url, "/v1/completions", {**b, "max_tokens": len(got), "cache_salt": f"again {time.time_ns()}"}, None))[3]
            differ += again != got
        print(json.dumps({"verified": len(bodies), "differ": differ}))


asyncio.run(main())
