"""Tests that speculation changes only the speed: the answers with draft tokens are those without."""
import json
import os
import tempfile
import unittest

import kvik
from server import Server, in_parallel

# Repetitions give draft tokens. A number N drafts whatever the expected acceptance, so that many are rejected.
PROMPTS = ["ROMEO:\nO, speak again, bright angel! O, speak again, bright angel! O, speak",
           "one two three four five one two three four five one two three",
           "KING HENRY:\nOnce more unto the breach, dear friends, once more;\nKING HENRY:\nOnce more"]
WAYS = [{"temperature": 0}, {"temperature": 0.7, "seed": 3}, {"temperature": 1.5, "seed": 4, "top_p": 0.9},
        {"temperature": 0, "repetition_penalty": 1.2}, {"temperature": 0.7, "seed": 5, "presence_penalty": 0.6, "frequency_penalty": 0.4}]
KV_TYPES = ("f32", "bf16", "int8", "int4", "int8/int4")


class Run(unittest.TestCase):
    def answer(self, prompt, speculate, **options):
        done = kvik.run("run", "demo", "-p", prompt, "--ids", "--stats", "--ignore-eos", "--max-tokens", 90, "--speculate", speculate, *kvik.flags(options))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr.decode()

    def test_ids_do_not_depend_on_draft_tokens(self):
        n_accepted = 0
        for i, prompt in enumerate(PROMPTS):
            for k, way in enumerate(WAYS):
                if (i + k) % 3 and not kvik.LONG:
                    continue
                with self.subTest(prompt=prompt, **way):
                    way = {**way, "kv_type": KV_TYPES[(i + k) % len(KV_TYPES)]}
                    want, off = self.answer(prompt, "off", **way)
                    self.assertIn("0 of 0 draft tokens accepted", off)
                    for speculate in ("auto", 7, 31):
                        got, stats = self.answer(prompt, speculate, **way)
                        self.assertEqual(got, want, speculate)
                        n_accepted += int(stats.split(" draft tokens")[0].split()[-3])
        self.assertGreater(n_accepted, 50)

    def test_invalid_speculate_values_are_rejected_in_a_sentence(self):
        for value in ("never", "0", "32", "-1", "4x"):
            done = kvik.run("run", "demo", "-p", "a", f"--speculate={value}")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("expected auto, off or 1 to 31 tokens", done.stderr.decode())


class Draft(unittest.TestCase):
    def test_a_draft_model_changes_nothing(self):
        """The demo model drafts for itself. Its drafts are right wherever draws are the same, so nearly all are accepted."""
        for way in WAYS[::2]:
            want = kvik.output("run", "demo", "-p", PROMPTS[0], "--ids", "--ignore-eos", "--max-tokens", 60, "--speculate", "off", *kvik.flags(way))
            done = kvik.run("run", "demo", "-p", PROMPTS[0], "--ids", "--ignore-eos", "--max-tokens", 60, "--speculate", 4, "--draft", "demo", "--stats", *kvik.flags(way))
            self.assertEqual(done.stdout, want)
            accepted, drafted = (int(done.stderr.decode().split(" draft tokens")[0].split()[i]) for i in (-3, -1))
            self.assertGreater(accepted, 20)  # the number of draft tokens depends on the measured cost of rows
            self.assertLessEqual(accepted, drafted)

    def test_another_vocabulary_is_refused_in_a_sentence(self):
        done = kvik.run("run", "demo", "-p", "a", "--draft", "synthetic:test-llama:f32")
        self.assertEqual(done.returncode, 2)
        self.assertIn("the draft model synthetic:test-llama:f32 has 260 tokens, expected the model's 2048", done.stderr.decode())


def without_times(answer):
    """Returns a completion without the fields that differ between requests or depend on speculation."""
    usage = dict(answer["usage"])
    details = dict(usage.pop("completion_tokens_details"))
    details.pop("accepted_prediction_tokens")
    details.pop("rejected_prediction_tokens")
    return answer["choices"], {**usage, **details, "prompt_tokens_details": None}


