"""Tests answers of trained models to the schemas of client_schemas.json, which come from Pydantic, Zod and people. Each finished answer parses and
validates, nearly all finish by themselves, and one that is cut off ends inside a string, a list or a map. `./test` sends a few requests to SmolLM2;
`./test --models` sends all of them to SmolLM2 and 60 to Qwen2.5-Coder, each with one of the questions (KVIK_TEST_CLIENT_MODELS and
KVIK_TEST_CLIENT_SCHEMAS override this)."""
import collections
import concurrent.futures
import json
import os
import sys
import unittest

import jsonschema

import trained
from server import Server

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "client_schemas.json")
MAX_TOKENS = 800
# The seed selects the wording, so that greedy answers differ as well. TOOL_SEED requests the answer as tool arguments, forced by tool_choice.
QUESTIONS = ("{facts} Give the {subject} as JSON.", "Extract the {subject} from this text: {facts}", "{facts}\n\nSave the {subject}.")
TOOL_SEED = 2
# The share of answers that end: at temperature 1, and greedy ones, in which a small model often repeats words without end (docs/design/constraints.md).
LEAST_ENDED = {"smollm2": (0.9, 0.6), "qwen2.5-coder": (0.99, 0.98)}
FORMATS = jsonschema.FormatChecker(["date", "email"])


def read_cases():
    with open(FILE, encoding="utf-8") as file:
        read = json.load(file)
    return [{**one, "number": i, "facts": read["facts"][one["subject"]]} for i, one in enumerate(read["schemas"])]


def validator(schema):
    return jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(schema, format_checker=FORMATS)


def parts(schema, root):
    """Yields the schema and the schemas that it refers to or combines."""
    if "$ref" in schema:
        target = root
        for name in schema["$ref"].split("/")[1:]:
            target = target[name]
        yield from parts(target, root)
    yield schema
    for key in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(key, ()):
            yield from parts(part, root)


def violations(value, schema, root, path="#"):
    """Yields the paths of keys that no schema lists, and of objects whose keys are not in the order of any schema."""
    if isinstance(value, list):
        items = [part["items"] for part in parts(schema, root) if "items" in part]
        for i, item in enumerate(value):
            for its in items:
                yield from violations(item, its, root, f"{path}/{i}")
    if not isinstance(value, dict):
        return
    lists = [part for part in parts(schema, root) if "properties" in part]
    fitting = [part for part in lists if [name for name in part["properties"] if name in value] == list(value)]
    if lists and not fitting:
        yield f"{path}: {list(value)}"
    for part in fitting[:1] if len(lists) == 1 else []:
        for name, its in value.items():
            yield from violations(its, part["properties"][name], root, f"{path}/{name}")


def request(case, seed, temperature):
    text = QUESTIONS[seed].format(**case)
    body = {"messages": [{"role": "user", "content": text}], "temperature": temperature, "seed": seed, "max_tokens": MAX_TOKENS}
    if seed == TOOL_SEED:
        tool = {"type": "function", "function": {"name": "save", "description": f"Saves the {case['subject']}.", "parameters": case["schema"]}}
        return {**body, "tools": [tool], "tool_choice": {"type": "function", "function": {"name": "save"}}}
    return {**body, "response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": case["schema"], "strict": True}}}


def is_map(schema):
    return schema.get("additionalProperties", False) is not False or "patternProperties" in schema


def has_maps(schema):
    """Returns whether a schema permits objects with any number of keys."""
    if isinstance(schema, list):
        return any(map(has_maps, schema))
    if not isinstance(schema, dict):
        return False
    return is_map(schema) or any(map(has_maps, schema.values()))


def may_go_on(text, schema):
    """Returns whether the beginning of a JSON text ends inside a string, a list or a map, which the model may continue without end."""
    lists, is_string, is_escaped = [], False, False
    for c in text:
        if is_string:
            is_string, is_escaped = is_escaped or c != '"', not is_escaped and c == "\\"
        elif c == '"':
            is_string = True
        elif c in "[{":
            lists.append(c == "[" or is_map(schema) or (bool(lists) and has_maps(schema)))
        elif c in "]}":
            lists.pop()
    return is_string or any(lists)


