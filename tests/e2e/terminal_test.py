"""Tests `kvik run demo` in a terminal: a user's session, typed into tmux and read from its screen."""
import json
import os
import re
import shlex
import signal
import tempfile
import unittest

import kvik
import terminal
from terminal import chat

SEEDED = ("--seed", 1)
UNUSUAL_SEED = 217
SLOW = {"KVIK_ISA": "scalar"}
ENDLESS = ("--ignore-eos", "--no-cache")
STATS = re.compile(r"TTFT [\d.]+ ms · (\d+) tokens?(?:, [\d.]+ tok/s)? · prompt (\d+) tokens, (\d+) of them cached")


class TerminalCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = folder.name

    def path(self, name):
        return os.path.join(self.home, name)

    def saved(self, t, name="chat.json"):
        """Returns [(role, content)…] of the conversation so far."""
        t.enter(f"/save ~/{name}")
        with open(self.path(name), encoding="utf-8") as f:
            return [(m["role"], m["content"]) for m in json.load(f)["messages"]]

    def said(self, t):
        return [content for role, content in self.saved(t) if role == "user"]


class Session(TerminalCase):
    def test_a_conversation_can_be_saved_cleared_and_continued(self):
        with chat(self.home, *SEEDED) as t:
            first = t.enter("Who art thou?")
            self.assertGreater(len(first), 10)
            t.enter("/system Speak as a king.")
            conversation = self.saved(t)
            self.assertEqual(conversation, [("system", "Speak as a king."), ("user", "Who art thou?"), ("assistant", first)])

            t.enter("/clear")
            t.enter("/system none")
            self.assertIn("nothing to save", t.enter("/save ~/nothing.json"))
            self.assertIn("Loaded 2 messages", t.enter("/load ~/chat.json"))
            t.enter("And thy father?")
            self.assertEqual(self.saved(t, "longer.json")[:4], conversation + [("user", "And thy father?")])
            t.enter("/set temperature 0")
            self.assertIn("temperature           0\n", t.enter("/show"))
            t.type("/bye")
            t.press("Enter")
            self.assertEqual(t.wait_for_end(), 0)

    def test_the_second_turn_finds_the_first_in_the_cache(self):
        with chat(self.home, *SEEDED) as t:
            t.enter("/set stats")
            n_known, turns = 0, ("Who art thou?", "And thy father?", "Where dost thou dwell?")
            for question in turns:
                n_answer, n_prompt, n_cached = map(int, STATS.search(t.enter(question)).groups())
                self.assertEqual(n_cached, n_known)
                n_known = n_prompt + n_answer
            self.assertRegex(t.enter("/stats"), r"3 answers · \d+ tokens")
            # The prompt is the same: its last token is computed for its logits.
            _, n_again, n_cached = map(int, STATS.search(t.enter("/regen")).groups())
            self.assertEqual((n_again, n_cached), (n_prompt, n_prompt - 1))

    def test_an_answer_is_cached_in_the_tokens_that_were_generated(self):
        """With this seed the demo generates a word in other tokens than its tokenizer would."""
        question = "Who art thou?"
        ids = kvik.output("run", "demo", question, "--seed", UNUSUAL_SEED, "--ids").split()
        with chat(self.home, "--seed", UNUSUAL_SEED, "--stats") as t:
            answer, _, stats = t.enter(question).rpartition("\n")
            self.assertNotEqual(kvik.output("tokenize", "demo", "--no-bos", answer).split(), ids)
            n_answer, n_known, _ = map(int, STATS.search(stats).groups())
            self.assertEqual(n_answer, len(ids))
            _, n_prompt, n_cached = map(int, STATS.search(t.enter("And thy father?")).groups())
            self.assertEqual(n_cached, n_known + n_answer)
            self.assertEqual(int(STATS.search(t.enter("/regen"))[2]), n_prompt, "asked in the same tokens")

    def test_the_same_seed_gives_the_same_conversation(self):
        answers = []
        for _ in range(2):
            with chat(self.home, *SEEDED) as t:
                answers.append([t.enter("Who art thou?"), t.enter("Art thou sure?")])
        self.assertEqual(*answers)

    def test_a_full_context_is_said_to_be_full_and_nothing_is_lost(self):
        with chat(self.home, *SEEDED, "--ctx", 128) as t:
            t.enter("Who art thou?")
            before = self.saved(t)
            self.assertIn("The conversation is full", t.enter("日本" * 25))
            self.assertEqual(self.saved(t), before)
            t.enter("/clear")
            self.assertNotIn("The conversation is full", t.enter("Good day"))

    def test_a_first_message_that_is_too_long_is_not_a_full_conversation(self):
        with chat(self.home, *SEEDED, "--ctx", 128) as t:
            output = t.enter("日本" * 27)
            self.assertIn("Your message is too long: ", output)
            self.assertNotIn("conversation is full", output)
            self.assertNotIn("..", output)

    def test_an_answer_that_is_interrupted_ends_its_line(self):
        slow = shlex.join(kvik.command("run", "demo", "-p", "ROMEO:", "-n", -1, "--ignore-eos", "--no-cache", *SEEDED))
        with terminal.Terminal(self.home, "/bin/sh", "-c", f"trap : INT; KVIK_ISA=scalar {slow}; echo code $?") as t:
            t.wait(lambda: len(t.screen()) > 100, "an answer")  # longer than a progress bar
            t.press("C-c")
            t.wait(lambda: re.search("^code 130$", t.screen(), re.MULTILINE), "a line of its own")

    def test_flags_that_make_no_sense_are_refused_before_the_first_word(self):
        with terminal.Terminal(self.home, *kvik.command("run", "demo", "--temperature", 1000)) as t:
            self.assertEqual(t.wait_for_end(), 2)
            self.assertIn("kvik: temperature is 1000, expected a number from 0 to 100", t.screen())


