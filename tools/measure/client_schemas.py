#!/usr/bin/python3
"""Writes tests/e2e/client_schemas.json: 300 JSON schemas in the style of Pydantic, Zod and people, each with a matching question.

    python3 -m venv V && V/bin/pip install pydantic
    (mkdir Z && cd Z && npm install zod@4)
    V/bin/python tools/measure/client_schemas.py --zod Z > tests/e2e/client_schemas.json

The tests read the committed list; this tool regenerates it, or a longer one (--each N)."""
import argparse
import json
import random
import subprocess
from datetime import date, datetime
from typing import Annotated, Literal, Optional, Union

from pydantic import BaseModel, Field, create_model

# (subject, facts, fields). A field is its name, its kind and the arguments of the kind.
DOMAINS = [
    ("customer", "Maria Keller is 34, lives in Lisbon, writes from maria@example.com and has been a gold member since 2021-03-04.",
     [("name", "str"), ("age", "int", 0, 120), ("city", "str"), ("email", "email"), ("level", "enum", ["bronze", "silver", "gold"]),
      ("since", "date"), ("active", "bool"), ("tags", "strings")]),
    ("order", "Order 1042 of two red lamps at 19.90 each and one desk at 149.00 ships to 12 Elm Street, Springfield, by courier.",
     [("order_id", "int"), ("items", "objects", [("product", "str"), ("quantity", "int", 1, 100), ("price", "number")]), ("total", "number"),
      ("shipping", "enum", ["standard", "courier", "pickup"]), ("address", "object", [("street", "str"), ("city", "str")]), ("note", "opt_str")]),
    ("weather report", "In Oslo it is 4.5 degrees with light rain, wind 12 km/h from the west, humidity 81 percent.",
     [("location", "str"), ("temperature", "number"), ("unit", "enum", ["celsius", "fahrenheit"]), ("humidity", "int", 0, 100),
      ("conditions", "strings"), ("wind", "object", [("speed", "number"), ("direction", "str")]), ("alert", "opt_str")]),
    ("math solution", "Solve 8x + 7 = -23 step by step.",
     [("reasoning", "str"), ("steps", "objects", [("explanation", "str"), ("output", "str")]), ("final_answer", "str"), ("confidence", "number", 0, 1)]),
    ("calendar event", "Alice and Bob meet on 2025-06-13 at 14:00 in room 4 for a 45 minute design review.",
     [("title", "str"), ("date", "date"), ("participants", "strings"), ("duration_minutes", "int", 5, 480), ("room", "opt_str"), ("recurring", "bool"),
      ("start", "datetime")]),
    ("product review", "The kettle boils fast and looks good, but the lid broke after two weeks. Three stars.",
     [("sentiment", "enum", ["positive", "negative", "mixed"]), ("stars", "int", 1, 5), ("summary", "str"), ("pros", "strings"), ("cons", "strings"),
      ("recommended", "bool")]),
    ("recipe", "Pancakes for four: 200 g flour, 2 eggs, 300 ml milk. Mix, rest ten minutes, fry. Easy, 25 minutes.",
     [("title", "str"), ("servings", "int", 1, 20), ("ingredients", "objects", [("name", "str"), ("amount", "number"), ("unit", "str")]), ("steps", "strings"),
      ("difficulty", "enum", ["easy", "medium", "hard"]), ("minutes", "int"), ("vegetarian", "bool")]),
    ("invoice", "Invoice INV-2024-117 from Acme GmbH, dated 2024-11-02: consulting 3 hours at 120 euro, VAT 19 percent.",
     [("number", "pattern", "^INV-[0-9]{4}-[0-9]{3}$"), ("vendor", "str"), ("issued", "date"), ("lines", "objects", [("text", "str"), ("amount", "number")]),
      ("currency", "enum", ["EUR", "USD", "GBP"]), ("vat_rate", "number", 0, 100), ("paid", "bool")]),
    ("bug report", "The app crashes on Android 14 when a photo is rotated twice. Version 3.2.1, happens always, high priority.",
     [("title", "str"), ("severity", "enum", ["low", "medium", "high", "critical"]), ("component", "opt_str"), ("steps", "strings"), ("version", "str"),
      ("reproducible", "bool"), ("labels", "few", ["crash", "ui", "android", "ios"])]),
    ("flight", "LH 1234 flies from FRA to LIS, departs 09:15, arrives 11:20, seat 14C, 189.50 euro.",
     [("airline", "str"), ("flight_number", "str"), ("origin", "pattern", "^[A-Z]{3}$"), ("destination", "pattern", "^[A-Z]{3}$"), ("price", "number"),
      ("seat", "opt_str"), ("stops", "int", 0, 3)]),
    ("movie", "Arrival (2016), directed by Denis Villeneuve, with Amy Adams and Jeremy Renner, science fiction, rated 7.9.",
     [("title", "str"), ("year", "int", 1900, 2030), ("director", "str"), ("cast", "strings"), ("genre", "enum", ["drama", "comedy", "science fiction", "horror"]),
      ("rating", "number", 0, 10), ("sequel_of", "opt_str")]),
    ("search query", "Find cheap hotels in Rome with a pool for two adults, at most 120 euro a night, sorted by price.",
     [("query", "str"), ("max_price", "number"), ("sort", "enum", ["price", "rating", "distance"]), ("filters", "strings"), ("guests", "int", 1, 10),
      ("page", "opt_int")]),
    ("contact", "Dr. Chen Wei, head of research at Nordlab, phone +47 555 0101, prefers mail.",
     [("full_name", "str"), ("title", "opt_str"), ("company", "str"), ("phone", "str"), ("preferred", "enum", ["mail", "phone", "post"]),
      ("id", "int_or_str"), ("emails", "strings")]),
    ("sql request", "Count the users per country that signed up this year, ten at most.",
     [("table", "str"), ("columns", "strings"), ("limit", "int", 1, 1000), ("descending", "bool"), ("where", "objects", [("column", "str"), ("op", "str"),
      ("value", "int_or_str")])]),
    ("quiz question", "Which planet is the largest? Jupiter, Saturn, Earth or Mars.",
     [("question", "str"), ("choices", "strings_2_5"), ("answer_index", "int", 0, 4), ("explanation", "str"), ("topic", "enum", ["science", "history", "sport"])]),
    ("classification", "The ticket says: I was charged twice for my subscription, please refund me.",
     [("category", "enum", ["billing", "technical", "account", "other"]), ("confidence", "number", 0, 1), ("urgent", "bool"), ("reason", "str"),
      ("language", "pattern", "^[a-z]{2}$")]),
    ("device", "Sensor 7 in the greenhouse reads 21.4 C and 60 percent humidity, battery 87, firmware 1.4.2.",
     [("id", "int"), ("location", "str"), ("readings", "dict_number"), ("battery", "int", 0, 100), ("firmware", "str"), ("online", "bool")]),
    ("song", "Clair de Lune by Claude Debussy, 5 minutes, piano, calm.",
     [("title", "str"), ("artist", "str"), ("seconds", "int", 1, 6000), ("instruments", "strings"), ("mood", "enum", ["calm", "happy", "sad", "angry"]),
      ("album", "opt_str")]),
    ("job posting", "Backend engineer in Berlin or remote, Go and PostgreSQL, 65,000 to 80,000 euro, full time.",
     [("title", "str"), ("locations", "strings"), ("skills", "strings"), ("salary", "object", [("low", "int"), ("high", "int"), ("currency", "str")]),
      ("remote", "bool"), ("kind", "enum", ["full time", "part time", "contract"])]),
    ("shape", "Draw a blue circle of radius 2.5 at the origin.",
     [("shape", "union", [("circle", [("radius", "number")]), ("square", [("side", "number")])]), ("color", "enum", ["red", "green", "blue"]),
      ("center", "object", [("x", "number"), ("y", "number")]), ("label", "opt_str")]),
    ("action", "Send the file report.pdf to the printer in the office, two copies.",
     [("action", "union", [("print", [("file", "str"), ("copies", "int", 1, 9)]), ("delete", [("file", "str")])]), ("confirm", "bool"), ("comment", "opt_str")]),
    ("book", "The Left Hand of Darkness by Ursula K. Le Guin, 1969, 304 pages, science fiction.",
     [("title", "str"), ("author", "object", [("first", "str"), ("last", "str")]), ("year", "int", 1400, 2030), ("pages", "int"), ("subjects", "strings"),
      ("isbn", "opt_str")]),
    ("plan", "First draw the interface, then write the server, then test it; the server takes two days.",
     [("goal", "str"), ("tasks", "objects", [("name", "str"), ("days", "number"), ("done", "bool")]), ("risks", "strings"), ("owner", "opt_str")]),
    ("translation", "Translate good morning into French and German.",
     [("source", "str"), ("translations", "objects", [("language", "str"), ("text", "str")]), ("formal", "bool"), ("notes", "opt_str")]),
    ("team", "The crew: Ana leads, Bo cooks, Cem steers. Founded in 2019.",
     [("name", "str"), ("members", "objects", [("name", "str"), ("role", "str")]), ("founded", "int", 1900, 2030), ("scores", "dict_number"), ("motto", "opt_str")]),
]


