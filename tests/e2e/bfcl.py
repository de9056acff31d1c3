"""Sends questions of the Berkeley Function Calling Leaderboard (BFCL) to /v1/chat/completions and checks the answers.

    bfcl.py http://127.0.0.1:8080 --data DIR/bfcl_eval/data --category simple_python --choice required --limit 20

The data files come from the package `bfcl-eval`; nothing else of it is used. possible_answer lists, for each call, the accepted values of
each parameter; "" among them means that the parameter may be omitted.
"""
import argparse
import concurrent.futures
import json
import os
import sys
import urllib.request

USERS = 8  # concurrent questions; the answers have the same bits as those of single questions
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string", "hashmap": "object", "list": "array"}


def as_schema(given):
    """Converts BFCL's Python-style type names to JSON schema."""
    if isinstance(given, list):
        return [as_schema(item) for item in given]
    if not isinstance(given, dict):
        return given
    out = {}
    for key, value in given.items():
        if key == "type" and isinstance(value, str):
            out[key] = TYPES.get(value.lower(), value.lower())
        elif key == "properties" and isinstance(value, dict):
            out[key] = {name: as_schema(schema) for name, schema in value.items()}
        elif key in ("default", "optional"):
            continue
        else:
            out[key] = as_schema(value) if key == "items" else value
    return out


def tool_of(function):
    name = function["name"].replace(".", "_")
    return {"type": "function", "function": {"name": name, "description": function["description"], "parameters": as_schema(function["parameters"])}}


def questions(data, category, limit=None):
    """Yields (id, messages, tools, possible answers or None)."""
    def lines(path):
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.strip()]
    answers = {each["id"]: each["ground_truth"] for each in lines(f"{data}/possible_answer/BFCL_v4_{category}.json")}
    for each in lines(f"{data}/BFCL_v4_{category}.json")[:limit]:
        yield each["id"], each["question"][0], [tool_of(function) for function in each["function"]], answers.get(each["id"])


def plain(text):
    return "".join(c for c in text.lower() if c not in " ,./-_*^()'\"")


def is_same(value, wanted):
    if isinstance(wanted, str) and isinstance(value, str):
        return plain(value) == plain(wanted)
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    if isinstance(wanted, (int, float)) and isinstance(value, (int, float)):
        return value == wanted
    if isinstance(wanted, list) and isinstance(value, list):
        return len(value) == len(wanted) and all(is_same(a, b) for a, b in zip(value, wanted))
    if isinstance(wanted, dict) and isinstance(value, dict):  # each member has its own list of possible values
        return is_possible(value, wanted)
    return value == wanted


def is_possible(arguments, possible):
    for key, values in possible.items():
        values = values if isinstance(values, list) else [values]
        if key not in arguments:
            if "" not in values:
                return False
        elif not any(is_same(arguments[key], wanted) for wanted in values):
            return False
    return all(key in possible for key in arguments)


def are_wanted(calls, wanted):
    """Returns whether each call, a pair (name, arguments), matches a different wanted call, in any order."""
    left = list(wanted)
    for name, arguments in calls:
        match = next((each for each in left for want, possible in each.items()
                      if want.replace(".", "_") == name and is_possible(arguments, possible)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def is_right(calls, wanted):
    """Returns whether the calls are exactly the wanted ones, each once."""
    return len(calls) == len(wanted) and are_wanted(calls, wanted)


def ask(url, messages, tools, **fields):
    body = {"messages": messages, "tools": tools, "temperature": 0, "max_tokens": 400, **fields}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)["choices"][0]


def answers(url, data, category, limit=None, **fields):
    """Yields (id, choice, possible answers or None) of each question, in order."""
    asked = list(questions(data, category, limit))
    with concurrent.futures.ThreadPoolExecutor(USERS) as users:
        choices = users.map(lambda question: ask(url, *question[1:3], **fields), asked)
        for (name, _, _, wanted), choice in zip(asked, choices):
            yield name, choice, wanted


def calls_of(choice):
    calls = choice["message"].get("tool_calls") or []
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


class Tally:
    def __init__(self):
        self.n = self.n_right = self.n_wanted = self.n_calls = self.n_cut = 0  # n_wanted counts answers with calls, all of which are wanted
        self.wrong = []

    def add(self, name, choice, wanted):
        self.n += 1
        self.n_cut += choice["finish_reason"] == "length"
        calls = [] if choice["finish_reason"] == "length" else calls_of(choice)
        self.n_calls += len(calls)
        right = not calls if wanted is None else is_right(calls, wanted)
        self.n_wanted += bool(calls) and wanted is not None and are_wanted(calls, wanted)
        self.n_right += right
        if not right:
            self.wrong.append((name, calls or choice["message"]["content"], wanted))


def run(url, data, category, limit=None, **fields):
    tally = Tally()
    for name, choice, wanted in answers(url, data, category, limit, **fields):
        tally.add(name, choice, wanted)
    return tally


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--data", required=True)
    parser.add_argument("--category", default="simple_python")
    parser.add_argument("--choice", default="auto", help="tool_choice: auto or required")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--show", action="store_true", help="print what is wrong")
    flags = parser.parse_args()
    tally = run(flags.url, flags.data, flags.category, flags.limit, tool_choice=flags.choice)
    print(f"{flags.category} {flags.choice}: {tally.n_right} of {tally.n} right, {tally.n_calls} calls, {tally.n_cut} cut by length")
    for name, got, wanted in tally.wrong if flags.show else []:
        print(f"  {name}\n    got    {got}\n    wanted {wanted}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
