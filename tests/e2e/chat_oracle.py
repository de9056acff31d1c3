"""Jinja as configured by Hugging Face's transformers, and Kvik's renderer for comparison."""
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

# Jinja passes "is" and "%" with unusual operands on to Python, which warns about them.
warnings.simplefilter("ignore", SyntaxWarning)


class Generation(jinja2.ext.Extension):
    """Hugging Face's {% generation %}, which marks the text of the assistant."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("written"), [], [], body).set_lineno(line)

    def written(self, caller):
        return caller()


def environment():
    """Returns the environment of transformers' chat_template_utils."""
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
    """Returns a function that renders the template with Jinja: variables → {"text": …} or {"error": …}."""
    try:
        template = env.from_string(source)
    except Exception as error:
        message = str(error)
        return lambda variables: {"error": message}
    return lambda variables: rendered(template, variables)


def rendered(template, variables):
    try:
        return {"text": template.render(**variables)}
    except Exception as error:  # raised by the template, or by Python for wrong types
        return {"error": f"{type(error).__name__}: {error}"}


class Renderer:
    """Kvik's renderer as a child process."""

    def __init__(self):
        self.process = subprocess.Popen([RENDERER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, source, variables):
        """Returns {"text": …} or {"error": …}."""
        question = {"source": source, "variables": variables, "now": NOW}
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
