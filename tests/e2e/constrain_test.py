"""Tests `kvik constrain` on the values that a schema allows and rejects, with the official test suite of JSON Schema and with a validator."""
import glob
import json
import os
import random
import subprocess
import tempfile
import unittest

import jsonschema

import kvik
import schema_generator

# Debian's json-schema-test-suite ends with draft 7; a checkout of JSON-Schema-Test-Suite also has the later drafts.
DEBIAN = "/usr/share/json-schema-test-suite"
SUITE = os.environ.get("KVIK_JSON_SCHEMA_SUITE", DEBIAN)
DIALECTS = {"draft4": "http://json-schema.org/draft-04/schema#", "draft6": "http://json-schema.org/draft-06/schema#",
            "draft7": "http://json-schema.org/draft-07/schema#", "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
            "draft2020-12": "https://json-schema.org/draft/2020-12/schema"}
N_RANDOM = int(os.environ.get("KVIK_TEST_SCHEMAS", 20_000 if kvik.LONG else 700))


def judged(lines, *more, vocabulary="demo"):
    """Returns the batch's answers to lines of {"id", "schema", "tests"}."""
    text = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
    output = kvik.output("constrain", vocabulary, "--batch", "-", *more, stdin=text, timeout=1100)
    answers = [json.loads(line) for line in output.splitlines()]
    assert [answer["id"] for answer in answers] == [line["id"] for line in lines]
    return answers


def suite(draft, folder="", root=SUITE):
    """Returns the suite's groups as lines of a batch."""
    lines = []
    for path in sorted(glob.glob(os.path.join(root, "tests", draft, folder, "*.json"))):
        with open(path, encoding="utf-8") as file:
            for group in json.load(file):
                schema = group["schema"]
                if isinstance(schema, dict) and "$schema" not in schema:
                    schema = {"$schema": DIALECTS[draft], **schema}
                lines.append({"id": f"{os.path.basename(path)[:-5]}: {group['description']}", "schema": schema, "tests": group["tests"]})
    if not lines:
        raise AssertionError(f"{root} has no tests of {draft}: install Debian's json-schema-test-suite, or set KVIK_JSON_SCHEMA_SUITE")
    return lines


def modern(value, is_schema=True):
    """Converts a draft 7 schema to the keywords of 2020-12."""
    if isinstance(value, list):
        return [modern(item, is_schema) for item in value]
    if not isinstance(value, dict):
        return value
    if not is_schema:
        return {name: modern(item) for name, item in value.items()}
    made = {}
    for name, item in value.items():
        if name in ("enum", "const", "default", "examples"):
            made[name] = item
        elif name == "definitions":
            made["$defs"] = modern(item, False)
        elif name == "$ref" and isinstance(item, str):
            made[name] = item.replace("#/definitions/", "#/$defs/")
        elif name == "items" and isinstance(item, list):
            made["prefixItems"] = modern(item)
        elif name == "additionalItems":
            if isinstance(value.get("items"), list):
                made["items"] = modern(item)
        elif name == "dependencies" and isinstance(item, dict):
            arrays = {of: needed for of, needed in item.items() if isinstance(needed, list)}
            schemas = {of: modern(needed) for of, needed in item.items() if not isinstance(needed, list)}
            made.update({key: its for key, its in (("dependentRequired", arrays), ("dependentSchemas", schemas)) if its})
        elif name in ("properties", "patternProperties"):
            made[name] = modern(item, False)
        else:
            made[name] = modern(item)
    return made