class Tally:
    """Counts answers and collects those that are wrong or were cut off."""

    def __init__(self):
        self.counts = collections.Counter()
        self.wrong, self.cut, self.n_tokens = [], [], 0
        self.n_sampled = collections.Counter()  # with temperature 1

    def add(self, case, seed, temperature, answer):
        at = (case["number"], seed, temperature)
        choice = answer["choices"][0]
        self.n_tokens += answer["usage"]["completion_tokens"]
        self.counts["asked"] += 1
        self.n_sampled["asked"] += temperature > 0
        calls = choice["message"].get("tool_calls")
        text = calls[0]["function"]["arguments"] if calls else choice["message"]["content"]
        if choice["finish_reason"] == "length":
            self.cut.append((*at, text, may_go_on(text, case["schema"])))
            return
        self.counts["ended"] += 1
        self.n_sampled["ended"] += temperature > 0
        try:
            value = json.loads(text)
            validator(case["schema"]).validate(value)
            left = list(violations(value, case["schema"], case["schema"]))
            if left:
                self.wrong.append((*at, left, text))
        except (ValueError, jsonschema.ValidationError) as error:
            self.wrong.append((*at, str(error)[:300], text))

    def __str__(self):
        sampled = f"{self.n_sampled['ended']} of {self.n_sampled['asked']} at temperature 1"
        return f"{self.counts['asked']} answers, {self.counts['ended']} ended ({sampled}), {len(self.wrong)} of them wrong, {self.n_tokens} tokens"


class ClientSchemas(unittest.TestCase):
    def ask(self, model, questions, kv_type="int8"):
        """Sends each (case, seed) greedily and at temperature 1."""
        tally = Tally()
        asked = [(case, seed, temperature) for case, seed in questions for temperature in (0, 1)]
        with Server(model, "--ctx", 2048, "--kv-memory", "256MiB", "--kv-type", kv_type, ready_s=120) as server:
            def answer(one):
                output = server.post("/v1/chat/completions", request(*one))
                self.assertEqual(output.status, 200, (one, output.body[:500]))
                return output.json

            with concurrent.futures.ThreadPoolExecutor(8) as users:
                for one, output in zip(asked, users.map(answer, asked)):
                    tally.add(*one, output)
        return tally

    def check_wrong(self, tally):
        print(tally, file=sys.stderr)
        for number, seed, temperature, text, _ in tally.cut:
            print(f"cut: schema {number}, seed {seed}, temperature {temperature}: {text[:100]!r} … {text[-100:]!r}", file=sys.stderr)
        self.assertEqual(tally.wrong, [])
        self.assertEqual([text for *_, text, goes_on in tally.cut if not goes_on], [])

    @unittest.skipIf(trained.ALL, "the whole list follows")
    def test_a_small_model_finishes_client_schemas(self):
        cases = read_cases()[::43]
        # One of 14 sampled answers may end by chance, but with f32 pages the outcome is the same on every machine and in every version. Of 112
        # answers with other seeds and 400 tokens, 101 end with f32 pages, 96 with int8 and 96 with bf16.
        tally = self.ask(trained.model("smollm2"), [(case, seed) for case in cases for seed in (0, TOOL_SEED)], "f32")
        self.check_wrong(tally)
        # With greedy decoding, a model of this size repeats itself inside strings: 5 of 14 answers ended, and all sampled answers did.
        self.assertGreaterEqual(tally.n_sampled["ended"], 0.9 * tally.n_sampled["asked"])

    @unittest.skipUnless(trained.ALL, "KVIK_TEST_MODELS_ALL asks for the whole list")
    def test_trained_models_satisfy_all_schemas(self):
        n_of = {"smollm2": 300, "qwen2.5-coder": 60}
        for name in os.environ.get("KVIK_TEST_CLIENT_MODELS", " ".join(n_of)).split():
            n = int(os.environ.get("KVIK_TEST_CLIENT_SCHEMAS", n_of[name]))
            with self.subTest(name):
                cases = read_cases()[:: max(1, 300 // n)][:n]
                tally = self.ask(trained.model(name), [(case, i % len(QUESTIONS)) for i, case in enumerate(cases)])
                self.check_wrong(tally)
                sampled, n_greedy = tally.n_sampled, tally.counts["asked"] - tally.n_sampled["asked"]
                least_sampled, least_greedy = LEAST_ENDED[name]
                self.assertGreaterEqual(sampled["ended"], least_sampled * sampled["asked"])
                self.assertGreaterEqual(tally.counts["ended"] - sampled["ended"], least_greedy * n_greedy)


if __name__ == "__main__":
    unittest.main()
