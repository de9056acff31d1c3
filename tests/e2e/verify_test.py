"""Tests `kvik verify`: answers with "kvik": {"attest": true} are computed again, and each change of them is found."""
import copy
import json
import os
import random
import re
import subprocess
import tempfile
import unittest

import kvik
from server import Server

ATTEST = {"kvik": {"attest": True}}


class Verify(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server("demo", "--threads", 2, "--kv-memory", "64MiB", "--ctx", 2048)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.folder.cleanup()

    def ask(self, path="/v1/completions", server=None, **body):
        answer = (server or self.server).post(path, {"seed": 3, "max_tokens": 24, **ATTEST, **body})
        self.assertEqual(answer.status, 200, answer.body[:500])
        return answer.json

    def verify(self, *answers, flags=(), model="demo", env=None):
        """Returns the exit status, and the output with and without errors."""
        paths = []
        for i, answer in enumerate(answers):
            paths.append(os.path.join(self.folder.name, f"{i}.json"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(answer if isinstance(answer, str) else json.dumps(answer))
        run = subprocess.run([kvik.BINARY, "verify", model, *paths, *map(str, flags)], capture_output=True, text=True, timeout=300,
                             env={**os.environ, **(env or {})})
        return run.returncode, run.stdout, run.stderr

    def check(self, *answers, **how):
        status, out, errors = self.verify(*answers, **how)
        self.assertEqual((status, out.count(": equal: ")), (0, len(answers)), out + errors)
        return out + errors

    def answers(self):
        """Returns answers of many kinds, most of them from cached prefixes and in company."""
        said = self.ask("/v1/chat/completions", messages=[{"role": "user", "content": "Speak, my lord."}], temperature=1.2, n=3)
        yield said
        yield self.ask(prompt="To be, or not to be", temperature=0, max_tokens=100)
        yield self.ask(prompt="To be, or not to be, that", temperature=0, max_tokens=100, speculate=False)
        yield self.ask(prompt=["To be, or", "ROMEO:"], n=2, temperature=0.9, top_p=0.8, top_k=50, min_p=0.02)
        yield self.ask(prompt=[5, 6, 7], repetition_penalty=1.3, presence_penalty=0.5, frequency_penalty=0.25, logit_bias={"40": -100, "41": 3.5})
        yield self.ask(prompt="ROMEO:", stop=["the", "a"], temperature=1, max_tokens=200)
        yield self.ask(prompt="ROMEO:", min_tokens=40, max_tokens=80, seed=2**64 - 1)
        yield self.ask(prompt="ROMEO:", cache_salt="x", ignore_eos=True)
        yield self.ask(prompt="ROMEO:", response_format={"type": "json_schema", "json_schema": {
            "name": "it", "schema": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}}})

    def test_answers_are_equal_to_their_replay(self):
        answers = list(self.answers())
        out = self.check(*answers)
        self.assertEqual(out.count("a constraint chose among them"), 1, out)
        self.check(*answers, env={"KVIK_ISA": "scalar"})
        self.check(*answers, flags=("--threads", 1))

    def test_answers_that_end_by_themselves(self):
        for seed in range(40):
            answer = self.ask("/v1/chat/completions", messages=[{"role": "user", "content": "Go."}], seed=seed, max_tokens=300, temperature=1.5)
            if answer["kvik"]["attest"]["choices"][0]["ended"]:
                break
        self.assertTrue(answer["kvik"]["attest"]["choices"][0]["ended"], "no answer ended")
        self.check(answer)
        cut = copy.deepcopy(answer)
        cut["choices"][0]["token_ids"].pop()
        cut["kvik"]["attest"]["choices"][0]["links"].pop()
        status, out, _ = self.verify(cut)
        self.assertEqual(status, 1)
        self.assertIn("the replay goes on", out)

    def test_other_types_of_pages(self):
        for kv_type in ("f32", "int4"):
            with Server("demo", "--threads", 2, "--kv-memory", "64MiB", "--kv-type", kv_type) as server:
                self.check(self.ask(server=server, prompt="To be, or not", temperature=1))

    def test_changes_are_found(self):
        answer = self.ask(prompt="To be, or not to be", temperature=0, n=1, max_tokens=12)
        attest = answer["kvik"]["attest"]
        prompt = attest["prompts"][0]

        def change(path, value):
            changed = copy.deepcopy(answer)
            at = changed
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = value
            return changed
        of_prompt = ("kvik", "attest", "prompts", 0)
        link = attest["choices"][0]["links"][5]
        changes = {
            "token 4 is": change(("choices", 0, "token_ids", 4), (answer["choices"][0]["token_ids"][4] + 1) % 500),
            "the logits differ at token 5": change(("kvik", "attest", "choices", 0, "links", 5), f"{int(link, 16) ^ 1:016x}"),
            "another model": change(("kvik", "attest", "model"), "0" * 64),
            "the adapter": change((*of_prompt, "adapter"), "0" * 64),
        }
        for part, value in (("prompt", [*prompt["prompt"][:-1], prompt["prompt"][-1] + 1]), ("min_tokens", 3), ("constrained", True),
                            ("stop_token_ids", [9])):
            changes[part] = change((*of_prompt, part), value)
        changes["seed"] = change((*of_prompt, "seed"), "4")
        for name, value in (("top_k", 7), ("temperature", 0.5), ("logit_bias", [[3, -100]])):
            changes[name] = change(("kvik", "attest", "sampling", name), value)
        shorter = copy.deepcopy(answer)
        shorter["choices"][0]["token_ids"].pop()
        shorter["kvik"]["attest"]["choices"][0]["links"].pop()
        changes["11 tokens are not the whole answer"] = shorter
        self.check(answer)
        for expected, changed in changes.items():
            with self.subTest(expected):
                status, out, errors = self.verify(changed)
                self.assertEqual((status, errors), (1, ""), out)
                self.assertNotIn("equal", out)
                if " " in expected:
                    self.assertIn(expected, out)

    def test_random_changes_of_the_text_are_found(self):
        """A changed digit is found, or makes a file that is refused with one sentence."""
        answer = self.ask(prompt="To be", temperature=1, max_tokens=8)
        text = json.dumps({"choices": [{"token_ids": answer["choices"][0]["token_ids"]}], "kvik": answer["kvik"]})
        rng = random.Random(1)
        # Not in numbers with a fraction, where a digit may be one that a float does not have.
        digits = [match.start() + i for match in re.finditer(r"[0-9.]+", text) if "." not in match[0] for i in range(len(match[0]))]
        for _ in range(12):
            at = rng.choice(digits)
            changed = text[:at] + rng.choice([c for c in "0123456789" if c != text[at]]) + text[at + 1:]
            status, out, errors = self.verify(changed)
            if answer["kvik"]["attest"]["numerics"] not in changed:  # not a part of the answer, but named
                self.assertEqual(status, 0, out + errors)
                self.assertIn("other arithmetic", errors)
            else:
                self.assertIn(status, (1, 2), (changed, out, errors))
                self.assertNotIn("equal", out)

    def test_choices_that_are_left_out_are_found(self):
        answer = self.ask(prompt=["To be", "ROMEO:"], n=2, max_tokens=4, temperature=1)
        self.check(answer)
        left_out = copy.deepcopy(answer)
        for choices in (left_out["choices"], left_out["kvik"]["attest"]["choices"]):
            del choices[3], choices[1]
        status, out, errors = self.verify(left_out)
        self.assertEqual((status, out), (2, ""))
        self.assertIn("there are 2 choices and 2 attested ones of 2 prompts, expected 4 of 2", errors)
        left_out["kvik"]["attest"]["n"] = 1  # the chains begin with the number
        status, out, errors = self.verify(left_out)
        self.assertEqual((status, out.count("differ at token 0"), errors), (1, 2, ""), out)
        del left_out["kvik"]["attest"]["n"]
        self.assertIn("kvik.attest.n is missing", self.verify(left_out)[2])

    def test_one_unreadable_file_does_not_stop_the_others(self):
        answer = self.ask(prompt="To be", max_tokens=4)
        status, out, errors = self.verify(answer, "no JSON", answer)
        self.assertEqual((status, out.count(": equal: "), errors.count("\n")), (2, 2, 1), out + errors)
        self.assertIn("1.json: expected an answer as a JSON object", errors)
        changed = copy.deepcopy(answer)
        changed["choices"][0]["token_ids"][0] ^= 1
        status, out, errors = self.verify("no JSON", changed)
        self.assertEqual((status, errors.count("\n")), (1, 1), out + errors)
        run = subprocess.run([kvik.BINARY, "verify", "demo", os.path.join(self.folder.name, "absent.json")], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)

    def test_a_file_that_is_too_long_is_refused(self):
        status, out, errors = self.verify("[" + "0," * (17 << 20) + "0]")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("is longer than 33554432 bytes", errors)

    def test_bad_files_get_one_sentence(self):
        answer = self.ask(prompt="To be", max_tokens=2)
        other_type = copy.deepcopy(answer)
        other_type["kvik"]["attest"]["kv_type"] = "int3"
        bf16 = copy.deepcopy(answer)
        bf16["kvik"]["attest"]["kv_type"] = "bf16"
        scripted = copy.deepcopy(answer)
        scripted["choices"][0]["token_ids"][0] = 2**32 - 1
        scripted["kvik"]["attest"]["prompts"][0]["constrained"] = True
        foreign = copy.deepcopy(answer)
        foreign["kvik"]["attest"]["prompts"][0]["prompt"] = [10**6]
        for texts, expected in (([""], "expected an answer as a JSON object"), (['{"choices": []}'], "there is no kvik.attest"),
                                ([other_type], "'int3', expected f32"), ([foreign], "prompt"), ([scripted], "the answer holds token 4294967295")):
            with self.subTest(expected):
                status, out, errors = self.verify(*texts)
                self.assertEqual((status, out, errors.count("\n")), (2, "", 1), errors)
                self.assertIn(expected, errors)
        status, out, errors = self.verify(answer, bf16)
        self.assertEqual((status, out.count(": equal: ")), (2, 1), errors)
        self.assertIn("verify them separately", errors)
        status, out, errors = self.verify(answer, model="synthetic:test-llama")
        self.assertEqual((status, errors), (1, ""))
        self.assertIn("another model", out)

    def test_requests_that_cannot_be_attested(self):
        turn = {"role": "user", "content": "a"}
        for path, body in (("/v1/completions", {"prompt": "a", "stream": True}), ("/v1/messages", {"messages": [turn], "max_tokens": 1}),
                           ("/v1/responses", {"input": "a"}), ("/completion", {"prompt": "a"}),
                           ("/api/generate", {"prompt": "a"}), ("/api/chat", {"messages": [turn]}),
                           ("/v1/completions", {"prompt": "a", "echo": True}), ("/v1/completions", {"prompt": "a", "kvik": {"attest": 1}})):
            with self.subTest(path):
                answer = self.server.post(path, {**ATTEST, **body})
                self.assertEqual(answer.status, 400, answer.body[:300])
                error = answer.json["error"]
                self.assertIn("kvik.attest", error if isinstance(error, str) else error["message"])


if __name__ == "__main__":
    unittest.main()
