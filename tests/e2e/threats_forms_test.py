"""Tests hostile grammars and schemas: each is rejected or enforced within 64 MiB and the allowed number of compile steps; none is ever ignored. To
test that all work is counted in steps, the time is compared with that of a grammar that uses all steps, measured right afterwards in the same
server, so that a slow or shared machine affects both."""
import json
import os
import unittest

import kvik
from server import Server

MIB = 1 << 20
ALL_STEPS = "lookaheads that must hold together"
MOST_TIMES = 2  # multiple of the processor time of the grammar with all steps, because steps differ in speed
N_TIMES = 3  # attempts, one of which must succeed: the vocabulary is read once


def nested(n, inner, make):
    for _ in range(n):
        inner = make(inner)
    return inner


def deep(n):
    """Returns a schema of n nested arrays as text, because Python's JSON encoder cannot nest that deep."""
    return '{"items":' * n + "{}" + "}" * n


PAIRS = [{"type": "object", "properties": {f"p{i}": {"type": "integer", "minimum": i}, "q": {"type": "string"}}, "required": ["q"]}
         for i in range(40)]
BOUNDS = [{"type": "object", "properties": {"a": {"minimum": i}, "b": {"maximum": i}, "c": {"multipleOf": i + 1}}} for i in range(40)]

REFUSED = {
    "an expression nested 60,000 deep": {"guided_regex": "(" * 60_000 + "a" + ")" * 60_000},
    "an expression that only opens": {"guided_regex": "(" * 60_000},
    "lookaheads nested 60,000 deep": {"guided_regex": "(?=" * 60_000 + "a" + ")" * 60_000},
    "classes without an end": {"guided_regex": "[" * 60_000},
    "a repeat beyond all bounds": {"guided_regex": "a{99999999999999999999}"},
    "lookaheads that must hold together": {"guided_regex": "".join(f"(?=(.*{chr(97 + i)}){{{40 + i}}})" for i in range(20)) + ".*"},
    "GBNF nested 60,000 deep": {"grammar": "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000},
    "GBNF that begins with itself far away": {"grammar": "root ::= r0\n" + "\n".join(f"r{i} ::= \"\" r{(i + 1) % 999}" for i in range(999))},
    "GBNF without an end": {"grammar": "root ::= \"a\" root"},
    "Lark nested 60,000 deep": {"guided_grammar": "start: " + "(" * 60_000 + '"a"' + ")" * 60_000},
    "Lark's terminals in a circle": {"guided_grammar": "start: A\nA: B\nB: A"},
    "a schema nested 60,000 deep": {"guided_json": deep(60_000)},
    "JSON nested 60,000 deep": {"guided_json": "[" * 60_000},
    "a schema that is itself": {"guided_json": {"$ref": "#"}},
    "references in a circle": {"guided_json": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}},
    "a schema that is not itself": {"guided_json": {"not": {"$ref": "#"}}},
    "an object that must hold itself": {"guided_json": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}},
    "an enum of 300 long texts": {"guided_json": {"enum": ["x" * 40_000] * 300}},
    "a schema of 10 MB": {"guided_json": {"enum": ["x" * 100] * 100_000}},
    "a pattern nested 60,000 deep": {"guided_json": {"type": "string", "pattern": "(" * 60_000 + ")" * 60_000}},
}
BOUNDED = {
    "repeats of repeats": {"guided_regex": nested(20, "(a|b)", lambda r: f"({r}c){{1000}}")},
    "GBNF that begins with itself": {"grammar": "root ::= root \"a\" | \"b\""},
    "Lark that begins with itself": {"guided_grammar": 'start: start "a" | "b"'},
    "a pattern of repeats of repeats": {"guided_json": {"type": "string", "pattern": nested(12, "(a|b)", lambda r: f"({r}c){{1000}}")}},
    "a catastrophic expression": {"guided_regex": "(a*)*(a|aa)+b{1000}"},
    "an expression with 2^60 states": {"guided_regex": "(a|b)*a(a|b){60}"},
    "what is not such an expression": {"guided_json": {"type": "string", "not": {"pattern": "(a|b)*a(a|b){60}c"}}},
    "patterns that must hold together": {"guided_json": {"allOf": [{"type": "string", "pattern": f"(a|b)*{c}(a|b){{{30 + i}}}$"}
                                                                    for i, c in enumerate("abababab")]}},
    "an array of 2^64 items": {"guided_json": {"type": "array", "minItems": 2**64, "maxItems": 2**64, "items": {"type": "null"}}},
    "a text of 2^64 characters": {"guided_json": {"type": "string", "minLength": 2**64}},
    "an object of 2^64 properties": {"guided_json": {"type": "object", "minProperties": 2**64}},
    "a number of 1,000 digits": {"guided_json": {"type": "number", "minimum": int("9" * 1000)}},
    "arrays nested 190 deep": {"guided_json": nested(190, {"type": "null"}, lambda s: {"type": "array", "items": s})},
    "40 schemas of which one must hold": {"guided_json": {"oneOf": PAIRS}},
    "40 schemas of which one must hold, each in three parts": {"guided_json": {"oneOf": BOUNDS}},
    "products of choices": {"guided_json": {"allOf": [{"anyOf": [{"required": [f"{i}-{j}"]} for j in range(8)]} for i in range(8)]}},
    "conditions": {"guided_json": {"allOf": [{"if": {"properties": {f"a{i}": {"const": i}, "b": {"minimum": i}}}, "then": {"required": [f"c{i}"]}}
                                             for i in range(30)]}},
    "a property of many patterns": {"guided_json": {"type": "object", "patternProperties": {f"a.*{i}": {"type": "null"} for i in range(60)}}},
    "unique items of many kinds": {"guided_json": {"type": "array", "uniqueItems": True, "items": {"type": "array", "uniqueItems": True}}},
    "contains of contains": {"guided_json": nested(25, {"type": "null"}, lambda s: {"type": "array", "contains": s, "maxContains": 2})},
    "a division into 2^32 parts": {"guided_json": {"type": "number", "multipleOf": 4294967291, "minimum": 1, "maximum": 4294967290}},
    "an expression of 1 MB": {"guided_regex": "ab|" * 340_000},
    "1 MB of choices": {"guided_choice": [f"{i:07}" for i in range(90_000)]},
    "a grammar of 1 MB": {"grammar": "root ::= r0\n" + "\n".join(f"r{i} ::= \"a\" r{i + 1} | \"b\"" for i in range(30_000)) + "\nr30000 ::= \"c\""},
}


