"""Generates random schemas whose values are short, so that answers end at any temperature."""
import random

NAMES = ["a", "name", "the kind of it", "größe", "x\"y", "n_1"]
WORDS = ["red", "green", "", "blü", "a\\b", "line\nend", "12"]


def string(r):
    choice = r.randrange(5)
    if choice == 0:
        return {"type": "string", "maxLength": r.randrange(1, 6)}
    if choice == 1:
        low = r.randrange(3)
        return {"type": "string", "minLength": low, "maxLength": low + r.randrange(4)}
    if choice == 2:
        return {"type": "string", "pattern": r.choice(["^[a-c]{1,3}$", "^(x|yz)-[0-9]{2}$", "^$|^ß{1,2}$", "^\\d{3}$"])}
    if choice == 3:
        return {"type": "string", "format": r.choice(["date", "uuid", "time", "ipv4"])}
    return {"enum": r.sample(WORDS, r.randrange(1, 4))}


def integer(r):
    low = r.randrange(-50, 50)
    schema = {"type": "integer", "minimum": low, "maximum": low + r.randrange(9, 400)}
    if r.random() < 0.3:
        schema["multipleOf"] = r.choice([2, 3, 5])
    return schema


def array(r, depth):
    low = r.randrange(3)
    schema = {"type": "array", "items": value(r, depth - 1), "minItems": low, "maxItems": low + r.randrange(3)}
    if r.random() < 0.3:
        schema["prefixItems"] = [value(r, depth - 1)]
        schema["maxItems"] = max(1, schema["maxItems"])
    return schema


def object_(r, depth):
    names = r.sample(NAMES, r.randrange(len(NAMES)))
    schema = {"type": "object", "properties": {name: value(r, depth - 1) for name in names}, "additionalProperties": False}
    schema["required"] = [name for name in names if r.random() < 0.6]
    return schema


def value(r, depth):
    kinds = [string, integer, lambda r: {"type": r.choice(["boolean", "null"])},
             lambda r: {"const": r.choice([None, True, 3, -1.5, "x", [1, "a"], {"k": None}])},
             lambda r: {"type": ["boolean", "null"]}]
    if depth > 0:
        kinds += [lambda r: array(r, depth), lambda r: object_(r, depth), lambda r: object_(r, depth),
                  lambda r: {"anyOf": [value(r, depth - 1), value(r, depth - 1)]},
                  lambda r: {"$defs": {"d": value(r, depth - 1)}, "type": "object", "required": ["d"],
                             "properties": {"d": {"$ref": "#/$defs/d"}}, "additionalProperties": False}]
    return r.choice(kinds)(r)


def schema(seed):
    """Returns an object schema like those of clients, with its $defs at the root."""
    r = random.Random(seed)
    made = object_(r, 3)

    def lift(part, defs):
        if isinstance(part, dict):
            if "$defs" in part:
                name = f"d{len(defs)}"
                defs[name] = part.pop("$defs")["d"]
                part["properties"]["d"] = {"$ref": f"#/$defs/{name}"}
                lift(defs[name], defs)
            for child in part.values():
                lift(child, defs)
        elif isinstance(part, list):
            for child in part:
                lift(child, defs)

    defs = {}
    lift(made, defs)
    return {**made, "$defs": defs} if defs else made
