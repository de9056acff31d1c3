"""Waiting for the events of requests, in threads and in event loops."""
from __future__ import annotations

import asyncio
import json
import os
import weakref
from typing import Any, AsyncIterator, Iterator, Optional

from . import _native
from ._errors import KvikError

_SLICE_MS = 200  # a thread that waits notices Ctrl-C after this time


def events(request: _native.Request) -> Iterator[Any]:
    """Yields the events of a request. Ending the iteration cancels it."""
    try:
        while True:
            event, data = request.next(_SLICE_MS)
            if event == _native.END:
                return
            if event == _native.DATA:
                yield decoded(data)
    finally:
        request.close()


def answer_of(request: _native.Request, at_most_ms: Optional[int] = None) -> Optional[Any]:
    """Waits for the whole answer of a request that is not streamed. None: there is none yet."""
    while True:
        event, data = request.next(_SLICE_MS if at_most_ms is None else at_most_ms)
        if event == _native.DATA:
            return decoded(data)
        if event == _native.END:
            raise KvikError("the request has no answer")
        if at_most_ms is not None:
            return None


class Waker:
    """A pipe to which the library writes when a request has an event, for one event loop. Wakes all tasks that wait."""

    _of_loop: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Waker]" = weakref.WeakKeyDictionary()

    @classmethod
    def current(cls) -> "Waker":
        loop = asyncio.get_running_loop()
        if loop not in cls._of_loop:
            cls._of_loop[loop] = cls(loop)
        return cls._of_loop[loop]

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._reader, self.fd = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self.fd, False)
        self._waiting: "set[asyncio.Event]" = set()
        loop.add_reader(self._reader, self._on_readable)
        weakref.finalize(self, _close, self._reader, self.fd)

    def _on_readable(self) -> None:
        try:
            os.read(self._reader, 1 << 16)
        except BlockingIOError:
            return
        for event in self._waiting:
            event.set()

    def add(self) -> asyncio.Event:
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def remove(self, event: asyncio.Event) -> None:
        self._waiting.discard(event)


def _close(*descriptors: int) -> None:
    for fd in descriptors:
        os.close(fd)


async def async_events(request: _native.Request) -> AsyncIterator[Any]:
    """Like events(), without a thread that waits."""
    waker = Waker.current()
    has_news = waker.add()
    try:
        request.wake_fd(waker.fd)
        while True:
            event, data = request.next(0)
            if event == _native.END:
                return
            if event == _native.DATA:
                yield decoded(data)
            else:
                await has_news.wait()
                has_news.clear()
    finally:
        waker.remove(has_news)
        request.close()


def decoded(data: bytes) -> Any:
    """Returns the JSON value of an event, or its text if it is none (/metrics)."""
    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")
