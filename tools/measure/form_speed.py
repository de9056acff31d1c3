#!/usr/bin/python3
"""Measures the cost of structured output and the savings from forced text: requests with and without it alternate in one run.

    tools/measure/form_speed.py MODEL [--kvik build/kvik] [--threads 2] [--turns 4] [--key-turns 4]

16 users: the time between tokens without a schema, with a schema of one long string and with a schema of a list of different objects, without
speculation. One user: tokens a second with a schema of long keys, most of whose text is forced, and with as many tokens without a schema."""
import argparse
import concurrent.futures
import http.client
import json
import socket
import statistics
import subprocess
import time

FREE_TEXT = {"type": "object", "properties": {"title": {"type": "string", "minLength": 4000}, "body": {"type": "string"}},
             "required": ["title", "body"], "additionalProperties": False}
# A schema that leads to new grammar states again and again.
RECORDS = {"type": "array", "minItems": 1000, "uniqueItems": True, "items": {
    "type": "object", "required": ["id", "kind", "tags"], "additionalProperties": False,
    "properties": {"id": {"type": "integer", "minimum": 0}, "kind": {"enum": ["cat", "dog", "bird"]}, "note": {"type": "string", "maxLength": 40},
                   "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{3,12}$"}, "maxItems": 3}}}}
NAMES = ["identifier of the customer's account", "date at which the order was received", "whether the goods have been dispatched",
         "number of parcels in this delivery", "kind of the address that was given", "reason why the delivery was late",
         "language in which letters are written", "postal code of the receiving office"]
LONG_KEYS = {"type": "object", "properties": {name: {"type": "boolean"} for name in NAMES}, "required": NAMES, "additionalProperties": False}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Client:
    def __init__(self, port):
        self.port = port

    def wait_until_ready(self):
        """Waits until the server has loaded its model."""
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit("the server is not ready after a minute")

    def stream(self, **fields):
        """Returns the arrival times of tokens, their number and the seconds to the end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = {"prompt": "Tell me of it.", "temperature": 1, "stream": True, "return_token_ids": True,
                "stream_options": {"include_usage": True}, **fields}
        begin = time.perf_counter()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(answer.read()[:500])
        times, usage = [], None
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            times += [time.perf_counter()] * sum(len(choice.get("token_ids") or []) for choice in event["choices"])
        connection.close()
        return times, usage["completion_tokens"], time.perf_counter() - begin


def between(client, users, n_tokens, **fields):
    """Returns the median and the mean time between tokens in ms, while all users decode."""
    with concurrent.futures.ThreadPoolExecutor(users) as pool:
        runs = list(pool.map(lambda seed: client.stream(max_tokens=n_tokens, ignore_eos=True, seed=seed, speculate=False, **fields)[0],
                             range(users)))
    # From the begin of the last stream to the end of the first one.
    first, last = max(times[0] for times in runs), min(times[-1] for times in runs)
    gaps = [b - a for times in runs for a, b in zip(times, times[1:]) if a >= first and b <= last]
    return statistics.median(gaps) * 1e3, statistics.fmean(gaps) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--kvik", default="build/kvik")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--flags", default="", help="more flags of kvik serve")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--key-turns", type=int, default=4, help="turns of the schema with long keys")
    parser.add_argument("--users", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=48)
    arguments = parser.parse_args()
    port = free_port()
    server = subprocess.Popen([arguments.kvik, "serve", arguments.model, "--port", str(port), "--threads", arguments.threads] +
                              arguments.flags.split(),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = Client(port)
        client.wait_until_ready()
        client.stream(max_tokens=4, guided_json=FREE_TEXT)
        client.stream(max_tokens=4, guided_json=RECORDS)
        kinds = {"without a form": {}, "one long string": {"guided_json": FREE_TEXT}, "a list of objects": {"guided_json": RECORDS}}
        rows = {name: [] for name in kinds}
        for turn in range(arguments.turns):
            # The order rotates from turn to turn.
            order = list(kinds)[turn % len(kinds):] + list(kinds)[:turn % len(kinds)]
            for name in order:
                rows[name].append(between(client, arguments.users, arguments.tokens, **kinds[name]))
        for name, values in rows.items():
            print(f"{arguments.users} users, {name}: ms between tokens, median " + ", ".join(f"{m:.2f}" for m, _ in values) +
                  "; mean " + ", ".join(f"{m:.2f}" for _, m in values))
            for what in (0, 1):
                ratios = [b[what] / a[what] for a, b in zip(rows["without a form"], values)]
                print(f"  to without, by {('median', 'mean')[what]}: {statistics.median(ratios):.4f}")
        speeds = []
        for seed in range(arguments.key_turns):
            _, n, seconds = client.stream(max_tokens=600, guided_json=LONG_KEYS, seed=seed)
            _, n_free, seconds_free = client.stream(max_tokens=n, ignore_eos=True, seed=seed, speculate=False)
            speeds.append((n / seconds, n_free / seconds_free))
        if speeds:
            print("long keys: tok/s with a schema " + ", ".join(f"{a:.1f}" for a, _ in speeds) + "; without a form " +
                  ", ".join(f"{b:.1f}" for _, b in speeds) + f"; ratio {statistics.median(a / b for a, b in speeds):.2f}")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
