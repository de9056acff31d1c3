"""The requests of tools/measure/attack.py. Each kind is a function of (target, rng) that returns a status or the reason why there is none. Its
docstring is its description in `attack.py --kinds`.

No function waits forever, and answers are counted and discarded.
"""
import asyncio
import collections
import json
import socket
import struct

WORDS = ("thou", "art", "more", "lovely", "and", "temperate", "rough", "winds", "do", "shake", "the", "darling", "buds", "of", "May", "ROMEO", "JULIET",
         "speak", "again", "bright", "angel", "O", "night", "sun", "east", "moon", "envious")
MAX_PRIORITY = 2**31 - 1


class Target:
    """The server's address and the keys of the hostile clients."""

    def __init__(self, port, keys, scale=1.0):
        self.port, self.keys, self.scale = port, keys, scale
        self.more_requests = 0  # requests sent in addition to one per kind

    def large(self, n):
        return max(int(n * self.scale), 1)


Kind = collections.namedtuple("Kind", "name weight act is_hostile")
KINDS = []


def kind(weight, hostile=True):
    def add(act):
        KINDS.append(Kind(act.__name__, weight, act, hostile))
        return act
    return add


def kind_named(name):
    return next(k for k in KINDS if k.name == name)


# --- bytes on the wire ---

class Wire:
    """A connection that is always closed or reset."""

    def __init__(self, target, receive_bytes=None, reset=False):
        self.target, self.receive_bytes, self.reset = target, receive_bytes, reset

    async def __aenter__(self):
        s = socket.socket()
        s.setblocking(False)
        if self.receive_bytes:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_bytes)
        if self.reset:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            await asyncio.get_running_loop().sock_connect(s, ("127.0.0.1", self.target.port))
            self.reader, self.writer = await asyncio.open_connection(sock=s, limit=1 << 16)
        except BaseException:
            s.close()
            raise
        return self

    async def __aexit__(self, *_):
        self.writer.transport.abort() if self.reset else self.writer.close()

    async def send(self, *pieces):
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def status(self):
        """Returns the status of the next answer."""
        line = await self.reader.readline()
        if not line:
            return "closed"
        return int(line.split(b" ", 2)[1])

    async def answer(self):
        """Returns the status, after reading until the server closes the connection."""
        status = await self.status()
        while await self.reader.read(1 << 16):
            pass
        return status


def head(method, path, *headers):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]).encode() + b"\r\n\r\n"


