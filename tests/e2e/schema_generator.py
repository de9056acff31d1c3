"""Generates random JSON Schemas (draft 2020-12) and values with so few parts that they often match."""
import random

NAMES = ["a", "b", "ab", "é", ""]
WORDS = ["", "a", "ab", "abc", "é", "0", "a\"\\\n", "😀"]
NUMBERS = [0, 1, 2, 3, -1, 6, 10, 0.5, 1.5, -2.25, 12, 100]
PATTERNS = ["^a", "b$", "^.$", "a|é", "^[a-c]*$", "^(?!a)", "[^a]", "^a{1,2}b?$", "\\d"]


def scalar(r):
    return r.choice([None, True, False, r.choice(NUMBERS), r.choice(NUMBERS), r.choice(WORDS), r.choice(WORDS)])


def value(r, depth=2):
    kind = r.random()
    if depth == 0 or kind < 0.45:
        return scalar(r)
    if kind < 0.7:
        return [value(r, depth - 1) for _ in range(r.randrange(4))]
    return {name: value(r, depth - 1) for name in r.sample(NAMES, r.randrange(4))}


def sub(r, depth):
    return schema(r, depth - 1) if r.random() < 0.93 else r.random() < 0.7


def subs(r, depth):
    return [sub(r, depth) for _ in range(r.randrange(1, 4))]


def by_name(r, depth):
    return {name: sub(r, depth) for name in r.sample(NAMES, r.randrange(1, 4))}


SCALARS = {
    "type": lambda r, d: r.choice(["null", "boolean", "integer", "number", "string", "array", "object", ["string", "null"],
                                   ["integer", "array"], ["object", "boolean", "number"]]),
    "enum": lambda r, d: [value(r, 1) for _ in range(r.randrange(1, 4))],
    "const": lambda r, d: value(r, 1),
    "minimum": lambda r, d: r.choice(NUMBERS),
    "maximum": lambda r, d: r.choice(NUMBERS),
    "exclusiveMinimum": lambda r, d: r.choice(NUMBERS),
    "exclusiveMaximum": lambda r, d: r.choice(NUMBERS),
    "multipleOf": lambda r, d: r.choice([1, 2, 3, 0.5, 0.25, 5]),
    "minLength": lambda r, d: r.randrange(4),
    "maxLength": lambda r, d: r.randrange(4),
    "pattern": lambda r, d: r.choice(PATTERNS),
    "minItems": lambda r, d: r.randrange(4),
    "maxItems": lambda r, d: r.randrange(4),
    "uniqueItems": lambda r, d: True,
    "minProperties": lambda r, d: r.randrange(4),
    "maxProperties": lambda r, d: r.randrange(4),
    "required": lambda r, d: r.sample(NAMES, r.randrange(1, 3)),
    "dependentRequired": lambda r, d: {name: r.sample(NAMES, r.randrange(1, 3)) for name in r.sample(NAMES, 2)},
}
# unevaluatedItems and unevaluatedProperties are left out: beside applicators, the reference package does not always follow the specification.
NESTED = {
    "properties": by_name,
    "patternProperties": lambda r, d: {pattern: sub(r, d) for pattern in r.sample(PATTERNS, r.randrange(1, 3))},
    "additionalProperties": sub,
    "propertyNames": lambda r, d: r.choice([{"maxLength": 1}, {"pattern": r.choice(PATTERNS)}, {"enum": ["a", "é"]}]),
    "dependentSchemas": by_name,
    "prefixItems": subs,
    "items": sub,
    "contains": sub,
    "allOf": subs,
    "anyOf": subs,
    "oneOf": subs,
    "not": sub,
    "if": sub,
}


def schema(r, depth=2):
    made = {}
    for _ in range(r.randrange(1, 4)):
        kinds = NESTED if depth > 0 and r.random() < 0.5 else SCALARS
        keyword = r.choice(list(kinds))
        made[keyword] = kinds[keyword](r, depth)
    if "if" in made:
        made["then"], made["else"] = sub(r, depth), sub(r, depth)
    if "contains" in made and r.random() < 0.5:
        made["minContains"] = r.randrange(3)
        made["maxContains"] = made["minContains"] + r.randrange(2)
    return made


if __name__ == "__main__":
    print(schema(random.Random(1)))
