"""Generates small random templates from a grammar that covers the Jinja used by chat templates. A production is text in which {S} stands for a
string,
{I} for an integer, {N} for a number, {L} for a list, {D} for a dict, {B} for a condition, {A} for any value and {T} for template text."""
import random
import re

VARIABLES = {
    "s": "Hello World", "u": "  na\u00efve \u65e5\u672c\u8a9e \U0001F389\n", "e": "", "q": "it's \"q\" <b>&</b>\t\\", "lines": "a b\n  c\r\n\nd\n", "num": "42",
    "n": 7, "neg": -3, "z": 0, "f": 2.5, "big": 123456789012, "t": True, "no": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "mix": [1, "x", None, 2.0, [1, 2], {"k": "v"}], "nested": [[1, 2], [3, 4], [5, 6]],
    "d": {"b": 1, "a": [1, 2], "c": {"x": "y"}, "items2": "i"}, "de": {},
    "msgs": [{"role": "system", "content": "Be nice.", "n": 2}, {"role": "user", "content": " Hi <|end|> ", "n": 1},
             {"role": "assistant", "content": None, "n": 2, "calls": [{"name": "f", "arguments": {"x": 1, "y": "z"}}]}, {"role": "user", "content": "", "n": 3}],
}

ATOMS = {
    "S": ["s", "u", "e", "q", "lines", "num", "'lit'", "\"a'b\"", "'x' 'y'", "'\\n'", "'\\u00e9\\x41'", "'<b>'", "' pad '", "msgs[0].role", "msgs[1]['content']", "d.c.x", "ls[0]", "''", "','"],
    "I": ["n", "neg", "z", "0", "1", "2", "3", "-1", "10", "l[0]", "t", "msgs|length"],
    "N": ["f", "1.5", "0.1", "2.0", "1e3", "-0.5", "n", "3"],
    "L": ["l", "ls", "le", "mix", "nested", "msgs", "[]", "[1, 2]", "['x', s]", "(1, 'a')", "range(4)", "d.a", "(3,)"],
    "D": ["d", "de", "msgs[0]", "msgs[2]", "{}", "{'k': 1}", "{'z': s, 'y': l}", "{1: 'one', 'two': 2}"],
    "B": ["true", "false", "True", "t", "not t", "n > 3", "missing is defined", "no is none", "s is string", "loop is defined"],
    "A": ["missing", "no", "none", "None", "true", "s", "n", "f", "l", "d", "msgs[5]", "x", "y", "ns.v", "msgs"],
    "T": ["text", " ", "\n", "  \n", "a\n", "{{ x }}", "{{ s }}", "{{ n }}", ""],
}

