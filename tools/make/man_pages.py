#!/usr/bin/python3
"""Writes the man pages kvik.1.gz, kvik-serve.1.gz … from the help texts of the program.

    tools/make/man_pages.py KVIK FOLDER
"""
import gzip
import os
import re
import subprocess
import sys

import command_table


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def page_name(words):
    return "-".join(("kvik", *words))


def tagged(entry):
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in entry.names)
    kind = f" \\fI{roff(entry.type.split('=')[0] if entry.names[0].startswith('-') else entry.type)}\\fR" if entry.type else ""
    choices = f" One of: {', '.join(entry.choices)}." if entry.choices and "|" not in entry.type else ""
    return f".TP\n{names}{kind if entry.names[0].startswith('-') else ''}\n{roff(entry.help + choices)}\n"


def page(command, version):
    name = page_name(command.words)
    out = [f'.TH {name.upper()} 1 "" "kvik {version}" "User Commands"\n', f".SH NAME\n{roff(name)} \\- {roff(command.summary)}\n"]
    program, _, rest = command.usage.partition(" [")
    out.append(f".SH SYNOPSIS\n\\fB{roff(program)}\\fR{' [' + roff(rest) if rest else ''}\n")
    if command.arguments:
        out += [".SH ARGUMENTS\n", *map(tagged, command.arguments)]
    for title, entries in command.groups:
        out += [".SH OPTIONS\n" if title == "Options" else f".SS {roff(title)}\n", *map(tagged, entries)]
    if command.subcommands:
        out += [".SH COMMANDS\n", *(f".TP\n\\fB{roff(page_name((*command.words, sub)))}\\fR(1)\n{roff(text)}\n" for sub, text in command.subcommands)]
    if command.footer:
        out.append(f".SH EXAMPLES\n.nf\n{roff(command.footer)}\n.fi\n")
    if not command.words:
        out.append(".SH FILES\n.TP\n/etc/kvik/kvik.toml\nFlags of the systemd service kvik.service\n"
                   ".TP\n/var/lib/kvik\nState of the service: pages of the KV cache and stored responses\n")
        out.append(".SH EXIT STATUS\n0: success. 1: failure. 2: wrong usage. 130: ended by a signal.\n")
    else:
        out.append(f".SH SEE ALSO\n\\fB{roff(page_name(command.words[:-1]))}\\fR(1)\n")
    return "".join(out)


def main():
    program, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    for command in command_table.table(program):
        with open(os.path.join(folder, page_name(command.words) + ".1.gz"), "wb") as f:
            f.write(gzip.compress(page(command, version).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
