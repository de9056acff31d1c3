"""Tests the isolation of tenants: prompts are private until two tenants have computed them, and a key sees only permitted data of others."""
import http.client
import json
import os
import random
import sqlite3
import tempfile
import threading
import unittest

import kvik
from server import Server, in_parallel

TOKENS = kvik.random_tokens(1024, kvik.DEMO_BOS, 41)
FLAGS = ("--kv-memory", "64MiB")
NAMES = ["ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal"]
HIGHEST = -2147483648


class Keys:
    """A key file; the key of NAME is key-of-NAME."""

    def __init__(self, lines=None):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".keys")
        self.file.write("\n".join(lines or [f"key-of-{name} {name}" for name in NAMES] + ["key-of-ops ops operator"]) + "\n")
        self.file.flush()

    def server(self, *flags):
        return Server("demo", "--api-key-file", self.file.name, *(flags if "--kv-memory" in flags else FLAGS + flags))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


def header(name):
    return {"x-api-key": f"key-of-{name}"}


def prompt_of(n, seed):
    return kvik.random_tokens(n, kvik.DEMO_BOS, seed)


def ask(server, name, tokens, max_tokens=1, **fields):
    """Returns the JSON of a completion with NAME's key."""
    body = {"prompt": tokens, "temperature": 0, "max_tokens": max_tokens, "ignore_eos": True, **fields}
    answer = server.post("/v1/completions", body, headers=header(name))
    if answer.status != 200:
        raise AssertionError(f"{answer.status}: {answer.body[:500]!r}")
    return answer.json


def cached(server, name, tokens, **fields):
    return ask(server, name, tokens, **fields)["usage"]["prompt_tokens_details"]["cached_tokens"]


def metrics_of(server, name):
    return server.get("/metrics", headers=header(name)).body.decode()


class PrivateUntilTwoKnow(unittest.TestCase):
    def setUp(self):
        self.keys = self.enterContext(Keys())

    def test_a_key_hits_its_own_prompts_and_those_sent_by_two_tenants(self):
        with self.keys.server() as server:
            prompt = TOKENS[:200]
            self.assertEqual([cached(server, "ann", prompt) for _ in range(2)], [0, 199])
            self.assertEqual([cached(server, "bob", prompt) for _ in range(2)], [0, 199])
            self.assertEqual(cached(server, "cat", prompt), 199, "two ended there")
            self.assertEqual(cached(server, "dan", prompt[:100] + [7, 8, 9]), 96, "to the page")

    def test_prompts_and_answers_of_a_key_cannot_be_recovered(self):
        """Without isolation, this attack recovers the secret in 309 requests: token by token, from the number of cached tokens of each attempt."""
        with self.keys.server() as server:
            got = ask(server, "ann", TOKENS[:100], max_tokens=100, return_token_ids=True)
            secret = TOKENS[:100] + got["choices"][0]["token_ids"][:-1]
            self.assertEqual(cached(server, "ann", secret), len(secret) - 1)
            longest = 0  # longest prefix sent by Bob
            for n in [*range(1, 40), 64, 99, 150, len(secret)]:
                report, = ask(server, "bob", secret[:n], kvik={"explain_cache": True})["kvik"]["cache"]
                self.assertEqual(sum(report["cached_tokens"].values()), min(longest, n - 1))
                self.assertNotIn("expected_token", report["miss"] or {})
                longest = n

    def test_probes_reveal_nothing_about_other_tenants_prompts(self):
        """tests/engine repeats this ten thousand times; here it includes everything that the server adds."""
        secret, other = TOKENS[:90], TOKENS[:40] + prompt_of(50, 77)
        seen = []
        for sent in (secret, other):
            rng = random.Random(3)
            with self.keys.server() as server:
                ask(server, "ann", sent, max_tokens=20)
                reports = []
                for _ in range(150):
                    probe = secret[:rng.randrange(1, len(secret) + 1)] + [rng.randrange(100) for _ in range(rng.randrange(4))]
                    got = ask(server, "bob", probe, max_tokens=2, kvik={"explain_cache": True})
                    reports.append((got["usage"], got["kvik"]["cache"], got["choices"][0]["text"]))
                seen.append((reports, metrics_of(server, "bob")))
        self.assertEqual(seen[0], seen[1])

    def test_a_shared_prefix_of_eight_keys_is_computed_twice(self):
        shared = TOKENS[:640]
        for together in (False, True):
            with self.subTest(together=together), self.keys.server() as server:
                calls = [lambda i=i, name=name: ask(server, name, shared + prompt_of(50, i), max_tokens=8)["usage"] for i, name in enumerate(NAMES)]
                usages = in_parallel(*calls) if together else [call() for call in calls]
                computed = sum(u["prompt_tokens"] - u["prompt_tokens_details"]["cached_tokens"] for u in usages)
                self.assertEqual(computed, 2 * len(shared) + 8 * 50)

    def test_keys_of_one_name_are_one_tenant_and_a_salt_still_parts(self):
        lines = ["key-of-ann ann", "key-of-her2 ann", "key-of-bob bob", "key-of-s1 x salty", "key-of-s2 y salty", "key-of-s3 z salty"]
        with Keys(lines) as keys, keys.server() as server:
            prompt = TOKENS[:100]
            self.assertEqual([cached(server, n, prompt) for n in ("ann", "her2", "bob")], [0, 99, 0])
            self.assertEqual([cached(server, n, prompt) for n in ("s1", "s2", "s3")], [0, 0, 99])
            self.assertEqual(cached(server, "ann", prompt, cache_salt="mine"), 0)

    def test_share_all_and_share_key(self):
        prompt = TOKENS[:100]
        with self.keys.server("--share", "all") as server:
            self.assertEqual([cached(server, n, prompt) for n in ("ann", "bob")], [0, 99])
        with self.keys.server("--share", "key") as server:
            self.assertEqual([cached(server, n, prompt) for n in ("ann", "bob", "cat", "ann")], [0, 0, 0, 99])

    def test_sharing_by_key_without_keys_is_refused(self):
        for mode in ("two", "key"):
            done = kvik.run("serve", "demo", "--share", mode)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"--share {mode} needs API keys".encode(), done.stderr)


