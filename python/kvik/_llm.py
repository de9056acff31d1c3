"""A model in this process."""
from __future__ import annotations

import collections
import dataclasses
import json
import math
import os
import weakref
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union, overload

from . import _native
from ._errors import ExhaustedError, InvalidArgumentError, KvikError, NotFoundError
from ._events import answer_of, async_events, events
from ._progress import Progress, reported
from ._values import Prompt, encoded, is_token, listed, plain_prompt, tokens_of

if TYPE_CHECKING:
    import numpy

    from ._session import Session

Schema = Union[None, Mapping[str, Any], type]  # a JSON schema, or a class of Pydantic
Messages = Union[str, Sequence[Mapping[str, Any]]]
_FULL_MS = 5  # time after which a full queue is tried again
_COMPLETIONS, _CHAT = "/v1/completions", "/v1/chat/completions"
_LEVELS = ("debug", "info", "warn", "error")
_open_models: "weakref.WeakSet[LLM]" = weakref.WeakSet()  # those that unpickled sessions may belong to


@dataclasses.dataclass(frozen=True)
class Answer:
    """The completion of a prompt; str() gives its text."""

    text: str
    finish_reason: Optional[str]  # "stop" or "length"
    usage: Dict[str, Any]
    raw: Dict[str, Any]  # the answer of /v1/completions

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class ToolCall:
    """A call that the model asks for."""

    id: str
    name: str
    arguments: str  # JSON

    def parsed(self) -> Any:
        """Returns the arguments as a value."""
        return json.loads(self.arguments)


@dataclasses.dataclass(frozen=True)
class ChatAnswer:
    """The answer to a conversation; str() gives its content."""

    content: str
    reasoning: str
    tool_calls: List[ToolCall]
    finish_reason: Optional[str]  # "stop", "length" or "tool_calls"
    usage: Dict[str, Any]
    raw: Dict[str, Any]  # the answer of /v1/chat/completions

    def __str__(self) -> str:
        return self.content

    def parsed(self) -> Any:
        """Returns the content, which must be JSON, as a value."""
        return json.loads(self.content)

    def message(self) -> Dict[str, Any]:
        """Returns the answer as a message for the next request."""
        return dict(self.raw["choices"][0]["message"])


