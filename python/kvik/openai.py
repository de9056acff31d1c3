"""OpenAI clients of a model in this process, for programs and frameworks that take such a client. Needs the package openai.

    llm = kvik.LLM("model.gguf")
    client = kvik.openai.client(llm)
    client.chat.completions.create(model="kvik", messages=[{"role": "user", "content": "Hello"}])

Nothing goes over a network: the client's requests are those of LLM.request(). Frameworks that create the client themselves take
`http_client=kvik.openai.http_client(llm)`.
"""
from __future__ import annotations

import importlib
import json
from typing import Any, AsyncIterator, Iterator

from openai import AsyncOpenAI, DefaultHttpxClient, OpenAI

from . import LLM, ContextLengthError, ExhaustedError, FailedError, InvalidArgumentError, KvikError, NotFoundError, UnavailableError, UnsupportedError
from . import _native
from ._events import async_events, decoded, events

# The module of HTTP clients that the installed openai uses: httpx2 or, before its version 3, httpx.
httpx: Any = importlib.import_module(next(base.__module__.split(".")[0] for base in DefaultHttpxClient.__mro__ if base.__name__ == "Client"))
BASE_URL = "http://kvik/v1"  # a name that is never looked up
_STATUS = {InvalidArgumentError: 400, ContextLengthError: 400, NotFoundError: 404, UnsupportedError: 400, ExhaustedError: 429, UnavailableError: 503,
           FailedError: 500}


def client(llm: LLM, **options: Any) -> OpenAI:
    """Returns a client whose requests are answered by the model. `options` are those of the class OpenAI."""
    return OpenAI(**_defaults(options), http_client=http_client(llm))


def async_client(llm: LLM, **options: Any) -> AsyncOpenAI:
    return AsyncOpenAI(**_defaults(options), http_client=async_http_client(llm))


def http_client(llm: LLM) -> Any:
    """Returns an HTTP client whose requests to any host are answered by the model."""
    return httpx.Client(transport=Transport(llm))


def async_http_client(llm: LLM) -> Any:
    return httpx.AsyncClient(transport=AsyncTransport(llm))


def _defaults(options: Any) -> Any:
    return {"base_url": BASE_URL, "api_key": "none", "max_retries": 0, **options}


class Transport(httpx.BaseTransport):  # type: ignore[misc]
    """Answers the requests of an httpx.Client with a model."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def handle_request(self, request: Any) -> Any:
        body = request.read()
        try:
            started = _start(self._llm, request, body)
            if _is_streamed(body):
                return httpx.Response(200, headers=_EVENT_STREAM, stream=_Stream(started))
            return httpx.Response(200, json=next(events(started)))
        except KvikError as error:
            return _error_response(error)


class AsyncTransport(httpx.AsyncBaseTransport):  # type: ignore[misc]
    """Answers the requests of an httpx.AsyncClient with a model."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    async def handle_async_request(self, request: Any) -> Any:
        body = await request.aread()
        try:
            started = _start(self._llm, request, body)
            if _is_streamed(body):
                return httpx.Response(200, headers=_EVENT_STREAM, stream=_AsyncStream(started))
            return httpx.Response(200, json=[event async for event in async_events(started)][0])
        except KvikError as error:
            return _error_response(error)


_EVENT_STREAM = {"content-type": "text/event-stream"}
_DONE = b"data: [DONE]\n\n"


class _Stream(httpx.SyncByteStream):  # type: ignore[misc]
    def __init__(self, request: _native.Request) -> None:
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        try:
            for event in events(self._request):
                yield _event_bytes(event)
        except KvikError as error:
            yield _event_bytes(_error_of(error))
        yield _DONE

    def close(self) -> None:
        self._request.close()


class _AsyncStream(httpx.AsyncByteStream):  # type: ignore[misc]
    def __init__(self, request: _native.Request) -> None:
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for event in async_events(self._request):
                yield _event_bytes(event)
        except KvikError as error:
            yield _event_bytes(_error_of(error))
        yield _DONE

    async def aclose(self) -> None:
        self._request.close()


def _start(llm: LLM, request: Any, body: bytes) -> _native.Request:
    path = request.url.raw_path.decode("ascii")
    return llm.start(path, decoded(body) if body else None, method=request.method)


def _is_streamed(body: bytes) -> bool:
    fields = decoded(body) if body else None
    return isinstance(fields, dict) and fields.get("stream") is True


def _event_bytes(event: Any) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _error_of(error: KvikError) -> Any:
    code = "context_length_exceeded" if isinstance(error, ContextLengthError) else None
    return {"error": {"message": str(error), "type": "invalid_request_error" if isinstance(error, ValueError) else "server_error", "code": code}}


def _error_response(error: KvikError) -> Any:
    return httpx.Response(_STATUS.get(type(error), 500), json=_error_of(error))
