"""Converts an agent's requests, in any API dialect, to chats and tokens. This is independent of the server's parsers, so that a test knows the
common prefix of a request and earlier requests without querying the cache."""
import json


def joined(content):
    if content is None or isinstance(content, str):
        return content or ""
    return [{"type": "text", "text": part["text"]} for part in content if "text" in part]


def tool(name, description, parameters):
    function = {"name": name} | ({"description": description} if description else {}) | ({"parameters": parameters} if parameters is not None else {})
    return {"type": "function", "function": function}


def call(id, name, arguments):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


class Chat:
    def __init__(self):
        self.messages = []

    def newest(self, role):
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": []})
        return self.messages[-1]

    def add_call(self, made):
        self.newest("assistant").setdefault("tool_calls", []).append(made)


def without_header(text):
    return "".join(line for line in text.splitlines(True) if not line.startswith("x-anthropic-billing-header:"))


def from_messages(body):
    chat = Chat()

    def add_system(content):
        texts = [content] if isinstance(content, str) else [block["text"] for block in content or []]
        parts = [{"type": "text", "text": text} for text in map(without_header, texts) if text]
        if parts:
            chat.messages.append({"role": "system", "content": parts})

    add_system(body.get("system"))
    for message in body["messages"]:
        role, content = message["role"], message["content"]
        if role == "system":
            add_system(content)
            continue
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                chat.newest(role)["content"].append({"type": "text", "text": block["text"]})
            elif block["type"] == "tool_use":
                chat.add_call(call(block["id"], block["name"], json.dumps(block["input"])))
            elif block["type"] == "tool_result":
                chat.messages.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": joined(block.get("content"))})
    tools = [tool(t["name"], t.get("description"), t["input_schema"]) for t in body.get("tools", []) if "input_schema" in t]
    return {"messages": chat.messages, "tools": tools}


def from_responses(body):
    chat = Chat()
    if body.get("instructions"):
        chat.messages.append({"role": "system", "content": body["instructions"]})
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "message":
            role = {"developer": "system"}.get(item["role"], item["role"])
            if role == "assistant":
                chat.newest(role)["content"] += joined(item["content"])
            else:
                chat.messages.append({"role": role, "content": joined(item["content"])})
        elif kind == "function_call":
            chat.add_call(call(item["call_id"], item["name"], item["arguments"]))
        elif kind == "function_call_output":
            chat.messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": joined(item["output"])})
    tools = [tool(t["name"], t.get("description"), t.get("parameters")) for t in body.get("tools", []) if t["type"] == "function"]
    return {"messages": chat.messages, "tools": tools}


def from_chat(body):
    return {name: body[name] for name in ("messages", "tools") if name in body}


READERS = {"/v1/messages": from_messages, "/v1/responses": from_responses, "/v1/chat/completions": from_chat}


def path_of(exchange):
    return exchange.path.partition("?")[0]


def is_generation(exchange):
    return exchange.method == "POST" and path_of(exchange) in READERS


def tokens_of(server, exchange):
    """Returns the prompt of a request, rendered by the server's template and tokenizer."""
    chat = READERS[path_of(exchange)](json.loads(exchange.body))
    text = server.post("/apply-template", {k: v for k, v in chat.items() if v}).json["prompt"]
    return server.post("/tokenize", {"content": text, "parse_special": True}).json["tokens"]


def events(answer):
    return [json.loads(line[6:]) for line in answer.decode().splitlines() if line.startswith("data: ") and line != "data: [DONE]"]


def usage_of(exchange):
    """Returns (prompt tokens, cached tokens) as reported by the answer."""
    answered = [json.loads(exchange.answer)] if exchange.answer.startswith(b"{") else events(exchange.answer)
    usages = [found for event in answered for found in (event.get("usage"), (event.get("message") or {}).get("usage"),
                                                        (event.get("response") or {}).get("usage")) if found]
    usage = {name: value for found in usages for name, value in found.items()}
    if "prompt_tokens" in usage:
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
    if "cache_read_input_tokens" in usage:
        found = usage["cache_read_input_tokens"]
        return usage["input_tokens"] + usage["cache_creation_input_tokens"] + found, found
    return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]


def common_prefix(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def reuse(server, exchanges):
    """Returns [(exchange, prompt tokens, reusable tokens, cached tokens)] for each request that generates.

    The reusable tokens are the common prefix with any prompt that was answered before the request arrived; the last token is always computed."""
    known, rows = [], []
    for exchange in filter(is_generation, exchanges):
        tokens = tokens_of(server, exchange)
        n_prompt, n_found = usage_of(exchange)
        if n_prompt != len(tokens):
            raise AssertionError(f"{exchange}: the prompt has {n_prompt} tokens, expected {len(tokens)}")
        shared = [common_prefix(tokens, other) for other, ended in known if ended < exchange.begun]
        rows.append((exchange, n_prompt, min(max(shared, default=0), n_prompt - 1), n_found))
        known.append((tokens, exchange.ended))
    return rows