class HostileForms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("demo", "--threads", 1, "--kv-memory", "16MiB")
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.text("O", guided_choice=["warm"])
        cls.all_steps_s = None

    def setUp(self):
        if self.all_steps_s is None:
            type(self).all_steps_s = self.ask(REFUSED[ALL_STEPS])[1]

    def proc(self, name):
        return f"/proc/{self.server.process.pid}/{name}"

    def cpu_s(self):
        with open(self.proc("stat"), encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def status_bytes(self, name):
        with open(self.proc("status"), encoding="utf-8") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))

    def ask(self, fields):
        """Returns the answer, the processor seconds and the memory used."""
        with open(self.proc("clear_refs"), "w", encoding="utf-8") as file:
            file.write("5")  # resets the peak memory
        before_s, before_bytes = self.cpu_s(), self.status_bytes("VmRSS")
        # The first token is enough to check an accepted grammar.
        answer = self.server.post("/v1/completions", {"prompt": "O", "max_tokens": 1, **fields})
        return answer, self.cpu_s() - before_s, self.status_bytes("VmHWM") - before_bytes

    def check(self, fields, statuses):
        body_mib = len(json.dumps(fields)) / MIB
        elapsed = []
        for _ in range(N_TIMES):
            answer, seconds, n_bytes = self.ask(fields)
            self.assertIn(answer.status, statuses, answer.body[:300])
            if kvik.SANITIZED:
                return answer
            # The memory of the body itself is counted elsewhere.
            self.assertLess(n_bytes / MIB - 3 * body_mib, 64, "MiB")
            if seconds <= self.all_steps_s:
                return answer
            all_steps = self.ask(REFUSED[ALL_STEPS])[1]  # measured at this moment
            elapsed.append((seconds, all_steps))
            if seconds <= MOST_TIMES * all_steps + 0.01 * body_mib:
                return answer
        self.fail(f"seconds of it, and of a form with all steps: {elapsed}")

    def test_schemas_over_the_limits_are_rejected_at_once(self):
        for name, fields in REFUSED.items():
            with self.subTest(name):
                message = self.check(fields, (400, 413)).error["message"]
                self.assertLess(len(message), 2000)

    def test_accepted_schemas_are_bounded(self):
        for name, fields in BOUNDED.items():
            with self.subTest(name):
                self.check(fields, (200, 400))

    def test_the_server_goes_on(self):
        self.assertEqual(self.server.text("O", guided_choice=["alive"]), "alive")
        self.assertEqual(self.server.post("/v1/completions", {"prompt": "O", "guided_regex": "[", "max_tokens": 1}).status, 400)


if __name__ == "__main__":
    unittest.main()