def post(target, rng, path, body, *headers, key=None):
    """Returns the bytes of a request; `body` is bytes, or an object to encode as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head("POST", path, "Content-Type: application/json", f"Content-Length: {len(data)}", f"x-api-key: {key or rng.choice(target.keys)}", *headers) + data


async def ask(target, rng, path, body, *headers):
    async with Wire(target) as wire:
        try:
            await wire.send(post(target, rng, path, body, *headers))
        except ConnectionError:
            pass  # the server answered before it had received everything
        return await wire.answer()


def text(rng, n_words):
    return " ".join(rng.choices(WORDS, k=n_words))


def completion(rng, **fields):
    return {"prompt": text(rng, rng.randrange(2, 120)), "max_tokens": rng.randrange(1, 40), "temperature": rng.choice((0, 1)),
            "stream": rng.random() < 0.6, **fields}


def ids(rng, n):
    return [rng.randrange(4, 2000) for _ in range(n)]


# --- well-behaved clients ---

@kind(0, hostile=False)
async def behave(target, rng):
    """sends completions, chats, other dialects, embeddings, tokens; one in ten disconnects early"""
    if rng.random() < 0.1:
        return await leave(target, rng)
    what = rng.random()
    if what < 0.5:
        return await ask(target, rng, "/v1/completions", completion(rng))
    messages = [{"role": "system", "content": "You are " + text(rng, 30)}, {"role": "user", "content": text(rng, rng.randrange(1, 60))}]
    if what < 0.7:
        return await ask(target, rng, "/v1/chat/completions", {"messages": messages, "max_tokens": 20, "stream": rng.random() < 0.5})
    if what < 0.8:
        return await ask(target, rng, "/v1/messages", {"messages": messages[1:], "system": text(rng, 20), "max_tokens": 20, "stream": rng.random() < 0.5})
    if what < 0.85:
        return await ask(target, rng, "/v1/responses", {"input": text(rng, 20), "max_output_tokens": 20, "stream": rng.random() < 0.5})
    if what < 0.9:
        return await ask(target, rng, "/v1/embeddings", {"input": [text(rng, 20) for _ in range(3)]})
    path, body = rng.choice((("/tokenize", {"content": text(rng, 40)}), ("/detokenize", {"tokens": ids(rng, 20)})))
    return await ask(target, rng, path, body)


async def leave(target, rng):
    """Disconnects at a random moment."""
    whole = post(target, rng, "/v1/completions", completion(rng, max_tokens=rng.randrange(1, 300), ignore_eos=True, n=rng.choice((1, 1, 2, 3))))
    async with Wire(target, reset=rng.random() < 0.5) as wire:
        moment = rng.choice(("in the request", "at once", "later", "in the answer", "half closed"))
        if moment == "in the request":
            await wire.send(whole[:rng.randrange(len(whole))])
            return "left"
        await wire.send(whole)
        if moment == "later":
            await asyncio.sleep(rng.uniform(0, 0.05))
        elif moment == "in the answer":
            await wire.reader.read(rng.randrange(1, 4000))
        elif moment == "half closed":
            wire.writer.write_eof()
            return await wire.answer()
    return "left"


# --- answers larger than memory ---

@kind(1)
async def huge_answer(target, rng):
    """requests prompts × choices × log probabilities"""
    n = rng.choice((1, 4, 16))
    body = {"prompt": [ids(rng, 990) for _ in range(target.large(rng.choice((4, 32, 64))))], "n": n, "max_tokens": 1,
            **rng.choice(({"prompt_logprobs": 20}, {"echo": True, "logprobs": 20}))}
    return await ask(target, rng, "/v1/completions", body)


@kind(1)
async def slow_reader(target, rng):
    """requests much output and reads it byte by byte, or not at all"""
    body = completion(rng, prompt=[ids(rng, 900)], max_tokens=60, ignore_eos=True, n=4, stream=rng.random() < 0.5, logprobs=20, echo=True)
    async with Wire(target, receive_bytes=4096, reset=True) as wire:
        await wire.send(post(target, rng, "/v1/completions", body))
        for _ in range(rng.choice((0, 20))):
            await wire.reader.read(1)
            await asyncio.sleep(0.1)
        await asyncio.sleep(rng.uniform(0.5, 4))
    return "left"


# --- fields without bounds ---

@kind(0.4)
async def huge_field(target, rng):
    """sends a text of 30 MiB in place of a name, for many choices"""
    value = "x" * target.large(rng.choice((1, 8, 30)) << 20)
    field = rng.choice(("cache_salt", "user", "model", "stop", "prompt_cache_key", "suffix"))
    return await ask(target, rng, "/v1/completions", completion(rng, n=rng.choice((1, 128)), **{field: value}))


@kind(1)
async def many_of_a_field(target, rng):
    """sends a million stops, biases, ids, messages or tools"""
    n = target.large(rng.choice((1_000, 100_000, 1_000_000)))
    path, fields = rng.choice((
        ("/v1/completions", {"stop": ["x"] * n}), ("/v1/completions", {"logit_bias": {str(i): 1 for i in range(n)}}),
        ("/v1/completions", {"stop_token_ids": [1] * n}), ("/v1/completions", {"prompt": [""] * n}), ("/v1/completions", {"prompt": [5] * n}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}] * n}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}] * n}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f"}}] * n}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2, "stop_sequences": ["x"] * n}),
        ("/v1/embeddings", {"input": ["x"] * n})))
    return await ask(target, rng, path, {**(completion(rng) if path.endswith("/completions") and "chat" not in path else {}), **fields})


@kind(0.4)
async def huge_body(target, rng):
    """sends 31 MiB to tokenize, nine million empty lists, or one deep list"""
    n = target.large(31 << 20)
    path, body = rng.choice((
        ("/tokenize", lambda: b'{"content":"' + b"a b" * (n // 3) + b'"}'),
        ("/tokenize", lambda: b'{"content":"' + b"a" * n + b'"}'),
        ("/v1/completions", lambda: b'{"prompt":"' + b"To be " * (n // 6) + b'"}'),
        ("/v1/chat/completions",
         lambda: b'{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"a":[' + b"[]," * (n // 3) + b"[]]}}"),
        ("/v1/completions", lambda: b"[" * n), ("/v1/completions", lambda: b'{"a":' * (n // 5)),
        ("/v1/completions", lambda: b'{"prompt":[' + b"1," * (n // 2) + b"1]}")))
    return await ask(target, rng, path, body())


@kind(0.4)
async def body_without_end(target, rng):
    """sends chunks until the server stops it"""
    async with Wire(target) as wire:
        try:
            await wire.send(head("POST", "/v1/completions", "Transfer-Encoding: chunked", f"x-api-key: {rng.choice(target.keys)}"))
            for _ in range(target.large(600)):
                await wire.send(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        except ConnectionError:
            pass
        return await wire.answer()


# --- connections ---

@kind(0.3)
async def silent(target, rng):
    """opens a hundred connections that stay silent for a while"""
    held = []
    try:
        for _ in range(target.large(100)):
            wire = Wire(target)
            held.append(await wire.__aenter__())
        await asyncio.sleep(rng.uniform(1, 6))
    finally:
        for wire in held:
            await wire.__aexit__()
    return "left"


@kind(0.5)
async def slow_request(target, rng):
    """sends a header or a body byte by byte"""
    whole = post(target, rng, "/v1/completions", completion(rng))
    at = rng.choice((10, len(whole) - 5))
    async with Wire(target) as wire:
        await wire.send(whole[:at])
        for byte in whole[at:at + 40]:
            await asyncio.sleep(0.1)
            await wire.send(bytes([byte]))
    return "left"


@kind(14)
async def leaver(target, rng):
    """disconnects in the request, in the prompt or in the answer"""
    return await leave(target, rng)


@kind(1)
async def live_watcher(target, rng):
    """opens the stream of the live page and does not read it"""
    async with Wire(target, receive_bytes=4096, reset=True) as wire:
        await wire.send(head("GET", "/kvik/live", f"x-api-key: {rng.choice(target.keys)}"))
        await asyncio.sleep(rng.uniform(0, 3))
    return "left"


# --- other users ---

@kind(1)
async def priority_flood(target, rng):
    """sends twenty requests with priority over all others"""
    body = completion(rng, priority=rng.choice((-MAX_PRIORITY - 1, -1, MAX_PRIORITY)), max_tokens=60, ignore_eos=True, stream=False)
    answers = await asyncio.gather(*(ask(target, rng, "/v1/completions", body) for _ in range(20)), return_exceptions=True)
    target.more_requests += len(answers) - 1
    return next((a for a in answers if isinstance(a, int)), "cut off")


@kind(3)
async def pin(target, rng):
    """pins a prompt for a day, or for the longest allowed time"""
    block = {"type": "text", "text": text(rng, 350), "cache_control": {"type": "ephemeral", "ttl": rng.choice(("5m", "1h", "1d"))}}
    return await ask(target, rng, "/v1/messages", {"messages": [{"role": "user", "content": [block]}], "max_tokens": 1})


@kind(14)
async def probe(target, rng):
    """probes the cache for prompts of other users"""
    prompt = "ROMEO:\nO, speak again, " + text(rng, rng.randrange(1, 4))
    return await ask(target, rng, "/v1/completions", {"prompt": prompt, "max_tokens": 1, "kvik": {"explain_cache": True}})


@kind(6)
async def another_origin(target, rng):
    """acts as a foreign web page: rebound names, plain text, preflights"""
    body = json.dumps(completion(rng)).encode()
    headers = rng.choice((["Host: evil.example"], ["Host: localhost", "Origin: https://evil.example"], ["Host: localhost", "Origin: null"],
                          ["Host: 127.0.0.1.evil.example:80", "Origin: http://127.0.0.1.evil.example"]))
    method = rng.choice(("POST", "OPTIONS", "GET"))
    lines = [f"{method} {rng.choice(('/v1/completions', '/metrics', '/kvik/live', '/v1/models'))} HTTP/1.1", *headers, "Connection: close",
             "Content-Type: text/plain", f"Content-Length: {len(body) if method == 'POST' else 0}"]
    async with Wire(target, reset=True) as wire:
        await wire.send("\r\n".join(lines).encode() + b"\r\n\r\n" + (body if method == "POST" else b""))
        return await wire.status()


@kind(8)
async def wrong_key(target, rng):
    """sends no key, a wrong one, or another user's"""
    async with Wire(target) as wire:
        await wire.send(post(target, rng, rng.choice(("/v1/completions", "/metrics", "/kvik/live", "/tokenize")), completion(rng),
                             key=rng.choice(("wrong", "", "user-kez", "x" * 5000))))
        return await wire.answer()


