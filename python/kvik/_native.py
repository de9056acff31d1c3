"""The functions of kvik.h. Other modules use the classes here and no pointer.

ctypes releases Python's global lock during each call.
"""
from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Iterable, List, Optional, Sequence

from ._errors import error_of
from ._values import listed, text_bytes, whole

NONE, DATA, END = 0, 1, 2  # kvik_event
ADD_SPECIAL, PARSE_SPECIAL = 1, 2  # kvik_tokenize_flags

_Progress = ctypes.CFUNCTYPE(None, c_uint64, c_uint64, c_void_p)
_Log = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)


class _Error(ctypes.Structure):
    _fields_ = [("code", c_int), ("message", ctypes.c_char * 1020)]


def _load() -> ctypes.CDLL:
    """Loads the library that KVIK_LIBRARY names, that of this package, or that of the system."""
    own = os.path.join(os.path.dirname(__file__), "libkvik.so.0")
    return ctypes.CDLL(os.environ.get("KVIK_LIBRARY") or (own if os.path.exists(own) else "libkvik.so.0"))


_library = _load()
_ERROR = POINTER(_Error)
_TOKENS = POINTER(c_uint32)

# The parameters of each function that returns a kvik_code, without the error that is its last one.
_FUNCTIONS: "dict[str, list[Any]]" = {
    "kvik_model_open": [c_char_p, c_char_p, _Progress, c_void_p, POINTER(c_void_p)],
    "kvik_model_info": [c_void_p, POINTER(c_void_p)],
    "kvik_model_statistics": [c_void_p, POINTER(c_void_p)],
    "kvik_tokenize": [c_void_p, c_char_p, c_size_t, ctypes.c_uint, POINTER(_TOKENS), POINTER(c_size_t)],
    "kvik_detokenize": [c_void_p, _TOKENS, c_size_t, POINTER(c_void_p), POINTER(c_size_t)],
    "kvik_logits": [c_void_p, _TOKENS, c_size_t, POINTER(c_float), c_size_t],
    "kvik_all_logits": [c_void_p, _TOKENS, c_size_t, POINTER(c_float), c_size_t],
    "kvik_score": [c_void_p, _TOKENS, c_size_t, POINTER(c_float), c_size_t],
    "kvik_score_after": [c_void_p, _TOKENS, c_size_t, c_size_t, POINTER(c_float), _TOKENS],
    "kvik_embed": [c_void_p, _TOKENS, c_size_t, c_int, POINTER(c_float), c_size_t],
    "kvik_request_start": [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t, POINTER(c_void_p)],
    "kvik_request_next": [c_void_p, c_int, POINTER(c_int), POINTER(c_void_p), POINTER(c_size_t)],
    "kvik_request_set_wake": [c_void_p, c_void_p, c_void_p],
    "kvik_session_create": [c_void_p, c_uint32, POINTER(c_void_p)],
    "kvik_session_fork": [c_void_p, POINTER(c_void_p)],
    "kvik_session_append": [c_void_p, _TOKENS, c_size_t],
    "kvik_session_truncate": [c_void_p, c_size_t],
    "kvik_session_prefill": [c_void_p],
    "kvik_session_logits": [c_void_p, POINTER(c_float), c_size_t],
    "kvik_session_generate": [c_void_p, c_char_p, POINTER(c_void_p)],
    "kvik_session_save": [c_void_p, c_char_p],
    "kvik_session_export": [c_void_p, c_char_p],
    "kvik_model_import": [c_void_p, c_char_p, POINTER(c_size_t)],
    "kvik_session_load": [c_void_p, c_char_p, c_uint32, POINTER(c_void_p)],
}
for _name, _parameters in _FUNCTIONS.items():
    _function = getattr(_library, _name)
    _function.argtypes, _function.restype = [*_parameters, _ERROR], c_int
for _name in ("kvik_model_close", "kvik_request_free", "kvik_request_cancel", "kvik_session_free", "kvik_free"):
    _function = getattr(_library, _name)
    _function.argtypes, _function.restype = [c_void_p], None
for _name in ("kvik_model_context", "kvik_model_vocabulary", "kvik_model_dimension"):
    _function = getattr(_library, _name)
    _function.argtypes, _function.restype = [c_void_p], c_uint32
_library.kvik_session_tokens.argtypes, _library.kvik_session_tokens.restype = [c_void_p, POINTER(c_size_t)], _TOKENS
_library.kvik_version.argtypes, _library.kvik_version.restype = [], c_char_p
_library.kvik_set_log.argtypes, _library.kvik_set_log.restype = [c_int, _Log, c_void_p], None


