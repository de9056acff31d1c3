"""Tests structural tags: free text in which tags with a schema follow their triggers. The demo model writes commas and line breaks by
itself, so that these triggers occur in most answers."""
import concurrent.futures
import json
import os
import re
import tempfile
import unittest

import jsonschema

import kvik
from server import Server

N_SEEDS = 200 if kvik.LONG else 60
NOTE = {"type": "object", "properties": {"king": {"enum": ["Lear", "Alonso"]}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["king", "n"], "additionalProperties": False}
SCHEMAS = {"note": NOTE, "mark": {"type": "boolean"}}
STRUCTURES = [{"begin": f", good <{name}>", "schema": schema, "end": f"</{name}>"} for name, schema in SCHEMAS.items()]
TAG = {"type": "structural_tag", "structures": STRUCTURES, "triggers": [","]}
FORMAT = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": [","], "tags": [
    {"type": "tag", "begin": s["begin"], "content": {"type": "json_schema", "json_schema": s["schema"]}, "end": s["end"]}
    for s in STRUCTURES]}}
WHOLE = re.compile(r", good <(note|mark)>(.*?)</\1>")


def request(seed, **more):
    return {"messages": [{"role": "user", "content": f"Speak, my lord. {seed}"}], "temperature": 1.2, "seed": seed, "max_tokens": 160,
            "response_format": TAG, **more}


def tags_of(text, finish):
    """Returns the free texts and the validated contents. An answer that was cut may end within a tag."""
    texts, contents, at = [], [], 0
    for found in WHOLE.finditer(text):
        texts.append(text[at:found.start()])
        value = json.loads(found[2])
        jsonschema.validate(value, SCHEMAS[found[1]])
        contents.append(value)
        at = found.end()
    rest = text[at:]
    if finish != "length":
        texts.append(rest)
    else:
        cut = rest.find(",")
        texts.append(rest if cut < 0 else rest[:cut])
        begun = rest[cut:] if cut >= 0 else ""
        beginnings = [s["begin"] for s in STRUCTURES]
        assert not begun or any(begun.startswith(b) or b.startswith(begun) for b in beginnings), begun
    assert not any("," in text for text in texts), texts
    return texts, contents


