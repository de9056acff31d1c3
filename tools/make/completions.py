#!/usr/bin/python3
"""Writes completions for bash (kvik), zsh (_kvik) and fish (kvik.fish) from the help texts of the program.

    tools/make/completions.py KVIK FOLDER
"""
import os
import re
import sys

import command_table


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def sentence(help_text):
    """The first sentence of a help text, without its default."""
    return re.split(r"\. |; | \(default", help_text, maxsplit=1)[0].rstrip(".")


def inherited(command, commands):
    """The flags of a command and those of its parents, which it takes as well."""
    own = list(command.flags)
    for parent in commands:
        if parent.words == command.words[:len(parent.words)] and parent.words != command.words:
            own += [flag for flag in parent.flags if flag.names[-1] not in ("--help", "--version")]
    return own


# --- bash ---

BASH = """# Completes kvik in bash. Written by tools/make/completions.py.
_kvik() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=kvik word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${{COMP_WORDS[i]}}
    case "$command $word" in
{steps}
    esac
  done
  COMPREPLY=()
  case "$command $previous" in
{values}
  esac
  if [[ $current == -* ]]; then
    case $command in
{flags}
    esac
  else
    case $command in
{words}
    esac
  fi
}}
complete -F _kvik kvik
"""


def bash(commands):
    steps, values, flags, words = [], [], [], []
    for command in commands:
        name = "\\ ".join(("kvik", *command.words))
        if command.words:
            parent, last = "\\ ".join(("kvik", *command.words[:-1])), command.words[-1]
            steps.append(f"      {parent}\\ {last}) command='{' '.join(('kvik', *command.words))}' ;;")
        for flag in inherited(command, commands):
            if not flag.type and flag.names[-1] != "--config":
                continue
            patterns = "|".join(f"{name}\\ {n}" for n in flag.names)
            if flag.choices:
                reply = f"mapfile -t COMPREPLY < <(compgen -W {quoted(' '.join(flag.choices))} -- \"$current\"); return"
            elif flag.is_path:
                reply = "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); return"
            else:
                reply = "return"
            values.append(f"    {patterns}) {reply} ;;")
        all_flags = " ".join(n for flag in inherited(command, commands) for n in flag.names if n.startswith("--"))
        flags.append(f"      {name}) mapfile -t COMPREPLY < <(compgen -W {quoted(all_flags)} -- \"$current\") ;;")
        if command.subcommands:
            subcommands = " ".join(sub for sub, _ in command.subcommands)
            words.append(f"      {name}) mapfile -t COMPREPLY < <(compgen -W {quoted(subcommands)} -- \"$current\") ;;")
        elif command.arguments:
            demo = "mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -W demo -- \"$current\")" if takes_model(command) else ":"
            words.append(f"      {name}) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); {demo} ;;")
    return BASH.format(steps="\n".join(steps), values="\n".join(values), flags="\n".join(flags), words="\n".join(words))


def takes_model(command):
    return any(argument.names[0] == "MODEL" for argument in command.arguments)


# --- zsh ---

def zsh_text(text):
    return re.sub(r"([\[\]:'\\])", lambda m: "'\\''" if m[1] == "'" else "\\" + m[1], text)


def zsh_value(entry):
    if entry.choices:
        return f":{zsh_text(entry.type.split('=')[0])}:({' '.join(entry.choices)})"
    if entry.is_path:
        return ":file:_files"
    return f":{zsh_text(entry.type.split('=')[0])}:" if entry.type else ""


def zsh_flag(entry):
    star = "*" if entry.is_repeatable else ""
    text = f"[{zsh_text(sentence(entry.help))}]{zsh_value(entry)}"
    if len(entry.names) == 1:
        return f"'{star}{entry.names[0]}{text}'"
    group = "" if star else "(" + " ".join(entry.names) + ")"
    return f"'{group}{star}'{{{','.join(entry.names)}}}'{text}'"


def zsh_function(command, commands):
    name = "_".join(("_kvik", *command.words))
    lines = [f"{name}() {{"]
    arguments = [zsh_flag(flag) for flag in inherited(command, commands)]
    if command.subcommands:
        pairs = " ".join(quoted(f"{sub}:{text.replace(':', ' -')}") for sub, text in command.subcommands)
        lines += ["  local context state state_descr line", "  typeset -A opt_args", f"  local -a commands=({pairs})"]
        arguments += ["'1: :->command'", "'*:: :->rest'"]
    else:
        for argument in command.arguments:
            files = "{_alternative 'models:model:(demo)' 'files:file:_files'}" if argument.names[0] == "MODEL" else "_files"
            arguments.append(f'":{argument.names[0]}:{files}"')
    lines.append("  _arguments -s -S \\\n    " + " \\\n    ".join(arguments))
    if command.subcommands:
        calls = [f"        {sub}) {name}_{sub} ;;" for sub, _ in command.subcommands]
        lines += ["  case $state in", "    command) _describe -t commands command commands ;;", "    rest)", "      case $line[1] in", *calls, "      esac ;;",
                  "  esac"]
    return "\n".join([*lines, "}", ""])


def zsh(commands):
    functions = "\n".join(zsh_function(command, commands) for command in commands)
    return f"#compdef kvik\n# Completes kvik in zsh. Written by tools/make/completions.py.\n\n{functions}\n_kvik \"$@\"\n"


# --- fish ---

def fish_condition(command):
    if not command.words:
        return "__fish_use_subcommand"
    seen = " and ".join(f"__fish_seen_subcommand_from {word}" for word in command.words)
    if command.subcommands:
        return f"{seen}; and not __fish_seen_subcommand_from {' '.join(sub for sub, _ in command.subcommands)}"
    return seen.replace(" and ", "; and ")


def fish(commands):
    lines = ["# Completes kvik in fish. Written by tools/make/completions.py."]
    for command in commands:
        condition = f"complete -c kvik -n {quoted(fish_condition(command))}"
        for sub, text in command.subcommands:
            lines.append(f"{condition} -f -a {sub} -d {quoted(text)}")
        if takes_model(command):
            lines.append(f"{condition} -a demo -d 'the embedded model'")
        for flag in command.flags:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in flag.names)
            value = f" -x -a {quoted(' '.join(flag.choices))}" if flag.choices else " -r" if flag.is_path else " -x" if flag.type else ""
            lines.append(f"{condition} {names}{value} -d {quoted(sentence(flag.help))}")
    return "\n".join(lines) + "\n"


def main():
    program, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    commands = command_table.table(program)
    for name, text in (("kvik", bash(commands)), ("_kvik", zsh(commands)), ("kvik.fish", fish(commands))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
