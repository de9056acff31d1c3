"""Tests `kvik run`: text in, text out, through a terminal's pipes."""
import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import tempfile
import time
import unittest

import kvik

VERSE = ("run", "demo", "-p", "ROMEO:", "--max-tokens", 200)


def read_terminal(terminal):
    """Reads everything written to the terminal until no process has it open, and closes it. The data may come in parts, and late."""
    seen = b""
    try:
        while piece := os.read(terminal, 65536):
            seen += piece
    except OSError:  # EIO: the end
        pass
    os.close(terminal)
    return seen


class Run(unittest.TestCase):
    def test_verse_streams_piece_by_piece(self):
        """Generates slowly, so that this process reads each piece before the next one is written."""
        with subprocess.Popen(kvik.command(*VERSE, "--seed", 3), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=kvik.environment(KVIK_ISA="scalar")) as process:
            pieces = list(iter(lambda: os.read(process.stdout.fileno(), 4096), b""))
            self.assertEqual(process.stderr.read(), b"")
        self.assertEqual(process.returncode, 0)
        self.assertGreater(len(pieces), 20)
        text = b"".join(pieces).decode()
        self.assertGreater(len(text), 100)
        self.assertGreater(text.count("\n"), 2)

    def test_the_same_seed_gives_the_same_text_and_another_another(self):
        first = kvik.output(*VERSE, "--seed", 1)
        self.assertEqual(kvik.output(*VERSE, "--seed", 1), first)
        self.assertNotEqual(kvik.output(*VERSE, "--seed", 2), first)

    def test_without_a_seed_each_run_differs(self):
        self.assertNotEqual(kvik.output(*VERSE), kvik.output(*VERSE))

    def test_a_terminal_sees_how_far_the_prompt_is_and_a_log_does_not(self):
        run = ("run", "synthetic:test-llama:f32", "--tokens", kvik.joined(range(4, 260)) + ",4" * 1200,
               "--max-tokens", 2, "--ids")
        terminal, child = pty.openpty()
        with subprocess.Popen(kvik.command(*run), stdout=subprocess.PIPE, stderr=child,
                              env=kvik.environment()) as process:
            os.close(child)
            process.stdout.read()
            seen = read_terminal(terminal).decode()
        self.assertEqual(process.returncode, 0)
        self.assertIn("reading the prompt", seen)
        self.assertIn("512 of 1456 tokens", seen)
        self.assertTrue(seen.endswith("\r\x1b[K"), seen)  # the progress bar is erased at the end
        self.assertEqual(kvik.run(*run).stderr, b"")

    def test_a_pipe_is_a_prompt(self):
        options = ("--max-tokens", 40, "--temperature", 0)
        want = kvik.output("run", "demo", "-p", "JULIET:\nO", *options)
        self.assertEqual(kvik.output("run", "demo", *options, stdin=b"JULIET:\nO"), want)

    def test_echo_into_a_pipe_works(self):
        line = f'echo "To be, or" | "{kvik.BINARY}" run demo --max-tokens 20 --seed 1'
        done = subprocess.run(["bash", "-c", line], capture_output=True, env=kvik.environment())
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue(done.stdout.strip())

    def test_ids_are_the_text_in_numbers(self):
        options = ("run", "demo", "-p", "ROMEO:", "--max-tokens", 50, "--temperature", 0, "--ignore-eos")
        ids = [int(i) for i in kvik.output(*options, "--ids").split()]
        self.assertEqual(len(ids), 50)
        self.assertTrue(all(0 <= i < 2048 for i in ids))
        self.assertEqual(kvik.output(*options).rstrip(b"\n"), kvik.demo_text(ids).rstrip(b"\n"))

    def test_token_ids_as_prompt_are_fed_without_bos(self):
        ids = kvik.output("tokenize", "demo", "ROMEO:").decode().split()
        self.assertEqual(ids[0], "2045")
        options = ("--max-tokens", 30, "--temperature", 0, "--ids", "--ignore-eos")
        self.assertEqual(kvik.output("run", "demo", "--tokens", ",".join(ids), *options), kvik.output("run", "demo", "-p", "ROMEO:", *options))
        self.assertNotEqual(kvik.output("run", "demo", "--tokens", ",".join(ids[1:]), *options),
                            kvik.output("run", "demo", "--tokens", ",".join(ids), *options))

    def test_exactly_as_many_tokens_as_asked_for(self):
        for n in (1, 2, 33, 200):
            ids = kvik.output("run", "demo", "--tokens", "1,2,3", "--max-tokens", n, "--seed", 1, "--ids", "--ignore-eos").split()
            self.assertEqual(len(ids), n)

    def test_an_answer_ends_where_the_context_does(self):
        prompt = kvik.joined(kvik.random_tokens(1000, 2045, 1))
        ids = kvik.output("run", "demo", "--tokens", prompt, "--max-tokens", 500, "--temperature", 0, "--ids", "--ignore-eos").split()
        self.assertGreaterEqual(len(ids), 24)
        self.assertLessEqual(len(ids), 25)

    def test_stats_go_to_stderr_and_leave_stdout_alone(self):
        options = (*VERSE, "--seed", 1)
        done = kvik.run(*options, "--stats")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, kvik.output(*options))
        self.assertIn(b"tok/s", done.stderr)

    def test_a_context_past_the_trained_one_works_with_a_warning(self):
        done = kvik.run("run", "demo", "--tokens", kvik.joined([1] * 1100), "--ctx", "2k", "--max-tokens", 3, "--temperature", 0, "--ids", "--ignore-eos")
        self.assertEqual((done.returncode, len(done.stdout.split())), (0, 3), done.stderr)
        self.assertIn(b"1024", done.stderr)

    def test_a_flag_stands_above_the_environment_and_that_above_the_config_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".ini") as config:
            config.write("[run]\nmax-tokens=3\nignore-eos=true\n")
            config.flush()
            fixed = ("run", "demo", "--tokens", "1,2,3", "--seed", 1, "--ids", "--config", config.name)
            for env, flags, n in (({}, (), 3), ({"KVIK_MAX_TOKENS": 4}, (), 4), ({"KVIK_MAX_TOKENS": 4}, ("--max-tokens", 5), 5), ({}, ("--max-tokens", 5), 5)):
                with self.subTest(env=env, flags=flags):
                    self.assertEqual(len(kvik.output(*fixed, *flags, env=env).split()), n)

    def test_every_kv_type_runs(self):
        for kv_type in ("f32", "bf16", "int8", "int8/int4", "int4"):
            self.assertTrue(kvik.output("run", "demo", "-p", "ROMEO:", "--max-tokens", 5, "--seed", 1, "--kv-type", kv_type))

    def test_a_model_made_in_memory_runs(self):
        ids = kvik.output("run", "synthetic:test-llama:q4_0", "--tokens", "5,6,7", "--max-tokens", 8, "--temperature", 0, "--ids", "--ignore-eos")
        self.assertEqual(len(ids.split()), 8)

    def test_text_that_is_no_utf8_is_a_prompt_like_any_other(self):
        for text in (b"\xff\xfe\x00\x80", b"\xe2\x82", b"\0", "ROMEO \U0001f600 \u4eca".encode()):
            self.assertEqual(kvik.run("run", "demo", "--max-tokens", 5, "--seed", 1, stdin=text).returncode, 0, text)

    def test_characters_are_never_cut(self):
        for seed in range(4):
            kvik.output("run", "synthetic:test-llama:f32", "--tokens", "200,201", "--max-tokens", 80, "--seed", seed, "--ignore-eos").decode("utf-8")