def pick(r, fields):
    """Returns some of the fields in their order, at least two."""
    n = r.randint(2, min(6, len(fields)))
    chosen = set(r.sample(range(len(fields)), n))
    return [field for i, field in enumerate(fields) if i in chosen]


def camel(name):
    return "".join(word.capitalize() for word in name.replace(" ", "_").split("_"))


# --- Pydantic ---
def pydantic_type(r, name, kind, more):
    if kind in ("int", "number"):
        plain = int if kind == "int" else float
        return Annotated[plain, Field(ge=more[0], le=more[1])] if more and r.random() < 0.7 else plain
    if kind == "enum":
        return Literal[tuple(more[0])]
    if kind == "few":
        return list[Literal[tuple(more[0])]]
    if kind == "pattern":
        return Annotated[str, Field(pattern=more[0])]
    if kind in ("object", "objects"):
        inner = pydantic_model(r, camel(name), more[0], 1.0)
        return inner if kind == "object" else list[inner]
    if kind == "union":
        parts = [pydantic_model(r, camel(tag), [("type", "tag", tag), *fields], 1.0) for tag, fields in more[0]]
        return Annotated[Union[tuple(parts)], Field(discriminator="type")]
    return {"str": str, "bool": bool, "strings": list[str], "email": str, "date": date, "datetime": datetime, "opt_str": Optional[str],
            "opt_int": Optional[int], "int_or_str": Union[int, str], "dict_number": dict[str, float], "tag": Literal[tuple(more[:1]) or ("x",)],
            "strings_2_5": Annotated[list[str], Field(min_length=2, max_length=5)]}[kind]


