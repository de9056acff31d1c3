"""Thirty grammars designed to take as much work or memory as possible: {name: fields of a completion request}."""


def nested(n, inner, make):
    for _ in range(n):
        inner = make(inner)
    return inner


def pairs(n):
    return [{"type": "object", "properties": {f"p{i}": {"type": "integer", "minimum": i}, "q": {"type": "string"}}, "required": ["q"]} for i in range(n)]


GRAMMARS = {
    "GBNF, repeats in repeats": {"grammar": 'root ::= a{1,100}\na ::= b{1,100}\nb ::= [a-z ]{1,100} | "x" a'},
    "GBNF, repeats in repeats in repeats": {"grammar": "root ::= a{1,60}\na ::= b{1,60}\nb ::= c{1,60}\nc ::= [a-z ]{1,60}"},
    "GBNF, alternatives of repeats": {"grammar": "root ::= (a | b | c){1,200}\na ::= [a-m]{1,90}\nb ::= [g-z]{1,80}\nc ::= [a-z]{1,70}"},
    "GBNF, recursion on both sides": {"grammar": 'root ::= s\ns ::= "(" s ")" s | [a-z]{1,40} | ""'},
    "GBNF, many rules for one text": {"grammar": "root ::= " + " | ".join(f"r{i}" for i in range(200)) + "\n"
                                      + "\n".join(f"r{i} ::= [a-z]{{1,{i + 2}}} r{(i + 1) % 200} | [a-z]" for i in range(200))},
    "Lark, repeats in repeats": {"guided_grammar": 'start: a~1..100\na: b~1..100\nb: /[a-z ]{1,100}/ | "x" a'},
    "Lark, ambiguous words": {"guided_grammar": "start: (w | v)~1..300\nw: /[a-z]{1,50}/\nv: /[a-z ]{1,60}/"},
    "regex, repeats nested four deep": {"guided_regex": "((([a-z]{1,30}){1,30}){1,30}){1,30}"},
    "regex, repeats nested five deep": {"guided_regex": nested(4, "[a-z ]{1,12}", lambda r: f"({r}){{1,12}}")},
    "regex, 2^60 states": {"guided_regex": "(a|b)*a(a|b){60}"},
    "regex, 2^200 states": {"guided_regex": "[a-z ]*[a-m][a-z ]{200}"},
    "regex, a hundred suffixes at once": {"guided_regex": "|".join(f"[a-z ]*[a-{chr(98 + i % 20)}][a-z ]{{{i + 20}}}" for i in range(60))},
    "regex, lookaheads": {"guided_regex": "(?=.*[a-f].{12})(?=.*[g-m].{14})(?=.*[n-s].{16}).{40,400}"},
    "regex, a long alternative": {"guided_regex": "(" + "|".join(f"[a-z]{{{i % 40 + 1}}}{chr(97 + i % 26)}" for i in range(900)) + "){1,99}"},
    "regex, wide classes": {"guided_regex": r"([\w\s]{1,60}[^\W\d]{1,60}){1,60}"},
    "choice of 4,000 words": {"guided_choice": [f"{chr(97 + i % 26)}{i:05}{'x' * (i % 90)}" for i in range(4_000)]},
    "schema, patterns that must hold together": {"guided_json": {"allOf": [{"type": "string", "pattern": f"[a-z]*{c}[a-z]{{{20 + i}}}$"}
                                                                           for i, c in enumerate("abcdef")]}},
    "schema, a pattern that must not": {"guided_json": {"type": "string", "not": {"pattern": "[a-z]*a[a-z]{40}c"}}},
    "schema, 40 of which one must hold": {"guided_json": {"oneOf": pairs(40)}},
    "schema, any of 100 objects": {"guided_json": {"anyOf": pairs(100)}},
    "schema, products of choices": {"guided_json": {"allOf": [{"anyOf": [{"required": [f"{i}-{j}"]} for j in range(5)]} for i in range(4)]}},
    "schema, many properties": {"guided_json": {"type": "object", "properties": {f"property{i}": {"type": "string", "maxLength": i + 1}
                                                                                for i in range(300)}}},
    "schema, properties by 60 patterns": {"guided_json": {"type": "object", "patternProperties": {f"a.*{i}": {"type": "null"} for i in range(60)}}},
    "schema, items that all differ": {"guided_json": {"type": "array", "uniqueItems": True, "items": {"type": "array", "uniqueItems": True}}},
    "schema, contains of contains": {"guided_json": nested(12, {"type": "null"}, lambda s: {"type": "array", "contains": s, "maxContains": 2})},
    "schema, a division": {"guided_json": {"type": "array", "items": {"type": "number", "multipleOf": 4294967291}}},
    "schema, bounds of many digits": {"guided_json": {"type": "array", "items": {"type": "number", "minimum": 3 ** 150, "maximum": 3 ** 151}}},
    "schema, recursion": {"guided_json": {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [
        {"type": "array", "items": {"$ref": "#/$defs/a"}}, {"type": "object", "additionalProperties": {"$ref": "#/$defs/a"}}, {"type": "string"}]}}}},
    "schema, formats": {"guided_json": {"type": "array", "items": {"anyOf": [{"type": "string", "format": f} for f in (
        "uri", "iri", "email", "ipv6", "date-time", "uri-template", "json-pointer", "hostname")]}}},
    "any JSON": {"guided_json": {}},
}
EXHAUSTING = ("GBNF, repeats in repeats", "Lark, repeats in repeats", "regex, repeats nested four deep")
assert len(GRAMMARS) == 30
