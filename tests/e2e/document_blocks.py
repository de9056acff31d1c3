"""Reads the fenced code blocks of documents."""
import collections
import json
import re
import textwrap

Block = collections.namedtuple("Block", "path line language text")


def blocks_of(path, text):
    """Returns the fenced blocks of a document."""
    found, opening = [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"^\s*```(.*)$", line)
        if fence and opening is None:
            opening, language, lines = number, fence[1].strip(), []
        elif fence:
            found.append(Block(path, opening, language, textwrap.dedent("\n".join(lines)) + "\n"))
            opening = None
        elif opening is not None:
            lines.append(line)
    if opening is not None:
        raise AssertionError(f"{path}:{opening}: the block does not end")
    return found


def json_values(text):
    """Parses the JSON values of a block. "…" stands for members or elements that are left out."""
    text = re.sub(r":\s*…", ": null", re.sub(r",\s*…", "", text)).replace("{…}", "{}").replace("[…]", "[]")
    decoder, values = json.JSONDecoder(), []
    while text.strip():
        value, end = decoder.raw_decode(text.strip())
        values.append(value)
        text = text.strip()[end:]
    return values