class Message(unittest.TestCase):
    """Tests that words after the model are one chat message."""
    OPTIONS = ("--temperature", 0, "--max-tokens", 40)

    def turn(self, *args, stdin=b""):
        return kvik.output("run", "demo", *self.OPTIONS, *args, stdin=stdin)

    def continued(self, text):
        return kvik.output("run", "demo", *self.OPTIONS, "-p", text)

    def test_a_message_is_put_into_the_models_chat_format(self):
        self.assertEqual(self.turn("Who art thou?"), self.continued("CITIZEN:\nWho art thou?<|end|>\nPOET:\n"))
        self.assertEqual(self.turn("Who art thou?", "--system", "Be brief."),
                         self.continued("Be brief.<|end|>\nCITIZEN:\nWho art thou?<|end|>\nPOET:\n"))

    def test_words_need_no_quotes(self):
        self.assertEqual(self.turn("Who", "art", "thou?"), self.turn("Who art thou?"))

    def test_special_tokens_in_a_message_are_its_text(self):
        self.assertNotEqual(self.turn("Who?<|end|>\nPOET:\nI"), self.continued("CITIZEN:\nWho?<|end|>\nPOET:\nI<|end|>\nPOET:\n"))

    def test_a_pipe_or_a_file_is_what_the_message_is_about(self):
        want = self.turn("To be, or not to be\n\nWho said that?")
        self.assertEqual(self.turn("Who said that?", stdin=b"To be, or not to be\n"), want)
        with tempfile.NamedTemporaryFile() as text:
            text.write(b"To be, or not to be\n")
            text.flush()
            self.assertEqual(self.turn("Who said that?", "-f", text.name), want)
        self.assertEqual(self.turn("Who said that?", "-f", "-", stdin=b"To be, or not to be\n"), want)

    def test_a_file_alone_is_continued_as_it_stands(self):
        with tempfile.NamedTemporaryFile() as text:
            text.write(b"ROMEO:\nO")
            text.flush()
            self.assertEqual(self.turn("-f", text.name), self.continued("ROMEO:\nO"))

    def test_an_answer_ends_where_the_context_does(self):
        done = kvik.run("run", "demo", "Who art thou?", "--temperature", 0, "--ignore-eos", "--ids", "--ctx", 100)
        self.assertEqual(done.returncode, 0)
        self.assertGreaterEqual(len(done.stdout.split()), 80)
        self.assertLessEqual(len(done.stdout.split()), 82)

    def test_a_pipe_shows_bytes_as_they_are_and_a_terminal_harmless(self):
        run = kvik.command("run", "synthetic:test-llama:f32", "Say anything", "--seed", 1, "--ignore-eos", "--max-tokens", 200)
        plain = subprocess.run(run, stdin=subprocess.DEVNULL, capture_output=True, env=kvik.environment()).stdout
        self.assertRegex(plain, rb"[\x01-\x08\x0e-\x1f]")
        terminal, child = pty.openpty()
        with subprocess.Popen(run, stdin=subprocess.DEVNULL, stdout=child, stderr=subprocess.PIPE, env=kvik.environment()) as process:
            os.close(child)
            seen = b""
            with contextlib.suppress(OSError):  # the error at a terminal's end
                while piece := os.read(terminal, 65536):
                    seen += piece
        os.close(terminal)
        self.assertNotRegex(seen, rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
        self.assertIn("\u2400".encode()[:2], seen)

    def test_prompts_of_two_kinds_exclude_each_other(self):
        for two in (("-p", "x", "y"), ("-p", "x", "-f", "y"), ("--tokens", "1", "y"), ("--tokens", "1", "-p", "x"), ("--tokens", "1", "-f", "y")):
            done = kvik.run("run", "demo", *two)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count(b"\n")), (2, b"", 1), (two, done.stderr))

    def test_a_file_that_is_not_there_is_named(self):
        done = kvik.run("run", "demo", "-f", "/no/such/file")
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1))
        self.assertIn(b"/no/such/file", done.stderr)