@dataclasses.dataclass(frozen=True)
class Delta:
    """A piece of a streamed answer."""

    content: str = ""
    reasoning: str = ""
    tool_calls: List[Dict[str, Any]] = dataclasses.field(default_factory=list)  # as in OpenAI's events
    finish_reason: Optional[str] = None
    raw: Dict[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return self.content


@dataclasses.dataclass(frozen=True)
class Scores:
    """Log probabilities of tokens, and the tokens that are most likely in their places."""

    logprobs: List[float]
    likeliest: List[int]


def set_log(receive: Optional[Callable[[str, str], None]], least: str = "info") -> None:
    """Passes messages of the library to `receive(level, message)`, from the level `least` on: debug, info, warn or error. None: to nothing.

    The function runs on threads of the library and must be quick. One per process.
    """
    if not (receive is None or callable(receive)):
        raise TypeError(f"receive is {receive!r}, expected a function of level and message")
    if least not in _LEVELS:
        raise ValueError(f"least is {least!r}, expected one of {', '.join(_LEVELS)}")
    _native.set_log(_LEVELS.index(least), None if receive is None else lambda level, message: receive(_LEVELS[level], message))


class LLM:
    """A loaded model. Any thread may use it; requests that run at the same time are computed in one batch.

    `model` is a .gguf file, a folder in Hugging Face's format, "demo" or "synthetic:PRESET". `options` are those of docs/guides/library.md:
    ctx, threads, kv_type, kv_bytes, device, adapter, adapters, draft, disk, … While it loads, `progress(done, all)` is called with bytes;
    True shows a bar if tqdm is installed.

    >>> llm = LLM("demo", ctx=512)
    >>> llm.vocabulary
    2048
    >>> llm.detokenize(llm.tokenize("ROMEO:", add_special=False))
    'ROMEO:'
    >>> llm.close()
    """

    def __init__(self, model: "Union[str, os.PathLike[str]]", *, progress: Progress = None, **options: Any) -> None:
        given = {name: value for name, value in options.items() if value is not None}
        with reported(progress, "loading", "B", unit_scale=True) as report:
            self._model = _native.Model(os.fspath(model), encoded(given), report)
        self._digest = str(self.info["digest"])  # of the weights; pickled sessions name it
        _open_models.add(self)

    def close(self) -> None:
        """Releases the model, after its requests and sessions have ended."""
        _open_models.discard(self)
        self._model.close()

    def __reduce__(self) -> Any:
        raise TypeError("a model cannot be pickled: open it in the process that uses it")

    @staticmethod
    def _of_digest(digest: str) -> "LLM":
        """Returns an open model of this process. A forked process does not have those of its parent."""
        for llm in list(_open_models):
            if llm._digest == digest and llm._model.is_usable():
                return llm
        raise NotFoundError(f"the session belongs to the model with the digest {digest}, which is not open in this process: open it first")

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # --- properties ---

    @property
    def info(self) -> Dict[str, Any]:
        """Properties of the model: id, architecture, n_ctx, kv_type, weight_type, digest, …"""
        return dict(json.loads(self._model.info()))

    @property
    def statistics(self) -> Dict[str, Any]:
        """Counters of the engine and its KV cache: computed_prompt_tokens, cached_prompt_tokens, pages, …, after the last step that has ended."""
        return dict(json.loads(self._model.statistics()))

    @property
    def context(self) -> int:
        """Maximum number of tokens of prompt and answer."""
        return self._model.context

    @property
    def vocabulary(self) -> int:
        """Number of tokens that exist."""
        return self._model.vocabulary

    # --- tokens ---

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> List[int]:
        """Returns the tokens of a text. add_special: with the tokens with which the model's texts begin. parse_special: recognizes the texts
        of special tokens."""
        return self._model.tokenize(text, (_native.ADD_SPECIAL if add_special else 0) | (_native.PARSE_SPECIAL if parse_special else 0))

    def detokenize(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens. Incomplete characters become U+FFFD."""
        return self.detokenize_bytes(tokens).decode("utf-8", "replace")

    def detokenize_bytes(self, tokens: Sequence[int]) -> bytes:
        """Returns the text of tokens in UTF-8. Its first and last characters may be incomplete."""
        return self._model.detokenize(tokens)

    def _tokens(self, prompt: Prompt) -> List[int]:
        return self.tokenize(prompt) if isinstance(prompt, str) else tokens_of(prompt)

    # --- requests ---

    def request(self, path: str, body: Any = None, *, method: Optional[str] = None) -> Any:
        """Sends a request of the HTTP API (docs/reference/http_api.md) to this model, without a network, and returns the answer.

        >>> with LLM("demo", ctx=512) as llm:
        ...     llm.request("/tokenize", {"content": "ROMEO:"})["tokens"] == llm.tokenize("ROMEO:", add_special=False)
        True
        """
        found = None
        for found in self.events(path, body, method=method):
            pass
        return found

    def events(self, path: str, body: Any = None, *, method: Optional[str] = None) -> Iterator[Any]:
        """Yields the events of an answer; one if the request is not streamed."""
        return events(self.start(path, body, method=method))

    def async_events(self, path: str, body: Any = None, *, method: Optional[str] = None) -> AsyncIterator[Any]:
        """Like events(), for `async for`."""
        return async_events(self.start(path, body, method=method))

    def start(self, path: str, body: Any = None, *, method: Optional[str] = None) -> _native.Request:
        """Starts a request of the HTTP API, and returns its handle."""
        return self._model.request(method or ("GET" if body is None else "POST"), path, b"" if body is None else encoded(body))

    # --- completions ---

    @overload
    def generate(self, prompt: str, *, progress: Progress = None, **fields: Any) -> Answer: ...
    @overload
    def generate(self, prompt: "Iterable[Prompt]", *, progress: Progress = None, **fields: Any) -> List[Answer]: ...

    def generate(self, prompt: "Union[Prompt, Iterable[Prompt]]", *, progress: Progress = None, **fields: Any) -> "Union[Answer, List[Answer]]":
        """Completes a prompt, a text or a list of tokens. Several prompts run in one batch, and their answers come in the same order.
        `progress(done, all)` is called with the number of answers; True shows a bar if tqdm is installed.

        `fields` are those of /v1/completions: max_tokens, temperature, stop, seed, logprobs, json_schema, model (an adapter), …

        >>> with LLM("demo", ctx=512) as llm:
        ...     one, other = llm.generate(["ROMEO:", "JULIET:"], max_tokens=4, temperature=0)
        ...     alone = llm.generate("JULIET:", max_tokens=4, temperature=0)
        >>> other.text == alone.text
        True
        """
        if isinstance(prompt, str):
            return self._answers([prompt], fields, progress)[0]
        prompts = listed("the prompt", prompt, "a text, a list of tokens, or a list of prompts")
        if prompts and all(map(is_token, prompts)):
            return self._answers([prompts], fields, progress)[0]
        return self._answers(prompts, fields, progress)

    def _answers(self, prompts: Sequence[Any], fields: Mapping[str, Any], progress: Progress) -> List[Answer]:
        bodies = [{**_whole_answer(fields, "stream()"), "prompt": plain_prompt(prompt)} for prompt in prompts]
        return [_answer_of(raw) for raw in self.run_all(_COMPLETIONS, bodies, progress=progress)]

    def run_all(self, path: str, bodies: Iterable[Any], *, progress: Progress = None) -> List[Any]:
        """Sends requests like request(), which run in one batch, and returns their answers in the same order. Starts no more of them than the
        engine's queue takes. The first error ends all. progress: as of generate()."""
        with reported(progress, "answers", "prompt") as report:
            return self._run_all(path, listed("bodies", bodies), report or (lambda done, whole: None))

    def _run_all(self, path: str, bodies: Sequence[Any], report: Callable[[int, int], None]) -> List[Any]:
        most = 256  # requests in the engine at a time, which admits fewer
        answers: List[Any] = []
        running: "collections.deque[_native.Request]" = collections.deque()

        def take(at_most_ms: Optional[int] = None) -> None:
            answer = answer_of(running[0], at_most_ms)
            if answer is not None:
                answers.append(answer)
                running.popleft().close()
                report(len(answers), len(bodies))

        try:
            for body in bodies:
                while not self._started(path, body, running, most):
                    take(_FULL_MS)
            while running:
                take()
        finally:
            for request in running:
                request.close()
        return answers

    def _started(self, path: str, body: Any, running: "collections.deque[_native.Request]", most: int) -> bool:
        """Starts a request, unless so many run or the engine's queue has no place for it. Raises ExhaustedError if none runs."""
        if len(running) >= most:
            return False
        try:
            running.append(self.start(path, body))
        except ExhaustedError:
            if not running:
                raise
            return False
        return True

    def stream(self, prompt: Prompt, **fields: Any) -> Iterator[str]:
        """Yields the text of a completion as it is generated."""
        for event in self.events(_COMPLETIONS, _streamed(fields, prompt=plain_prompt(prompt))):
            yield from _texts_of(event)

    async def agenerate(self, prompt: Prompt, **fields: Any) -> Answer:
        """Like generate() of one prompt. Run several with asyncio.gather(): they run in one batch."""
        return _answer_of(await _only(self.async_events(_COMPLETIONS, {**_whole_answer(fields, "astream()"), "prompt": plain_prompt(prompt)})))

    async def astream(self, prompt: Prompt, **fields: Any) -> AsyncIterator[str]:
        """Like stream()."""
        async for event in self.async_events(_COMPLETIONS, _streamed(fields, prompt=plain_prompt(prompt))):
            for text in _texts_of(event):
                yield text

    # --- chat ---

    def chat(self, messages: Messages, *, tools: Optional[Sequence[Mapping[str, Any]]] = None, schema: Schema = None,
             **fields: Any) -> ChatAnswer:
        """Answers a conversation: a question, or messages as in OpenAI's API. schema: a JSON schema of the content, or a class
        of Pydantic.

        `fields` are those of /v1/chat/completions: max_tokens, temperature, tool_choice, reasoning_effort, …

        >>> with LLM("demo", ctx=512) as llm:
        ...     schema = {"type": "object", "properties": {"n": {"const": 7}}, "required": ["n"], "additionalProperties": False}
        ...     llm.chat("A number?", schema=schema, max_tokens=20).parsed()
        {'n': 7}
        """
        return _chat_answer_of(self.request(_CHAT, _chat_body(messages, tools, schema, _whole_answer(fields, "stream_chat()"))))

    def stream_chat(self, messages: Messages, *, tools: Optional[Sequence[Mapping[str, Any]]] = None,
                    schema: Schema = None, **fields: Any) -> Iterator[Delta]:
        """Yields the pieces of an answer as they are generated."""
        for event in self.events(_CHAT, _streamed(_chat_body(messages, tools, schema, fields))):
            yield from _deltas_of(event)

    async def achat(self, messages: Messages, *, tools: Optional[Sequence[Mapping[str, Any]]] = None,
                    schema: Schema = None, **fields: Any) -> ChatAnswer:
        """Like chat()."""
        body = _chat_body(messages, tools, schema, _whole_answer(fields, "astream_chat()"))
        return _chat_answer_of(await _only(self.async_events(_CHAT, body)))

    async def astream_chat(self, messages: Messages, *, tools: Optional[Sequence[Mapping[str, Any]]] = None,
                           schema: Schema = None, **fields: Any) -> AsyncIterator[Delta]:
        """Like stream_chat()."""
        async for event in self.async_events(_CHAT, _streamed(_chat_body(messages, tools, schema, fields))):
            for delta in _deltas_of(event):
                yield delta

    # --- numbers ---

    def logits(self, prompt: Prompt, *, all: bool = False) -> "numpy.ndarray":
        """Returns the raw logits after the last token, [vocabulary], or after each token, [tokens, vocabulary], as float32. Needs numpy."""
        tokens = self._tokens(prompt)
        if not all:
            return _numpy_of(self._model.floats("kvik_logits", tokens, self.vocabulary))
        return _numpy_of(self._model.floats("kvik_all_logits", tokens, self.vocabulary * len(tokens))).reshape(len(tokens), self.vocabulary)

    def embed(self, prompt: Prompt, *, pooling: str = "mean") -> "numpy.ndarray":
        """Returns the embedding of a text, [model_dim], of length 1, as float32. pooling: "mean" or "last". Needs numpy."""
        kinds = ("mean", "last")
        if pooling not in kinds:
            raise ValueError(f"pooling is {pooling!r}, expected 'mean' or 'last'")
        return _numpy_of(self._model.floats("kvik_embed", self._tokens(prompt), self._model.dimension, kinds.index(pooling)))

    def score(self, prompt: Prompt) -> List[float]:
        """Returns the log probability of each token after those before it; 0 for the first one."""
        tokens = self._tokens(prompt)
        return list(self._model.floats("kvik_score", tokens, len(tokens)))

    def score_after(self, context: Prompt, more: Prompt) -> Scores:
        """Returns the log probability of each token of `more` after the context, and the most likely tokens in their places. K and V of the context
        may come from the cache, so that several continuations of one context cost little more than one. A text `more` gets no special tokens.

        >>> with LLM("demo", ctx=512) as llm:
        ...     scores = llm.score_after("ROMEO:", "\\nBut soft")
        ...     len(scores.logprobs) == len(llm.tokenize("\\nBut soft", add_special=False))
        True
        """
        before = self._tokens(context)
        after = self.tokenize(more, add_special=False) if isinstance(more, str) else listed("the continuation", more, "a text or a list of tokens")
        if not before or not after:
            raise InvalidArgumentError(f"the {'continuation' if before else 'context'} has no tokens, expected at least one")
        return Scores(*self._model.score_after(before + after, len(before)))

    def perplexity(self, prompt: Prompt) -> float:
        """Returns exp of the mean negative log probability of the tokens after the first one.

        >>> with LLM("demo", ctx=512) as llm:
        ...     llm.perplexity("ROMEO:\\nBut soft, what light") < llm.perplexity("light what, soft But\\nROMEO:")
        True
        """
        scores = self.score(prompt)[1:]
        if not scores:
            raise ValueError("the prompt has fewer than two tokens")
        return math.exp(-sum(scores) / len(scores))

    # --- sessions ---

    def session(self, prompt: Prompt = "", *, keep_s: int = 0) -> "Session":
        """Creates a session with the prompt's tokens. keep_s: for that time after each use, pages of others are evicted first."""
        from ._session import Session
        session = Session(self, self._model.session(keep_s), keep_s)
        if not isinstance(prompt, str) or prompt:
            session.append(self._tokens(prompt))
        return session

    def load_session(self, path: "Union[str, os.PathLike[str]]", *, keep_s: int = 0) -> "Session":
        """Creates a session from a file of Session.save()."""
        from ._session import Session
        return Session(self, self._model.load_session(os.fspath(path), keep_s), keep_s)

    def import_pages(self, path: "Union[str, os.PathLike[str]]") -> int:
        """Takes K and V from a file of Session.export() or `kvik cache export`, which is not authenticated, and returns their number of tokens.
        The model needs the option `disk`."""
        return self._model.import_pages(os.fspath(path))


def _whole_answer(fields: Mapping[str, Any], stream: str) -> Dict[str, Any]:
    """Returns the fields of a request that is not streamed."""
    if fields.get("stream"):
        raise InvalidArgumentError(f"stream is {fields['stream']!r}, but this function returns whole answers: call {stream}")
    return {**fields, "stream": False}


def _streamed(fields: Mapping[str, Any], **more: Any) -> Dict[str, Any]:
    return {**fields, **more, "stream": True}


def _chat_body(messages: Messages, tools: Optional[Sequence[Mapping[str, Any]]], schema: Schema,
               fields: Mapping[str, Any]) -> Dict[str, Any]:
    body: Dict[str, Any] = {**fields, "messages": [{"role": "user", "content": messages}] if isinstance(messages, str) else
                            listed("messages", messages, "a text or a list of messages")}
    if tools is not None:
        body["tools"] = listed("tools", tools)
    if schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _schema_of(schema)}}
    return body


