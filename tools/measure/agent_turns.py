#!/usr/bin/python3
"""Records what coding agents send during a conversation of several turns, and replays it against any server that has their routes.

    sudo unshare --net agent_turns.py record KVIK MODEL FOLDER [--node-modules tests/agents/node_modules] [--agents claude,codex,opencode,qwen]
    agent_turns.py replay FOLDER http://127.0.0.1:8080 [--agent NAME] [--model NAME]
    agent_turns.py count FOLDER http://127.0.0.1:8080 [--agent NAME] [--call-mark '<tool_call>']

`record` runs each agent with a server of its own and the tasks below, each a turn of the same conversation. An agent's own instructions of many thousand
tokens are replaced by a sentence, so that a small model calls tools. The requests are sent on with temperature 0, so that Kvik's answers are the same when
they are replayed. For each request it prints the tokens of the prompt, those that could be found (an earlier prompt and its answer, if this prompt begins
with that prompt, else their common prefix), and those that were.

`replay` sends the recorded requests one after the other, with as many tokens of an answer as were recorded, and prints the time to the first token of each.
A server whose answers differ from the recorded ones computes the recorded answers as a part of the next prompt. Traffic goes only to a loopback address.

`count` sends the recorded requests to Kvik, reads the tokens of each prompt and answer (GET /kvik/sessions/ID), and adds up the tokens found and those that
could be found, in two ways: over all answers, and over those that the template allows. The template does not allow an answer with calls that the model
wrote without the mark of its format: it writes them with it, which are other tokens. After such an answer the prompt before it could be found.
"""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import http.client

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parents[1] / "tests/e2e"), str(HERE.parent / "client")]

NUMBERS = {"first.txt": 48213, "second.txt": 7741, "third.txt": 90555}
INSTRUCTIONS = "You answer by calling tools."
MOST_ANSWER = 300  # a small model may repeat itself without end
LIMITS = {"/v1/chat/completions": ("max_tokens", "max_completion_tokens"), "/v1/messages": ("max_tokens",), "/v1/responses": ("max_output_tokens",)}