def pydantic_model(r, name, fields, p_required):
    made = {}
    for field, kind, *more in fields:
        its = pydantic_type(r, field, kind, more)
        is_required = kind == "tag" or r.random() < p_required
        about = {"description": f"The {field.replace('_', ' ')}."} if r.random() < 0.3 else {}
        made[field] = (its, Field(**about)) if is_required else (Optional[its], Field(default=None, **about))
    return create_model(name, __base__=BaseModel, **made)


# --- Zod, as code ---
def zod_type(r, kind, more):
    if kind in ("int", "number"):
        code = "z.number().int()" if kind == "int" and r.random() < 0.5 else "z.int()" if kind == "int" else "z.number()"
        return code + (f".min({more[0]}).max({more[1]})" if more and r.random() < 0.7 else "")
    if kind == "enum":
        return f"z.enum({json.dumps(more[0])})"
    if kind == "few":
        return f"z.array(z.enum({json.dumps(more[0])})).max(3)"
    if kind == "pattern":
        return f"z.string().regex(/{more[0]}/)"
    if kind in ("object", "objects"):
        code = zod_object(r, more[0], 1.0)
        return code if kind == "object" else f"z.array({code})"
    if kind == "union":
        parts = [zod_object(r, [("type", "tag", tag), *fields], 1.0) for tag, fields in more[0]]
        return f"z.discriminatedUnion('type', [{', '.join(parts)}])"
    return {"str": "z.string()", "bool": "z.boolean()", "strings": "z.array(z.string())", "email": "z.email()", "date": "z.iso.date()",
            "datetime": "z.iso.datetime()", "opt_str": "z.string().nullable()", "opt_int": "z.number().int().nullable()",
            "int_or_str": "z.union([z.number(), z.string()])", "dict_number": "z.record(z.string(), z.number())",
            "tag": f"z.literal({json.dumps(more[0] if more else 'x')})", "strings_2_5": "z.array(z.string()).min(2).max(5)"}[kind]


def zod_object(r, fields, p_required):
    parts = []
    for name, kind, *more in fields:
        code = zod_type(r, kind, more)
        if kind != "tag" and r.random() >= p_required:
            code += ".optional()"
        if r.random() < 0.3:
            code += f".describe({json.dumps('The ' + name.replace('_', ' ') + '.')})"
        parts.append(f"{name}: {code}")
    return f"z.object({{{', '.join(parts)}}})"


