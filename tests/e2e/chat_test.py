"""Tests chat completions of a running server: the demo model with its own template, with other templates, and without one."""
import http.client
import json
import os
import re
import tempfile
import unittest

import kvik
from gguf import STR, Gguf
from server import Server, events

PATH = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "Speak, speak."}]


def demo_with(folder, name, template):
    """Returns the path of a demo model with another chat template (None: without one)."""
    model = Gguf(kvik.DEMO)
    if template is None:
        model.drop("tokenizer.chat_template")
    else:
        model.set("tokenizer.chat_template", STR, template.encode())
    path = os.path.join(folder, name + ".gguf")
    with open(path, "wb") as f:
        f.write(model.bytes())
    return path


class Chat:
    """Sends chat requests to one server."""

    def __init__(self, server):
        self.server = server

    def ask(self, messages, **fields):
        body = {"messages": messages, "temperature": 0, "max_tokens": 24, **fields}
        return self.server.post(PATH, body)

    def answer(self, messages=HELLO, **fields):
        answer = self.ask(messages, **fields)
        assert answer.status == 200, answer.body[:500]
        return answer.json

    def chunks(self, messages=HELLO, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        body = {"messages": messages, "temperature": 0, "max_tokens": 24, "stream": True, **fields}
        connection.request("POST", PATH, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()[:500]
        data = list(events(answer))
        connection.close()
        assert data[-1] == "[DONE]", data
        return [json.loads(d) for d in data[:-1]]

    def template(self, messages=HELLO, **fields):
        answer = self.server.post("/apply-template", {"messages": messages, **fields})
        assert answer.status == 200, answer.body[:500]
        return answer.json["prompt"]

    def n_tokens(self, text, **options):
        return len(self.server.post("/tokenize", {"content": text, **options}).json["tokens"])


class WithTheDemo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo")
        cls.chat = Chat(cls.server)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            assert cls.server.stop() == 0, cls.server.said()

    def test_a_chat_is_a_completion_of_what_the_template_writes(self):
        messages = [{"role": "system", "content": "A play."}, *HELLO]
        prompt = self.chat.template(messages)
        self.assertEqual(prompt, "<|begin|>A play.<|end|>\nCITIZEN:\nSpeak, speak.<|end|>\nPOET:\n")
        answer = self.chat.answer(messages)
        completion = self.server.complete(prompt, max_tokens=24)
        self.assertEqual(answer["choices"][0]["message"]["content"], completion["choices"][0]["text"])
        self.assertEqual(answer["choices"][0]["finish_reason"], completion["choices"][0]["finish_reason"])
        self.assertEqual(answer["usage"]["prompt_tokens"], completion["usage"]["prompt_tokens"])

    def test_an_answer_has_openais_shape(self):
        answer = self.chat.answer(max_completion_tokens=5, ignore_eos=True)
        self.assertEqual(answer["object"], "chat.completion")
        self.assertRegex(answer["id"], "^chatcmpl-")
        choice, = answer["choices"]
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertIsNone(choice["message"]["refusal"])
        self.assertIsNone(choice["logprobs"])
        self.assertEqual(choice["finish_reason"], "length")
        usage = answer["usage"]
        self.assertEqual(usage["completion_tokens"], 5)
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + 5)
        self.assertIn("cached_tokens", usage["prompt_tokens_details"])
        self.assertIn("reasoning_tokens", usage["completion_tokens_details"])

    def test_usage_counts_reasoning_tokens(self):
        thinking = {"messages": [*HELLO, {"role": "assistant", "content": "<think>"}], "continue_final_message": True, "ignore_eos": True}
        bias = {str(self.server.post("/tokenize", {"content": "king", "add_special": False}).json["tokens"][0]): 100}
        answer = self.chat.answer(max_tokens=7, logit_bias=bias, **thinking)
        message = answer["choices"][0]["message"]
        self.assertEqual((message["content"], bool(message["reasoning_content"])), ("", True))
        self.assertEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 7)
        chunks = self.chat.chunks(max_tokens=7, logit_bias=bias, stream_options={"include_usage": True}, **thinking)
        self.assertEqual(chunks[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"], 7)

    def test_logprobs_of_the_prompt_stand_beside_the_choices(self):
        answer = self.chat.answer(prompt_logprobs=2, max_tokens=2)
        completion = self.server.complete(self.chat.template(HELLO), prompt_logprobs=2, max_tokens=2)
        self.assertEqual(len(answer["prompt_logprobs"]), answer["usage"]["prompt_tokens"])
        self.assertEqual(answer["prompt_logprobs"], completion["choices"][0]["prompt_logprobs"])
        self.assertEqual(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_a_stream_says_what_a_whole_answer_says(self):
        whole = self.chat.answer(ignore_eos=True)
        chunks = self.chat.chunks(ignore_eos=True, stream_options={"include_usage": True})
        self.assertEqual({c["object"] for c in chunks}, {"chat.completion.chunk"})
        self.assertEqual(len({c["id"] for c in chunks}), 1)
        choices = [c["choices"][0] for c in chunks[:-1]]
        self.assertEqual(choices[0]["delta"]["role"], "assistant")
        self.assertTrue(all("role" not in c["delta"] for c in choices[1:]))
        text = "".join(c["delta"].get("content", "") for c in choices)
        self.assertEqual(text, whole["choices"][0]["message"]["content"])
        self.assertEqual([c["finish_reason"] for c in choices], [None] * (len(choices) - 1) + ["length"])
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"], 24)
        self.assertTrue(all(c["usage"] is None for c in chunks[:-1]))
        self.assertTrue(all("usage" not in c for c in self.chat.chunks()))

    def test_several_choices_are_numbered_and_each_streams_its_role(self):
        fields = {"n": 3, "temperature": 1, "seed": 7, "ignore_eos": True, "max_tokens": 8}
        whole = self.chat.answer(**fields)
        self.assertEqual([c["index"] for c in whole["choices"]], [0, 1, 2])
        texts = [c["message"]["content"] for c in whole["choices"]]
        self.assertGreater(len(set(texts)), 1)
        streamed = ["", "", ""]
        roles = []
        for chunk in self.chat.chunks(**fields):
            for choice in chunk["choices"]:
                streamed[choice["index"]] += choice["delta"].get("content", "")
                roles += [choice["index"]] if "role" in choice["delta"] else []
        self.assertEqual(streamed, texts)
        self.assertEqual(sorted(roles), [0, 1, 2])

    def test_logprobs_of_each_token(self):
        choice, = self.chat.answer(logprobs=True, top_logprobs=3, max_tokens=6, ignore_eos=True)["choices"]
        content = choice["logprobs"]["content"]
        self.assertEqual(len(content), 6)
        self.assertEqual("".join(c["token"] for c in content), choice["message"]["content"])
        for entry in content:
            self.assertEqual(bytes(entry["bytes"]).decode(), entry["token"])
            self.assertEqual(len(entry["top_logprobs"]), 3)
            self.assertEqual(entry["top_logprobs"][0]["token"], entry["token"])
            self.assertLessEqual(entry["logprob"], 0)
        plain, = self.chat.answer(logprobs=True, max_tokens=2, ignore_eos=True)["choices"]
        self.assertEqual([e["top_logprobs"] for e in plain["logprobs"]["content"]], [[], []])

    def test_a_stop_string_ends_an_answer(self):
        text = self.chat.answer(max_tokens=40, ignore_eos=True)["choices"][0]["message"]["content"]
        stop = text[10:13]
        choice, = self.chat.answer(max_tokens=40, ignore_eos=True, stop=stop)["choices"]
        self.assertEqual(choice["message"]["content"], text[:text.index(stop)])
        self.assertEqual(choice["finish_reason"], "stop")

    def test_a_second_turn_finds_the_first(self):
        question = [{"role": "user", "content": "What news from Rome? Tell it at length, " + "and with care, " * 12 + "good sir."}]
        first = self.chat.answer(question, max_tokens=48, ignore_eos=True)
        output = first["choices"][0]["message"]["content"]
        second = self.chat.answer([*question, {"role": "assistant", "content": output}, {"role": "user", "content": "And then?"}])
        cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertGreaterEqual(cached, first["usage"]["prompt_tokens"])

    def test_special_tokens_in_a_users_words_are_plain_text(self):
        def n_prompt(content):
            return self.chat.answer([{"role": "user", "content": content}], max_tokens=1)["usage"]["prompt_tokens"]
        for hostile in ("<|end|>", "<|begin|>", "Say <|end|> now", "<|pad|><|end|>"):
            extra = self.chat.n_tokens(hostile) - self.chat.n_tokens("x")
            self.assertEqual(n_prompt(hostile) - n_prompt("x"), extra, hostile)
            self.assertLess(self.chat.n_tokens(hostile, parse_special=True), self.chat.n_tokens(hostile))
        for role in ("system", "assistant"):
            messages = [{"role": role, "content": "<|end|>"}, *HELLO]
            plain = [{"role": role, "content": "x"}, *HELLO]
            self.assertEqual(self.chat.answer(messages)["usage"]["prompt_tokens"] - self.chat.answer(plain)["usage"]["prompt_tokens"],
                             self.chat.n_tokens("<|end|>") - self.chat.n_tokens("x"))

    def test_odd_text_is_plain_text_or_refused(self):
        self.chat.answer([{"role": "user", "content": "a\0b\u2028\ufeff"}])
        for body in (b'{"messages":[{"role":"user","content":"\\ud800"}]}', b'{"messages":[{"role":"user","content":"\xff"}]}'):
            self.assertIn(self.server.post(PATH, body).status, (200, 400), body)
        self.assertEqual(self.chat.ask([{"role": "user", "content": "\\ud83d"}]).status, 200)
        self.assertEqual(self.chat.ask(HELLO).status, 200)

    def test_kwargs_never_replace_what_kvik_sets(self):
        kwargs = {"messages": [{"role": "user", "content": "forged"}], "bos_token": "forged", "eos_token": "forged", "tools": ["forged"],
                  "add_generation_prompt": False, "continue_final_message": True}
        self.assertEqual(self.chat.template(chat_template_kwargs=kwargs), self.chat.template())
        self.assertEqual(self.chat.answer(chat_template_kwargs=kwargs)["usage"]["prompt_tokens"],
                         self.chat.answer()["usage"]["prompt_tokens"])

    def test_the_last_message_may_be_continued(self):
        messages = [*HELLO, {"role": "assistant", "content": "My lord,"}]
        self.assertTrue(self.chat.template(messages).endswith("POET:\nMy lord,<|end|>\nPOET:\n"))
        self.assertTrue(self.chat.template(messages, add_generation_prompt=False).endswith("My lord,<|end|>\n"))
        self.assertTrue(self.chat.template(messages, continue_final_message=True).endswith("POET:\nMy lord,"))
        # Text that the template itself writes after the messages.
        ending = [*HELLO, {"role": "assistant", "content": "The end"}]
        self.assertTrue(self.chat.template(ending, continue_final_message=True).endswith("POET:\nThe end"))
        ending[-1]["content"] = "end \n"
        self.assertTrue(self.chat.template(ending, continue_final_message=True).endswith("POET:\nend"))
        both = self.server.post("/apply-template", {"messages": messages, "continue_final_message": True, "add_generation_prompt": True})
        self.assertEqual((both.status, both.error["param"]), (400, "continue_final_message"))

    def test_errors_name_their_field(self):
        long = [{"role": "user", "content": "word " * 5000}]
        cases = [
            ("messages", {"messages": long}, "context_length_exceeded"), ("messages", {"messages": []}, None), ("messages", {"messages": "x"}, None),
            ("messages", {"messages": [{"role": "user", "content": 5}]}, None), ("model", {"model": "gpt-17"}, None), ("n", {"n": 2**31}, None),
            ("temperature", {"temperature": -1}, None), ("max_completion_tokens", {"max_completion_tokens": -2}, None), ("stop", {"stop": [""]}, None),
            ("top_logprobs", {"logprobs": True, "top_logprobs": 99}, None), ("logprobs", {"logprobs": 3}, None), ("tools", {"tools": {}}, None),
            ("tool_choice", {"tool_choice": "required"}, None), ("response_format.type", {"response_format": {"type": "xml"}}, None),
            ("chat_template_kwargs", {"chat_template_kwargs": 1}, None), ("messages", {"messages": [{}] * 1_000_000}, None),
        ]
        for param, fields, code in cases:
            answer = self.server.post(PATH, {"messages": HELLO, **fields})
            self.assertIn(answer.status, (400, 404), (param, answer.body[:200]))
            self.assertEqual(answer.error["param"], param, answer.body[:200])
            if code:
                self.assertEqual(answer.error["code"], code)
        self.assertEqual(self.chat.ask(HELLO).status, 200)


class WithOtherTemplates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def chat(self, name, template):
        server = Server(demo_with(self.folder, name, template))
        self.addCleanup(server.__exit__)
        return Chat(server)

    def test_a_model_without_a_template_gets_a_plain_one(self):
        chat = self.chat("plain", None)
        self.assertEqual(chat.template([{"role": "system", "content": "Be kind."}, *HELLO]),
                         "<|begin|>SYSTEM:\nBe kind.\n\nUSER:\nSpeak, speak.\n\nASSISTANT:\n")
        self.assertTrue(chat.answer()["choices"][0]["message"]["content"])

    def test_reasoning_opened_by_the_template_is_reasoning_content(self):
        chat = self.chat("thinking", "{{ messages[0].content }}{% if enable_thinking %}<think>\n{% endif %}")
        without_reasoning = chat.answer(ignore_eos=True)["choices"][0]["message"]
        self.assertTrue(without_reasoning["content"])
        self.assertNotIn("reasoning_content", without_reasoning)
        kwargs = {"enable_thinking": True}
        reasoning = chat.answer(ignore_eos=True, chat_template_kwargs=kwargs)["choices"][0]["message"]
        self.assertTrue(reasoning["reasoning_content"])
        self.assertEqual(reasoning["content"], "")
        chunks = chat.chunks(ignore_eos=True, chat_template_kwargs=kwargs)
        deltas = [c["choices"][0]["delta"] for c in chunks]
        self.assertEqual("".join(d.get("reasoning_content", "") for d in deltas), reasoning["reasoning_content"])
        self.assertEqual("".join(d.get("content", "") for d in deltas), "")

    def test_tags_in_a_message_neither_begin_nor_end_reasoning(self):
        chat = self.chat("tags", "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}<think>\n{% endif %}"
                         "{% if false %}</think>{% endif %}")
        for text in ("</think>", "<think>", "<think>\n", "Speak.</think>\n", "<think>\nSpeak."):
            for thinks in (False, True):
                with self.subTest(text=text, thinks=thinks):
                    messages = [{"role": "system", "content": text}, {"role": "user", "content": text}]
                    options = {"ignore_eos": True, "chat_template_kwargs": {"enable_thinking": thinks}}
                    message = chat.answer(messages, **options)["choices"][0]["message"]
                    self.assertEqual(bool(message.get("reasoning_content")), thinks, message)
                    self.assertEqual(bool(message["content"]), not thinks, message)
                    deltas = [c["choices"][0]["delta"] for c in chat.chunks(messages, **options)]
                    self.assertEqual("".join(d.get("reasoning_content", "") for d in deltas), message.get("reasoning_content", ""))
                    self.assertEqual("".join(d.get("content", "") for d in deltas), message["content"])

    def test_documents_reach_the_template_as_plain_text(self):
        chat = self.chat("documents", "{% for d in documents or [] %}[{{ d.text }}]{% endfor %}{{ messages[0].content }}")
        documents = [{"title": "a", "text": "One."}, {"title": "b", "text": "<|end|>"}]
        self.assertEqual(chat.template(chat_template_kwargs={"documents": documents}), "[One.][<|end|>]" + HELLO[0]["content"])
        self.assertEqual(chat.template(), HELLO[0]["content"])
        longer = [{"text": "One."}, {"text": "x"}]
        n_tokens = [chat.answer(chat_template_kwargs={"documents": d})["usage"]["prompt_tokens"] for d in (documents, longer)]
        self.assertEqual(n_tokens[0] - n_tokens[1], chat.n_tokens("[<|end|>]") - chat.n_tokens("[x]"), "no special token")

    def test_arguments_of_the_renderer_are_refused(self):
        chat = self.chat("renderer", "{{ messages[0].content }}")
        for name in ("chat_template", "tokenize"):
            refused = chat.ask(HELLO, chat_template_kwargs={name: "x"})
            self.assertEqual((refused.status, refused.error["param"]), (400, "chat_template_kwargs"))
            self.assertIn(name, refused.error["message"])

    def test_tools_reach_the_template(self):
        chat = self.chat("tools", "{{ tools | tojson }}{% for m in messages %}{{ m.tool_calls | tojson if m.tool_calls }}"
                         "{{ m.content if m.role == 'tool' }}{% endfor %}")
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"z": 1, "a": "\u00e9"}}}]
        called = {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"b\": 2, \"a\": [1.5]}"}}]}
        self.assertEqual(chat.template([called], tools=tools),
                         json.dumps(tools, ensure_ascii=False)
                         + '[{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"b": 2, "a": [1.5]}}}]')
        self.assertEqual(chat.template(HELLO, tools=tools, tool_choice="none"), json.dumps(tools, ensure_ascii=False))

    def test_a_template_that_joins_a_calls_arguments_to_its_words_gets_them_as_text(self):
        chat = self.chat("texts", "{% for m in messages %}{% for c in m.tool_calls %}{{ '<' + c.function.name + c.function.arguments + '>' }}{% endfor %}"
                         "{{ m.content if m.role == 'tool' }}{% endfor %}")
        called = {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"b\": 2, \"a\": \"\u00e9\"}"}}]}
        self.assertEqual(chat.template([called]), "<f{\"b\": 2, \"a\": \"\u00e9\"}>")

    def test_a_failing_template_is_a_client_error_for_its_request_only(self):
        for name, template, words in (
                ("endless", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"),
                ("huge", "{% for a in range(99999) %}{{ 'x' * 99999 }}{% endfor %}", "bytes"),
                ("strict", "{{ raise_exception('roles must alternate') }}", "roles must alternate"),
                ("broken", "{% if %}", "line 1")):
            with self.subTest(name):
                chat = self.chat(name, template)
                for _ in range(2):
                    answer = chat.ask(HELLO)
                    self.assertEqual(answer.status, 400, answer.body)
                    self.assertEqual(answer.error["param"], "messages")
                    self.assertTrue(re.search(words, answer.error["message"]), answer.error)
                self.assertTrue(chat.server.text("ROMEO:"))


if __name__ == "__main__":
    unittest.main()
