"""Reads the program's commands and flags from its help texts, for man pages and completions."""
import dataclasses
import re

import cli_reference

INDENT = 30  # columns before the descriptions


@dataclasses.dataclass
class Entry:
    """A flag or an argument: the names of a flag, or the one of an argument; the type of its value ("" for a flag without one)."""
    names: list
    type: str
    help: str
    choices: list
    is_repeatable: bool

    @property
    def is_path(self):
        """True if the value names a file or folder of this machine."""
        kind = self.type.split("=")[0]
        path_words = ("file", "folder", "PEM", ".gguf")
        return kind in ("PATH", "DIR", "FILE", "MODEL") or self.names[0] in ("MODEL", "--config") or (
            kind.startswith(("TEXT", "PATH", "NAME=PATH")) and any(word in self.help for word in path_words))


@dataclasses.dataclass
class Command:
    words: tuple
    summary: str
    usage: str
    arguments: list
    groups: list  # (title, [Entry])
    subcommands: list  # (name, summary)
    footer: str

    @property
    def flags(self):
        return [entry for _, entries in self.groups for entry in entries]


def entries(lines):
    """Joins the lines of each entry: (left column, description)."""
    found = []
    for line in lines:
        left, description = line[:INDENT].rstrip(), line[INDENT:]
        if line[:INDENT].isspace():
            found[-1][1].append(line.strip())
        elif len(line) > INDENT and line[INDENT - 1] == " ":
            found.append((left.strip(), [description.strip()]))
        else:  # the left column is longer than its width
            left, description = re.fullmatch(r"  (.*?)(?:  +(.*))?", line).groups()
            left_only = re.match(r"\S+(?: \S+)*? \.\.\.$|.*", left)
            found.append((left_only[0], [description] if description else []))
    return [(left, " ".join(filter(None, text))) for left, text in found]


def entry(left, description):
    # "--alias TEXT ..." may reach into the second column.
    names, _, kind = left.partition(" ")
    kind = kind.replace(" REQUIRED", "").replace("REQUIRED", "").strip()
    kind = kind.partition("Excludes:")[0].strip()
    is_repeatable = kind.endswith("...")
    kind = kind.removesuffix("...").strip()
    choices = re.search(r":\{(.*)\}$", kind)
    kind = kind[:choices.start()] if choices else kind
    values = choices[1].split(",") if choices else kind.split("=")[0].split("|") if re.fullmatch(r"[a-z]+(\|[a-z]+)+", kind) else []
    return Entry(names.split(","), kind, description, values, is_repeatable)


def command(words, text):
    blocks = re.split(r"^(\w.*):\n", text, flags=re.M)  # the head, then titles and their lines
    summary, usage = blocks[0].rstrip().split("\nUsage: ")
    found = Command(words, summary, usage, [], [], [], "")
    for title, body in zip(blocks[1::2], blocks[2::2]):
        lines = body.rstrip().split("\n")
        if title == "Positionals":
            found.arguments = [entry(*e) for e in entries(lines)]
        elif title == "Subcommands":
            found.subcommands = entries(lines)
        elif title == "Examples":
            found.footer = body.rstrip()
        else:
            found.groups.append((title, [entry(*e) for e in entries(lines)]))
    return found


def table(program):
    """Returns all commands, the program itself first."""
    return [command(words, text) for words, text in cli_reference.all_commands(program)]
