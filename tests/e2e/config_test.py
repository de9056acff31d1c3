"""Tests the precedence of settings: flag > environment (KVIK_…) > config file > default."""
import os
import tempfile
import unittest

import kvik


class Config(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "kvik.toml")
        self.write('[run]\nmax-tokens = 3\ntemperature = 0\nignore-eos = true\n[bench]\nprefill = 7\n')

    def write(self, text):
        with open(self.path, "w") as f:
            f.write(text)

    def n_tokens(self, *flags, **env):
        out = kvik.output("run", "demo", "--tokens", "1,2,3", "--ids", *flags, env=env)
        return len(out.split())

    def test_a_file_sets_what_nothing_else_does(self):
        self.assertEqual(self.n_tokens("--config", self.path), 3)

    def test_the_environment_goes_before_the_file(self):
        self.assertEqual(self.n_tokens("--config", self.path, KVIK_MAX_TOKENS=4), 4)

    def test_a_flag_goes_before_both(self):
        self.assertEqual(self.n_tokens("--config", self.path, "--max-tokens", 5, KVIK_MAX_TOKENS=4), 5)

    def test_the_environment_may_name_the_file(self):
        self.assertEqual(self.n_tokens(KVIK_CONFIG=self.path), 3)

    def test_the_section_of_another_command_is_left_alone(self):
        self.assertEqual(self.n_tokens("--config", self.path), 3)

    def test_a_file_that_is_not_there_is_wrong_usage(self):
        done = kvik.run("run", "demo", "-p", "x", "--config", self.path + ".none")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"kvik.toml.none", done.stderr)

    def test_it_may_stand_before_the_command(self):
        def n_tokens(*flags, **env):
            return len(kvik.output("--config", self.path, "run", "demo", "--tokens", "1,2,3", "--ids", *flags, env=env).split())

        self.assertEqual(n_tokens(), 3)
        self.assertEqual(n_tokens(KVIK_MAX_TOKENS=4), 4)
        self.assertEqual(n_tokens("--max-tokens", 5, KVIK_MAX_TOKENS=4), 5)
        done = kvik.run("--config", self.path, "sing")
        self.assertEqual((done.returncode, b"'sing'" in done.stderr), (2, True), done.stderr)

    def test_a_key_that_nothing_has_a_use_for_is_named(self):
        for text, name in (("[run]\nmax-token = 3\n", b"max-token"), ("[runs]\nmax-tokens = 3\n", b"runs"), ("prefil = 3\n", b"prefil"),
                           ("[bench]\nmax-tokens = 3\n", b"max-tokens")):
            self.write(text)
            done = kvik.run("run", "demo", "--tokens", "1", "--max-tokens", 1, "--config", self.path)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
            self.assertIn(name, done.stderr)

    def test_a_misspelled_key_or_section_gets_a_suggestion(self):
        for text, words in (("[run]\nmax-tokenz = 3\n", (b"max-tokenz", b"[run]", b"did you mean max-tokens?")),
                            ("[runn]\nmax-tokens = 3\n", (b"[runn]", b"did you mean run?")),
                            ("[cache.stats]\nDIR = \"x\"\n", (b"[stats]", b"did you mean stat?")),
                            ("[run]\nqqqqqqq = 3\n", (b"qqqqqqq", b"kvik run --help"))):
            self.write(text)
            done = kvik.run("run", "demo", "--tokens", "1", "--max-tokens", 1, "--config", self.path)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
            self.assertNotIn(b"INI", done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)

    def test_a_flag_without_a_value_has_a_variable_too(self):
        self.write("[run]\nmax-tokens = 3\nignore-eos = true\nids = true\n")

        def output(**env):
            done = kvik.run("run", "demo", "--tokens", "1,2,3", "--temperature", 0, "--config", self.path, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.split()

        self.assertEqual(len(output()), 3)
        self.assertTrue(all(word.isdigit() for word in output(KVIK_IDS="1")))
        self.assertFalse(all(word.isdigit() for word in output(KVIK_IDS="off")), "the environment goes before the file")
        done = kvik.run("run", "demo", "--tokens", "1", env={"KVIK_IDS": "perhaps"})
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
        for word in (b"KVIK_IDS", b"'perhaps'", b"1 or 0"):
            self.assertIn(word, done.stderr)

    def test_an_unknown_log_level_is_wrong_usage(self):
        done = kvik.run("run", "demo", "--tokens", "1", "--max-tokens", 1, env={"KVIK_LOG": "loud"})
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
        for word in (b"KVIK_LOG", b"'loud'", b"trace, debug, info, warn, error, off"):
            self.assertIn(word, done.stderr)

    def test_a_bad_value_in_it_is_wrong_usage(self):
        self.write("[run]\nmax-tokens = many\n")
        done = kvik.run("run", "demo", "--tokens", "1", "--config", self.path)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"many", done.stderr)


class HugePages(unittest.TestCase):
    def test_answers_do_not_depend_on_them(self):
        on, off = (kvik.logits_text("demo", [1, 2, 3], huge_pages=h) for h in ("on", "off"))
        self.assertEqual(on, off)

    def test_the_environment_switches_them(self):
        done = kvik.run("logits", "demo", "--tokens", "1", env={"KVIK_HUGE_PAGES": "perhaps"})
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"huge-pages", done.stderr)


if __name__ == "__main__":
    unittest.main()