RULES = {
    "S": [
        "{S} + {S}", "{S} ~ {A}", "{A} ~ {A}", "{S} * 2", "{S} | upper", "{S} | lower", "{S} | title", "{S} | capitalize", "{S} | trim", "{S}|trim('lH ')", "{A} | string", "{L} | join", "{L} | join(', ')",
        "{L}|join({S})", "{L} | map('string') | join('-')", "msgs | map(attribute='role') | join('|')", "{S} | replace({S}, {S})", "{S}|replace('l', 'L', 1)", "{S} | indent", "{S} | indent(2, true)", "{S}|indent(width=3, blank=True)",
        "{S} | center(20)", "{A} | tojson", "{D} | tojson(indent=2)", "{A}|tojson(indent=4)", "{S} | truncate(8)", "{S} | truncate(6, true, '~', 0)", "{A} | e", "{S} | escape", "{S} | safe", "{S}|safe + {S}", "{S} ~ ({S}|safe)",
        "'%s-%d' % ({A}, {I})", "'%5.2f|%-6s|%03d' % ({N}, {S}, {I})", "'%s' | format({A})", "'{} {}'.format({A}, {I})", "'{a}:{0}'.format({S}, a={I})", "'{:>5}|{:<4}|{:^6}'.format({S}, {I}, {S})", "{S} | first", "{S} | last", "{S} | reverse", "{S}[0]",
        "{S}[-1]", "{S}[{I}:]", "{S}[:{I}]", "{S}[{I}:{I}]", "{S}[::2]", "{S}[::-1]", "{S}[{I}:{I}:{I}]", "{S}.strip()", "{S}.lstrip()", "{S}.rstrip('\\n')", "{S}.strip({S})", "{S}.upper()", "{S}.lower()", "{S}.title()", "{S}.capitalize()", "{S}.swapcase()", "{S}.replace({S}, {S})",
        "{S}.replace('l', '', 1)", "{S}.split(' ')[0]", "{S}.split()[-1]", "{S}.join({L})", "', '.join(ls)", "{S}.removeprefix('He')", "{S}.removesuffix('d')", "{S}.zfill(6)", "{S}.ljust(8, '.')", "{S}.rjust(8)", "{S}.center(9, '*')", "{S}.partition(' ')[2]", "{S}.rpartition('o')[0]",
        "({S} if {B} else {S})", "({S} if {B})", "{A} | default({S})", "{A} | default({S}, true)", "{A}|d('dflt')", "({S} or {S})", "({S} and {S})", "{D} | string", "{L} | string", "{S}|urlencode", "{S} | forceescape", "{S} | list | string",
        "{S}.expandtabs(4)", "{S}.casefold()", "strftime_now('%d %b %Y')", "m({A})", "m({A}, b={A})", "m(b={A}, a=1)", "{S}|upper|lower|trim", "{D}.get('b') | string", "loop.index ~ ''", "{S}.format()",
    ],
    "I": [
        "{I} + {I}", "{I} - {I}", "{I} * {I}", "{I} // {I}", "{I} % {I}", "-{I}", "+{I}", "{L} | length", "{S} | length", "{D}|length", "{L}|count", "{S} | int", "{N} | int", "{S}|int(5)", "'0x1F' | int(0, 16)", "{I} | abs", "{S}.find({S})", "{S}.rfind('o')", "{S}.count('l')", "{S}.index('o')", "{S} | wordcount",
        "l | sum", "{L} | sum", "msgs | sum(attribute='n')", "l | min", "l|max", "{D}.b", "{I} ** 2", "{L}.index(1)", "{L}.count(1)", "{L}[{I}]", "loop.index", "loop.index0", "loop.revindex", "loop.length", "({I} if {B} else {I})", "{A} | int", "ns.v", "{I} | round | int",
    ],
    "N": ["{N} + {N}", "{N} - {I}", "{N} * {N}", "{N} / {N}", "{N} // {N}", "{N} % {N}", "-{N}", "{I} / {I}", "{I}", "{N} | round", "{N}|round(1)", "{N} | round(2, 'floor')", "{N}|round(0, 'ceil')", "{S} | float", "{N}|float", "{N} ** 2", "2 ** {N}", "{N} | abs", "'2.5'|float", "{S}|float(1.5)", "1e20 * {N}", "1 / 3", "{I} ** -1"],
    "L": [
        "[{A}, {A}]", "({A}, {A})", "[{I}, {I}, {I}]", "{L} + {L}", "{L} * 2", "{L}[1:]", "{L}[:-1]", "{L}[::-1]", "{L}[{I}:{I}]", "{L} | list", "{L} | reverse | list", "{L}|sort", "ls | sort", "ls|sort(case_sensitive=true)", "l | sort(reverse=true)", "msgs | sort(attribute='role')", "msgs|sort(attribute='n,role')", "{L} | unique | list", "ls|unique|list",
        "{L} | map('string') | list", "msgs | map(attribute='content') | list", "msgs | map(attribute='x', default='-')|list", "{L} | map('upper') | list", "{L}|map('default', 'z')|list", "{L} | select | list", "{L} | reject | list", "{L}|select('string')|list", "l | select('>', 1) | list", "l|reject('odd')|list", "{L} | select('number') | list", "{L} | reject('none')|list",
        "msgs | selectattr('role', 'equalto', 'user') | list", "msgs|rejectattr('role', 'eq', 'user')|list", "msgs | selectattr('calls') | list", "msgs | selectattr('calls', 'defined')|list", "msgs|selectattr('role', 'in', ['user', 'system'])|list", "msgs|rejectattr('content')|list", "{D} | dictsort", "{D}|dictsort(by='value')", "{D} | dictsort(false, 'key', true)", "{D} | items | list", "{D}.items() | list",
        "{D}.keys()|list", "{D}.values() | list", "{D} | list", "{S} | list", "{S}.split()", "{S}.split(' ')", "{S}.split('l', 1)", "{S}.rsplit(' ', 1)", "{S}.splitlines()", "{S}.splitlines(true)", "{S}.partition(' ')", "{L} | batch(2) | list", "{L} | batch(3, 0) | list", "{L} | slice(2) | list", "{L}|slice(3, 'f')|list", "msgs | groupby('role')", "msgs|groupby('role')|map(attribute='grouper')|list", "msgs | groupby('n') | map(attribute='list') | map('length') | list",
        "range({I})", "range(1, 6, 2)", "range(5, {I}, -1)|list", "range({I}, 4) | list", "({L} if {B} else {L})", "({A} or [])", "{L}|first|list", "{D}.items()", "{L} | map('length')", "{L} | select", "{L} | reverse", "{D} | items", "{L} | unique", "{L} | batch(2)", "[1, 2,]", "{L}.copy()", "dict(a=1)|list",
    ],
    "D": ["{'a': {A}}", "{'a': {A}, 'b': {A}}", "{{S}: {A}}", "dict(k={A})", "dict({D}, k={I})", "{D}.c", "{D}.copy()", "msgs[{I}]", "msgs | first", "msgs|last", "({D} if {B} else {D})", "{D} | default({})", "dict(d, **{'z': 1})", "{D}['c']", "msgs|selectattr('calls')|first"],
    "B": [
        "{I} < {I}", "{I} >= {I}", "{N} <= {N}", "{A} == {A}", "{A} != {A}", "{S} == {S}", "{S} < {S}", "{S} in {S}", "{A} in {L}", "{S} not in {D}", "{A} not in {L}", "1 < {I} < 5", "{I} == {I} == 1", "not {B}", "{B} and {B}", "{B} or {B}", "not {A}", "({B} and not {B})", "{A} is defined", "{A} is undefined", "{A} is none", "{A} is not none", "{A} is string", "{A} is number", "{A} is integer", "{A} is float", "{A} is boolean",
        "{A} is true", "{A} is false", "{A} is mapping", "{A} is sequence", "{A} is iterable", "{A} is callable", "{A} is sameas none", "{I} is odd", "{I} is even", "{I} is divisibleby 3", "{I} is divisibleby(2)", "{A} is eq {A}", "{I} is gt 2", "{I} is lt(5)", "{I} is ge 1", "{I} is le 1", "{A} is ne 1", "{A} is equalto {A}", "{A} is in {L}", "{S} is in ['lit', s]", "{S} is upper", "{S} is lower", "{A} is not mapping", "{S}.startswith({S})", "{S}.endswith({S})", "{S}.startswith(('H', 'x'))", "{S}.isdigit()", "{S}.isalpha()",
        "{S}.isalnum()", "{S}.isspace()", "{S}.isupper()", "{S}.islower()", "{S}.isnumeric()", "{S}.isdecimal()", "{S}.istitle()", "{S} is filter", "'upper' is filter", "'odd' is test", "{A} is escaped", "{S}|safe is escaped", "loop.first", "loop.last", "{L} == {L}", "{D} == {D}", "{L} < {L}", "{L} | length > 2", "{L} | select", "msgs | selectattr('role', 'equalto', 'nobody')", "'a' in {D}", "'b' in d.keys()", "1 in d.values()", "loop.changed({A})", "{A} is not defined and {B}", "no is none or {B}", "{S}.isascii()",
    ],
    "A": ["{S}", "{I}", "{N}", "{L}", "{D}", "{B}", "{L}[{I}]", "{D}[{S}]", "{D}.get({S})", "{D}.get('q', {A})", "{L}|first", "{L}|last", "{L} | min", "{L}|max", "{A} | default({A})", "({A} if {B} else {A})", "({A} or {A})", "({A} and {A})", "{D}.missing", "{L}.0", "{D}|attr('x')", "{L} | map('first') | list", "{A}|list", "{L}|sum(start=[])", "{A}.x", "{A}['x']", "loop.previtem", "loop.nextitem", "loop.cycle('a', 'b')", "namespace(a={A}).a", "{D}.b.c", "{L} | last | last", "caller"],
    "T": [
        "{{ {S} }}", "{{ {A} }}", "{{ {N} }}", "{{ {I} }}", "{{ {L} }}", "{{ {D} }}", "{{ {B} }}", "{{ {A}, {A} }}", "{T}{T}", "{T}{T}{T}", "{% if {B} %}{T}{% endif %}", "{% if {A} %}{T}{% else %}{T}{% endif %}", "{% if {B} %}{T}{% elif {A} %}{T}{% elif {B} %}{T}{% else %}{T}{% endif %}", "{% for x in {L} %}{T}{{ x }}{% endfor %}", "{% for x in {L} %}{{ loop.index }}{T}{% else %}{T}{% endfor %}", "{% for x, y in {D}.items() %}{{ x }}={{ y }};{T}{% endfor %}",
        "{% for x, y in {D} | items %}{T}{% endfor %}", "{% for x in {L} if x is {W} %}{{ loop.length }}{{ x }}{% endfor %}", "{% for x in msgs if x.role != 'system' %}{{ loop.first }}{{ loop.last }}{{ x.content }}{T}{% endfor %}", "{% for x in {L} %}{% if loop.index > 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in {L} %}{% if {B} %}{% continue %}{% endif %}{T}{% endfor %}", "{% for (x, y) in {D}|dictsort %}{{ x }}{{ y }}{% endfor %}", "{% for x in nested recursive %}{% if x is iterable %}[{{ loop(x) }}]{% else %}{{ x }}{{ loop.depth }}{% endif %}{% endfor %}",
        "{% for x, y in nested %}{{ x + y }}{% endfor %}", "{% for x in {S} %}{{ x }}.{% endfor %}", "{% for x in {D} %}{{ x }}{% endfor %}", "{% for x in {L} %}{{ loop.cycle('odd', 'even') }}{{ loop.changed(x) }}{{ loop.previtem }}{{ loop.nextitem is defined }}{{ loop.revindex0 }}{% endfor %}", "{% set x = {A} %}{{ x }}{T}", "{% set x, y = {A}, {A} %}{{ x }}{{ y }}", "{% set x, y = {L} %}{{ y }}", "{% set x %}{T}{% endset %}[{{ x }}]{T}", "{% set x | upper | trim %}{T}{% endset %}{{ x }}", "{% set ns.v = {A} %}{{ ns.v }}", "{% set ns.w = ns.v %}{{ ns.w }}{T}",
        "{% for x in {L} %}{% set ns.v = x %}{% set y = x %}{% endfor %}{{ ns.v }}{{ y }}", "{% macro k(a, b={A}, c=none) %}{{ a }}/{{ b }}/{{ c }}{T}{% endmacro %}{{ k({A}) }}{{ k({A}, {A}) }}{{ k(c={S}, a={I}) }}", "{% macro k(a) %}<{{ caller() }}{{ a }}>{% endmacro %}{% call k({A}) %}{T}{% endcall %}", "{% macro k() %}{{ caller({A}) }}{% endmacro %}{% call(x) k() %}[{{ x }}]{T}{% endcall %}", "{% macro k(x) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ k({A}, {A}, z={I}) }}", "{% filter upper %}{T}{% endfilter %}", "{% filter replace('e', 'E') | trim %}{T}{% endfilter %}",
        "{% with x = {A}, y = {A} %}{{ x }}{{ y }}{T}{% endwith %}", "{% with %}{% set x = 1 %}{T}{% endwith %}", "{# note #}{T}", "{#- note -#}{T}", "{% raw %}{{ x }} {% if %}{% endraw %}", "{% generation %}{% set x = 5 %}{T}{% endgeneration %}{{ x }}", "{{ raise_exception('stop') if {B} }}", "{{ m({A}) }}", "{{ m }}", "{% if {B} %}\n  {T}\n  {% endif %}\n", "  {% set x = 1 %}  \n{T}", "{{ '{{' }}{{ \"}}\" }}", "{% if loop is defined %}{T}{% endif %}", "{% set d2 = {D} %}{{ d2.x }}{{ d2['b'] }}{% if 'b' in d2 and d2.b %}{T}{% endif %}", "{% set x = {L} %}{{ x | length }}{% for y in x %}{{ y }}{% endfor %}{% for y in x %}{{ y }}{% endfor %}",
        "{{ ({D}).update({'q': 1}) }}", "{{ ({L}).append(1) }}", "{% do {A} %}", "{{ {A} {A} }}", "{{ {S} if {B} else }}", "{% set x = namespace(a=1, b={A}) %}{{ x.a }}{{ x.b }}{{ x.c }}", "{% if {B} %}{% set x = {A} %}{% endif %}{{ x }}{% for y in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}",
    ],
    "W": ["string", "number", "mapping", "defined", "none", "not none", "iterable", "odd", "sequence"],
}
ATOMS["W"] = RULES["W"]

PRELUDE = "{% set ns = namespace(v=0) %}{% macro m(a, b='B') %}({{ a }}{{ b }}){% endmacro %}"
HOLE = re.compile(r"\{([A-Z])\}")
SIGNS_BEFORE = ["{%", "{%", "{%", "{%-", "{%+"]
SIGNS_AFTER = ["%}", "%}", "%}", "-%}", "+%}"]


class Templates:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def expand(self, kind, depth):
        choices = ATOMS[kind] if depth <= 0 or self.random.random() < 0.25 else RULES[kind]
        text = HOLE.sub(lambda hole: self.expand(hole[1], depth - 1), self.random.choice(choices))
        is_operation = kind not in "TWB" and " " in text and depth > 0 and text[0] not in "('\"[{"
        return f"({text})" if is_operation and self.random.random() < 0.6 else text

    def template(self):
        text = PRELUDE + "".join(self.expand("T", self.random.randint(1, 4)) for _ in range(self.random.randint(1, 2)))
        text = re.sub(r"\{%", lambda _: self.random.choice(SIGNS_BEFORE), text)
        return re.sub(r"%\}", lambda _: self.random.choice(SIGNS_AFTER), text)
