"""Tests GET /kvik/sessions: what sessions reused, computed and lost, as agents send their requests."""
import json
import os
import pathlib
import tempfile
import unittest

import kvik  # noqa: F401, needed because it adds tools/ to the path
from server import Server

SESSION = "0a1b2c3d-1111-2222-3333-444455556666"
RECORDED = json.loads((pathlib.Path(__file__).resolve().parents[1] / "agents/moving_parts.json").read_text())
RULES = "You are a careful programmer. Read files before you change them, and run the tests afterwards. " * 3


class Sessions(unittest.TestCase):
    def serve(self, *flags):
        server = Server("demo", "--threads", 1, "--kv-memory", "64MiB", "--kv-type", "bf16", "--ctx", 4096, *flags)
        self.addCleanup(server.__exit__)
        return server

    def sessions(self, server, key=None):
        answer = server.get("/kvik/sessions", **({"headers": {"Authorization": f"Bearer {key}"}} if key else {}))
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["sessions"]

    def ask(self, server, path, body, key=None):
        answer = server.post(path, {"max_tokens": 8, "seed": 1, **body}, **({"headers": {"Authorization": f"Bearer {key}"}} if key else {}))
        self.assertEqual(answer.status, 200, answer.body[:500])
        return answer.json

    def test_turns_of_a_chat_are_one_session(self):
        server = self.serve()
        messages = [{"role": "system", "content": RULES}, {"role": "user", "content": "Mend the parser."}]
        usages = []
        for _ in range(2):
            answer = self.ask(server, "/v1/chat/completions", {"messages": messages})
            usages.append(answer["usage"])
            messages += [answer["choices"][0]["message"], {"role": "user", "content": "Go on."}]
        (session,) = self.sessions(server)
        self.assertEqual(session["requests"], 2)
        self.assertEqual(session["prompt_tokens"], sum(u["prompt_tokens"] for u in usages))
        self.assertEqual(session["reused_tokens"], sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages))
        self.assertEqual(session["computed_tokens"], session["prompt_tokens"] - session["reused_tokens"])
        self.assertEqual(session["generated_tokens"], sum(u["completion_tokens"] for u in usages))
        self.assertEqual((session["lost_tokens"], session["lost_to"]), (0, {}))
        self.assertLessEqual(session["first_used"], session["last_used"])

    def test_streams_and_other_dialects_count(self):
        server = self.serve()
        turn = [{"role": "user", "content": "Mend the parser."}]
        stream = server.post("/v1/chat/completions", {"messages": turn, "max_tokens": 4, "stream": True, "prompt_cache_key": "thread-1"})
        self.assertEqual(stream.status, 200)
        self.ask(server, "/v1/messages", {"messages": turn, "metadata": {"user_id": f"user_x_account_y_session_{SESSION}"}})
        response = server.post("/v1/responses", {"input": turn, "max_output_tokens": 4, "prompt_cache_key": "thread-2"})
        self.assertEqual(response.status, 200)
        self.ask(server, "/v1/completions", {"prompt": "not a chat"})
        self.assertEqual([s["id"] for s in self.sessions(server)], ["thread-2", SESSION, "thread-1"])

    def lost(self, before, after):
        """Returns what tokens are lost to if a session's system prompt changes."""
        server = self.serve()
        turn = {"role": "user", "content": "Mend the parser."}
        for system in (before, after):
            self.ask(server, "/v1/chat/completions", {"messages": [{"role": "system", "content": system}, turn]})
        (session,) = self.sessions(server)
        self.assertGreater(session["lost_tokens"], 100)
        self.assertEqual(sum(session["lost_to"].values()), session["lost_tokens"])
        return list(session["lost_to"])

    def test_moving_parts_are_named(self):
        self.assertEqual(self.lost("Today is 2026-11-28.\n" + RULES, "Today is 2026-11-29.\n" + RULES), ["date"])
        self.assertEqual(self.lost("You have 9412 tokens left.\n" + RULES, "You have 8377 tokens left.\n" + RULES), ["token_count"])
        self.assertEqual(self.lost("Be brief.\n" + RULES, "Be exact.\n" + RULES), ["diverged"])

    def test_recorded_moving_parts_of_agents_are_named(self):
        server = self.serve()
        for i, entry in enumerate(RECORDED):
            with self.subTest(agent=entry["agent"], about=entry["about"]):
                common = {"prompt_cache_key": f"session-{i}", "kvik": {"explain_cache": True}, "cache_salt": f"entry-{i}"}
                rest = [{"role": "user", "content": "Mend the parser. " + RULES}]
                for version in ("before", "after"):
                    request = entry[version] | {"messages": entry[version]["messages"] + rest}
                    answer = self.ask(server, "/v1/chat/completions", request | common)
                (explained,) = answer["kvik"]["cache"]
                self.assertEqual(explained["miss"].get("looks_like"), entry["looks_like"], explained["miss"])
                if entry["within_session"]:
                    session = self.sessions(server)[0]
                    self.assertEqual((session["id"], session["requests"]), (f"session-{i}", 2))
                    self.assertEqual(list(session["lost_to"]), [entry["looks_like"]], session)
                    self.assertGreater(session["lost_tokens"], 50)

    def test_tools_in_another_order_are_named(self):
        server = self.serve()
        tools = [{"type": "function", "function": {"name": name, "description": RULES, "parameters": {"type": "object", "properties": {}}}}
                 for name in ("read", "write")]
        for version in (tools, tools[::-1]):
            self.ask(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": "Mend it."}], "tools": version})
        (session,) = self.sessions(server)
        self.assertEqual(list(session["lost_to"]), ["tool_order"])

    def test_sessions_of_agents_are_told_apart(self):
        server = self.serve()
        context = "<system-reminder>\nThis is the Qwen Code. We are setting up the context for our chat.\n</system-reminder>"
        for task in ("Mend the parser.", "Mend the printer."):  # Qwen Code
            self.ask(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": context}, {"role": "user", "content": task}]})
        self.assertEqual([s["requests"] for s in self.sessions(server)], [1, 1])
        for session in ("ses_a", "ses_b"):  # opencode finds a title in a request of its own
            for first in ("Generate a title for this conversation:\n", f"Mend the parser of {session}."):
                answer = server.post("/v1/chat/completions", {"max_tokens": 2, "messages": [{"role": "user", "content": first}]},
                                     headers={"x-session-id": session})
                self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual([(s["id"], s["requests"], s["lost_tokens"]) for s in self.sessions(server)[:2]], [("ses_b", 2, 0), ("ses_a", 2, 0)])

    def test_a_key_sees_its_own_sessions(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "keys")
            with open(path, "w", encoding="utf-8") as file:
                file.write("secret-a a\nsecret-b b\nsecret-o o operator\n")
            server = self.serve("--api-key-file", path)
        for key in ("a", "b"):
            self.ask(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": f"I am {key}."}]}, f"secret-{key}")
        seen = {key: sorted(s["client"] for s in self.sessions(server, f"secret-{key}")) for key in "abo"}
        self.assertEqual(seen, {"a": ["a"], "b": ["b"], "o": ["a", "b"]})
        self.assertEqual(server.get("/kvik/sessions").status, 401)


if __name__ == "__main__":
    unittest.main()
