"""Checks values of the caller, and writes them as JSON."""
from __future__ import annotations

import json
import numbers
import operator
import os
from typing import Any, Iterable, List, Mapping, Sequence, Set, Union

from ._errors import InvalidArgumentError

Prompt = Union[str, Sequence[int]]


def encoded(value: Any) -> bytes:
    """Returns a value as JSON. Paths become texts, numbers and arrays of numpy become numbers and lists."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, default=_plain_value).encode()
    except (ValueError, RecursionError) as error:  # NaN, half of a surrogate pair, a value that contains itself
        raise InvalidArgumentError(f"a value cannot be written as JSON: {error}") from None


def _plain_value(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # of numpy and torch
        return value.tolist()
    if hasattr(value, "__index__"):
        return operator.index(value)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON: {value!r:.100}")


def text_bytes(name: str, text: str) -> bytes:
    """Returns a text in UTF-8."""
    if not isinstance(text, str):
        raise InvalidArgumentError(f"{name} is {text!r:.100}, expected a text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise InvalidArgumentError(f"{name} is no Unicode text: {error}") from None


def whole(name: str, value: Any, bits: int) -> int:
    """Checks an integer, which C would cut to its lowest bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"{name} is {value!r:.100}, expected an integer") from None
    if not 0 <= number < 1 << bits:
        raise InvalidArgumentError(f"{name} is {number}, expected 0 to {(1 << bits) - 1}")
    return number


def is_token(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def listed(name: str, values: Any, expected: str = "a list") -> List[Any]:
    """Returns the values of an ordered collection. Bytes and mappings are refused: the values of bytes are numbers, as tokens are."""
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes, bytearray, memoryview, Mapping, Set)):
        return list(values)
    raise InvalidArgumentError(f"{name} is {values!r:.100}, expected {expected}")


def tokens_of(prompt: Any) -> List[Any]:
    """Returns the tokens of a prompt that is no text."""
    return listed("the prompt", prompt, "a text or a list of tokens")


def plain_prompt(prompt: Prompt) -> Union[str, List[int]]:
    """Returns a prompt as a request has it."""
    return prompt if isinstance(prompt, str) else [whole("a token", token, 32) for token in tokens_of(prompt)]
