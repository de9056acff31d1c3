"""Tests `kvik explain`: the counts, the proof, the agreement with `kvik bench`, and a report with any prompt."""
import html.parser
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import kvik
from server import Server

WEB = pathlib.Path(__file__).resolve().parents[2] / "web"
CHROMIUM = os.environ.get("KVIK_CHROMIUM", "/usr/bin/chromium")

MODEL = "synthetic:test-llama:f32"
HOSTILE = "a </script><script>window.harmed=1</script> \" ' & <!-- \\ \u2028 é"


class Elements(html.parser.HTMLParser):
    """Collects the scripts of a page as a browser parses them, and references to other files."""

    def __init__(self, page):
        super().__init__()
        self.scripts, self.links, self.is_script = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.is_script = tag == "script"
        if self.is_script:
            self.scripts.append([dict(attributes), ""])
        self.links += [value for name, value in attributes if name in ("src", "href") and not value.startswith(("data:", "#"))]

    def handle_data(self, data):
        if self.is_script:
            self.scripts[-1][1] += data

    def handle_endtag(self, tag):
        self.is_script = False


def explained(model, *more):
    """Returns (the object that --json prints, the report)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.html")
        found = json.loads(kvik.output("explain", model, "--out", path, "--json", *more))
        if os.listdir(folder) != ["report.html"]:
            raise AssertionError(f"left over: {os.listdir(folder)}")
        with open(path, encoding="utf-8") as f:
            return found, f.read()


class Explain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.report, cls.page = explained(MODEL, "-p", HOSTILE, "--max-tokens", 40)
        cls.runs = {run["way"]: run for run in cls.report["runs"]}

    def test_the_rows_of_k_and_v_are_a_triangle_without_the_cache_and_a_line_with_it(self):
        n = self.report["prompt"]["tokens"]
        self.assertEqual(self.report["answer"]["tokens"], 40)
        triangle = [(n + i) * (n + i + 1) // 2 - n * (n - 1) // 2 for i in range(40)]
        self.assertEqual(self.runs["naive"]["kv_rows"], triangle)
        self.assertEqual(self.runs["cold"]["kv_rows"], [n + i for i in range(40)])
        self.assertEqual(self.runs["warm"]["kv_rows"], [1 + i for i in range(40)])
        self.assertEqual(self.runs["warm"]["cached_tokens"], n - 1)
        for run in self.runs.values():
            self.assertEqual(run["n_seen"], [n + i for i in range(40)])
            self.assertEqual(len(run["ms"]), 40)
            self.assertGreater(min(run["ms"]), 0)

    def test_the_bits_of_all_logits_are_the_same(self):
        bits = self.report["bits"]
        # All runs of all repeats except the first one.
        n_compared = (3 * self.report["repeats"] - 1) * 40 * self.report["geometry"]["vocabulary"]
        self.assertEqual(bits, {"compared": n_compared, "different": 0, "equal": True})

    def test_the_memory_is_that_of_the_pages(self):
        per_token = {row["type"]: row["bytes_per_token"] for row in self.report["memory"]["types"]}
        plan = json.loads(kvik.output("plan", MODEL, "--kv-type", "int8", "--ctx", self.report["memory"]["contexts"][-1], "--json"))
        self.assertEqual(per_token["int8"], plan["kv_bytes_per_token"])
        int8 = next(row for row in self.report["memory"]["types"] if row["type"] == "int8")
        self.assertEqual(int8["bytes"][-1], plan["kv_bytes_per_user"])
        pages = [-(-n // 32) for n in self.runs["cold"]["n_seen"]]
        self.assertEqual(self.runs["cold"]["kv_bytes"], [n * 32 * per_token["int8"] for n in pages])

    def test_a_prompt_without_a_flag_is_long_enough_to_show_the_effect(self):
        report, _ = explained("demo", "--max-tokens", 24, "--threads", 1)
        runs = {run["way"]: run for run in report["runs"]}
        self.assertGreater(report["prompt"]["tokens"], 100)
        median = {way: sorted(run["ms"][1:])[12] for way, run in runs.items()}
        self.assertGreater(median["naive"], 2 * median["cold"], "computing the prompt again for each token takes longer")
        self.assertLess(runs["warm"]["ms"][0], runs["cold"]["ms"][0], "a cached prompt has its first token sooner")

    def test_what_heads_windows_types_and_sharing_change_was_measured(self):
        for row in self.report["types"] + self.report["shapes"]:
            self.assertGreater(row["ms"]["min"], 0)
            self.assertLessEqual(row["ms"]["min"], row["ms"]["median"])
            self.assertLessEqual(row["ms"]["median"], row["ms"]["max"])
        self.assertEqual([row["type"] for row in self.report["types"]], ["f32", "bf16", "int8", "int8/int4", "int4"])
        shapes = {row["name"]: row for row in self.report["shapes"]}
        heads = self.report["geometry"]["heads"] // self.report["geometry"]["kv_heads"]
        self.assertEqual(shapes["a KV head for each query head"]["kv_bytes"], heads * shapes["as it is"]["kv_bytes"])
        self.assertLessEqual(shapes["a window"]["kv_bytes"], shapes["as it is"]["kv_bytes"])
        sharing = self.report["sharing"]
        self.assertEqual(sharing["found"], sharing["shared"], "the second user finds the whole beginning")

    def test_the_phases_have_the_fields_of_bench_and_shares_of_both_limits(self):
        self.assertEqual([(row["test"], row["tokens"]) for row in self.report["bench"]], [("prefill", 512), ("decode", 64)])
        self.assertEqual([row["tokens"] for row in self.report["rows"]], [2**i for i in range(10)])
        for row in self.report["bench"] + self.report["rows"]:
            self.assertAlmostEqual(row["limit_share"], max(row["arithmetic_share"], row["memory_share"]), 6)
            self.assertAlmostEqual(row["ms"], 1e3 * row["tokens"] / row["tok_s"], 6)

    def test_the_page_holds_the_report_whatever_the_prompt(self):
        elements = Elements(self.page)
        data = [text for attributes, text in elements.scripts if attributes.get("id") == "report"]
        self.assertEqual(len(data), 1)
        inside = json.loads(data[0])
        self.assertEqual(inside, self.report)
        text = inside["prompt"]["text"].replace("▁", " ")  # the toy vocabulary retains SentencePiece's blank
        self.assertTrue(text.endswith(HOSTILE), text)
        self.assertEqual(elements.links, [], "it asks for nothing")
        self.assertNotIn("window.harmed=1</script>", self.page)

    def test_a_model_with_a_state_says_why_its_cache_is_small_and_its_snapshots_are_not(self):
        with tempfile.TemporaryDirectory() as folder:
            done = kvik.run("explain", kvik.preset("test-qwen35"), "--max-tokens", 16, "--out", os.path.join(folder, "page.html"))
        output = (done.stdout + done.stderr).decode()
        self.assertEqual(done.returncode, 0, output)
        self.assertIn("its cache is small: K and V lie in 1 of 5 layers", output)
        self.assertIn("its snapshots are not: each is a copy of that state, as much as K and V of", output)

    def test_agrees_with_bench(self):
        """Within a factor of three in one of ten attempts, because other programs share the machine."""
        for _ in range(10):
            report, _ = explained("demo", "--max-tokens", 48, "--threads", 1)
            rows = json.loads(kvik.output("bench", "demo", "--threads", 1, "--json"))
            pairs = list(zip(report["bench"], rows, strict=True))
            for ours, theirs in pairs:
                self.assertEqual((ours["test"], ours["tokens"]), (theirs["test"], theirs["tokens"]))
            if all(1 / 3 < ours["tok_s"] / theirs["tok_s"] < 3 for ours, theirs in pairs):
                return
        self.fail(str(pairs))

    def test_wrong_calls_are_refused_in_a_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            done = kvik.run("explain", MODEL, "-p", "a" * 5000, "--out", os.path.join(folder, "page.html"))
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"expected room for", done.stderr)
        done = kvik.run("explain", MODEL, "--max-tokens", 17, "--out", os.devnull)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write '/dev/null': it is a device, pipe or socket", done.stderr)
        done = kvik.run("explain", MODEL, "--max-tokens", 3)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--max-tokens is 3, expected at least 4", done.stderr)
        done = kvik.run("explain", MODEL, "--max-tokens", 17, "--out", "/nowhere/x.html")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write '/nowhere/x.html'", done.stderr)


@unittest.skipUnless(shutil.which("node") and os.path.exists(CHROMIUM), "no Node or no Chromium here")
class OtherPages(unittest.TestCase):
    def test_over_bf16_pages_all_types_are_compared_as_well(self):
        report, _ = explained("demo", "-p", "ROMEO:", "--max-tokens", 4, "--kv-type", "bf16")
        self.assertEqual([row["type"] for row in report["types"]], ["f32", "bf16", "int8", "int8/int4", "int4"])
        self.assertTrue(report["bits"]["equal"])


class InTheBrowser(unittest.TestCase):
    """Tests the file of a real run with web/test/report.mjs."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.html")
            cls.report = json.loads(kvik.output("explain", "demo", "-p", HOSTILE, "--max-tokens", 64, "--out", path, "--json"))
            done = subprocess.run(["node", "test/report.mjs", path], cwd=WEB, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise AssertionError(done.stderr[-3000:])
        cls.shown = json.loads(done.stdout)

    def test_it_teaches_step_by_step(self):
        titles = [step.lstrip("0123456789") for step in self.shown["steps"]]
        self.assertEqual(titles, [
            "Prefill with an empty cache", "The cost of recomputing", "Store, reuse, append", "The same answer, bit for bit",
            "The same prompt again", "The cost: memory that grows", "TTFT and ITL",
            "Prefill and decode against the limits of this machine", "Why input is cheaper than output",
            "KV memory by type and context, on this machine", "Further savings"])
        self.assertEqual(self.shown["rows"], 64, "the table that a key opens has all tokens")
        self.assertEqual(self.shown["title"], "Kvik explains demo")

    def test_its_charts_are_drawn_and_say_in_words_what_they_show(self):
        self.assertGreaterEqual(len(self.shown["charts"]), 11)
        cold = next(run for run in self.report["runs"] if run["way"] == "cold")
        self.assertTrue(any(f"computed {cold['kv_rows'][-1]} rows" in label for label in self.shown["charts"]), self.shown["charts"])
        self.assertEqual((self.shown["strokes"], self.shown["unlabelled"], self.shown["nonsense"]), (0, 0, []))

    def test_the_prompt_is_text_and_nothing_else(self):
        self.assertFalse(self.shown["wasHarmed"])
        self.assertIn("</script><script>window.harmed=1</script>", "".join(self.shown["pieces"]).replace("⏎", "\n"))

    def test_it_asks_for_nothing_and_keeps_its_own_policy(self):
        self.assertEqual((self.shown["requests"], self.shown["complaints"]), ([], []))

    def test_everybody_can_read_it_in_light_and_dark_and_on_a_phone(self):
        self.assertEqual((self.shown["faults"], self.shown["overflow"]), ([], []))
        self.assertEqual(self.shown["theme"], "dark", "the switch works")


class Live(unittest.TestCase):
    """Tests POST /kvik/explain on the loaded model."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", "--threads", 1, "--kv-memory", "64MiB")
        cls.addClassCleanup(cls.server.__exit__)

    def explain(self, **call):
        answer = self.server.request("POST", "/kvik/explain", call)
        self.assertEqual(answer.status, 200, answer.body)
        events = [event.split("\n") for event in answer.body.decode().split("\n\n") if event.startswith("event: ")]
        return [(lines[0][7:], json.loads(lines[1][6:])) for lines in events]

    def test_shows_both_ways_on_the_loaded_model(self):
        events = self.explain(prompt="ROMEO:\nBut soft, what light", max_tokens=24)
        self.assertEqual(events[-1], ("end", {}))
        report = events[-2][1]
        runs = {run["way"]: run for run in report["runs"]}
        n = report["prompt"]["tokens"]
        self.assertEqual(runs["naive"]["kv_rows"][-1], sum(n + i for i in range(24)))
        self.assertEqual(runs["cold"]["kv_rows"][-1], n + 23)
        self.assertTrue(report["bits"]["equal"])
        told = {way: [] for way in runs}
        for name, data in events[:-2]:
            if name == "repeat":
                continue
            self.assertEqual((name, data["first"]), ("tokens", len(told[data["way"]])))
            told[data["way"]] += data["ms"]
        for way, run in runs.items():
            self.assertTrue(all(least <= first for least, first in zip(run["ms"], told[way], strict=True)), way)

    def test_times_are_the_least_of_three_repeats(self):
        events = self.explain(prompt="ROMEO:\nBut soft, what light", max_tokens=8)
        self.assertEqual([data for name, data in events if name == "repeat"], [{"number": 2, "of": 3}, {"number": 3, "of": 3}])
        report = events[-2][1]
        self.assertEqual(report["repeats"], 3)
        self.assertTrue(report["bits"]["equal"])

    def test_a_second_time_it_begins_cold_again(self):
        for _ in range(2):
            report = self.explain(prompt="The same words once more", max_tokens=8)[-2][1]
            self.assertEqual([run["cached_tokens"] for run in report["runs"]], [0, 0, report["prompt"]["tokens"] - 1])


if __name__ == "__main__":
    unittest.main()