class Editing(TerminalCase):
    def test_keys_move_and_delete_as_hands_expect(self):
        with chat(self.home, *SEEDED, "--max-tokens", 1) as t:
            t.type("art thuo")
            t.press("Left", "BSpace", "End", "BSpace")
            t.type("ou?")
            t.press("Home")
            t.type("Who ")
            t.send("Who art thou?")
            t.type("one two drei")
            t.press("C-w")
            t.type("three")
            t.press("C-Left", "C-Left", "C-k")
            t.press("BSpace")
            t.send("one")
            t.type("日本ä😀x")
            t.press("Left", "BSpace", "BSpace", "Delete")
            t.send("日本")
            self.assertEqual(self.said(t), ["Who art thou?", "one", "日本"])

    def test_what_was_typed_comes_back_also_in_the_next_session(self):
        with chat(self.home, *SEEDED, "--max-tokens", 1) as t:
            t.enter("first")
            t.enter("second")
            t.press("Up", "Up")
            t.send("first")
            self.assertEqual(self.said(t), ["first", "second", "first"])
        with chat(self.home, *SEEDED, "--max-tokens", 1) as t:
            t.press("Up", "Up")
            t.send("first")
            t.press("C-r")
            t.type("sec")
            t.wait_for("second")
            t.press("Enter")
            t.wait_for("second\n")
            t.wait_for_line(">>>")
            self.assertEqual(self.said(t), ["first", "second"])
        with open(self.path(".local/state/kvik/chat_history"), encoding="utf-8") as f:
            self.assertIn("second\nfirst\n", f.read())

    def test_several_lines_are_one_message(self):
        with chat(self.home, *SEEDED, "--max-tokens", 1) as t:
            t.type('"""one')
            t.press("Enter")
            t.wait_for_line("...")
            t.type('two"""')
            t.press("Enter")
            t.wait_for_line(">>>")
            t.type("three\\")
            t.press("Enter")
            t.wait_for_line("...")
            t.type("four")
            t.press("Enter")
            t.wait_for_line(">>>")
            t.type("five")
            t.press("M-Enter")
            t.type("six")
            t.wait_for_line("six")
            t.press("Enter")
            t.wait_for_line(">>>")
            t.paste("seven\n  eight\n")
            t.wait_for_line("  eight")
            t.press("Enter")
            t.wait_for_line(">>>")
            self.assertEqual(self.said(t), ["one\ntwo", "three\nfour", "five\nsix", "seven\n  eight"])

    def test_tab_completes_commands(self):
        with chat(self.home) as t:
            t.type("/se")
            t.press("Tab")
            t.type("te")
            t.press("Tab")
            t.type("0.5")
            self.assertEqual(t.send("/set temperature 0.5"), "temperature is 0.5.")
            t.type("/s")
            t.press("Tab")
            t.wait_for("/stats")
            t.wait_for_line(">>> /s")

    def test_tab_on_an_empty_line_does_nothing(self):
        with chat(self.home, *SEEDED, "--max-tokens", 1) as t:
            before = t.screen()
            t.press("Tab")
            t.type("x")
            t.wait_for_line(">>> x")
            self.assertEqual(t.screen(), before + " x")

    def test_ctrl_c_in_the_middle_of_a_line_leaves_its_text_on_the_screen(self):
        with chat(self.home) as t:
            t.type("good morrow")
            t.wait_for_line(">>> good morrow")
            t.press("Home")
            t.press("C-c")
            t.wait_for_line(">>>")
            self.assertIn(">>> good morrow^C\n>>>", t.screen())

    def test_a_line_is_drawn_anew_where_the_window_changes(self):
        with chat(self.home, *SEEDED, "--max-tokens", 1, width=60) as t:
            line = "begin " + "word " * 30 + "end"
            t.type(line)
            t.wait_for("end")
            t.resize(100, 40)
            t.wait(lambda: t.screen().split("\n")[-2:] == [f">>> {line}"[:100].rstrip(), f">>> {line}"[100:]], "a wider line")
            t.press("Enter")
            t.wait_for_line(">>>")
            self.assertEqual(self.said(t), [line])


