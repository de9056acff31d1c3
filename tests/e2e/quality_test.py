"""Tests `tools/measure/quality.py`: it makes its tables from a text file and from a model built for recall."""
import os
import subprocess
import sys
import tempfile
import unittest

import kvik

TEXT = "ROMEO:\nWhat light through yonder window breaks?\n\nJULIET:\nAy me, what is the matter with the morning?\n\n" * 20


class Quality(unittest.TestCase):
    def table(self, *args):
        command = [sys.executable, os.path.join(kvik.ROOT, "tools/measure/quality.py"), *args, "--kvik", kvik.BINARY]
        done = subprocess.run(command, capture_output=True, text=True, env=kvik.environment(PYTHONDONTWRITEBYTECODE=1))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line.startswith("|")]
        return rows[0], rows[2:]

    def on_text(self, what, *args):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
            text.write(TEXT)
            text.flush()
            return self.table(what, "--text", text.name, "--plays", *args)

    def test_float_weights_and_pages_are_the_oracle_and_coarser_ones_are_not(self):
        head, rows = self.on_text("tables", "--windows", "2", "--length", "48", "--weights", "f32,q4_0", "--pages", "f32,int8")
        kl = {(row[0], row[1]): float(row[head.index("KL mean")]) for row in rows}
        self.assertLess(kl["f32", "f32"], 1e-9)
        self.assertTrue(all(1e-8 < kl[pair] < 1e-2 for pair in kl if pair != ("f32", "f32")), kl)

    def test_a_line_said_again_is_looked_for_at_each_distance(self):
        _, rows = self.on_text("needle", "--windows", "1", "--distances", "128,160", "--pages", "f32,int8")
        self.assertEqual([row[0] for row in rows], ["128", "160"])
        self.assertTrue(all(float(cell) < 0 for row in rows for cell in row[1:]))

    def test_the_model_built_for_recall_finds_one_key_among_many_with_every_page_type(self):
        head, rows = self.table("recall", "--windows", "2", "--keys", "512")
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertEqual([cell.split(", ")[1] for cell in row[2:]], ["100%"] * (len(head) - 2), row)


if __name__ == "__main__":
    unittest.main()