def _schema_of(schema: Any) -> Any:
    of_class = getattr(schema, "model_json_schema", None)
    return of_class() if of_class else schema


async def _only(found: AsyncIterator[Any]) -> Any:
    last = None
    async for last in found:
        pass
    if last is None:
        raise KvikError("the request has no answer")
    return last


def _answer_of(raw: Dict[str, Any]) -> Answer:
    choice = raw["choices"][0]
    return Answer(choice["text"], choice["finish_reason"], raw["usage"], raw)


def _texts_of(event: Dict[str, Any]) -> Iterator[str]:
    for choice in event["choices"]:
        if choice["text"]:
            yield choice["text"]


def _chat_answer_of(raw: Dict[str, Any]) -> ChatAnswer:
    choice = raw["choices"][0]
    message = choice["message"]
    calls = [ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
    return ChatAnswer(message.get("content") or "", message.get("reasoning_content") or "", calls, choice["finish_reason"], raw["usage"], raw)


def _deltas_of(event: Dict[str, Any]) -> Iterator[Delta]:
    for choice in event["choices"]:
        delta = choice["delta"]
        piece = Delta(delta.get("content") or "", delta.get("reasoning_content") or "", delta.get("tool_calls") or [], choice["finish_reason"], event)
        if piece.content or piece.reasoning or piece.tool_calls or piece.finish_reason:
            yield piece


def _numpy_of(floats: Any) -> "numpy.ndarray":
    try:
        import numpy
    except ImportError as missing:
        raise ImportError("logits and embeddings are numpy arrays: pip install numpy") from missing
    return numpy.ctypeslib.as_array(floats)