# --- invalid HTTP, JSON and numbers ---

@kind(12)
async def no_http(target, rng):
    """sends ambiguous framing, folded headers or noise"""
    key = f"x-api-key: {target.keys[0]}"
    whole = rng.choice((
        b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET /health HTTP/1.1\r\n\r\n", b"GET /health HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
        head("POST", "/v1/completions", key, "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
        head("POST", "/v1/completions", key, "Content-Length: -1"), head("POST", "/v1/completions", key, "Content-Length: 5", "Content-Length: 6") + b"hello!",
        head("POST", "/v1/completions", key, "Transfer-Encoding: chunked") + b"-2\r\n", head("GET", "/" + "a" * 70000),
        head("POST", "/v1/completions", key, "Transfer-Encoding: chunked") + b"ffffffffffffffff\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200), rng.randbytes(rng.randrange(1, 5000)) + b"\r\n\r\n",
        head("GET", "/%00%1b[31m%0d%0a"), head("GET", "/v1/models/\x1b]0;owned\x07"), b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10000 + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
    async with Wire(target) as wire:
        try:
            await wire.send(whole)
            wire.writer.write_eof()
        except (ConnectionError, OSError):
            pass
        return await wire.answer()


@kind(16)
async def no_sense(target, rng):
    """sends JSON that is truncated, deep, huge or of the wrong type"""
    body = rng.choice((
        b"{", b'{"prompt": NaN}', b'{"prompt": "\xff"}', b'{"prompt": "x", "temperature": 1e999}', b"[" * 100_000, b'{"prompt": "\\ud800"}', b"null", b"",
        b'{"prompt": "x", "prompt": "y"}', {"prompt": None}, {"prompt": {}}, {"prompt": [[]]}, {"prompt": [[1, "x"]]}, {"prompt": [-1]}, {"prompt": [2**63]},
        {"prompt": "x", "n": 2**31}, {"prompt": "x", "best_of": 2**31}, {"prompt": "x", "max_tokens": -1}, {"prompt": "x", "max_tokens": 2**63},
        {"prompt": "x", "temperature": -1}, {"prompt": "x", "top_p": -1}, {"prompt": "x", "repetition_penalty": 0}, {"prompt": "x", "logprobs": 2**31},
        {"prompt": "x", "logit_bias": {"-1": 1}}, {"prompt": "x", "stop_token_ids": [2**40]}, {"prompt": "x", "priority": 2**63}, {"prompt": "x" * 20000},
        {"prompt": "x", "cache_salt": 5}, {"prompt": "\x1b]0;owned\x07\n\x00", "max_tokens": 1}, {"prompt": "x", "model": "nobody\x1b[2J"}))
    return await ask(target, rng, rng.choice(("/v1/completions", "/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses", "/tokenize")), body)


@kind(4)
async def template_kwargs(target, rng):
    """sends template variables that shadow its own, are huge or are nested"""
    kwargs = rng.choice(({"messages": []}, {"bos_token": "x" * 100_000}, {"add_generation_prompt": "\x00"}, {"a": [[[[[[]]]]]] * 1000},
                         {"tools": "x"}, {"raise_exception": 1}, {str(i): i for i in range(5000)}))
    return await ask(target, rng, "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2, "chat_template_kwargs": kwargs})


@kind(3)
async def grammar(target, rng):
    """sends constraints of exponential size"""
    deep = {"type": "array", "items": {"type": "string"}}
    for _ in range(rng.choice((3, 200))):
        deep = {"type": "array", "items": deep}
    schema = rng.choice((deep, {"$ref": "#"}, {"type": "array", "maxItems": 2**63, "items": {"type": "string"}},
                         {"type": "string", "pattern": "(a+)+$"}, {"type": "string", "pattern": "(" * 60_000}, {"enum": [str(i) for i in range(20_000)]}))
    return await ask(target, rng, "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 4,
                                                           "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}})
