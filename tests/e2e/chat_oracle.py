"""Jinja as Hugging Face's transformers set it up, and Kvik's own renderer beside it."""
import datetime
import json
import os
import pathlib
import subprocess
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox

ROOT = pathlib.Path(__file__).resolve().parents[2]
RENDERER = os.path.join(os.environ.get("KVIK_BUILD", ROOT / "build"), "tests", "render_template")
NOW = 1_750_000_000

# Jinja leaves to Python what "is" and "%" with odd operands mean; Python comments on it.
warnings.simplefilter("ignore", SyntaxWarning)


class Generation(jinja2.ext.Extension):
    """Hugging Face's {% generation %}, which marks what the assistant wrote."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("written"), [], [], body).set_lineno(line)

    def written(self, caller):
        return caller()


def environment():
    """As transformers' chat_template_utils makes it."""
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(
        NOW, datetime.timezone.utc).strftime(form)
    return env


def oracle(env, source):
    """What Jinja makes of a template: variables → {"text": …} or {"error": …}."""
    try:
        template = env.from_string(source)
    except Exception as error:
        message = str(error)
        return lambda variables: {"error": message}
    return lambda variables: rendered(template, variables)


def rendered(template, variables):
    try:
        return {"text": template.render(**variables)}
    except Exception as error:  # the template's own, and what Python says of wrong types
        return {"error": f"{type(error).__name__}: {error}"}


class Renderer:
    """Ours, as a child process."""

    def __init__(self):
        self.process = subprocess.Popen([RENDERER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, source, variables):
        """{"text": …} or {"error": …}."""
        question = {"source": source, "variables": variables, "now": NOW}
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
