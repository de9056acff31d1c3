#!/usr/bin/python3
"""Sends about 160 identical requests to two builds of Kvik, in every dialect, including streams and invalid requests, and reports the answers that
differ.

    tools/measure/compare_answers.py OLD/kvik NEW/kvik [MODEL …]

The default model is the demo. The comparison leaves out identifiers, times and versions, and counts of draft tokens, which depend on
speed. The exit code is 1 if an answer differs."""
import argparse
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools/client"))
import program  # noqa: E402
from server import Server  # noqa: E402

FLAGS = ("--ctx", 2048, "--kv-type", "f32", "--threads", 1, "--kv-memory", "256MiB", "--speculate", "off")
WEATHER = {"name": "get_weather", "description": "weather of a city",
           "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                          "required": ["city"]}}
NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"], "additionalProperties": False}
TOOL = {"type": "function", "function": WEATHER}
STRICT_TOOL = {"type": "function", "function": {"name": "add", "parameters": NUMBERS, "strict": True}}
PERSON = {"type": "object", "required": ["name", "age"],
          "properties": {"name": {"type": "string", "maxLength": 12},
                         "age": {"type": "integer", "minimum": 0, "maximum": 12345678901234567890123}}}
MESSAGES = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "What is the weather in Paris?"}]
USUAL = {"temperature": 0, "max_tokens": 24, "seed": 7}
ANTHROPIC = {"anthropic-version": "2023-06-01"}

COMPLETIONS = ({}, {"logprobs": 3}, {"echo": True, "logprobs": 1}, {"n": 2, "temperature": 1.0}, {"stop": ["\n", "a"]}, {"suffix": "x"},
               {"logit_bias": {"17": -100}}, {"guided_regex": "[a-c]{3,5}"}, {"response_format": {"type": "json_object"}},
               {"grammar": 'root ::= "yes" | "no"'}, {"ignore_eos": True},
               {"min_p": 0.1, "top_k": 5, "top_p": 0.9, "temperature": 0.7, "repetition_penalty": 1.2})
CHATS = ({}, {"logprobs": True, "top_logprobs": 2}, {"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "none"},
         {"tools": [TOOL, STRICT_TOOL], "tool_choice": "required", "parallel_tool_calls": False},
         {"tools": [TOOL, STRICT_TOOL], "tool_choice": "required"},
         {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
         {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON, "strict": True}}},
         {"response_format": {"type": "json_object"}}, {"n": 2, "temperature": 0.9}, {"functions": [WEATHER], "function_call": "auto"},
         {"stop": "a"}, {"reasoning_effort": "low"}, {"max_completion_tokens": 3}, {"kvik": {"explain_cache": True}})
RESPONSES = ({}, {"tools": [{"type": "function", **WEATHER}], "tool_choice": "required"}, {"instructions": "Be brief"},
             {"text": {"format": {"type": "json_schema", "name": "p", "schema": PERSON}}},
             {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]},
             {"top_logprobs": 1, "include": ["message.output_text.logprobs"]})
MESSAGES_API = ({}, {"system": "Be short."}, {"stop_sequences": ["a"]}, {"temperature": 0.8, "top_k": 5},
                {"tools": [{"name": "get_weather", "input_schema": WEATHER["parameters"]}], "tool_choice": {"type": "any"}},
                {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1100})
BAD_COMPLETIONS = (b"", b"{", b"[]", *(b'{"prompt":"a",%s}' % rest for rest in (
    b'"temperature":-1', b'"temperature":"x"', b'"max_tokens":-3', b'"n":0', b'"n":1000', b'"logit_bias":[]', b'"stop":[1]', b'"logprobs":99',
    b'"response_format":{"type":"x"}', b'"guided_regex":"("', b'"stream":1', b'"kvik":{"x":1}', b'"seed":1.5', b'"top_p":2', b'"prompt":"b"',
    b'"cache_salt":5', b'"priority":"x"')), b'{"prompt":1}', b'{"prompt":["a",1]}', b'{"prompt":[999999999]}', b'{"prompt":"\xff"}')