class StructuralTags(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", "--threads", 1, "--kv-memory", "64MiB")
        cls.addClassCleanup(cls.server.__exit__)

    def choices(self, body, server=None):
        answer = (server or self.server).post("/v1/chat/completions", body)
        self.assertEqual(answer.status, 200, answer.body[:500])
        return [(choice["message"]["content"], choice["finish_reason"]) for choice in answer.json["choices"]]

    def stream(self, body, server=None):
        """Returns the concatenated deltas and the finish reason of each choice."""
        answer = (server or self.server).post("/v1/chat/completions", {**body, "stream": True})
        self.assertEqual(answer.status, 200, answer.body[:500])
        texts, finishes = {}, {}
        for line in answer.body.decode().splitlines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                texts[choice["index"]] = texts.get(choice["index"], "") + (choice["delta"].get("content") or "")
                finishes[choice["index"]] = choice["finish_reason"] or finishes.get(choice["index"])
        return [(texts[i], finishes[i]) for i in sorted(texts)]

    def test_text_stands_before_between_and_after_tags(self):
        n_tags = n_before = n_between = n_after = 0
        with concurrent.futures.ThreadPoolExecutor(8) as users:
            for answers in users.map(lambda seed: self.choices(request(seed)), range(N_SEEDS)):
                for text, finish in answers:
                    with self.subTest(text=text):
                        texts, contents = tags_of(text, finish)
                        n_tags += len(contents)
                        n_before += bool(contents and texts[0])
                        n_between += any(texts[1:len(contents)])
                        n_after += bool(contents and texts[len(contents):] and texts[-1])
        self.assertGreater(n_tags, N_SEEDS, "hardly any tag")
        for n in (n_before, n_between, n_after):
            self.assertGreater(n, N_SEEDS // 4)

    def test_both_notations_and_all_places_give_the_same_answer(self):
        body, whole = next((body, whole) for body in map(request, range(50)) for whole in [self.choices(body)] if tags_of(*whole[0])[1])
        self.assertEqual(self.choices({**body, "response_format": FORMAT}), whole)
        del body["response_format"]
        for tag in (TAG, json.dumps(FORMAT)):
            self.assertEqual(self.choices({**body, "structured_outputs": {"structural_tag": tag}}), whole)
        fields = {"input": body["messages"], "temperature": 1.2, "seed": body["seed"], "max_output_tokens": 160, "text": {"format": FORMAT}}
        answer = self.server.post("/v1/responses", fields).json
        self.assertEqual(answer["output"][-1]["content"][0]["text"], whole[0][0])

    def test_streams_choices_and_speculation_change_nothing(self):
        bodies = [request(seed, n=3) for seed in range(100, 106)]
        whole = [self.choices(body) for body in bodies]
        self.assertTrue(any(tags_of(*choice)[1] for choices in whole for choice in choices))
        self.assertEqual([self.stream(body) for body in bodies], whole)
        for n_drafts in ("off", "4"):
            with Server("demo", "--threads", 1, "--kv-memory", "64MiB", "--speculate", n_drafts) as server:
                self.assertEqual([self.stream(body, server) for body in bodies], whole, n_drafts)

    def test_a_stop_string_ends_an_answer_in_text_and_in_a_tag(self):
        for stop in ("good <", '"n"', "</", "\n"):
            n_stopped = 0
            for seed in range(200, 208):
                (whole, _), = self.choices(request(seed))
                (text, finish), = self.choices(request(seed, stop=[stop]))
                self.assertEqual(text, whole.split(stop)[0])
                if stop in whole:
                    n_stopped += 1
                    self.assertEqual(finish, "stop")
            self.assertGreater(n_stopped, 0, stop)

    def test_completions_obey_too(self):
        texts = [self.server.text("O", temperature=1, seed=seed, max_tokens=100, response_format=TAG) for seed in range(8)]
        self.assertTrue(any(tags_of(text, "length")[1] for text in texts), texts)

    def test_a_tag_alone_and_tags_with_a_separator(self):
        tag = {"type": "tag", "begin": "<l>", "content": {"type": "any_text"}, "end": ["\n", "."]}
        either = {"type": "sequence", "elements": [tag, {"type": "or", "elements": [
            {"type": "const_string", "value": "yes"}, {"type": "regex", "pattern": "no{1,3}"},
            {"type": "grammar", "grammar": 'root ::= "(" [xy] ")"'}]}]}
        listed = {"type": "tags_with_separator", "separator": ", ", "at_least_one": True, "tags": [
            {"begin": "(", "content": {"type": "json_schema", "json_schema": {"enum": [1, 2]}}, "end": ")"}]}
        for seed in range(8):
            (text, finish), = self.choices(request(seed, response_format={"type": "structural_tag", "format": either}))
            if finish == "stop":
                self.assertRegex(text, r"^<l>[^\n.]*[\n.](yes|no{1,3}|\([xy]\))$")
            (text, finish), = self.choices(request(seed, response_format={"type": "structural_tag", "format": listed}))
            self.assertRegex(text, r"^\([12]\)(, \([12]\))*" if finish == "length" else r"^\([12]\)(, \([12]\))*$")

    def test_the_tag_applies_after_the_reasoning(self):
        n_tags = n_commas = 0
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "opens.jinja")
            with open(path, "w", encoding="utf-8") as file:
                file.write("{% for m in messages %}{{ m.content }}\n{% endfor %}{{ '<think>\n' }}{# </think> #}")
            with Server("demo", "--threads", 1, "--kv-memory", "64MiB", "--chat-template", path) as server:
                for seed in range(20):
                    answer = server.post("/v1/chat/completions", request(seed, thinking_budget=30, max_tokens=250))
                    self.assertEqual(answer.status, 200, answer.body[:500])
                    choice = answer.json["choices"][0]
                    n_commas += "," in choice["message"]["reasoning_content"]
                    n_tags += len(tags_of(choice["message"]["content"] or "", choice["finish_reason"])[1])
        self.assertGreater(n_tags, 5)
        self.assertGreater(n_commas, 5)

    def test_a_tag_in_the_form_of_a_call_is_a_call_if_the_request_has_tools(self):
        parameters = {"type": "object", "properties": {"unit": {"enum": ["celsius", "kelvin"]}}, "required": ["unit"]}
        tools = [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]
        call = {"begin": '<tool_call>\n{"name": "weather", "arguments": ', "end": "}\n</tool_call>",
                "content": {"type": "json_schema", "json_schema": parameters}}
        form = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<tool_call>"], "tags": [call],
                                                     "at_least_one": True, "stop_after_first": True}}
        for seed in range(4):
            body = request(seed, response_format=form)
            text, finish = self.choices(body)[0]
            self.assertEqual(finish, "stop")
            self.assertRegex(text, r'^<tool_call>\n{"name": "weather", "arguments": {"unit": ?"(celsius|kelvin)"}}\n</tool_call>$')
            message = self.server.post("/v1/chat/completions", {**body, "tools": tools}).json["choices"][0]["message"]
            self.assertFalse(message["content"])
            self.assertEqual(message["tool_calls"][0]["function"]["name"], "weather")
            self.assertIn(json.loads(message["tool_calls"][0]["function"]["arguments"])["unit"], ("celsius", "kelvin"))

    def test_bad_tags_are_refused(self):
        cases = {
            "structures": {"structures": [], "triggers": [","]},
            "triggers": {"structures": STRUCTURES, "triggers": []},
            "triggers[0]": {"structures": STRUCTURES, "triggers": [""]},
            "structures[0].begin": {"structures": STRUCTURES, "triggers": ["<"]},
            "structures[0].schema": {"structures": [{"begin": ",", "schema": 3, "end": ""}], "triggers": [","]},
            "format.type": {"format": {"type": "qwen_xml_parameter"}},
        }
        for path, tag in cases.items():
            answer = self.server.post("/v1/chat/completions", request(0, response_format={"type": "structural_tag", **tag}))
            self.assertEqual(answer.status, 400, path)
            self.assertEqual(answer.json["error"]["param"], f"response_format.{path}")
        bad = [{"begin": ",", "schema": {"type": "string", "pattern": "("}, "end": ""}]
        answer = self.server.post("/v1/chat/completions", request(0, response_format={**TAG, "structures": bad}))
        self.assertEqual(answer.status, 400)
        self.assertIn("response_format.structures[0].schema", answer.json["error"]["message"])


if __name__ == "__main__":
    unittest.main()
