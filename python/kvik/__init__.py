"""Kvik: an LLM inference engine in this process.

>>> import kvik
>>> with kvik.LLM("demo", ctx=512) as llm:
...     answer = llm.generate("ROMEO:", max_tokens=8, temperature=0)
>>> answer.usage["completion_tokens"]
8

`LLM` loads a model, `Session` holds a sequence of tokens whose K and V are cached, and `KvikError` is what they raise. The guide is
docs/guides/python.md.
"""
from ._errors import (
    ContextLengthError,
    CorruptError,
    ExhaustedError,
    FailedError,
    InvalidArgumentError,
    KvikError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from ._llm import LLM, Answer, ChatAnswer, Delta, Scores, ToolCall, set_log
from ._native import version as _version
from ._session import Session

__version__ = _version()
__all__ = [
    "LLM", "Answer", "ChatAnswer", "ContextLengthError", "CorruptError", "Delta", "ExhaustedError", "FailedError", "InvalidArgumentError", "KvikError",
    "NotFoundError", "Scores", "Session", "ToolCall", "UnavailableError", "UnsupportedError", "set_log",
]
