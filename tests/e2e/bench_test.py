"""Tests `kvik bench`: the JSON for scripts, sweeps, the roofline."""
import json
import os
import tempfile
import unittest
import xml.etree.ElementTree

import kvik

MODEL = "synthetic:test-llama:f32"
FIELDS = ["test", "tokens", "depth", "batch", "tok_s", "tok_s_min", "tok_s_max", "limit_share", "kv_type", "kv_quality", "arithmetic"]


class Bench(unittest.TestCase):
    def bench(self, *more):
        rows = json.loads(kvik.output("bench", MODEL, "--json", "--repeat", 3, *more))
        for row in rows:
            self.assertEqual(list(row), FIELDS)
            self.assertGreater(row["tok_s_min"], 0)
            self.assertLessEqual(row["tok_s_min"], row["tok_s"])
            self.assertLessEqual(row["tok_s"], row["tok_s_max"])
            self.assertGreater(row["limit_share"], 0)
        return rows

    def test_prefill_and_decode_are_rows_of_a_json_array(self):
        rows = self.bench("--prefill", 64, "--decode", 16)
        self.assertEqual([(row["test"], row["tokens"], row["depth"], row["batch"]) for row in rows],
                         [("prefill", 64, 0, 1), ("decode", 16, 0, 1)])

    def test_a_test_of_no_tokens_is_left_out(self):
        self.assertEqual([row["test"] for row in self.bench("--prefill", 0, "--decode", 4)], ["decode"])
        self.assertEqual([row["test"] for row in self.bench("--prefill", 4, "--decode", 0)], ["prefill"])

    def test_threads_and_kv_type_are_taken(self):
        for kv_type in ("f32", "bf16", "int8", "int8/int4", "int4"):
            rows = self.bench("--prefill", 40, "--decode", 8, "--depth", 50, "--batch", 3, "--threads", 1, "--kv-type", kv_type)
            self.assertEqual({(row["depth"], row["batch"]) for row in rows}, {(50, 3)})
            self.assertEqual({row["kv_type"] for row in rows}, {kv_type})

    def test_lists_of_depths_and_batches_make_a_row_for_each_pair_and_test(self):
        rows = self.bench("--prefill", 8, "--decode", 4, "--depth", "0,1k,40", "--batch", "1,3")
        self.assertEqual([(row["depth"], row["batch"], row["test"]) for row in rows],
                         [(depth, batch, test) for depth in (0, 1024, 40) for batch in (1, 3) for test in ("prefill", "decode")])

    def test_a_sweep_over_filled_pages_works_in_any_order(self):
        self.assertEqual(len(self.bench("--prefill", 40, "--decode", 4, "--depth", "1k,0,2k,33", "--batch", "2,1", "--fill")), 16)

    def test_the_naive_path_is_measured_too(self):
        self.assertIn("decode", [row["test"] for row in self.bench("--prefill", 32, "--decode", 8, "--no-cache")])

    def test_a_context_far_beyond_the_trained_one_can_be_filled(self):
        self.bench("--prefill", 0, "--decode", 2, "--depth", "128k", "--fill")

    def test_without_json_a_table_is_printed_below_all_limits(self):
        table = kvik.output("bench", MODEL, "--prefill", 16, "--decode", 4, "--repeat", 1).decode().splitlines()
        self.assertRegex(table[0], r"^int8 pages \(near lossless: KL 0\.\d+\); limits of this machine during the runs: reads \d+ to \d+ GB/s, int8 [1-9]\d* to \d+ GOP/s, int4 .*, bf16 .*, f32 [1-9]\d* to \d+ GFLOP/s")
        self.assertEqual([line.split()[0] for line in table[1:]], ["test", "prefill", "decode"])

    def test_arithmetic_of_an_instruction_set_s_own_is_named(self):
        for isa in kvik.isas():
            own = isa if isa in kvik.ROUND_TO_BF16 else ""
            flags = ("synthetic:test-llama:bf16", "--isa", isa, "--prefill", 4, "--decode", 2, "--repeat", 1)
            self.assertEqual({row["arithmetic"] for row in json.loads(kvik.output("bench", *flags, "--json"))}, {own})
            self.assertEqual("rounds activations to bf16" in kvik.output("bench", *flags).decode(), bool(own))


class Roofline(unittest.TestCase):
    def draw(self, *more):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "roofline.svg")
            rows = json.loads(kvik.output("bench", MODEL, "--json", "--repeat", 1, "--prefill", 16, "--decode", 4, "--roofline", path, *more))
            return rows, xml.etree.ElementTree.parse(path).getroot()

    def test_it_is_xml_with_a_point_and_a_name_for_each_test_and_both_schemes(self):
        rows, svg = self.draw("--depth", "0,64", "--batch", "1,2")
        tag = "{http://www.w3.org/2000/svg}"
        self.assertEqual(svg.tag, tag + "svg")
        self.assertEqual(len(svg.findall(tag + "circle")), len(rows))
        texts = ["".join(t.itertext()) for t in svg.iter(tag + "text")]
        for row in rows:
            batch = f" × {row['batch']}" if row["batch"] > 1 else ""
            self.assertIn(f"{row['test']} {row['tokens']}{batch} at depth {row['depth']}", texts)
        self.assertIn("prefers-color-scheme: dark", svg.find(tag + "style").text)
        for ceiling in ("reads", "int8", "f32"):
            self.assertTrue(any(ceiling in text for text in texts), ceiling)

    def test_points_lie_within_the_drawing(self):
        _, svg = self.draw()
        _, _, width, height = map(float, svg.get("viewBox").split())
        for circle in svg.iter("{http://www.w3.org/2000/svg}circle"):
            self.assertTrue(0 < float(circle.get("cx")) < width and 0 < float(circle.get("cy")) < height)


class WrongUse(unittest.TestCase):
    def refused(self, code, word, *args):
        done = kvik.run("bench", MODEL, *args)
        with self.subTest(args=args):
            output = done.stderr.decode()
            self.assertEqual((done.returncode, done.stdout, output.count("\n")), (code, b"", 1), output)
            self.assertIn(word, output)

    def test_values_that_make_no_sense_are_usage_errors_that_name_them(self):
        self.refused(2, "513", "--batch", "1,513")
        self.refused(2, "--batch is 0", "--batch", "0")
        self.refused(2, "'x'", "--batch", "1,x")
        self.refused(2, "''", "--depth", "1k,,2")
        self.refused(2, "'-1'", "--depth=-1")
        self.refused(2, "2^30", "--depth", "1024M")
        self.refused(2, "0", "--prefill", "0", "--decode", "0")
        self.refused(2, "0", "--repeat", "0")

    def test_a_context_that_memory_cannot_hold_is_refused_before_it_is_filled(self):
        self.refused(1, "of memory are free", "--depth", "1000M", "--batch", "512", "--fill")

    def test_a_drawing_that_cannot_be_written_is_said_before_anything_is_measured(self):
        self.refused(1, "/nowhere/", "--roofline", "/nowhere/roofline.svg")


if __name__ == "__main__":
    unittest.main()