class Stored(unittest.TestCase):
    """The set of tenants that know a page is stored with it."""

    def setUp(self):
        self.keys = self.enterContext(Keys())
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.disk = ("--disk", self.folder, "--disk-size", "64MiB")

    def test_a_restart_keeps_the_owners_of_pages(self):
        private, public = TOKENS[:150], TOKENS[200:350]
        with self.keys.server(*self.disk) as server:
            ask(server, "ann", private)
            ask(server, "ann", public)
            ask(server, "bob", public)
        with self.keys.server(*self.disk) as server:
            self.assertEqual(cached(server, "bob", private[:140]), 0)
            self.assertEqual(cached(server, "cat", public), 149)
            self.assertEqual(cached(server, "ann", private), 149)
        with self.keys.server(*self.disk) as server:  # meanwhile Bob has computed most of it as well
            self.assertEqual(cached(server, "cat", private[:129]), 128)

    def test_an_index_that_is_made_again_from_the_pages_reveals_nothing(self):
        private = TOKENS[:150]
        with self.keys.server(*self.disk) as server:
            ask(server, "ann", private)
        with open(os.path.join(self.folder, "index.db"), "wb") as f:
            f.write(b"no index")
        with self.keys.server(*self.disk) as server:
            self.assertEqual(cached(server, "bob", private), 0)
            self.assertEqual(cached(server, "ann", private), 149)

    def test_no_file_names_the_owner_of_a_page(self):
        with self.keys.server(*self.disk) as server:
            ask(server, "ann", TOKENS[:150])
        with sqlite3.connect(os.path.join(self.folder, "index.db")) as database:
            marks = {row[0] for row in database.execute("SELECT known FROM page")}
        self.assertEqual(len(marks), 1)
        self.assertGreater(abs(marks.pop()), 2**32)
        with Keys(["another-key ann", "key-of-bob bob"]) as others, others.server(*self.disk) as server:
            answer = server.post("/v1/completions", {"prompt": TOKENS[:150], "max_tokens": 1}, headers={"x-api-key": "another-key"})
            self.assertEqual(answer.json["usage"]["prompt_tokens_details"]["cached_tokens"], 0, "the same name under another key is another tenant")

    def test_prompts_sent_without_keys_are_not_shared_with_keys(self):
        with Server("demo", *FLAGS, *self.disk) as server:
            server.complete(TOKENS[:150], max_tokens=1)
        with self.keys.server(*self.disk) as server:
            self.assertEqual([cached(server, n, TOKENS[:150]) for n in ("ann", "ann", "bob", "cat")], [0, 149, 0, 149])