class Interruption(unittest.TestCase):
    @contextlib.contextmanager
    def slow(self):
        """Starts a long run: without a cache every token recomputes all previous ones."""
        prompt = kvik.joined(kvik.random_tokens(60, 2045, 1))
        with subprocess.Popen(kvik.command("run", "demo", "--tokens", prompt, "--max-tokens", 900, "--ignore-eos", "--no-cache"),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=kvik.environment(KVIK_ISA="scalar")) as process:
            try:
                yield process
            finally:
                process.kill()

    def test_an_interrupt_ends_with_130(self):
        with self.slow() as process:
            self.assertTrue(process.stdout.read(1))
            process.send_signal(signal.SIGINT)
            started = time.monotonic()
            process.communicate(timeout=30)
            self.assertLess(time.monotonic() - started, 5)
        self.assertEqual(process.returncode, 130)

    def test_a_reader_that_leaves_ends_the_run(self):
        with self.slow() as process:
            self.assertTrue(process.stdout.read(1))
            process.stdout.close()
            process.stdout = None
            process.wait(timeout=30)
            self.assertEqual(process.returncode, 0)


class WrongUse(unittest.TestCase):
    def refused(self, code, args, *words, stdin=b""):
        """Checks for one sentence on stderr that names the problem, and no output on stdout."""
        done = kvik.run(*args, stdin=stdin, timeout=60)
        output = done.stderr.decode()
        with self.subTest(args=args):
            self.assertIn(done.returncode, code if isinstance(code, tuple) else (code,), output)
            self.assertEqual(done.stdout, b"")
            self.assertEqual(output.count("\n"), 1, output)
            for word in words:
                self.assertIn(word, output)

    def test_values_that_make_no_sense_are_named(self):
        for flag, value in (("--kv-type", "banana"), ("--temperature", "-1"), ("--temperature", "nan"), ("--temperature", "hot"),
                            ("--max-tokens", "-3"), ("--max-tokens", "many"), ("--threads", "-1"), ("--seed", "x")):
            self.refused(2, ("run", "demo", "-p", "x", flag, value), flag.removeprefix("--"), value)

    def test_numbers_out_of_range_say_what_is_expected(self):
        for flag, value, expected in (("--seed", "-1", "from 0 to 18446744073709551615"), ("--threads", "0", "from 1 to 1024"),
                                      ("--threads", "4294967297", "from 1 to 1024"), ("--ctx", "-1", "not a count"), ("--disk", "", "empty"),
                                      ("--top-k", "1.5", "an integer")):
            self.refused(2, ("run", "demo", "-p", "x", flag, value), flag, expected)
        self.refused(2, ("serve", "demo", "--port", "70000"), "--port", "from 0 to 65535")
        self.refused(2, ("serve", "demo", "--max-queue", "0"), "--max-queue", "from 1 to 1000000")
        self.refused(2, ("plan", "demo", "--memory", "0GiB"), "--memory", "expected more")

    def test_a_flag_that_nobody_knows_is_named_before_anything_else(self):
        self.refused(2, ("run", "demo", "-p", "x", "-N", "5"), "-N", "kvik run --help")
        self.refused(2, ("run", "demo", "--prompts=x", "--threads", "none"), "--prompts")
        self.refused(2, ("cache", "stat", "x", "--force"), "--force")
        self.assertEqual(kvik.run("run", "demo", "--max-tokens", 1, "--", "-n").returncode, 0)

    def test_a_call_without_a_command_points_at_the_help(self):
        self.refused(2, (), "kvik --help")

    def test_sizes_are_understood_in_either_system(self):
        sizes = [json.loads(kvik.output("plan", "demo", "--json", "--memory", size))["users_that_fit"] for size in ("80GB", "80000000000", "80GiB")]
        self.assertEqual(sizes[0], sizes[1])
        self.assertGreater(sizes[2], sizes[0])

    def test_token_lists_that_make_no_sense_are_named(self):
        for tokens in ("1,x", "1,,2", "", "1,2.5", "-1", "99999999999999999999"):
            self.refused(2, ("run", "demo", "--tokens", tokens), "tokens")

    def test_ids_outside_the_vocabulary_are_refused(self):
        for command in ("run", "logits"):
            self.refused((1, 2), (command, "demo", "--tokens", "1,2048"), "2048")

    def test_a_prompt_over_the_context_is_refused(self):
        for command in ("run", "logits"):
            self.refused((1, 2), (command, "demo", "--tokens", kvik.joined([1] * 1025)), "1024")

    def test_an_empty_prompt_is_a_bos_or_refused(self):
        done = kvik.run("run", "demo", "-p", "", "--max-tokens", 5, "--seed", 1)
        self.assertIn(done.returncode, (0, 1, 2))

    def test_models_that_do_not_exist_are_named(self):
        self.refused(1, ("run", "nowhere.gguf", "-p", "x"), "nowhere.gguf")
        self.refused((1, 2), ("run", "synthetic:huge-900b", "-p", "x"), "huge-900b")
        self.refused((1, 2), ("run", "synthetic:test-llama:q9_0", "-p", "x"), "q9_0")

    def test_files_that_are_no_models_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in (("empty.gguf", b""), ("text.gguf", b"To be, or not to be\n" * 100)):
                path = os.path.join(folder, name)
                with open(path, "wb") as f:
                    f.write(content)
                self.refused(1, ("run", path, "-p", "x"), name)
            self.refused((1, 2), ("run", folder, "-p", "x"))

    def test_commands_and_flags_that_do_not_exist_are_wrong_usage(self):
        self.refused(2, ("sing",), "sing")
        self.refused(2, ("run", "demo", "--sing"), "--sing")
        self.refused(2, ("run",))
        self.refused(2, ("logits", "demo"))
        self.assertEqual(kvik.run().returncode, 2)

    def test_an_environment_that_makes_no_sense_is_wrong_usage(self):
        done = kvik.run("run", "demo", "-p", "x", env={"KVIK_KV_TYPE": "banana"})
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
        self.assertIn(b"banana", done.stderr)

    def test_help_is_no_failure(self):
        for args in (("--help",), ("run", "--help"), ("serve", "--help")):
            self.assertIn(b"MODEL" if len(args) > 1 else b"serve", kvik.output(*args))

    def test_the_version_tells_what_the_program_was_made_of(self):
        lines = kvik.output("--version", env={"KVIK_ISA": "scalar"}).decode().splitlines()
        self.assertRegex(lines[0], r"^kvik \d+\.\d+\.\d+$")
        output = dict(re.split(r"  +", line, maxsplit=1) for line in lines[1:])
        self.assertRegex(output["commit"], r"^([0-9a-f]{12}|unknown)$")
        self.assertRegex(output["compiler"], r"^\w+ \d+")
        self.assertIn("scalar", output["instruction sets"].split(", "))
        self.assertEqual(output["in use"], "scalar")


if __name__ == "__main__":
    unittest.main()
