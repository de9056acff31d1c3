"""Tests structured output with random schemas and the demo model, which was trained on plays."""
import concurrent.futures
import json
import os
import re
import tempfile
import unittest

import jsonschema

import kvik
import random_schemas
from server import Server

N_SCHEMAS = int(os.environ.get("KVIK_TEST_SCHEMAS", 2000 if kvik.LONG else 120))
MAX_TOKENS = 700

FORMATS = jsonschema.FormatChecker()


@FORMATS.checks("time", raises=ValueError)
def is_time(value):
    """Checks a time by RFC 3339, section 5.6. The package's own check follows an older draft without fractions and offsets."""
    if not isinstance(value, str):
        return True
    if not re.fullmatch(r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", value, re.IGNORECASE | re.ASCII):
        raise ValueError(value)
    hour, minute, second = (int(part[:2]) for part in value.split(":", 2))
    offset = value[-5:].split(":") if value[-1] not in "zZ" else (0, 0)
    return hour < 24 and minute < 60 and second <= 60 and int(offset[0]) < 24 and int(offset[1]) < 60



def schema_format(schema, **more):
    return {"type": "json_schema", "json_schema": {"name": "it", "schema": schema, "strict": True, **more}}


def keeps(text, schema):
    """Returns the value if it is valid; formats are checked as well."""
    value = json.loads(text)
    jsonschema.Draft202012Validator(schema, format_checker=FORMATS).validate(value)
    return value


def request(seed, **more):
    return {"messages": [{"role": "user", "content": f"Speak, my lord. {seed}"}], "temperature": 2, "seed": seed,
            "max_tokens": MAX_TOKENS, "response_format": schema_format(random_schemas.schema(seed)), **more}


class Forms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", "--threads", 1, "--kv-memory", "64MiB")
        cls.addClassCleanup(cls.server.__exit__)

    def chat(self, body, server=None):
        answer = (server or self.server).post("/v1/chat/completions", body)
        self.assertEqual(answer.status, 200, answer.body[:500])
        return answer.json

    def stream(self, body, server=None):
        """Returns the concatenated deltas of a stream and its finish reason."""
        answer = (server or self.server).post("/v1/chat/completions", {**body, "stream": True})
        self.assertEqual(answer.status, 200, answer.body[:500])
        text, finish = "", None
        for line in answer.body.decode().splitlines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                text += choice["delta"].get("content") or ""
                finish = choice["finish_reason"] or finish
        return text, finish

    def test_every_complete_answer_to_a_random_schema_is_valid(self):
        n_complete = 0

        def ask(seed):
            body = request(seed, n=4 if seed % 4 == 0 else 1)
            if seed % 4 == 1:
                return seed, [self.stream(body)]
            return seed, [(c["message"]["content"], c["finish_reason"]) for c in self.chat(body)["choices"]]

        with concurrent.futures.ThreadPoolExecutor(16) as users:
            for seed, answers in users.map(ask, range(N_SCHEMAS)):
                for text, finish in answers:
                    self.assertIn(finish, ("stop", "length"), seed)
                    if finish == "stop":
                        n_complete += 1
                        with self.subTest(seed=seed, text=text):
                            keeps(text, random_schemas.schema(seed))
        self.assertGreater(n_complete, N_SCHEMAS, "hardly any answer came to its end")

    def test_batching_and_preemption_change_no_answer(self):
        seeds = range(5_000, 5_016)
        flags = ("--threads", 2, "--kv-type", "bf16")
        with Server("demo", *flags) as roomy:
            alone = {seed: self.stream(request(seed), roomy) for seed in seeds}
        # A page of 32 tokens takes 96 KiB, so not all requests fit at the same time.
        with Server("demo", *flags, "--kv-memory", "2MiB") as crowded:
            with concurrent.futures.ThreadPoolExecutor(16) as users:
                beside = dict(zip(seeds, users.map(lambda seed: self.stream(request(seed), crowded), seeds)))
            self.assertGreater(crowded.metrics().value("kvik_preemptions_total"), 0)
        self.assertEqual(beside, alone)

    def test_a_stream_says_what_the_whole_answer_says(self):
        for seed in range(6_000, 6_004):
            choice = self.chat(request(seed))["choices"][0]
            self.assertEqual(self.stream(request(seed)), (choice["message"]["content"], choice["finish_reason"]))

    def test_other_dialects_enforce_schemas_too(self):
        schema = {"type": "object", "properties": {"king": {"enum": ["Lear", "Alonso"]}}, "required": ["king"],
                  "additionalProperties": False}
        output = self.server.post("/v1/responses", {"input": "Who?", "text": {"format": {"type": "json_schema", "name": "x",
                                                                                       "schema": schema, "strict": True}}}).json
        keeps(output["output"][-1]["content"][0]["text"], schema)
        output = self.server.post("/v1/messages", {"max_tokens": 50, "messages": [{"role": "user", "content": "Who?"}],
                                                 "output_config": {"format": {"type": "json_schema", "schema": schema}}}).json
        keeps(output["content"][0]["text"], schema)
        for fields in ({"guided_json": schema}, {"json_schema": schema}, {"structured_outputs": {"json": schema}}):
            keeps(self.server.text("O king", max_tokens=50, **fields), schema)

    def test_expressions_choices_and_grammars(self):
        ask = {"temperature": 2, "max_tokens": 50}
        self.assertRegex(self.server.text("O", guided_regex="[ab]{3}-\\d+?x", **{**ask, "max_tokens": 400}), r"^[ab]{3}-\d+x?")
        self.assertIn(self.server.text("O", guided_choice=["yes", "no"], **ask), ("yes", "no"))
        self.assertRegex(self.server.text("O", grammar='root ::= "(" [xy] ")"', **ask), r"^\([xy]\)$")
        self.assertRegex(self.server.text("O", guided_grammar='start: "<" /[xy]/ ">"', **ask), r"^<[xy]>$")

    def test_white_space_is_as_it_is_asked_for(self):
        schema = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}}, "required": ["a", "b"],
                  "additionalProperties": False}
        compact = self.server.text("O", guided_json=schema, max_tokens=200, kvik={"whitespace": "compact"})
        self.assertNotRegex(compact, r"\s")
        spaced = [self.server.text("O", guided_json=schema, max_tokens=200, temperature=1.5, seed=seed) for seed in range(8)]
        for text in spaced:
            self.assertRegex(text, r'^{"a": ?(true|false), ?"b": ?null}$')
        self.assertTrue(any(" " in text for text in spaced), spaced)
        flexible = [self.server.text("O", guided_json=schema, max_tokens=900, temperature=1.5, seed=seed, kvik={"whitespace": "flexible"})
                    for seed in range(8)]
        self.assertTrue(any(text != text.strip() or " " in text or "\n" in text for text in flexible), flexible)

    def test_objects_are_closed_and_integers_plain_unless_all_of_json_schema_is_asked_for(self):
        schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer"}}, "required": ["name", "age"]}
        ask = {"guided_json": schema, "max_tokens": 300, "temperature": 2}
        for seed in range(8):
            self.assertRegex(self.server.text("O", seed=seed, **ask), r'^{"name": ?".*", ?"age": ?(0|-?[1-9]\d{0,18})}$')
        full = [self.server.text("O", seed=seed, kvik={"schema_language": "full"}, **ask) for seed in range(8)]
        self.assertTrue(any(not re.match(r'^{"name": ?"', text) for text in full), full)

    def test_a_server_can_have_the_full_language_by_default(self):
        schema = {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["a", "b"], "maxProperties": 2}
        ask = {"guided_json": schema, "max_tokens": 100, "temperature": 2}
        with Server("demo", "--schema-language", "full", "--kv-memory", "64MiB") as server:
            full = [list(json.loads(server.text("O", seed=seed, **ask))) for seed in range(12)]
            own = [list(json.loads(server.text("O", seed=seed, kvik={"schema_language": "canonical"}, **ask))) for seed in range(4)]
        self.assertIn(["b", "a"], full)
        self.assertEqual(own, [["a", "b"]] * 4)
        self.assertEqual([list(json.loads(self.server.text("O", seed=seed, **ask))) for seed in range(4)], [["a", "b"]] * 4)

    def test_a_forced_call_is_not_filled_with_white_space(self):
        parameters = {"type": "object", "properties": {"unit": {"enum": ["celsius", "kelvin"]}, "days": {"type": "integer"}}, "required": ["unit", "days"]}
        tools = [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]
        ask = {"messages": [{"role": "user", "content": "O"}], "tools": tools, "tool_choice": {"type": "function", "function": {"name": "weather"}},
               "temperature": 2, "max_tokens": 300}
        for seed in range(8):
            call = self.chat({**ask, "seed": seed})["choices"][0]["message"]["tool_calls"][0]["function"]
            self.assertRegex(call["arguments"], r'^{"unit": ?"(celsius|kelvin)", ?"days": ?(0|-?[1-9]\d{0,18})}$')
        compact = self.chat({**ask, "kvik": {"whitespace": "compact"}})["choices"][0]["message"]["tool_calls"][0]["function"]
        self.assertNotRegex(compact["arguments"], r"\s")

    def refusal(self, **fields):
        answer = self.server.post("/v1/completions", {"prompt": "O", "max_tokens": 5, **fields})
        self.assertEqual(answer.status, 400, (str(fields)[:200], answer.body[:300]))
        return answer.error

    def test_what_does_not_compile_is_400_with_the_path(self):
        error = self.refusal(guided_json={"type": "object", "properties": {"a": {"items": {"type": "monarch"}}}})
        self.assertIn("/properties/a/items", error["message"])
        self.assertEqual(error["param"], "guided_json")
        self.assertIn("back reference", self.refusal(guided_regex="(a)\\1")["message"])
        self.assertIn("line 2", self.refusal(grammar='root ::= "a"\nb ::= c')["message"])

    def test_hostile_schemas_are_400_and_take_no_memory(self):
        before = self.server.rss_bytes()
        nested = {"type": "null"}
        for _ in range(60):
            nested = {"type": "array", "items": nested}
        for fields in ({"guided_regex": "(" * 60_000}, {"grammar": "root ::= " + "(" * 60_000}, {"guided_grammar": "start: " + "(" * 60_000},
                       {"grammar": "root ::= root"}, {"guided_json": "[" * 60_000}, {"guided_json": '{"type":"string","pattern":"' + "(" * 60_000 + '"}'},
                       {"guided_json": {"$ref": "#"}}, {"guided_json": {"enum": ["x" * 40_000] * 300}},
                       {"guided_regex": "x" * (1 << 21)}):
            with self.subTest(str(fields)[:60]):
                self.refusal(**fields)
        for fields in ({"guided_regex": "(a*)*(a|aa)+b{1000}"}, {"guided_json": nested},
                       {"guided_json": {"type": "array", "maxItems": 2**64, "items": {"type": "null"}}}):
            with self.subTest(str(fields)[:60]):
                answer = self.server.post("/v1/completions", {"prompt": "O", "max_tokens": 5, **fields})
                self.assertIn(answer.status, (200, 400), answer.body[:300])
        self.assertLess(self.server.rss_bytes() - before, 200 << 20)
        self.assertEqual(self.server.text("O", guided_choice=["alive"]), "alive")

    def test_a_relaxed_schema_lists_ignored_keywords(self):
        schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3, "pattern": "(x)\\1"}},
                  "required": ["a"], "additionalProperties": False}
        body = {"messages": [{"role": "user", "content": "O"}], "max_tokens": 60}
        strict = self.server.post("/v1/chat/completions", {**body, "response_format": schema_format(schema)})
        self.assertEqual(strict.status, 400, strict.body[:300])
        relaxed = self.server.post("/v1/chat/completions", {**body, "response_format": schema_format(schema, strict=False)})
        self.assertEqual(relaxed.status, 200, relaxed.body[:300])
        self.assertIn("/properties/a/pattern", relaxed.headers["x-kvik-relaxed"])

    def test_kvik_run_enforces_schemas(self):
        schema = {"enum": ["Lear", "Alonso"]}
        with tempfile.TemporaryDirectory() as folder:
            def file(name, text):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as out:
                    out.write(text)
                return path

            def output(*flags):
                return kvik.output("run", "demo", "-p", "O king", "--temperature", 2, "--seed", 1, *flags).decode()

            keeps(output("--json-schema", file("schema.json", json.dumps(schema))), schema)
            self.assertRegex(output("--regex", "[xy]{4}"), "^[xy]{4}$")
            self.assertRegex(output("--grammar", file("g.gbnf", 'root ::= "<" [xy] ">"')), "^<[xy]>$")
            self.assertRegex(output("--grammar", file("g.lark", 'start: "<" /[xy]/ ">"')), "^<[xy]>$")
            wrong = kvik.run("run", "demo", "-p", "O", "--regex", "(")
            self.assertEqual(wrong.returncode, 2)
            self.assertIn(b"regular expression", wrong.stderr)
            self.assertEqual(kvik.run("run", "demo", "-p", "O", "--regex", "a", "--grammar", "x").returncode, 2)


if __name__ == "__main__":
    unittest.main()
