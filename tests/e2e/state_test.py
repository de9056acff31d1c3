"""Tests recurrent models: a restored state snapshot equals the computed state, whatever happened in between."""
import itertools
import os
import shutil
import tempfile
import time
import unittest

import kvik
from server import Server

KV_TYPES = ("f32", "bf16", "int8", "int4", "int8/int4")
PRESETS = ("test-qwen35", "test-qwen35moe", "test-qwen3next", "test-lfm2", "test-granitehybrid", "test-nemotronhmoe", "test-falconh1", "test-jamba", "test-kimilinear", "test-bailingmoe3", "test-qwen4exp", "test-deepseek4", "test-glm5next")
N_VOCAB = 260


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


class State(unittest.TestCase):
    def ask(self, server, tokens, n=12, **fields):
        return server.complete(tokens, max_tokens=n, ignore_eos=True, temperature=0, return_token_ids=True, **fields)

    def expect(self, model, answer, tokens, n=12):
        """Compares the answer with that of a separate process without a cache."""
        self.assertEqual(answer["choices"][0]["token_ids"], kvik.greedy(model, tokens, n, no_cache=True))

    def test_a_conversation_computes_what_is_new(self):
        for name in PRESETS:
            model = kvik.preset(name)
            with self.subTest(preset=name), Server(model, "--kv-memory", "64MiB") as server:
                tokens = kvik.random_tokens(300, N_VOCAB, 1)
                for turn in range(5):
                    answer = self.ask(server, tokens)
                    self.expect(model, answer, tokens)
                    if turn > 0:
                        self.assertGreaterEqual(cached(answer), n_before - 1)
                    tokens = tokens + answer["choices"][0]["token_ids"]
                    n_before = len(tokens)
                    tokens = tokens + kvik.random_tokens(40, N_VOCAB, 10 + turn)

    def test_branches_of_a_conversation_can_be_continued(self):
        model = kvik.preset("test-qwen35")
        with Server(model, "--kv-memory", "64MiB") as server:
            shared = kvik.random_tokens(500, N_VOCAB, 1)
            found = []
            for branch in range(4):
                tokens = shared + kvik.random_tokens(60, N_VOCAB, 20 + branch)
                answer = self.ask(server, tokens)
                self.expect(model, answer, tokens)
                found.append(cached(answer))
            self.assertEqual(found[2:], [500, 500])

    def test_a_conversation_continues_after_every_kill(self):
        model = kvik.preset("test-qwen35")
        folder = tempfile.mkdtemp(prefix="kvik-state-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(shutil.rmtree, folder, True)
        tokens, n_before = kvik.random_tokens(200, N_VOCAB, 3), 0
        for turn in range(4):
            with Server(model, "--kv-memory", "64MiB", "--disk", folder, "--disk-size", "256MiB") as server:
                answer = self.ask(server, tokens, 30)
                self.assertGreaterEqual(cached(answer), n_before - 1, f"turn {turn}")
                self.expect(model, answer, tokens, 30)
                time.sleep(2)  # the documented limit for storing pages
                server.process.kill()
                server.process.wait()
            tokens = tokens + answer["choices"][0]["token_ids"]
            n_before = len(tokens)
            tokens = tokens + kvik.random_tokens(10, N_VOCAB, 30 + turn)

    def test_a_snapshot_read_by_another_process_gives_the_bits_of_a_cold_run(self):
        """One process stores pages and snapshots on disk, two others resume from them: at the end of the prompt, and in a longer one."""
        for name, kv_type in itertools.product(("test-qwen35", "test-lfm2", "test-granitehybrid", "test-nemotronhmoe"), KV_TYPES):
            with self.subTest(preset=name, kv_type=kv_type), tempfile.TemporaryDirectory(prefix="kvik-state-") as folder:
                model, tokens = kvik.preset(name), kvik.random_tokens(333, N_VOCAB, 7)
                longer = tokens + kvik.random_tokens(50, N_VOCAB, 8)
                options = {"kv_type": kv_type, "disk": folder}
                cold, cold_longer = (kvik.logits_text(model, t, kv_type=kv_type, no_cache=True) for t in (tokens, longer))
                self.assertEqual(kvik.logits_text(model, tokens, **options), cold)  # stores
                self.assertEqual(kvik.logits_text(model, tokens, **options), cold)
                with Server(model, "--kv-type", kv_type, "--kv-memory", "64MiB", "--disk", folder) as server:
                    answer = self.ask(server, longer)
                    self.assertEqual(cached(answer), len(tokens))
                    self.assertEqual(server.metrics().value("kvik_tier_hit_tokens_total"), len(tokens))
                    self.assertEqual(answer["choices"][0]["token_ids"], kvik.greedy(model, longer, 12, kv_type=kv_type, no_cache=True))
                self.assertEqual(kvik.logits_text(model, longer, **options), cold_longer)

    def test_many_conversations_through_a_small_budget_all_end_the_same(self):
        model = kvik.preset("test-qwen35")
        with Server(model, "--kv-memory", "6MiB", "--kv-type", "f32") as server:
            texts = [kvik.random_tokens(100, N_VOCAB, 100 + i) for i in range(12)]
            for turn in range(2):
                for i, tokens in enumerate(texts):
                    answer = self.ask(server, tokens)
                    if i % 4 == turn:
                        self.assertEqual(answer["choices"][0]["token_ids"], kvik.greedy(model, tokens, 12, kv_type="f32", no_cache=True))
                    texts[i] = tokens + answer["choices"][0]["token_ids"] + kvik.random_tokens(20, N_VOCAB, 200 + i)

    def test_a_small_context_is_there_to_its_end(self):
        """A budget planned for one conversation includes the state of one conversation."""
        model, tokens = kvik.preset("test-lfm2moe"), kvik.random_tokens(151, N_VOCAB, 1)
        for n_ctx in (192, 199, 224):
            self.assertEqual(len(kvik.greedy(model, tokens, 40, kv_type="f32", ctx=n_ctx)), 40, n_ctx)

    def test_metrics_and_plan_include_states(self):
        with Server(kvik.preset("test-qwen35"), "--kv-memory", "64MiB") as server:
            self.ask(server, kvik.random_tokens(100, N_VOCAB, 1))
            metrics = server.metrics()
            self.assertGreater(metrics.value("kvik_snapshots_total"), 0)
            self.assertGreater(metrics.value("kvik_snapshot_pages"), 0)
            self.assertGreater(metrics.value("kvik_kv_reserved_bytes", kind="states"), 0)
        plan = kvik.output("plan", "qwen3.6-35b-a3b:q4_k_m").decode()
        self.assertIn("62.81 MiB are a user's recurrent state", plan)

    def test_draft_tokens_change_nothing(self):
        """Random models seldom repeat themselves, but the continuation of an earlier identical prompt is drafted."""
        for name in ("test-qwen35", "test-qwen3next", "test-lfm2", "test-granitehybrid", "test-nemotronhmoe"):
            model, tokens = kvik.preset(name), kvik.random_tokens(70, N_VOCAB, 5)
            with Server(model, "--kv-type", "f32", "--kv-memory", "64MiB", "--speculate", "7") as server:
                first, again = self.ask(server, tokens, 90), self.ask(server, tokens, 90)
                self.assertEqual(first["choices"], again["choices"], name)
                self.expect(model, again, tokens, 90)
                self.assertGreater(again["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 20, name)
                # A continuation of the drafted answer continues from its state.
                longer = tokens + again["choices"][0]["token_ids"] + [9, 8, 7]
                self.expect(model, self.ask(server, longer, 20), longer, 20)

    def test_a_draft_model_changes_nothing(self):
        model = kvik.preset("test-qwen35")
        common = ("-p", "x y x y", "--ids", "--ignore-eos", "--max-tokens", 60, "--temperature", 1.5, "--seed", 3)
        want = kvik.output("run", model, *common, "--speculate", "off")
        self.assertEqual(kvik.output("run", model, *common, "--speculate", 5, "--draft", kvik.preset("test-llama")), want)

    def test_a_draft_model_with_a_state_is_refused(self):
        done = kvik.run("run", kvik.preset("test-llama"), "--draft", kvik.preset("test-qwen35"), "-p", "x")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"a draft model of architecture 'qwen35' has a recurrent state", done.stderr)


if __name__ == "__main__":
    unittest.main()