class Interruption(TerminalCase):
    def begin_answer(self, t):
        """Sends a request that takes minutes and waits for its first words."""
        t.type("Tell me all")
        t.press("Enter")
        t.wait(lambda: len(t.screen().partition("Tell me all\n")[2]) > 10, "an answer")

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        with chat(self.home, *SEEDED, *ENDLESS, **SLOW) as t:
            self.begin_answer(t)
            t.press("C-c")
            t.wait_for("(stopped)\n")
            t.wait_for_line(">>>")
            (_, question), (_, answer) = self.saved(t)
            self.assertEqual(question, "Tell me all")
            self.assertIn(answer.strip(), t.screen())

    def test_what_is_typed_ahead_waits_for_the_prompt(self):
        with chat(self.home, *SEEDED, "--ignore-eos", "--max-tokens", 200, **SLOW) as t:
            self.begin_answer(t)
            t.type("ahead")
            t.wait_for("(cut at max_tokens)\n")
            t.wait_for_line(">>> ahead")
            self.assertEqual(t.screen().count("ahead"), 1)  # not between the answer's words

    def test_ctrl_c_gives_up_a_line_and_says_at_an_empty_one_how_to_leave(self):
        with chat(self.home) as t:
            t.type("half a thought")
            t.press("C-c")
            t.wait_for_line(">>>")
            self.assertNotIn("/bye leaves", t.screen())
            t.press("C-c")
            t.wait_for("Ctrl-D or /bye leaves.\n")
            t.type('"""block')
            t.press("Enter")
            t.wait_for_line("...")
            t.press("C-c")
            t.wait_for_line(">>>")
            t.press("C-d")
            self.assertEqual(t.wait_for_end(), 0)

    def test_ctrl_d_deletes_before_it_leaves(self):
        with chat(self.home) as t:
            t.type("ab")
            t.press("Left", "C-d")
            t.wait_for_line(">>> a")
            t.press("BSpace", "C-d")
            self.assertEqual(t.wait_for_end(), 0)

    def test_a_request_to_end_ends_the_program_wherever_it_is(self):
        with chat(self.home) as t:
            os.kill(t.pid(), signal.SIGTERM)
            self.assertEqual(t.wait_for_end(), 130)
        with chat(self.home, *SEEDED, *ENDLESS, **SLOW) as t:
            self.begin_answer(t)
            os.kill(t.pid(), signal.SIGTERM)
            self.assertEqual(t.wait_for_end(), 130)

    def test_the_terminal_is_left_as_it_was_found(self):
        run = " ".join(kvik.command("run", "demo"))
        with terminal.Terminal(self.home, "sh", "-c", f"stty -a >~/before; {run}; stty -a >~/after; cmp ~/before ~/after && echo SAME; sleep 60") as t:
            t.wait_for_line(">>>")
            t.enter("/stats")
            t.press("C-d")
            t.wait_for("SAME")

    def test_ctrl_z_goes_to_the_shell_and_fg_comes_back(self):
        with terminal.Terminal(self.home, "bash", "--norc", PS1="shell:", HISTFILE=os.devnull) as t:
            t.wait_for_line("shell:")
            t.type(" ".join(kvik.command("run", "demo", *SEEDED)))
            t.press("Enter")
            t.wait_for_line(">>>")
            t.type("half a thou")
            t.press("C-z")
            t.wait_for("Stopped")
            t.wait_for_line("shell:")
            t.type("fg")
            t.press("Enter")
            t.wait_for_line(">>> half a thou")
            t.type("ght")
            t.send("half a thought")
            self.assertEqual(self.said(t), ["half a thought"])