def _call(name: str, *arguments: Any) -> None:
    """Calls a function, and raises its error."""
    error = _Error()
    code = getattr(_library, name)(*arguments, byref(error))
    if code != 0:
        raise error_of(code, error.message.decode("utf-8", "replace"))


def _array(tokens: Iterable[int]) -> Any:
    values = [whole("a token", value, 32) for value in listed("tokens", tokens)]
    return (c_uint32 * len(values))(*values)


def _path(path: str) -> bytes:
    return _c_text("a path", os.fsencode(path))


def _c_text(name: str, text: bytes) -> bytes:
    """Checks a text, which C would end at its first NUL byte."""
    if b"\0" in text:
        raise error_of(1, f"{name} has a NUL byte: {text!r}")
    return text


def _taken_text(pointer: c_void_p, n_bytes: Optional[int] = None) -> bytes:
    """Returns a text of the library, which is released."""
    try:
        return ctypes.string_at(pointer, -1 if n_bytes is None else n_bytes)
    finally:
        _library.kvik_free(pointer)


def version() -> str:
    return _library.kvik_version().decode()


_log_callback = _Log()  # the library calls it until another one is set


def set_log(least: int, receive: Optional[Callable[[int, str], None]]) -> None:
    global _log_callback
    callback = _Log(lambda level, message, _: receive(level, message.decode("utf-8", "replace"))) if receive else _Log()
    _library.kvik_set_log(least, callback, None)
    _log_callback = callback


class _Owned:
    """A pointer, which is released with the last reference to this object. A call that is running on another thread has one."""

    def __init__(self, pointer: Optional[int], release: str) -> None:
        self._as_parameter_ = c_void_p(pointer)  # what ctypes passes on
        self._release, self.process = getattr(_library, release), os.getpid()

    def __del__(self) -> None:
        if self.process == os.getpid():  # the library's threads do not exist in a forked process
            self._release(self._as_parameter_)


class Handle:
    """An object of the library, released once: by close() or with this object, but not during a call."""

    def __init__(self, pointer: Optional[int], release: str, what: str) -> None:
        self._owned: Optional[_Owned] = _Owned(pointer, release)
        self._what = what

    @property
    def pointer(self) -> _Owned:
        owned = self._owned
        if owned is None:
            raise error_of(1, f"the {self._what} is closed")
        if owned.process != os.getpid():
            raise error_of(7, f"the {self._what} belongs to the process {owned.process}, from which this one was forked")
        return owned

    def is_usable(self) -> bool:
        """Returns whether it is open, and of this process."""
        owned = self._owned
        return owned is not None and owned.process == os.getpid()

    def close(self) -> None:
        self._owned = None


class _OneThread(Handle):
    """A handle that the library lets one thread use at a time: the calls of others wait."""

    def __init__(self, pointer: Optional[int], release: str, what: str, lock: Any = None) -> None:
        super().__init__(pointer, release, what)
        self._lock = lock or threading.RLock()

    def _call(self, name: str, *arguments: Any) -> None:
        owned = self.pointer  # raises first: a forked process may have a copy of a lock that stays locked
        with self._lock:
            _call(name, owned, *arguments)


class Request(_OneThread):
    """lock: that of the session which the request extends."""

    def __init__(self, pointer: Optional[int], lock: Any = None) -> None:
        super().__init__(pointer, "kvik_request_free", "request", lock)

    def next(self, timeout_ms: int) -> "tuple[int, bytes]":
        """Returns the next event and its data."""
        event, data, n_bytes = c_int(), c_void_p(), c_size_t()
        owned = self.pointer
        with self._lock:
            _call("kvik_request_next", owned, timeout_ms, byref(event), byref(data), byref(n_bytes))
            return event.value, ctypes.string_at(data, n_bytes.value) if event.value == DATA else b""

    def cancel(self) -> None:
        _library.kvik_request_cancel(self.pointer)

    def wake_fd(self, fd: int) -> None:
        """Lets the library write to the file descriptor whenever there is an event."""
        self._call("kvik_request_set_wake", ctypes.cast(_library.kvik_wake_fd, c_void_p), c_void_p(fd))