def turns(name, agent, folder, work):
    """Returns the arguments of each turn, and the variables of the agent's configuration."""
    brief = ["--system-prompt", INSTRUCTIONS]
    for i, file in enumerate(NUMBERS):
        tool, arguments = agent.read(str(work / file))
        task = f"Call the tool {tool} with the arguments {json.dumps(arguments)}. Then tell me the number in its result."
        again = i > 0
        yield {"claude": ["-p", task, "--max-turns", "3", *brief, "--tools", tool, "--allowedTools", tool, *(["--continue"] if again else [])],
               "codex": ["exec", *(["resume", "--last"] if again else []), "-c", f'model_instructions_file="{folder}/instructions.txt"', "--disable", "multi_agent",
                         "--disable", "goals", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", task],
               "opencode": ["run", *(["--continue"] if again else []), "--title", "Numbers", task],
               "qwen": ["--yolo", "--bare", "--max-session-turns", "3", *brief, "--exclude-tools", "run_shell_command,edit,notebook_edit,get_goal,update_goal",
                        *(["--continue"] if again else []), "-p", task]}[name]


def limit(path, body, n_answer):
    """Sets the largest number of answer tokens."""
    fields = LIMITS[path.partition("?")[0]]
    for field in fields:
        body.pop(field, None)
    body[fields[0]] = n_answer


def greedy(path, body):
    """Returns a request as it is sent on."""
    if path.partition("?")[0] not in LIMITS:
        return body
    request = json.loads(body)
    request["temperature"] = 0
    limit(path, request, MOST_ANSWER)
    return json.dumps(request).encode()


def record(options):
    os.environ["KVIK_BINARY"] = os.path.abspath(options.kvik)
    import agent_prompts
    import agent_session
    import recorder
    from server import Server
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    node_modules = os.path.abspath(options.node_modules)
    folder = pathlib.Path(options.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "instructions.txt").write_text(INSTRUCTIONS)
    print("| agent | request | prompt | could be found | found |\n|---|---|---|---|---|")
    for name in options.agents.split(","):
        agent = agent_session.AGENTS[name]
        with tempfile.TemporaryDirectory(prefix="kvik-agent-") as temporary, \
                Server(os.path.abspath(options.model), "--alias", "*", *shlex.split(options.flags), ready_s=300) as server, \
                recorder.Recorder(server.port, change=greedy) as proxy:
            home, work = pathlib.Path(temporary, "home"), pathlib.Path(temporary, "work")
            home.mkdir(), work.mkdir()
            for file, number in NUMBERS.items():
                (work / file).write_text(f"The number is {number}.\n")
            url = f"http://127.0.0.1:{proxy.port}"
            command, extra = agent.configure(home, work, url)
            if name == "opencode":
                config = json.loads((work / "opencode.json").read_text())
                config["agent"] = {"build": {"steps": 3, "prompt": INSTRUCTIONS, "tools": {"*": False, agent.read("")[0]: True}}}
                (work / "opencode.json").write_text(json.dumps(config))
            program = command[:1]
            kept = command[1:len(command) - len(agent_session.arguments(name))]  # flags of the guide's command
            env = {**agent_session.agent_environment(home, node_modules), **extra, "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "512"}
            for arguments in turns(name, agent, folder, work):
                done = subprocess.run([*program, *kept, *arguments], cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      timeout=1200)
                if done.returncode:
                    print(f"{name}: exit status {done.returncode}: {done.stderr[-600:]}", file=sys.stderr)
            exchanges = [e for e in proxy.exchanges if e.status == 200 and agent_prompts.is_generation(e)]
            lines, known = [], []
            for i, exchange in enumerate(exchanges):
                n_prompt, n_found = agent_prompts.usage_of(exchange)
                tokens = agent_prompts.tokens_of(server, exchange)
                n_answer = answer_tokens(exchange.answer)
                shared = [(agent_prompts.common_prefix(tokens, other), len(other), n) for other, n in known]
                could = max((n + n_earlier if n == n_other else n for n, n_other, n_earlier in shared), default=0)
                known.append((tokens, n_answer))
                print(f"| {name} | {i + 1} | {n_prompt} | {min(could, n_prompt - 1)} | {n_found} |", flush=True)
                lines.append(json.dumps({"path": exchange.path, "body": json.loads(exchange.body), "n_answer": n_answer}))
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def answer_tokens(answer):
    import agent_prompts
    events = [json.loads(answer)] if answer.startswith(b"{") else agent_prompts.events(answer)
    counts = [usage.get("completion_tokens", usage.get("output_tokens", 0)) for event in events
              for usage in (event.get("usage"), (event.get("message") or {}).get("usage"), (event.get("response") or {}).get("usage")) if usage]
    return max(counts, default=0)


def has_text(event):
    """Returns whether a streamed event has a part of an answer, in any of the three dialects."""
    if event.get("type", "").endswith((".delta", "_delta")):
        return event["type"] != "message_delta"
    deltas = [choice.get("delta", {}) for choice in event.get("choices") or ()]
    return any(delta.get("content") or delta.get("tool_calls") or delta.get("reasoning_content") for delta in deltas)


def send(url, path, body):
    """Returns the time to the first part of the answer, the time to its end in s, and its usage."""
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=3600)
    begin = time.perf_counter()
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "anthropic-version": "2023-06-01", "Authorization": "Bearer none"})
    response = connection.getresponse()
    if response.status != 200:
        raise SystemExit(f"{path}: status {response.status}: {response.read(600).decode(errors='replace')}")
    first, usage = None, {}
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if first is None and has_text(event):
            first = time.perf_counter()
        for found in (event.get("usage"), (event.get("message") or {}).get("usage"), (event.get("response") or {}).get("usage")):
            usage |= found or {}
    connection.close()
    end = time.perf_counter()
    return (first or end) - begin, end - begin, usage


def replay(options):
    url = urllib.parse.urlparse(options.url)
    if url.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise SystemExit(f"{options.url} is not a loopback address")
    print("| agent | request | prompt | TTFT [s] | whole answer [s] |\n|---|---|---|---|---|")
    for path in sorted(pathlib.Path(options.folder).glob("*.jsonl")):
        name = path.stem
        if options.agent not in (None, name):
            continue
        ttfts, total = [], 0.0
        for i, line in enumerate(path.read_text().splitlines()):
            request = json.loads(line)
            body = {**request["body"], "stream": True, "temperature": 0}
            if options.model:
                body["model"] = options.model
            limit(request["path"], body, min(request["n_answer"] + 4, MOST_ANSWER))
            ttft, took, usage = send(url, request["path"], body)
            ttfts.append(ttft)
            total += took
            print(f"| {name} | {i + 1} | {usage.get('prompt_tokens', usage.get('input_tokens', '?'))} | {ttft:.2f} | {took:.2f} |", flush=True)
        print(f"\n{name}: first {ttfts[0]:.2f} s; later: median {statistics.median(ttfts[1:] or ttfts):.2f} s, sum {sum(ttfts[1:]):.2f} s; all answers {total:.1f} s\n",
              flush=True)


def get(url, path):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    connection.request("GET", path)
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return body if response.status == 200 else None


