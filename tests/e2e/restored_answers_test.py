"""Tests that an answer that a client sends back in another form continues the cached prefix, and only for its owner."""
import glob
import os
import tempfile
import unittest

import kvik  # noqa: F401, needed because it adds tools/ to the path
from server import Server

REASONS = ("{% for m in messages %}{% if m.role == 'user' %}user:\n{% else %}assistant:\n{% endif %}{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
           "{{ m.content }}<|end|>\n{% endfor %}{% if add_generation_prompt %}assistant:\n<think>\n{% endif %}")
QUESTION = {"role": "user", "content": "Speak, my lord."}
NEXT = {"role": "user", "content": "What more?"}


class RestoredAnswers(unittest.TestCase):
    def serve(self, *flags):
        server = Server("demo", "--threads", 1, "--kv-memory", "64MiB", "--kv-type", "bf16", *flags)
        self.addCleanup(server.__exit__)
        return server

    def file(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "file")
        with open(path, "w") as f:
            f.write(text)
        return path

    def chat(self, server, messages, key=None, **more):
        body = {"messages": messages, "max_tokens": 40, "temperature": 1, **more}
        answer = server.post("/v1/chat/completions", body, **({"headers": {"Authorization": f"Bearer {key}"}} if key else {}))
        self.assertEqual(answer.status, 200, answer.body[:500])
        return answer.json

    def reasoned(self, server, key=None):
        """Returns an answer with reasoning and text, and its seed."""
        for seed in range(20):
            answer = self.chat(server, [QUESTION], key, seed=seed, reasoning_budget=12)
            message = answer["choices"][0]["message"]
            if message["content"] and message.get("reasoning_content"):
                return answer | {"seed": seed}
        self.fail("no seed gives both")

    def next_turn(self, server, first, message, **more):
        """Returns the tokens of the first turn that the second one did not find, and those restored."""
        usage = self.chat(server, [QUESTION, message, NEXT], **{"max_tokens": 1, **more})["usage"]
        # K and V of the last token are computed when it is read.
        n_known = first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"] - 1
        return max(0, n_known - usage["prompt_tokens_details"]["cached_tokens"]), usage.get("kvik", {}).get("restored_tokens", 0)

    def test_the_tokens_that_were_generated_are_found(self):
        server = self.serve()
        n_restored = 0
        for seed in range(10):
            first = self.chat(server, [QUESTION], seed=seed, temperature=1.5)
            message = first["choices"][0]["message"]
            n_missing, n = self.next_turn(server, first, {"role": "assistant", "content": message["content"]})
            self.assertEqual(n_missing, 0, message)
            n_restored += n
            self.assertEqual(self.next_turn(server, first, message, kvik={"restore_answers": False})[1], 0)
        self.assertGreater(n_restored, 0, "some answers are not as the tokenizer would write them")

    def test_reasoning_that_was_dropped_is_found(self):
        server = self.serve("--chat-template", self.file(REASONS))
        first = self.reasoned(server)
        message = first["choices"][0]["message"]
        self.assertTrue(message["reasoning_content"])
        dropped = {"role": "assistant", "content": message["content"]}
        without = self.next_turn(server, first, dropped, kvik={"restore_answers": False})
        self.assertGreater(without[0], 10)
        self.assertEqual(self.next_turn(server, first, dropped)[0], 0)
        self.assertEqual(self.next_turn(server, first, message)[0], 0)
        changed = self.next_turn(server, first, {**dropped, "reasoning_content": "Other reasons."})
        self.assertGreater(changed[0], 10)
        self.assertEqual(changed[1], 0)
        explained = self.chat(server, [QUESTION, dropped, NEXT], kvik={"explain_cache": True})["kvik"]["cache"][0]
        self.assertGreater(explained["restored_tokens"], 0)

    def test_answers_of_which_the_client_got_a_part_are_not_restored(self):
        server = self.serve("--chat-template", self.file(REASONS))
        first = self.reasoned(server)
        end = first["choices"][0]["message"]["content"][-3:]
        for user, more, is_restored in (("whole", {}, True), ("stop string", {"stop": end}, False), ("cut in its reasoning", {"max_tokens": 6}, False)):
            with self.subTest(user):
                message = self.chat(server, [QUESTION], seed=first["seed"], reasoning_budget=12, user=user, **more)["choices"][0]["message"]
                sent = {"role": "assistant", "content": message["content"]}
                self.assertEqual(self.next_turn(server, first, sent, user=user)[1] > 0, is_restored, message)

    def test_no_key_gets_the_tokens_of_another(self):
        server = self.serve("--api-key-file", self.file("secret-a a\nsecret-b b\n"), "--chat-template", self.file(REASONS))
        first = self.reasoned(server, "secret-a")
        dropped = {"role": "assistant", "content": first["choices"][0]["message"]["content"]}
        usages = [self.chat(server, [QUESTION, dropped, NEXT], f"secret-{name}", max_tokens=1)["usage"] for name in ("a", "b")]
        self.assertGreater(usages[0]["kvik"]["restored_tokens"], 0)
        self.assertNotIn("kvik", usages[1])
        self.assertGreater(usages[0]["prompt_tokens"], usages[1]["prompt_tokens"])

    def test_other_dialects_find_them(self):
        server = self.serve("--chat-template", self.file(REASONS))
        for path, of_answer in (("/v1/messages", lambda a: [c["text"] for c in a["content"] if c["type"] == "text"]),
                                ("/v1/responses", lambda a: [c["text"] for o in a["output"] if o["type"] == "message" for c in o["content"]])):
            with self.subTest(path):
                name = "messages" if path == "/v1/messages" else "input"
                body = {"max_tokens" if name == "messages" else "max_output_tokens": 40, "reasoning_budget": 12, "ignore_eos": True, "seed": 1}
                first = server.post(path, {**body, name: [QUESTION]}).json
                history = [QUESTION, {"role": "assistant", "content": "".join(of_answer(first))}, NEXT]
                usage = server.post(path, {**body, name: history}).json["usage"]
                self.assertGreater(usage["kvik"]["restored_tokens"], 0, usage)

    def test_answers_survive_a_restart(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ("--disk", folder, "--chat-template", self.file(REASONS))
            server = self.serve(*flags)
            first = self.reasoned(server)
            server.stop()
            server = self.serve(*flags)
            dropped = {"role": "assistant", "content": first["choices"][0]["message"]["content"]}
            n_missing, n_restored = self.next_turn(server, first, dropped)
            self.assertEqual(n_missing, 0)
            self.assertGreater(n_restored, 0)
            (path,) = glob.glob(os.path.join(folder, "answers-*"))
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            server.stop()
            with open(path, "r+b") as file:
                file.seek(-40, os.SEEK_END)
                file.write(b"X")
            server = self.serve(*flags)
            self.assertEqual(self.next_turn(server, first, dropped)[1], 0)
            self.assertIn("damaged", server.said())
            server.stop()

    def test_no_memory_no_tokens(self):
        server = self.serve("--answer-memory", "0", "--chat-template", self.file(REASONS))
        first = self.reasoned(server)
        dropped = {"role": "assistant", "content": first["choices"][0]["message"]["content"]}
        self.assertEqual(self.next_turn(server, first, dropped)[1], 0)


if __name__ == "__main__":
    unittest.main()