class OwnLines(unittest.TestCase):
    def live(self, server, name):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        try:
            connection.request("GET", "/kvik/live", headers=header(name))
            return json.loads(connection.getresponse().readline().removeprefix(b"data: "))
        finally:
            connection.close()

    def test_metrics_and_live_view_show_a_key_its_own_and_an_operator_all(self):
        with Keys() as keys, keys.server() as server:
            ask(server, "ann", TOKENS[:100], max_tokens=4)
            anns, bobs, all_ = (metrics_of(server, name) for name in ("ann", "bob", "ops"))
            self.assertIn('kvik_key_computed_tokens_total{model_name="demo",key="ann"} 100', anns)
            self.assertNotIn('"ann"', bobs)
            self.assertNotIn("kvik_kv_pages", anns)
            self.assertIn("kvik_kv_pages", all_)
            self.assertIn('key="ann"', all_)
            for name in ("ann", "bob"):
                view = self.live(server, name)
                self.assertEqual((view["pages"], view["steps"], view["cached"], view["computed_tokens"]), ([], [], 0, 0))
            self.assertGreater(len(self.live(server, "ops")["pages"]), 0)


class Fairness(unittest.TestCase):
    def test_two_flooding_tenants_do_not_starve_a_third(self):
        """Two tenants that flood the server with the highest priority must not keep a third from getting answers."""
        most = 1500
        with Keys() as keys, keys.server("--max-running", "8", "--max-queue", "64") as server:
            is_done, count, answered = threading.Event(), threading.Lock(), [0]

            def flood(name, seed):
                n = 0
                while not is_done.is_set() and answered[0] < most:
                    n += 1
                    server.post("/v1/completions", {"prompt": prompt_of(200, seed + n), "max_tokens": 40, "ignore_eos": True, "priority": HIGHEST}, headers=header(name))
                    with count:
                        answered[0] += 1

            def visit():
                while answered[0] < 20:
                    is_done.wait(0.01)
                before = answered[0]
                for n in range(10):
                    ask(server, "cat", prompt_of(100, n), max_tokens=10)
                is_done.set()
                return answered[0] - before

            floods = [lambda name=name, seed=seed: flood(name, seed) for name, seed in (("ann", 10**5), ("bob", 10**6)) for seed in range(seed, seed + 10**4 * 12, 10**4)]
            beside = in_parallel(*floods, visit)[-1]
        self.assertLess(beside, 10 * 24, "for each of its answers, less than one for each of their connections")

    def test_a_key_that_the_file_allows_it_outranks_others_and_another_does_not(self):
        with Keys(["key-of-ann ann", "key-of-boss boss priority", "key-of-bob bob", "key-of-ops operator"]) as keys:
            for name, place in (("boss", 0), ("ann", 3)):
                with self.subTest(name=name), keys.server("--max-running", "1") as server:
                    done = []

                    def call(tenant, seed, **fields):
                        # Long enough that requests are seen to end in their order, even on a busy machine.
                        ask(server, tenant, prompt_of(60, seed), **{"max_tokens": 200, **fields})
                        done.append((tenant, seed))

                    def wait_for(metric, value):
                        for _ in range(10**5):
                            if f'{metric}{{model_name="demo"}} {value}\n' in metrics_of(server, "ops"):
                                return
                        self.fail(f"{metric} never was {value}")

                    first = threading.Thread(target=call, args=(name, 1), kwargs={"max_tokens": 600})
                    first.start()
                    wait_for("kvik_requests_running", 1)
                    others = [threading.Thread(target=call, args=("bob", i)) for i in range(3)]
                    for thread in others:
                        thread.start()
                    wait_for("kvik_requests_waiting", 3)
                    last = threading.Thread(target=call, args=(name, 2), kwargs={"priority": HIGHEST})
                    last.start()
                    wait_for("kvik_requests_waiting", 4)
                    for thread in (first, last, *others):
                        thread.join()
                    self.assertEqual(done.index((name, 2)), place + 1, done)

    def test_pins_of_one_key_leave_room_for_others(self):
        """60 pins of a day each must not occupy the whole cache."""
        with Keys() as keys, keys.server("--kv-memory", "8MiB") as server:
            for i in range(60):
                ask(server, "ann", prompt_of(500, 100 + i), kvik={"pin": {"ttl": "24h"}})
            mine = prompt_of(500, 7)
            ask(server, "bob", mine)
            ask(server, "cat", prompt_of(500, 300))
            self.assertEqual(cached(server, "bob", mine), 499)


if __name__ == "__main__":
    unittest.main()