class Suite(unittest.TestCase):
    def allows_nothing(self, line, answer):
        """Returns whether the schema was rejected because no value satisfies it. Checks that this is true."""
        if "no text matches" not in answer["error"]:
            return False
        self.assertFalse(any(test["valid"] for test in line["tests"]))
        return True

    def check(self, lines, share):
        """Checks that no verdict is wrong, that each schema that does not compile gets an error with a location, and that at least `share` of them
        compile."""
        n_compiled = 0
        for line, answer in zip(lines, judged(lines, "--formats", "ignore")):
            if not answer["compiled"]:
                with self.subTest(line["id"]):
                    if self.allows_nothing(line, answer):
                        n_compiled += 1
                    else:
                        self.assertRegex(answer["error"], "^#")
                continue
            n_compiled += 1
            for test, accepted in zip(line["tests"], answer["tests"]):
                with self.subTest(f"{line['id']}: {test['description']}"):
                    self.assertIsNone(answer["error"])
                    self.assertEqual(accepted, test["valid"], json.dumps(line["schema"]))
        self.assertGreaterEqual(n_compiled / len(lines), share, f"{n_compiled} of {len(lines)} schemas compile")

    def test_a_suite_without_tests_says_what_to_install(self):
        with tempfile.TemporaryDirectory() as empty, self.assertRaisesRegex(AssertionError, "install Debian's json-schema-test-suite"):
            suite("draft7", root=empty)

    def test_draft_7_passes(self):
        self.check(suite("draft7"), 0.9)

    def test_drafts_4_and_6_pass(self):
        self.check(suite("draft4"), 0.86)
        self.check(suite("draft6"), 0.9)

    def test_draft_7_converted_to_2020_passes(self):
        # The keywords tested by these groups have another meaning, or none, in 2020-12.
        gone = ("$ref prevents a sibling", "overrides any sibling", "Location-independent", "Recursive references", "$id", "id inside", "refs with", "fragment")
        lines = [{**line, "schema": {**modern(line["schema"]), "$schema": DIALECTS["draft2020-12"]}}
                 for line in suite("draft7") if isinstance(line["schema"], dict) and not any(word in line["id"] for word in gone)]
        self.check(lines, 0.9)

    @unittest.skipUnless(os.path.isdir(os.path.join(SUITE, "tests/draft2020-12")), "KVIK_JSON_SCHEMA_SUITE names no suite of 2020-12")
    def test_drafts_2019_and_2020_pass(self):
        self.check(suite("draft2019-09"), 0.9)
        self.check(suite("draft2020-12"), 0.88)


