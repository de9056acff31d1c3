"""Tests several servers with a common cache: pages computed by one server are reused by the others through a shared folder or Redis."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import kvik
from server import Server, free_port

import make_adapter

TOKENS = kvik.random_tokens(700, kvik.DEMO_BOS, 29)
FLAGS = ("--threads", 1, "--kv-memory", "64MiB")


class Redis:
    """Runs a private redis-server on its own socket."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "redis.sock")
        self.url = f"unix://{self.path}"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--appendonly", "no"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not self.is_up():
            if time.monotonic() > deadline:
                raise AssertionError("redis-server did not start")
            time.sleep(0.02)

    def is_up(self):
        try:
            return self.execute("PING") == b"+PONG\r\n"
        except OSError:
            return False

    def execute(self, *words):
        """Returns the first bytes of Redis's answer."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(5)
            s.connect(self.path)
            parts = [w if isinstance(w, bytes) else w.encode() for w in words]
            s.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
            return s.recv(1 << 20)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Fleet(unittest.TestCase):
    def setUp(self):
        base = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.mkdtemp(prefix="kvik-fleet-", dir=base)
        self.addCleanup(shutil.rmtree, self.folder, True)

    def redis(self):
        if not shutil.which("redis-server"):
            self.skipTest("no redis-server here")
        redis = Redis(self.folder)
        self.addCleanup(redis.kill)
        return redis

    def wait_until(self, server, name, holds, **labels):
        deadline = time.monotonic() + 30
        while not holds(server.metrics().value(name, **labels)):
            self.assertLess(time.monotonic(), deadline, f"{name} {labels}: {server.metrics().value(name, **labels)}")
            time.sleep(0.02)

    def wait_until_saved(self, server, tier):
        self.wait_until(server, "kvik_tier_queue_pages", lambda n: n == 0, tier=tier)

    @staticmethod
    def cached(answer):
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def check_two_servers(self, tier, *flags, isas=(None, None)):
        one, other = (Server("demo", *FLAGS, *flags, env={"KVIK_ISA": isa} if isa else {}) for isa in isas)
        with one, other:
            first = one.complete(TOKENS, max_tokens=24, ignore_eos=True)
            self.assertEqual(self.cached(first), 0)
            self.wait_until_saved(one, tier)
            again = other.complete(TOKENS, max_tokens=24, ignore_eos=True)
            self.assertEqual(self.cached(again), len(TOKENS) - 1)
            self.assertEqual(again["choices"][0]["text"], first["choices"][0]["text"])
            longer = TOKENS[:650] + [TOKENS[650] ^ 1] + TOKENS[:40]
            self.assertEqual(self.cached(other.complete(longer)), 640, "found to the page")
            page = other.metrics()
            self.assertEqual(page.value("kvik_tier_hit_tokens_total", tier=tier), len(TOKENS) - 1)

    def check_bits(self, **flags):
        for kv_type in ("f32", "bf16", "int8", "int8/int4", "int4"):
            cold = kvik.logits_text("demo", TOKENS, kv_type=kv_type)
            for _ in range(2):  # the first run stores, the second one hits
                self.assertEqual(kvik.logits_text("demo", TOKENS, kv_type=kv_type, **flags), cold, kv_type)

    def test_a_prefix_that_one_server_computed_serves_the_other_through_redis(self):
        self.check_two_servers("redis", "--redis", self.redis().url)

    def test_a_prefix_that_one_server_computed_serves_the_other_through_a_folder(self):
        self.check_two_servers("shared", "--shared", self.folder)

    def test_logits_after_pages_from_redis_are_the_same_bytes(self):
        self.check_bits(redis=self.redis().url)

    def test_logits_after_pages_from_a_shared_folder_are_the_same_bytes(self):
        self.check_bits(shared=self.folder)

    def test_servers_on_other_processors_find_each_others_pages(self):
        sets = kvik.isas()
        for n, isas in enumerate(zip(sets, sets[1:] + sets[:1])):
            with self.subTest(isas=isas):
                self.check_two_servers("shared", "--shared", os.path.join(self.folder, str(n)), isas=isas)

    @unittest.skipUnless("avx512bf16" in kvik.isas(), "this processor has no bf16 dot products")
    def test_weights_that_bf16_dot_products_round_otherwise_find_nothing_of_others(self):
        model = kvik.demo_as("bf16")
        for isa, found in [*((isa, 0) for isa in kvik.isas() if isa in kvik.ROUND_TO_BF16), ("avx512", 0), ("avx2", len(TOKENS) - 1)]:
            with self.subTest(isa=isa), Server(model, *FLAGS, "--shared", self.folder, env={"KVIK_ISA": isa}) as server:
                self.assertEqual(self.cached(server.complete(TOKENS)), found)
                self.wait_until_saved(server, "shared")

    def test_another_salt_type_or_model_finds_nothing_in_redis(self):
        url = self.redis().url
        with Server("demo", *FLAGS, "--redis", url) as server:
            server.complete(TOKENS)
            self.wait_until_saved(server, "redis")
            self.assertEqual(self.cached(server.complete(TOKENS, cache_salt="another")), 0)
        with Server("demo", *FLAGS, "--redis", url, "--kv-type", "bf16") as server:
            self.assertEqual(self.cached(server.complete(TOKENS)), 0)

    def test_serving_goes_on_when_redis_dies_and_fills_it_when_it_is_back(self):
        redis = self.redis()
        with Server("demo", *FLAGS, "--redis", redis.url) as server:
            text = server.text(TOKENS)
            self.wait_until_saved(server, "redis")
            redis.kill()
            other = server.text(TOKENS[:500] + [5] * 40)
            self.wait_until(server, "kvik_tier_up", lambda up: up == 0, tier="redis")
            self.assertEqual(server.text(TOKENS), text)
            redis.start()
            self.wait_until(server, "kvik_tier_up", lambda up: up == 1, tier="redis")
            self.wait_until_saved(server, "redis")
            self.assertEqual(server.said().count("is degraded"), 1)
        with Server("demo", *FLAGS, "--redis", redis.url) as server:
            again = server.complete(TOKENS[:500] + [5] * 40)
            self.assertEqual(self.cached(again), 539, "all of memory was saved again")
            self.assertEqual(again["choices"][0]["text"], other)

    def test_a_redis_that_hangs_delays_the_first_prompt_alone(self):
        redis = self.redis()
        with Server("demo", *FLAGS, "--redis", redis.url) as server:
            want = server.text(TOKENS)
            redis.signal(signal.SIGSTOP)
            try:
                server.text([7] * 300)  # makes the server notice the failure
                began = time.monotonic()
                for i in range(5):
                    self.assertEqual(self.cached(server.complete([8 + i] * 300)), 0)
                self.assertLess(time.monotonic() - began, 5, "no request waits for it any more")
                self.assertEqual(server.text(TOKENS), want)
            finally:
                redis.signal(signal.SIGCONT)

    def test_garbage_in_redis_is_a_miss(self):
        redis = self.redis()
        with Server("demo", *FLAGS, "--redis", redis.url) as server:
            want = server.complete(TOKENS, max_tokens=24, ignore_eos=True)
            self.wait_until_saved(server, "redis")
        names = [n for n in redis.execute("KEYS", "kvik:page:*").split(b"\r\n") if n.startswith(b"kvik:")]
        self.assertGreaterEqual(len(names), len(TOKENS) // 32)
        for i, name in enumerate(names):
            redis.execute(*[("SET", name, "garbage"), ("SETRANGE", name, str(600 + 40 * i), b"\0\0torn\0\0"),
                         ("APPEND", name, "x"), ("GETDEL", name)][i % 4])
        with Server("demo", *FLAGS, "--redis", redis.url) as server:
            again = server.complete(TOKENS, max_tokens=24, ignore_eos=True)
            self.assertLess(self.cached(again), 64)
            self.assertEqual(again["choices"][0]["text"], want["choices"][0]["text"])

    def test_a_shared_folder_that_goes_away_and_comes_back(self):
        folder = os.path.join(self.folder, "mount")
        with Server("demo", *FLAGS, "--shared", folder) as server:
            text = server.text(TOKENS)
            self.wait_until_saved(server, "shared")
            shutil.rmtree(folder)
            with open(folder, "w") as f:
                f.write("not mounted")
            server.text([9] * 300)
            self.wait_until(server, "kvik_tier_up", lambda up: up == 0, tier="shared")
            self.assertEqual(server.text(TOKENS), text)
            os.remove(folder)
            self.wait_until(server, "kvik_tier_up", lambda up: up == 1, tier="shared")

    def test_many_write_and_read_one_folder_at_once(self):
        prompts = [kvik.random_tokens(200 + 10 * i, kvik.DEMO_BOS, i % 4) for i in range(12)]
        alone = [kvik.demo_text(kvik.greedy("demo", p, 8)).decode() for p in prompts]
        flags = (*FLAGS, "--shared", self.folder)
        wrong = []
        with Server("demo", *flags) as one, Server("demo", *flags) as two, Server("demo", *flags) as three:
            def use(server, order):
                for i in order:
                    got = server.complete(prompts[i], max_tokens=8, ignore_eos=True)["choices"][0]["text"]
                    if got != alone[i]:
                        wrong.append((i, got))
            threads = [threading.Thread(target=use, args=(s, order)) for s, order in
                       ((one, range(12)), (two, range(11, -1, -1)), (three, [5, 3, 8, 1, 11, 0, 9, 2, 4, 6, 7, 10]))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])

    def test_behind_haproxy_a_killed_and_a_drained_server_lose_no_answer(self):
        """Runs tools/measure/fleet.py: no turn is lost, the answers are the same in every mode, and a drained server exits with 0."""
        if not shutil.which("redis-server") or not shutil.which("haproxy"):
            self.skipTest("no redis-server or no haproxy here")
        figures = os.path.join(self.folder, "fleet.json")
        command = [sys.executable, os.path.join(kvik.ROOT, "tools/measure/fleet.py"), "--conversations", "6", "--turns", "4", "--ways", "affinity,both",
                   "--json", figures]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr[-4000:]}")
        with open(figures) as f:
            told = json.load(f)
        self.assertTrue(told["same_answers"])
        for row in told["rows"]:
            self.assertEqual((row["answers"], row["lost"], row["drained_exit"]), (24, 0, 0), row)

    def test_an_address_that_is_none_is_wrong_usage(self):
        for url in ("localhost", "http://localhost", "redis://", "redis://host:x"):
            done = kvik.run("serve", "demo", "--redis", url, "--port", free_port())
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(b"expected redis://", done.stderr)


class Events(unittest.TestCase):
    """Reads KV events with a decoder that was written from vLLM's structures."""

    def listen(self, encoding):
        try:
            import msgpack
            import zmq
        except ImportError:
            self.skipTest("no python3-zmq or python3-msgpack here")
        port, replay = free_port(), free_port()
        flags = ("--kv-events", f"tcp://127.0.0.1:{port}", "--kv-events-replay", f"tcp://127.0.0.1:{replay}",
                 "--kv-events-topic", "kv", "--kv-events-encoding", encoding, "--kv-memory", "3MiB")
        poet = os.path.join(tempfile.mkdtemp(prefix="kvik-events-"), "poet.gguf")
        self.addCleanup(shutil.rmtree, os.path.dirname(poet))
        make_adapter.write_gguf(poet, kvik.DEMO, make_adapter.random_pairs(kvik.DEMO, 4), 8.0, "f32")
        with Server("demo", "--threads", 1, "--adapter", f"poet={poet}", *flags) as server:
            context = zmq.Context()
            question = context.socket(zmq.DEALER)
            question.RCVTIMEO = 10_000
            question.connect(f"tcp://127.0.0.1:{replay}")
            prompts = {}
            for i in range(20):
                prompts[i] = kvik.random_tokens(100 + 20 * i, kvik.DEMO_BOS, i % 4)[:900]
                server.complete(prompts[i], max_tokens=2, model="poet" if i % 2 else "demo")
            deadline = time.monotonic() + 20
            while True:
                held = self.replayed(question, msgpack, encoding)
                shown = self.whole_pages(server)
                if len(held) == shown or time.monotonic() > deadline:
                    break
                time.sleep(0.1)
            context.destroy(0)
            self.assertEqual(len(held), shown)
            self.assertGreater(shown, 10)
            beginnings = {name: {tuple(prompts[i][:32]) for i in prompts if i % 2 == odd} for odd, name in enumerate((None, "poet"))}
            for tokens, parent, name in held.values():
                if parent is None:
                    self.assertIn(tuple(tokens), beginnings[name])
                else:
                    self.assertEqual(held[parent][2], name)
            self.assertEqual({name for _, _, name in held.values()}, {None, "poet"})
            self.assertGreater(server.metrics().value("kvik_evicted_pages_total"), 0)

    def replayed(self, question, msgpack, encoding):
        question.send_multipart([b"", (0).to_bytes(8, "big")])
        held, expected = {}, 0
        while True:
            _, number, payload = question.recv_multipart()
            if number == b"\xff" * 8:
                return held
            self.assertEqual(int.from_bytes(number, "big"), expected)
            expected += 1
            batch = msgpack.unpackb(payload)
            events = batch[1] if encoding == "array" else batch["events"]
            for event in events:
                if encoding == "map":
                    kind = event["type"]
                    event = [kind, event.get("block_hashes"), event.get("parent_block_hash"), event.get("token_ids"),
                             event.get("block_size"), event.get("lora_id"), event.get("medium"), event.get("lora_name")]
                if event[0] == "AllBlocksCleared":
                    held.clear()
                elif event[0] == "BlockRemoved":
                    for block in event[1]:
                        del held[block]
                else:
                    self.assertEqual(event[0], "BlockStored")
                    self.assertEqual((len(event[3]), event[4]), (32, 32))
                    if event[2] is not None:
                        self.assertIn(event[2], held)
                    self.assertEqual((event[5] is None, event[6]), (event[7] is None, "CPU"))
                    held[event[1][0]] = event[3], event[2], event[7]

    @staticmethod
    def whole_pages(server):
        """Returns pages of 32 tokens that /kvik/live shows as cached, without those of snapshots (group 1)."""
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
            s.sendall(b"GET /kvik/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            text = b""
            while b"\n\n" not in text.partition(b"data: ")[2]:
                text += s.recv(1 << 16)
        view = json.loads(text.partition(b"data: ")[2].partition(b"\n")[0])
        pages = [view["pages"][i:i + 9] for i in range(0, len(view["pages"]), 9)]
        return sum(1 for page in pages if page[1] >= 2 and page[2] == 0 and page[4] == 32)

    def test_arrays_tell_what_the_cache_holds(self):
        self.listen("array")

    def test_maps_tell_what_the_cache_holds(self):
        self.listen("map")

    def test_an_endpoint_that_cannot_be_is_refused(self):
        done = kvik.run("serve", "demo", "--kv-events", "nonsense", "--port", free_port())
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"nonsense", done.stderr)


if __name__ == "__main__":
    unittest.main()
