"""Programs and servers that compare.py measures.

Each has a name and `measure(test, setting)`, which returns tokens per second of all sequences together: the median of the samples of
one run, or None if it does not support the test.
"""
import dataclasses
import http.client
import json
import os
import random
import re
import shlex
import statistics
import subprocess
import tempfile
import time
from urllib.parse import urlparse

# Maps Kvik's KV types to the names that peers use.
PEER_CACHE_TYPES = {"f32": "f32", "bf16": "bf16", "int8": "q8_0", "int4": "q4_0"}


@dataclasses.dataclass(frozen=True)
class Test:
    kind: str  # "prefill" or "decode"
    tokens: int
    depth: int = 0
    batch: int = 1

    @classmethod
    def parse(cls, text):
        """Parses prefill:512, decode:64@8192 or decode:64@512x16 (16 sequences)."""
        m = re.fullmatch(r"(prefill|decode):(\d+)(?:@(\d+))?(?:x(\d+))?", text)
        if not m:
            raise ValueError(f"'{text}' is no test; expected prefill:N or decode:N, then @DEPTH, then xBATCH")
        return cls(m[1], int(m[2]), int(m[3] or 0), int(m[4] or 1))

    def __str__(self):
        depth = f" at depth {self.depth:,}" if self.depth else ""
        return f"{self.kind} {self.tokens}{depth}" + (f", {self.batch} sequences" if self.batch > 1 else "")


@dataclasses.dataclass
class Setting:
    model: str
    threads: int
    samples: int  # number of samples per run
    kv_type: str
    peer_kv_type: str


def run(command, **options):
    """Runs a command that must succeed and returns its stdout."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


class Kvik:
    def __init__(self, binary):
        self.name, self.binary = "kvik", binary

    def measure(self, test, setting):
        other = "decode" if test.kind == "prefill" else "prefill"
        rows = json.loads(run([self.binary, "bench", setting.model, f"--{test.kind}", str(test.tokens), f"--{other}", "0",
                               "--depth", str(test.depth), "--batch", str(test.batch), "--repeat", str(setting.samples),
                               "--threads", str(setting.threads), "--kv-type", setting.kv_type, "--fill", "--json"]))
        return rows[0]["tok_s"]


class LlamaBench:
    """A program with llama-bench's flags and JSON, and optionally the two related programs: llama-sweep-bench for prefill after a context and
    llama-batched-bench for several sequences."""

    def __init__(self, name, command, sweep=None, batched=None):
        self.name, self.command = name, shlex.split(command)
        self.sweep, self.batched = sweep and shlex.split(sweep), batched and shlex.split(batched)
        done = subprocess.run([*self.command, "--help"], capture_output=True, text=True)
        self.help = done.stdout + done.stderr

    def measure(self, test, setting):
        cache = ["-ctk", setting.peer_kv_type, "-ctv", setting.peer_kv_type]
        common = ["-m", setting.model, "-t", str(setting.threads), *cache]
        if test.batch > 1 and "-npl" not in self.help:
            return self.measure_batched(test, common)
        knows_depth = "--n-depth" in self.help
        if test.depth and test.kind == "prefill" and not knows_depth:
            return self.measure_sweep(test, common)
        sizes = ["-p", str(test.tokens), "-n", "0"] if test.kind == "prefill" else ["-p", "0", "-n", str(test.tokens)]
        if test.depth:
            sizes = sizes + ["-d", str(test.depth)] if knows_depth else ["-p", "0", "-n", "0", "-gp", f"{test.depth},{test.tokens}"]
        if test.batch > 1:
            sizes += ["-npl", str(test.batch)]
        rows = json.loads(run([*self.command, *common, *sizes, "-r", str(setting.samples), "-o", "json"]))
        return statistics.median(rows[0]["samples_ts"])

    def measure_sweep(self, test, common):
        """Returns the row that begins at the requested depth. The sweep reaches it in steps of the tested number of tokens."""
        size = str(test.tokens)
        rows = self.sweep and self.table(
            [*self.sweep, *common, "-c", str(test.depth + 2 * test.tokens), "-b", size, "-ub", size])
        return next((row["S_PP t/s"] for row in rows or () if row["N_KV"] == test.depth), None)

    def measure_batched(self, test, common):
        n_all = (test.depth + test.tokens) * test.batch
        if test.kind == "prefill" or not self.batched:
            return None
        rows = self.table([*self.batched, *common, "-c", str(n_all + 512), "-b", "512", "-ub", "512",
                           "-npp", str(test.depth), "-ntg", str(test.tokens), "-npl", str(test.batch)])
        return rows[-1]["S_TG t/s"]

    def table(self, command):
        """Returns the rows of the table that the program prints or writes to a log file."""
        with tempfile.TemporaryDirectory() as folder:
            text = run(command, cwd=folder)
            for name in sorted(os.listdir(folder)):
                with open(os.path.join(folder, name), errors="replace") as f:
                    text += f.read()
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.count("|") > 5]
        head = next(line for line in lines if "S_PP t/s" in line)
        numbers = [line for line in lines if all(re.fullmatch(r"[\d.]+", cell) for cell in line)]
        return [dict(zip(head, map(float, line))) for line in numbers]


WORDS = ("time year people way day man thing woman life child world school state family student group country problem "
         "hand part place case week company system program question work government number night point home water").split()


class Server:
    """An OpenAI-compatible server on loopback. Prompts are random words. The time to the first token counts as prefill and the time between
    later tokens as decode, so HTTP and the sampler are included."""

    def __init__(self, name, url):
        self.name, self.url = name, urlparse(url)
        self.random = random.Random()

    def measure(self, test, setting):
        if test.batch > 1 or (test.kind == "prefill" and test.depth):
            return None
        n_prompt = test.tokens if test.kind == "prefill" else max(test.depth, 1)
        n_out = 2 if test.kind == "prefill" else test.tokens + 1
        return statistics.median(self.stream(test.kind, n_prompt, n_out) for _ in range(setting.samples))

    def stream(self, kind, n_prompt, n_out):
        body = json.dumps({"prompt": " ".join(self.random.choice(WORDS) for _ in range(n_prompt)), "max_tokens": n_out, "temperature": 0,
                           "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}})
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=600)
        begin = time.perf_counter()
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        times, usage = [], {}
        for line in connection.getresponse():
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            if event.get("choices"):
                times.append(time.perf_counter())
        connection.close()
        if len(times) < 2:
            raise RuntimeError(f"{self.name}: the answer to {body[:80]}… holds {len(times)} tokens")
        if kind == "prefill":
            return usage.get("prompt_tokens", n_prompt) / (times[0] - begin)
        return (usage.get("completion_tokens", len(times)) - 1) / (times[-1] - times[0])