class RandomSchemas(unittest.TestCase):
    """Compares the verdicts of Kvik and python3-jsonschema on random schemas and values."""

    def test_verdicts_are_those_of_a_validator(self):
        lines, verdicts = [], []
        for seed in range(N_RANDOM):
            r = random.Random(seed)
            schema = {"$schema": DIALECTS["draft2020-12"], **schema_generator.schema(r)}
            validator = jsonschema.Draft202012Validator(schema)
            values = [schema_generator.value(r) for _ in range(14)]
            lines.append({"id": seed, "schema": schema, "tests": [{"valid": True, "data": value} for value in values]})
            verdicts.append([validator.is_valid(value) for value in values])
        n_compiled = n_valid = 0
        for line, verdict, answer in zip(lines, verdicts, judged(lines)):
            if not answer["compiled"]:
                # A schema that allows nothing is rejected.
                if "no text matches" in answer["error"]:
                    self.assertFalse(any(verdict), line)
                    n_compiled += 1
                continue
            n_compiled += 1
            n_valid += sum(verdict)
            self.assertIsNone(answer["error"], line)
            for test, valid, accepted in zip(line["tests"], verdict, answer["tests"]):
                self.assertEqual(accepted, valid, json.dumps({"schema": line["schema"], "data": test["data"]}))
        self.assertGreater(n_compiled, 0.98 * N_RANDOM)
        self.assertGreater(n_valid, N_RANDOM)


    def test_what_the_canonical_language_allows_is_valid(self):
        lines, verdicts = [], []
        for seed in range(N_RANDOM):
            r = random.Random(seed)
            schema = {"$schema": DIALECTS["draft2020-12"], **schema_generator.schema(r)}
            validator = jsonschema.Draft202012Validator(schema)
            values = [schema_generator.value(r) for _ in range(14)]
            lines.append({"id": seed, "schema": schema, "tests": [{"valid": True, "data": value} for value in values]})
            verdicts.append([validator.is_valid(value) for value in values])
        n_accepted = 0
        for line, verdict, full, answer in zip(lines, verdicts, judged(lines), judged(lines, "--schema-language", "canonical")):
            self.assertEqual(answer["compiled"], full["compiled"], (line, answer["error"]))
            self.assertIsNone(answer["error"] if full["compiled"] else None, line)
            for test, valid, accepted in zip(line["tests"], verdict, answer["tests"]):
                n_accepted += accepted
                self.assertLessEqual(accepted, valid, json.dumps({"schema": line["schema"], "data": test["data"]}))
        self.assertGreater(n_accepted, N_RANDOM // 2)


class Texts(unittest.TestCase):
    """Tests single texts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def said(self, text, *form, code):
        done = kvik.run("constrain", "demo", *form, "--text-file", "-", stdin=text.encode())
        self.assertEqual(done.returncode, code, done)
        self.assertEqual(kvik.run("constrain", "demo", *form, "--text", text).stdout, done.stdout)
        return done.stdout.decode()

    def test_a_rejected_text_is_reported_with_position_and_alternatives(self):
        schema = self.file("schema.json", json.dumps({"type": "object", "properties": {"a": {"enum": [1, True]}}, "required": ["a"]}))
        self.assertEqual(self.said('{"a":1}', "--json-schema", schema, code=0), "OK\n")
        self.assertEqual(self.said('{"a":[', "--json-schema", schema, code=1), "at byte 5 only '1' or 't' may follow\n")
        self.assertEqual(self.said("ab", "--regex", "a[bc]{2}", code=1), "at byte 2 only 'b' or 'c' may follow\n")
        self.assertEqual(self.said("abcd", "--regex", "a[bc]{2}", code=1), "at byte 3 only the end of the text may follow\n")
        self.assertEqual(self.said("1x", "--regex", "[0-9]+", code=1), "at byte 1 only '0' to '9' or the end of the text may follow\n")
        self.assertEqual(self.said("(x)", "--grammar", self.file("g", 'root ::= "(" [xy] ")"'), code=0), "OK\n")

    def test_a_text_is_an_argument_or_a_file_and_not_both(self):
        path = self.file("text", "bb")
        self.assertEqual(kvik.run("constrain", "demo", "--regex", "b+", "--text-file", path).stdout, b"OK\n")
        self.assertEqual(kvik.run("constrain", "demo", "--regex", "b+", "--text", path).returncode, 1)
        self.assertEqual(kvik.run("constrain", "demo", "--regex", "b+", "--text", "b", "--text-file", path).returncode, 2)
        self.assertEqual(kvik.run("constrain", "demo", "--regex", "b+").returncode, 2)

    def test_the_language_of_answers_can_be_checked_as_well(self):
        schema = self.file("schema.json", json.dumps({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}))
        flags = ("--json-schema", schema, "--schema-language", "canonical", "--whitespace", "spaced")
        self.assertEqual(self.said('{"name": "Bob", "age": 5}', *flags, code=0), "OK\n")
        self.assertEqual(self.said('{"age": 5,"name": "Bob"}', *flags, code=1), "at byte 9 only '0' to '9' or '}' may follow\n")
        self.assertEqual(self.said('{"age": 5.0}', *flags, code=1), "at byte 9 only '0' to '9' or '}' may follow\n")
        self.assertEqual(self.said('{"age":  5}', *flags, code=1), "at byte 8 only '-' or '0' to '9' may follow\n")
        self.said('{"age": 5.0 , "bytes": 12}', "--json-schema", schema, "--whitespace", "flexible", code=0)

    def test_a_blank_that_compact_refuses_is_told_to_be_allowed_by_the_other_two(self):
        schema = self.file("schema.json", json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}}))
        refused = kvik.run("constrain", "demo", "--json-schema", schema, "--text", '{"a": 1}')
        self.assertEqual((refused.returncode, refused.stderr.count(b"\n")), (1, 1), refused)
        self.assertIn(b"--whitespace compact, the default here, allows no blanks; spaced, the default of kvik run", refused.stderr)
        self.said('{"a": 1}', "--json-schema", schema, "--whitespace", "spaced", code=0)
        self.assertEqual(kvik.run("constrain", "demo", "--json-schema", schema, "--text", '{"a":x}').stderr, b"")

    def test_an_unsatisfiable_schema_is_a_usage_error(self):
        schema = self.file("schema.json", json.dumps({"properties": {"a": {"pattern": "(x)\\1"}}}))
        done = kvik.run("constrain", "demo", "--json-schema", schema, "--text", "1")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(b"#/properties/a/pattern", done.stderr)

    def test_a_batch_names_invalid_lines(self):
        done = kvik.run("constrain", "demo", "--batch", "-", stdin=b'{"id": 1}\n')
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(b'"schema"', done.stderr)


if __name__ == "__main__":
    unittest.main()