class SessionHandle(_OneThread):
    def __init__(self, pointer: Optional[int]) -> None:
        super().__init__(pointer, "kvik_session_free", "session")

    def fork(self) -> "SessionHandle":
        copy = c_void_p()
        self._call("kvik_session_fork", byref(copy))
        return SessionHandle(copy.value)

    def append(self, tokens: Sequence[int]) -> None:
        self._call("kvik_session_append", _array(tokens), len(tokens))

    def truncate(self, n_tokens: int) -> None:
        self._call("kvik_session_truncate", whole("n_tokens", n_tokens, 64))

    def tokens(self) -> List[int]:
        n_tokens = c_size_t()
        owned = self.pointer
        with self._lock:
            first = _library.kvik_session_tokens(owned, byref(n_tokens))
            return first[:n_tokens.value] if n_tokens.value else []

    def prefill(self) -> None:
        self._call("kvik_session_prefill")

    def logits(self, n_floats: int) -> Any:
        out = (c_float * n_floats)()
        self._call("kvik_session_logits", out, n_floats)
        return out

    def generate(self, options: bytes) -> Request:
        request = c_void_p()
        self._call("kvik_session_generate", options, byref(request))
        return Request(request.value, self._lock)

    def save(self, path: str) -> None:
        self._call("kvik_session_save", _path(path))

    def export(self, path: str) -> None:
        self._call("kvik_session_export", _path(path))


class Model(Handle):
    def __init__(self, path: str, options: bytes, progress: Optional[Callable[[int, int], None]]) -> None:
        model = c_void_p()
        raised: List[BaseException] = []

        def report(done: int, whole: int, _: Any) -> None:
            try:
                if progress and not raised:
                    progress(done, whole)
            except BaseException as error:  # ctypes would print it, Ctrl-C too, and go on
                raised.append(error)

        _call("kvik_model_open", _path(path), options, _Progress(report) if progress else _Progress(), None, byref(model))
        super().__init__(model.value, "kvik_model_close", "model")
        if raised:
            self.close()
            raise raised[0]

    def info(self) -> str:
        return self._text("kvik_model_info")

    def statistics(self) -> str:
        return self._text("kvik_model_statistics")

    def _text(self, name: str) -> str:
        text = c_void_p()
        _call(name, self.pointer, byref(text))
        return _taken_text(text).decode()

    @property
    def context(self) -> int:
        return _library.kvik_model_context(self.pointer)

    @property
    def vocabulary(self) -> int:
        return _library.kvik_model_vocabulary(self.pointer)

    @property
    def dimension(self) -> int:
        return _library.kvik_model_dimension(self.pointer)

    def tokenize(self, text: str, flags: int) -> List[int]:
        data, first, n_tokens = text_bytes("the text", text), _TOKENS(), c_size_t()
        _call("kvik_tokenize", self.pointer, data, len(data), flags, byref(first), byref(n_tokens))
        try:
            return first[:n_tokens.value]
        finally:
            _library.kvik_free(first)

    def detokenize(self, tokens: Sequence[int]) -> bytes:
        text, n_bytes = c_void_p(), c_size_t()
        _call("kvik_detokenize", self.pointer, _array(tokens), len(tokens), byref(text), byref(n_bytes))
        return _taken_text(text, n_bytes.value)

    def floats(self, name: str, tokens: Sequence[int], n_floats: int, *more: Any) -> Any:
        """Calls a function that computes floats from tokens."""
        out = (c_float * n_floats)()
        _call(name, self.pointer, _array(tokens), len(tokens), *more, out, n_floats)
        return out

    def score_after(self, tokens: Sequence[int], n_context: int) -> "tuple[List[float], List[int]]":
        n = max(len(tokens) - n_context, 0)
        logprobs, likeliest = (c_float * n)(), (c_uint32 * n)()
        _call("kvik_score_after", self.pointer, _array(tokens), len(tokens), whole("n_context", n_context, 64), logprobs, likeliest)
        return list(logprobs), list(likeliest)

    def request(self, method: str, path: str, body: bytes) -> Request:
        request = c_void_p()
        _call("kvik_request_start", self.pointer, _c_text("method", text_bytes("method", method)), _c_text("path", text_bytes("path", path)), body,
              len(body), byref(request))
        return Request(request.value)

    def session(self, keep_s: int) -> SessionHandle:
        session = c_void_p()
        _call("kvik_session_create", self.pointer, whole("keep_s", keep_s, 32), byref(session))
        return SessionHandle(session.value)

    def load_session(self, path: str, keep_s: int) -> SessionHandle:
        session = c_void_p()
        _call("kvik_session_load", self.pointer, _path(path), whole("keep_s", keep_s, 32), byref(session))
        return SessionHandle(session.value)

    def import_pages(self, path: str) -> int:
        n_tokens = c_size_t()
        _call("kvik_model_import", self.pointer, _path(path), byref(n_tokens))
        return n_tokens.value
