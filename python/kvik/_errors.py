"""The errors of the library, one class for each code of kvik.h."""
from __future__ import annotations


class KvikError(Exception):
    """An error of the library, in one sentence. Subclasses say of which kind."""

    code = 0


class InvalidArgumentError(KvikError, ValueError):
    """A value of the caller is wrong."""

    code = 1


class ContextLengthError(KvikError, ValueError):
    """The prompt is longer than the context."""

    code = 2


class NotFoundError(KvikError, LookupError):
    """There is no such file, model or route."""

    code = 3


class UnsupportedError(KvikError, NotImplementedError):
    """The value is well-formed, but not supported."""

    code = 4


class CorruptError(KvikError):
    """A file violates its format."""

    code = 5


class ExhaustedError(KvikError):
    """A queue, a budget or the memory is full."""

    code = 6


class UnavailableError(KvikError):
    """The thing is used by another process, or has ended."""

    code = 7


class FailedError(KvikError):
    """The operating system refused, or the computation failed."""

    code = 8


_CLASSES = {c.code: c for c in (InvalidArgumentError, ContextLengthError, NotFoundError, UnsupportedError, CorruptError, ExhaustedError,
                                UnavailableError, FailedError)}


def error_of(code: int, message: str) -> KvikError:
    return _CLASSES.get(code, FailedError)(message)
