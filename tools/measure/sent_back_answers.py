#!/usr/bin/python3
"""Measures how much of a prompt is found in the cache if a client sends earlier answers back in another form than the model generated.

    tools/measure/sent_back_answers.py KVIK MODEL [--template FILE] [--turns 3] [--calls 3] [--flags="--threads 2"]

A conversation of several turns, each with calls of tools and an answer, is sent as an agent sends it: whole, at every request. The forms:
  same      as received
  calls     arguments as JSON with sorted keys and indentation, without blanks around the text
  dropped   like `calls`, without the reasoning
  partly    like `calls`, without the reasoning of every second answer
Each form runs with and without restored answers, on a server of its own. Found: cached tokens ÷ all tokens of the request before with its answer, for
requests that go on with a turn, after a result of a tool. At a new turn many templates leave out the reasoning of the turn before, which nobody can restore;
these requests are counted separately."""
import argparse
import json
import os
import shlex
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../client"))

TOOLS = [{"type": "function", "function": {"name": name, "description": text, "parameters": {
    "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}}} for name, text, properties in (
        ("read_file", "Reads lines of a file.", {"path": {"type": "string", "maxLength": 24}, "first_line": {"type": "integer"}, "n_lines": {"type": "integer"}}),
        ("search", "Searches a folder.", {"words": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 1, "maxItems": 3},
                                          "folder": {"type": "string", "maxLength": 16}}))]
TASKS = ("Find out why the parser loses the last line of a file without a newline.", "Now write down how to test that.", "What else could break there?",
         "Which of these would you mend first?")
RESULT = "line {n}: if (at == end) return;  // the last line\n" * 6
FORMS = ("same", "calls", "dropped", "partly")


def rewritten(message, form, number):
    """Returns an assistant message as a client of this form sends it back."""
    out = {key: value for key, value in message.items() if value}
    if form == "same":
        return out
    out["content"] = (out.get("content") or "").strip()
    for call in out.get("tool_calls", ()):
        call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), indent=2, sort_keys=True)
    if form == "dropped" or (form == "partly" and number % 2):
        out.pop("reasoning_content", None)
    return out


class Conversation:
    def __init__(self, server, form, restores):
        self.server, self.form, self.restores = server, form, restores
        self.messages = [{"role": "system", "content": "You are a careful programmer. Think briefly. " * 12}]
        self.rows = []  # (begins a turn, tokens that could be found, cached, restored, computed, seconds)
        self.n_known = self.n_answers = 0

    def ask(self, is_first, **more):
        body = {"messages": self.messages, "tools": TOOLS, "max_tokens": 160, "temperature": 0.8, "seed": self.n_answers, "reasoning_budget": 40,
                "kvik": {"restore_answers": self.restores}, **more}
        begin = time.monotonic()
        answer = self.server.post("/v1/chat/completions", body)
        if answer.status != 200:
            raise SystemExit(answer.body.decode())
        usage = answer.json["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        self.rows.append((is_first, self.n_known, min(cached, self.n_known), usage.get("kvik", {}).get("restored_tokens", 0), usage["prompt_tokens"] - cached,
                          time.monotonic() - begin))
        self.n_known = usage["prompt_tokens"] + usage["completion_tokens"] - 1
        message = answer.json["choices"][0]["message"]
        self.n_answers += 1
        self.messages.append(rewritten(message, self.form, self.n_answers))
        return message

    def run(self, n_turns, n_calls):
        for turn in range(n_turns):
            self.messages.append({"role": "user", "content": TASKS[turn % len(TASKS)]})
            for i in range(n_calls + 1):
                forced = {"tool_choice": {"type": "function", "function": {"name": TOOLS[i % 2]["function"]["name"]}}} if i < n_calls else {}
                message = self.ask(i == 0, **forced)
                for call in message.get("tool_calls") or ():
                    self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": RESULT.format(n=i)})
        return self.rows[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvik")
    parser.add_argument("model")
    parser.add_argument("--template")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--flags", default="")
    options = parser.parse_args()
    os.environ["KVIK_BINARY"] = os.path.abspath(options.kvik)
    from server import Server
    flags = shlex.split(options.flags) + (["--chat-template", options.template] if options.template else [])
    print("| form | answers | found / could be found in a turn | at new turns | restored | computed in a request of a turn, median |")
    print("|---|---|---|---|---|---|")
    for form in FORMS:
        for restores in (True, False):
            with Server(options.model, *flags, ready_s=300) as server:
                rows = Conversation(server, form, restores).run(options.turns, options.calls)
            shares = []
            for is_first in (False, True):
                could, found = (sum(row[i] for row in rows if row[0] == is_first) for i in (1, 2))
                shares.append(f"{found:,} / {could:,} ({100 * found / max(1, could):.1f}%)")
            computed = statistics.median(row[4] for row in rows if not row[0])
            print(f"| {form} | {'restored' if restores else 'as sent'} | {shares[0]} | {shares[1]} | {sum(row[3] for row in rows):,} | {computed:.0f} |",
                  flush=True)



if __name__ == "__main__":
    main()
