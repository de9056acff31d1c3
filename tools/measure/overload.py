#!/usr/bin/python3
"""Sends more requests than an OpenAI-compatible completions server can serve: measures rejections, their latency, and the service of the others.

    overload.py --url http://127.0.0.1:8080 --rate 20 --seconds 20 --own 64 --out 64

Requests arrive at --rate a second (Poisson), independently of earlier ones; rejected requests are not
retried. Use ten times the rate that the server can serve. Standard library only; loopback only.
"""
import argparse
import asyncio
import json
import random
import time
from urllib.parse import urlparse

from serve_load import WORDS, pct


async def ask(url, body, key):
    """Returns (status, seconds to the status, seconds to the first token, seconds between tokens, whether it ended normally)."""
    t0 = time.perf_counter()
    r, w = await asyncio.open_connection(url.hostname, url.port)
    try:
        data = json.dumps(body).encode()
        key = f"Authorization: Bearer {key}\r\n" if key else ""
        w.write(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{key}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        status = int((await r.readline()).split()[1])
        elapsed = time.perf_counter() - t0
        if status != 200:
            head = (await r.read()).split(b"\r\n\r\n")[0].lower()
            return status, elapsed, None, [], b"retry-after: " in head
        times, is_done = [], False
        while line := await r.readline():
            is_done |= line.startswith(b"data: [DONE]")
            if line.startswith(b"data: {"):
                times.append(time.perf_counter())
        return status, elapsed, times[0] - t0 if times else None, [y - x for x, y in zip(times, times[1:])], is_done
    finally:
        w.close()


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--url", default="http://127.0.0.1:8080")
    ap.add_argument("--key")
    ap.add_argument("--rate", type=float, default=20, help="requests a second")
    ap.add_argument("--seconds", type=float, default=20)
    ap.add_argument("--shared", type=int, default=256)
    ap.add_argument("--own", type=int, default=64)
    ap.add_argument("--out", type=int, default=64)
    ap.add_argument("--seed", type=int, default=0)
    return ap.parse_args()


async def main():
    a = arguments()
    url, rng = urlparse(a.url), random.Random(a.seed)
    assert url.hostname in ("127.0.0.1", "localhost", "::1"), "loopback only"
    shared = " ".join(rng.choice(WORDS) for _ in range(a.shared))
    body = {"max_tokens": a.out, "temperature": 0, "ignore_eos": True, "stream": True}
    await ask(url, {**body, "prompt": shared, "max_tokens": 1}, a.key)
    tasks, start = [], time.perf_counter()
    while time.perf_counter() - start < a.seconds:
        prompt = shared + " " + " ".join(rng.choice(WORDS) for _ in range(a.own))
        tasks.append(asyncio.create_task(ask(url, {**body, "prompt": prompt}, a.key)))
        await asyncio.sleep(rng.expovariate(a.rate))
    done, hanging = await asyncio.wait(tasks, timeout=120)
    got = [t.result() for t in done]
    served, refused = [g for g in got if g[0] == 200], [g for g in got if g[0] != 200]
    wall = time.perf_counter() - start
    gaps = [gap for g in served for gap in g[3]]
    ms = 1e3
    print(json.dumps({
        "sent": len(tasks), "hanging": len(hanging), "served": len(served), "cut_short": sum(not g[4] for g in served), "served_per_s": len(served) / wall,
        "ttft_ms_p50": ms * pct([g[2] for g in served], 50), "ttft_ms_p99": ms * pct([g[2] for g in served], 99),
        "itl_ms_p50": ms * pct(gaps, 50), "itl_ms_p99": ms * pct(gaps, 99),
        "refused": {s: sum(g[0] == s for g in refused) for s in {g[0] for g in refused}}, "without_retry_after": sum(not g[4] for g in refused),
        "refused_ms_p50": ms * pct([g[1] for g in refused], 50), "refused_ms_p99": ms * pct([g[1] for g in refused], 99),
        "refused_ms_max": ms * max((g[1] for g in refused), default=0)}))


if __name__ == "__main__":
    asyncio.run(main())