class Looks(TerminalCase):
    def test_a_narrow_window_is_wide_enough(self):
        with chat(self.home, *SEEDED, width=30) as t:
            self.assertNotIn("loading", t.screen())
            self.assertTrue(t.screen().startswith("demo, 1024 tokens"), t.screen())

    def test_colours_come_only_where_they_are_welcome(self):
        with chat(self.home, *SEEDED) as t:
            t.enter("/show")
            self.assertRegex(t.screen(colours=True), r"\x1b\[[\d;]*m>>>\x1b\[0m(\x1b\[[\d;]*m)* /show\n", "the prompt, and nothing else")
        with chat(self.home, *SEEDED, NO_COLOR="1") as t:
            t.enter("/show")
            self.assertNotIn("\x1b", t.screen(colours=True))

    def test_a_file_cannot_steer_the_terminal(self):
        evil = "\x1b]0;owned\x07\x1b[31mred\rgone"
        with open(self.path("evil.json"), "w", encoding="utf-8") as f:
            json.dump({"messages": [{"role": "system", "content": evil}, {"role": "user", "content": "x"}]}, f)
        with chat(self.home, *SEEDED, NO_COLOR="1") as t:
            t.enter("/load ~/evil.json")
            self.assertIn("␛]0;owned␇␛[31mredgone", t.enter("/show"))
            self.assertNotIn("\x1b", t.screen(colours=True))

    def test_whatever_a_model_says_is_harmless(self):
        with terminal.Terminal(self.home, *kvik.command("run", "synthetic:test-llama:f32", *SEEDED, "--ignore-eos", "--max-tokens", 200), NO_COLOR="1") as t:
            t.wait_for_line(">>>")
            t.type("Say anything")
            t.press("Enter")
            t.wait_for("(cut at max_tokens)")
            t.wait_for_line(">>>")
            self.assertNotIn("\x1b", t.screen(colours=True))
            self.assertRegex(t.screen(), "[\u2400-\u241f]")  # control pictures in place of the control characters

    def test_a_terminal_that_only_prints_is_enough(self):
        with chat(self.home, *SEEDED, TERM="dumb") as t:
            t.enter("Who art thou?")
            t.press("C-c")
            t.wait_for("Ctrl-D or /bye leaves.\n")
            self.assertEqual(self.said(t), ["Who art thou?"])
            t.press("C-d")
            self.assertEqual(t.wait_for_end(), 0)


if __name__ == "__main__":
    unittest.main()