class Serve(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Server("demo", "--kv-memory", "64MiB", "--speculate", 12))

    def test_answers_and_logprobs_equal_those_without_speculation(self):
        calls = [{**way, "logprobs": 3, "n": 3 if "seed" in way else 1, "min_tokens": 30, "max_tokens": 60, "prompt": prompt}
                 for way in WAYS for prompt in PROMPTS]
        for n_users in (1, 4, 16):
            with self.subTest(users=n_users):
                answers = in_parallel(*[lambda c=c: self.server.complete(**c) for c in calls[:n_users]])
                plain = [self.server.complete(**c, speculate=False) for c in calls[:n_users]]
                for got, want in zip(answers, plain):
                    self.assertEqual(without_times(got), without_times(want))
                    self.assertEqual(want["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 0)
                    self.assertEqual(want["usage"]["completion_tokens_details"]["rejected_prediction_tokens"], 0)

    def test_a_stop_string_among_draft_tokens_cuts_at_the_same_place(self):
        for prompt in PROMPTS:
            whole = self.server.text(prompt, max_tokens=60, ignore_eos=True)
            for begin in range(5, min(60, len(whole) - 4), 17):
                stop = whole[begin:begin + 4]
                with self.subTest(prompt=prompt, stop=stop):
                    got = self.server.complete(prompt, max_tokens=60, ignore_eos=True, stop=stop)
                    want = self.server.complete(prompt, max_tokens=60, ignore_eos=True, stop=stop, speculate=False)
                    self.assertEqual(without_times(got), without_times(want))
                    self.assertEqual(got["choices"][0]["text"], whole[:whole.index(stop)])

    def test_a_stream_has_the_same_text_and_usage_counts_draft_tokens(self):
        stream = self.server.stream(PROMPTS[1], max_tokens=80, ignore_eos=True, stream_options={"include_usage": True})
        self.assertEqual(stream.text, self.server.text(PROMPTS[1], max_tokens=80, ignore_eos=True, speculate=False))
        details = stream.usage["completion_tokens_details"]
        self.assertGreater(details["accepted_prediction_tokens"], 0)
        self.assertEqual(stream.usage["completion_tokens"], 80)

    def test_metrics_have_vllms_names(self):
        details = self.server.complete(PROMPTS[1], max_tokens=80, ignore_eos=True)["usage"]["completion_tokens_details"]
        accepted, rejected = details["accepted_prediction_tokens"], details["rejected_prediction_tokens"]
        page = self.server.metrics()
        self.assertEqual(page.types["vllm:spec_decode_num_drafts_total"], "counter")
        self.assertEqual(page.value("vllm:spec_decode_num_accepted_tokens_total"), accepted)
        self.assertEqual(page.value("vllm:spec_decode_num_draft_tokens_total"), accepted + rejected)
        places = page.values("vllm:spec_decode_num_accepted_tokens_per_pos_total", "position")
        self.assertEqual(sum(places.values()), accepted)
        self.assertEqual(max(places.values()), places["0"])

    def test_speculate_that_is_no_boolean_is_refused(self):
        answer = self.server.post("/v1/completions", {"prompt": "a", "speculate": "no"})
        self.assertEqual(answer.status, 400)
        self.assertEqual(answer.error["param"], "speculate")


class Replay(unittest.TestCase):
    def replay(self, lines, *more, code=0):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "replay.jsonl")
            with open(path, "w") as f:
                f.write("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
            done = kvik.run("bench", "demo", "--replay", path, "--repeat", 1, *more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_an_answer_that_repeats_its_prompt_takes_fewer_steps(self):
        text = "The quality of mercy is not strained, it droppeth as the gentle rain from heaven."
        lines = [{"prompt": f"{i}: {text}\n", "answer": f"{text}\n{text}"} for i in range(4)]
        rows = json.loads(self.replay(lines, "--speculate", "auto,8,off", "--batch", "1,2", "--json").stdout)
        self.assertEqual([(r["test"], r["speculate"], r["batch"]) for r in rows],
                         [("replay", mode, batch) for mode in ("auto", "8", "off") for batch in (1, 2)])
        for row in rows:
            self.assertAlmostEqual(row["ratio"], row["tok_s"] / row["tok_s_off"], delta=0.01 * row["ratio"])
            if row["speculate"] == "off":
                self.assertEqual(row["accepted_per_step"], 0)
        self.assertGreater(rows[2]["accepted_per_step"], 1.5)
        self.assertLessEqual(rows[2]["accepted_per_step"], 8)

    def test_what_is_no_replay_is_refused_with_its_line(self):
        for lines, says in [(["nonsense\n"], "line 1"), ([{"prompt": "a", "answer": "b"}, {"prompt": "a"}], "line 2"),
                            ([], "has no lines"), ([{"prompt": "", "answer": "b"}], "line 1")]:
            self.assertIn(says, self.replay(lines, code=1).stderr.decode())


if __name__ == "__main__":
    unittest.main()
