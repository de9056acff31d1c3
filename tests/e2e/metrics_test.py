"""Tests /metrics as a scraper sees it: the format, names that dashboards expect, and correct numbers."""
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import kvik
from server import Server, in_parallel

PROMPT = "ROMEO:\nO, speak again"

VLLM = {"time_to_first_token_seconds": "histogram", "inter_token_latency_seconds": "histogram", "e2e_request_latency_seconds": "histogram",
        "request_queue_time_seconds": "histogram", "request_prefill_time_seconds": "histogram", "request_decode_time_seconds": "histogram",
        "num_requests_running": "gauge", "num_requests_waiting": "gauge", "kv_cache_usage_perc": "gauge", "cache_config_info": "gauge", "prefix_cache_queries_total": "counter",
        "prefix_cache_hits_total": "counter", "prompt_tokens_total": "counter", "generation_tokens_total": "counter"}


class Metrics(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Server("demo", "--kv-memory", "64MiB"))

    def test_the_format_holds_before_and_after_the_first_request(self):
        self.server.metrics()
        self.server.text(PROMPT)
        page = self.server.metrics()
        for name, kind in VLLM.items():
            self.assertEqual(page.types["vllm:" + name], kind)
        self.assertTrue(all(dict(labels).get("model_name") == "demo" for _, labels in page.samples))

    @unittest.skipUnless(shutil.which("promtool"), "promtool is in Debian's package prometheus")
    def test_promtool_has_nothing_to_say_but_of_the_colons_in_vllms_names(self):
        self.server.text(PROMPT)
        done = subprocess.run(["promtool", "check", "metrics"], input=self.server.get("/metrics").body, capture_output=True)
        self.assertEqual([line for line in done.stderr.decode().splitlines() if not line.startswith("vllm:")], [])

    def page_after(self, n_finished):
        """Waits for the counters, because an answer may arrive a moment before the engine publishes them."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            page = self.server.metrics()
            if sum(page.values("kvik_requests_finished_total", "reason").values()) >= n_finished:
                return page
        raise AssertionError("the engine shows no new counts")

    def test_what_was_answered_is_what_is_counted(self):
        ids = [int(i) for i in kvik.output("tokenize", "demo", PROMPT).split()]
        first = self.server.complete(ids, max_tokens=20, ignore_eos=True)["usage"]
        usages = [u["usage"] for u in in_parallel(*[lambda i=i: self.server.complete(ids + [i], max_tokens=10 + i, ignore_eos=True) for i in range(6)])]
        usages.append(first)
        self.server.post("/v1/completions", {"prompt": 7})
        page = self.page_after(len(usages))
        prompt = sum(u["prompt_tokens"] for u in usages)
        cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)
        self.assertGreater(cached, 0)
        self.assertEqual(page.values("kvik_prompt_tokens_total", "source"), {"computed": prompt - cached, "cache": cached})
        self.assertEqual(page.value("vllm:prompt_tokens_total"), prompt)
        self.assertEqual(page.value("vllm:prefix_cache_hits_total"), cached)
        generated = sum(u["completion_tokens"] for u in usages)
        self.assertEqual(page.value("kvik_generated_tokens_total"), generated)
        self.assertEqual(page.value("kvik_time_to_first_token_seconds_count"), len(usages))
        self.assertEqual(page.value("kvik_inter_token_latency_seconds_count"), generated - len(usages))
        self.assertEqual(page.value("kvik_request_latency_seconds_count"), len(usages))
        self.assertEqual(page.values("kvik_requests_finished_total", "reason"), {"stop": 0, "length": len(usages), "cancelled": 0, "failed": 0, "grammar_exhausted": 0})
        codes = page.values("kvik_http_responses_total", "code")
        self.assertEqual(codes["400"], 1)
        self.assertEqual(page.value("kvik_requests_running"), 0)
        pages = page.values("kvik_kv_pages", "state")
        self.assertEqual((pages["leased"], pages["sealed"]), (0, 0))
        self.assertGreater(pages["cached"], 0)
        self.assertLessEqual(sum(page.values("kvik_kv_bytes", "state").values()), 64 * 2**20)

    def test_the_page_is_not_for_everybody(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
            f.write("k1\n")
            f.flush()
            with Server("demo", "--api-key-file", f.name) as server:
                self.assertEqual(server.get("/metrics").status, 401)
                self.assertEqual(server.get("/metrics", headers={"x-api-key": "k1"}).status, 200)


def documented():
    """family → (type, labels) of each row of docs/reference/metrics.md; both names of a row are families."""
    families = {}
    with open(os.path.join(kvik.ROOT, "docs/reference/metrics.md"), encoding="utf-8") as page:
        for line in page:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) == 5 and cells[2] in ("gauge", "counter", "histogram"):
                labels = {found[1] for found in re.finditer(r"(?:^|[;,] )`(\w+)`(?=[:;,]|$)", re.sub(r":[^;]*", ":", cells[3]))}
                for name in re.findall(r"`([\w:]+)`", cells[0] + cells[1]):
                    families[name] = cells[2], labels
    return families


class Reference(unittest.TestCase):
    """docs/reference/metrics.md lists the metrics that servers show."""

    def families_of(self, *flags):
        """family → (type, labels), without the labels that all samples have."""
        with Server("demo", "--kv-memory", "64MiB", *flags) as server:
            server.text(PROMPT)
            page = server.metrics()
        labels = {name: set() for name in page.types}
        for name, pairs in page.samples:
            family = name if name in labels else re.sub(r"_(bucket|sum|count)$", "", name)
            labels[family] |= {label for label, _ in pairs} - {"model_name", "le"}
        return {name: (kind, labels[name]) for name, kind in page.types.items()}

    def test_a_server_with_everything_shows_what_is_documented(self):
        with tempfile.TemporaryDirectory() as folder:
            shown = self.families_of("--disk", folder, "--price-input", 1, "--kv-events", "tcp://127.0.0.1:0")
        shown |= self.families_of("synthetic:test-llama")  # a router
        self.assertEqual(shown, documented())

    def test_a_plain_server_shows_no_tiers_prices_and_events(self):
        shown = self.families_of()
        optional = {name for name in documented() if name.startswith(("kvik_tier_", "kvik_kv_events_", "kvik_key_cost_", "kvik_model_"))}
        self.assertEqual(set(shown), set(documented()) - optional)


if __name__ == "__main__":
    unittest.main()