def zod_schemas(folder, codes):
    """Converts each schema for its direction: answers are closed, inputs are not."""
    lines = [f"console.log(JSON.stringify(z.toJSONSchema({code}, {{io: '{io}'}})));" for code, io in codes]
    program = 'import { z } from "zod";\n' + "\n".join(lines)
    output = subprocess.run(["node", "--input-type=module", "-"], input=program, cwd=folder, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in output.stdout.splitlines()]


# --- hand-written style: with common omissions and additions ---
def hand_type(r, kind, more):
    if kind in ("int", "number"):
        made = {"type": "integer" if kind == "int" else "number"}
        if more and r.random() < 0.5:
            made.update(minimum=more[0], maximum=more[1])
        return made
    if kind == "enum":
        return {"enum": more[0]} if r.random() < 0.3 else {"type": "string", "enum": more[0]}
    if kind == "few":
        return {"type": "array", "items": {"type": "string", "enum": more[0]}, "uniqueItems": True}
    if kind == "pattern":
        return {"type": "string", "pattern": more[0]}
    if kind == "object":
        return hand_object(r, more[0], 0.8)
    if kind == "objects":
        return {"type": "array", "items": hand_object(r, more[0], 0.8), **({"minItems": 1, "maxItems": 4} if r.random() < 0.5 else {})}
    if kind == "union":
        key = r.choice(["anyOf", "oneOf"])
        return {key: [hand_object(r, [("type", "tag", tag), *fields], 1.0) for tag, fields in more[0]]}
    if kind in ("opt_str", "opt_int"):
        base = "string" if kind == "opt_str" else "integer"
        return r.choice([{"type": [base, "null"]}, {"anyOf": [{"type": base}, {"type": "null"}]}, {"type": base}])
    return {"str": lambda: {"type": "string", **({"maxLength": 200} if r.random() < 0.3 else {})}, "bool": lambda: {"type": "boolean"},
            "strings": lambda: {"type": "array", "items": {"type": "string"}, **({"maxItems": 5} if r.random() < 0.4 else {})},
            "email": lambda: {"type": "string", "format": "email"}, "date": lambda: {"type": "string", "format": "date"},
            "datetime": lambda: {"type": "string", "format": "date-time"}, "int_or_str": lambda: {"type": ["integer", "string"]},
            "dict_number": lambda: {"type": "object", "additionalProperties": {"type": "number"}}, "tag": lambda: {"const": more[0]},
            "strings_2_5": lambda: {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 5}}[kind]()


def hand_object(r, fields, p_required):
    properties = {name: hand_type(r, kind, more) for name, kind, *more in fields}
    required = [name for name, kind, *_ in fields if kind == "tag" or r.random() < p_required]
    made = {"type": "object", "properties": properties}
    if required:
        made["required"] = required
    if r.random() < 0.15:
        made["additionalProperties"] = False
    return made


def with_definitions(schema):
    """Makes the first nested object a reference, as older generators do."""
    for name, its in schema["properties"].items():
        if its.get("type") == "object" and "properties" in its:
            return {"$schema": "http://json-schema.org/draft-07/schema#", **schema, "definitions": {camel(name): its},
                    "properties": {**schema["properties"], name: {"$ref": f"#/definitions/{camel(name)}"}}}
    return schema


def make(n_each, zod_folder):
    made, codes = [], []
    for i in range(n_each):
        for source in ("pydantic", "zod", "hand"):
            r = random.Random(f"{source} {i}")
            subject, _, fields = DOMAINS[i % len(DOMAINS)]
            fields = pick(r, fields)
            p_required = r.choice([1.0, 1.0, 0.7, 0.0 if source == "hand" else 0.7])
            schema = None
            if source == "pydantic":
                schema = pydantic_model(r, camel(subject), fields, p_required).model_json_schema()
            elif source == "zod":
                codes.append((zod_object(r, fields, p_required), r.choice(["output", "input"])))
            else:
                schema = hand_object(r, fields, p_required)
                schema = with_definitions(schema) if r.random() < 0.3 else schema
            made.append({"from": source, "subject": subject, "schema": schema})
    schemas = iter(zod_schemas(zod_folder, codes))
    return [one if one["schema"] else {**one, "schema": next(schemas)} for one in made]


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--zod", required=True, help="a folder with node_modules/zod")
    ap.add_argument("--each", type=int, default=100, help="schemas of each of the three kinds")
    a = ap.parse_args()
    lines = [json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in make(a.each, a.zod)]
    facts = json.dumps({subject: facts for subject, facts, _ in DOMAINS}, separators=(",", ":"))
    print(f'{{"facts":{facts},\n"schemas":[' + ",\n".join(lines) + "]}")


if __name__ == "__main__":
    main()
