"""Sequences of tokens whose K and V are cached."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, List, Sequence, Union

from . import _native
from ._events import events
from ._llm import LLM, Answer, _answer_of, _numpy_of, _texts_of, _whole_answer
from ._values import encoded

if TYPE_CHECKING:
    import numpy


class Session:
    """A sequence of tokens; LLM.session() creates it. The cache holds its K and V, and shares them with forks and with all prompts that begin
    alike. One thread at a time: calls of others wait.

    A pickled session has the digest of the model's weights and the tokens, by which caches know K and V. It is unpickled where the same model is
    open, as by load_session(): what neither the model's memory nor its folder `disk` holds is computed again.

    >>> with LLM("demo", ctx=512) as llm, llm.session("ROMEO:") as session, session.fork() as fork:
    ...     answer = session.generate(max_tokens=4, temperature=0)
    ...     len(session) - len(fork)
    4
    """

    def __init__(self, llm: LLM, handle: _native.SessionHandle, keep_s: int = 0) -> None:
        self._llm, self._handle, self._keep_s = llm, handle, keep_s

    def close(self) -> None:
        self._handle.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def tokens(self) -> List[int]:
        return self._handle.tokens()

    @property
    def text(self) -> str:
        return self._llm.detokenize(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def append(self, more: Union[str, Sequence[int]]) -> None:
        """Adds a text or tokens. A text gets no special tokens, unless the session is empty."""
        if isinstance(more, str):
            more = self._llm.tokenize(more, add_special=len(self) == 0)
        self._handle.append(more)

    def truncate(self, n_tokens: int) -> None:
        """Removes all but the first n_tokens."""
        self._handle.truncate(n_tokens)

    def fork(self) -> "Session":
        """Returns a session with the same tokens. It shares their K and V and copies nothing."""
        return Session(self._llm, self._handle.fork(), self._keep_s)

    def __copy__(self) -> "Session":
        return self.fork()

    def __deepcopy__(self, _: Any) -> "Session":
        return self.fork()

    def __reduce__(self) -> Any:
        return _unpickled, (self._llm._digest, self.tokens, self._keep_s)

    def prefill(self) -> None:
        """Computes K and V of all tokens that the cache does not hold."""
        self._handle.prefill()

    def logits(self) -> "numpy.ndarray":
        """Returns the raw logits after the last token, [vocabulary]. Needs numpy."""
        return _numpy_of(self._handle.logits(self._llm.vocabulary))

    def generate(self, **fields: Any) -> Answer:
        """Continues the session, and appends the generated tokens. `fields` are those of /v1/completions without prompt, n and echo."""
        return next(_answer_of(raw) for raw in events(self._handle.generate(encoded(_whole_answer(fields, "stream()")))))

    def stream(self, **fields: Any) -> Iterator[str]:
        """Like generate(), but yields the text as it is generated. Only the tokens of what was yielded are appended."""
        for event in events(self._handle.generate(encoded({**fields, "stream": True}))):
            yield from _texts_of(event)

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes the tokens to a file for LLM.load_session(). K and V are in the folder of the model's option `disk`, if it has one."""
        self._handle.save(os.fspath(path))

    def export(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes K and V to a file for LLM.import_pages(), of this machine or another one. The model needs the option `disk`."""
        self._handle.export(os.fspath(path))


def _unpickled(digest: str, tokens: List[int], keep_s: int) -> Session:
    return LLM._of_digest(digest).session(tokens, keep_s=keep_s)