USER = b'"messages":[{"role":"user","content":"a"}]'
BAD_CHATS = (b"{}", b'{"messages":[]}', b'{"messages":[{"role":"x","content":"a"}]}', b'{"messages":[{"role":"user"}]}',
             b'{"messages":[{"role":"user","content":5}]}', b'{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}',
             b'{"messages":[{"role":"tool","content":"a"}]}',
             b'{"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{"}}]}]}',
             *(b"{%s,%s}" % (USER, rest) for rest in (
                 b'"tools":[{}]', b'"tool_choice":"required"', b'"top_logprobs":3', b'"max_tokens":100000000', b'"frequency_penalty":9',
                 b'"response_format":{"type":"json_schema"}',
                 b'"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"zzz"}}}],"tool_choice":"required"',
                 b'"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"properties":{"a":{"$ref":"#/nope"}}}}}')))


def without_chance(body):
    """Adds temperature 0, so that invalid requests that are answered after all are answered greedily."""
    return b'{"temperature":0,' + body[1:] if body.startswith(b'{"') and b"temperature" not in body else body


def requests():
    """Yields (method, path, body, headers)."""
    for path in ("/v1/models", "/props", "/openapi.json", "/v1/nothing"):
        yield "GET", path, None, {}
    for path, body in (("/v1/tokenize", {"prompt": "Hello world"}), ("/tokenize", {"content": "Hello <|im_end|>"}),
                       ("/tokenize", {"messages": MESSAGES}), ("/detokenize", {"tokens": [1, 2, 3, 400]}),
                       ("/apply-template", {"messages": MESSAGES, "tools": [TOOL]}), ("/v1/embeddings", {"input": ["a b", "c"]}),
                       ("/v1/messages/count_tokens", {"model": "x", "messages": MESSAGES[1:]}), ("/v1/responses/input_tokens", {"input": "hi"})):
        yield "POST", path, body, {}
    for stream in ({"stream": False}, {"stream": True, "stream_options": {"include_usage": True}}):
        for extra in COMPLETIONS:
            yield "POST", "/v1/completions", {"prompt": "The capital of France is", **USUAL, **extra, **stream}, {}
        for extra in CHATS:
            yield "POST", "/v1/chat/completions", {"messages": MESSAGES, **USUAL, **extra, **stream}, {}
        for extra in RESPONSES:
            yield "POST", "/v1/responses", {"input": "What is 2+2?", "max_output_tokens": 24, "temperature": 0, **extra, "stream": stream["stream"]}, {}
        for extra in MESSAGES_API:
            body = {"model": "x", "messages": MESSAGES[1:], "max_tokens": 24, "temperature": 0, **extra, "stream": stream["stream"]}
            yield "POST", "/v1/messages", body, ANTHROPIC
    for body in BAD_COMPLETIONS:
        yield "POST", "/v1/completions", without_chance(body), {}
    for body in map(without_chance, BAD_CHATS):
        yield "POST", "/v1/chat/completions", body, {}
        yield "POST", "/v1/responses", body.replace(b'"messages"', b'"input"'), {}
        yield "POST", "/v1/messages", body, ANTHROPIC


def normalized(body):
    body = re.sub(rb"(chatcmpl|cmpl|resp|msg|rs|fc|call|toolu|embd|req)([-_])[A-Za-z0-9]{8,}", rb"\1\2ID", body)
    body = re.sub(rb'"(created|created_at|completed_at)":("[^"]*"|[\d.]+)', rb'"\1":0', body)
    body = re.sub(rb'"([a-z_]*(?:_ms|_per_second|_us|_seconds|duration))":[\d.eE+-]+', rb'"\1":0', body)
    return re.sub(rb'"(version|commit|build|build_info|system_fingerprint|numerics)":"[^"]*"', rb'"\1":""', body)


def answers(binary, model):
    program.BINARY = binary
    with Server(model, *FLAGS) as server:
        for method, path, body, headers in requests():
            answer = server.request(method, path, body, {"Content-Type": "application/json", **headers})
            yield (method, path, body), (answer.status, answer.headers.get("content-type"), normalized(answer.body))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("models", nargs="*", default=["demo"])
    arguments = parser.parse_args()
    n_different = 0
    for model in arguments.models:
        old, new = list(answers(arguments.old, model)), list(answers(arguments.new, model))
        different = [(a, b[1]) for a, b in zip(old, new) if a != b]
        n_different += len(different)
        for (request, before), after in different:
            print(*request[:2], json.dumps(request[2]) if isinstance(request[2], dict) else request[2])
            print("  old:", *before)
            print("  new:", *after)
        print(f"{model}: {len(different)} of {len(old)} answers differ")
    return 1 if n_different else 0


if __name__ == "__main__":
    sys.exit(main())