def detokenize(url, tokens):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    connection.request("POST", "/detokenize", json.dumps({"tokens": tokens}), {"Content-Type": "application/json"})
    text = json.loads(connection.getresponse().read())["content"]
    connection.close()
    return text


class Turn:
    """A request that was sent: the tokens of its prompt and answer, and the prompt tokens found."""

    def __init__(self, url, usage):
        self.found = usage.get("cache_read_input_tokens")
        if self.found is None:
            details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
            self.found = details["cached_tokens"]
        newest = get(url, "/kvik/sessions")["sessions"][0]
        session = get(url, "/kvik/sessions/" + urllib.parse.quote(newest["id"], safe=""))
        n_prompt = session["prompt_tokens"]
        reported = usage.get("prompt_tokens") or usage["input_tokens"] + usage.get("cache_read_input_tokens", 0) + usage.get("cache_creation_input_tokens", 0)
        if n_prompt != reported:
            raise SystemExit(f"the server keeps another prompt: {n_prompt} tokens, expected {reported}")
        self.prompt, self.answer = session["tokens"][:n_prompt], session["tokens"][n_prompt:]

    def could_find(self, earlier, is_allowed):
        """Returns how many tokens of this prompt an earlier request has, with its answer if that is allowed. The last token is always computed."""
        n = next((i for i, (a, b) in enumerate(zip(self.prompt, earlier.prompt)) if a != b), min(len(self.prompt), len(earlier.prompt)))
        if n == len(earlier.prompt) and is_allowed:
            n += len(earlier.answer)
        return min(n, len(self.prompt) - 1)


def count(options):
    url = urllib.parse.urlparse(options.url)
    if url.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise SystemExit(f"{options.url} is not a loopback address")
    print("| agent | request | prompt | found | could, all answers | could, as the template allows |\n|---|---|---|---|---|---|")
    totals = {}
    for path in sorted(pathlib.Path(options.folder).glob("*.jsonl")):
        name = path.stem
        if options.agent not in (None, name):
            continue
        turns, allowed = [], []
        sums = [0, 0, 0, 0]  # found and could, for each way
        for i, line in enumerate(path.read_text().splitlines()):
            request = json.loads(line)
            body = {**request["body"], "stream": True, "temperature": 0}
            limit(request["path"], body, min(request["n_answer"] + 4, MOST_ANSWER))
            _, _, usage = send(url, request["path"], body)
            turn = Turn(url, usage)
            if turns:
                # The answer before as the template wrote it begins where that prompt ended.
                last = turns[-1]
                if turn.prompt[:len(last.prompt)] == last.prompt:
                    written = detokenize(url, turn.prompt[len(last.prompt):]).split(options.end_mark)[0]
                    allowed[-1] = options.call_mark not in written or options.call_mark in detokenize(url, last.answer)
            could = max((turn.could_find(other, True) for other in turns), default=0)
            could_as_allowed = max((turn.could_find(other, is_allowed) for other, is_allowed in zip(turns, allowed)), default=0)
            if turns:
                sums = [a + b for a, b in zip(sums, (min(turn.found, could), could, min(turn.found, could_as_allowed), could_as_allowed))]
            turns.append(turn)
            allowed.append(True)
            print(f"| {name} | {i + 1} | {len(turn.prompt)} | {turn.found} | {could} | {could_as_allowed} |", flush=True)
        totals[name] = sums
    for name, (found, could, found_as_allowed, could_as_allowed) in totals.items():
        print(f"{name}: found {found} of {could} ({100 * found / max(could, 1):.1f}%) over all answers, {found_as_allowed} of {could_as_allowed} "
              f"({100 * found_as_allowed / max(could_as_allowed, 1):.1f}%) as the template allows")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record")
    recording.set_defaults(run=record)
    for name in ("kvik", "model", "folder"):
        recording.add_argument(name)
    recording.add_argument("--node-modules", default=str(HERE.parents[1] / "tests/agents/node_modules"))
    recording.add_argument("--agents", default="claude,codex,opencode,qwen")
    recording.add_argument("--flags", default="", help="more flags of kvik serve")
    replaying = commands.add_parser("replay")
    replaying.set_defaults(run=replay)
    replaying.add_argument("folder")
    replaying.add_argument("url")
    replaying.add_argument("--agent")
    replaying.add_argument("--model")
    counting = commands.add_parser("count")
    counting.set_defaults(run=count)
    counting.add_argument("folder")
    counting.add_argument("url")
    counting.add_argument("--agent")
    counting.add_argument("--call-mark", default="<tool_call>", help="begins a call in the template's format")
    counting.add_argument("--end-mark", default="<|im_end|>", help="ends a message")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
