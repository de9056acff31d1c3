"""The calls of llama-cpp-python's class Llama, for programs that use it: replace `from llama_cpp import Llama` by `from kvik.llama_cpp import Llama`.

Parameters that choose among llama.cpp's ways to compute (n_batch, n_gpu_layers, use_mmap, …) are ignored; others that do not exist are errors.
"""
from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from . import LLM, Session
from ._values import listed, plain_prompt

_IGNORED = frozenset((
    "embedding", "flash_attn", "logits_all", "main_gpu", "n_batch", "n_gpu_layers", "n_threads_batch", "n_ubatch", "numa", "offload_kqv", "op_offload",
    "split_mode", "swa_full", "tensor_split", "use_mlock", "use_mmap", "verbose",
))
Answer = Dict[str, Any]


class Llama:
    """A model; answers are dictionaries in OpenAI's format, and streams are iterators of them.

    >>> llama = Llama("demo", n_ctx=512)
    >>> answer = llama("ROMEO:", max_tokens=4, temperature=0)
    >>> answer["choices"][0]["finish_reason"], llama.detokenize(llama.tokenize(b"ROMEO:", add_bos=False))
    ('length', b'ROMEO:')
    >>> llama.close()
    """

    def __init__(self, model_path: "Union[str, os.PathLike[str]]", *, n_ctx: int = 512, n_threads: Optional[int] = None, seed: Optional[int] = None,
                 lora_path: Optional[str] = None, lora_scale: float = 1.0, **options: Any) -> None:
        adapter = lora_path and f"{lora_path}:{lora_scale}"
        kept = {name: value for name, value in options.items() if name not in _IGNORED}
        self._llm = LLM(model_path, ctx=n_ctx or None, threads=n_threads, adapter=adapter, **kept)
        self._seed = seed
        self._session = self._llm.session()

    def close(self) -> None:
        self._session.close()
        self._llm.close()

    def __enter__(self) -> "Llama":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # --- answers ---

    def create_completion(self, prompt: Union[str, Sequence[int]], max_tokens: Optional[int] = 16, temperature: float = 0.8, top_p: float = 0.95,
                          min_p: float = 0.05, top_k: int = 40, stream: bool = False, **fields: Any) -> Union[Answer, Iterator[Answer]]:
        """Completes a prompt. `fields`: stop, echo, logprobs, seed, suffix, grammar (GBNF), repeat_penalty, … of /v1/completions."""
        body = self._body(fields, prompt=plain_prompt(prompt), max_tokens=_limit(max_tokens),
                          temperature=temperature, top_p=top_p, min_p=min_p, top_k=top_k, stream=stream)
        return self._llm.events("/v1/completions", body) if stream else self._llm.request("/v1/completions", body)

    __call__ = create_completion

    def create_chat_completion(self, messages: Sequence[Mapping[str, Any]], max_tokens: Optional[int] = None, temperature: float = 0.2,
                               top_p: float = 0.95, min_p: float = 0.05, top_k: int = 40, stream: bool = False,
                               **fields: Any) -> Union[Answer, Iterator[Answer]]:
        """Answers a conversation. `fields`: tools, tool_choice, response_format, stop, seed, … of /v1/chat/completions."""
        body = self._body(fields, messages=listed("messages", messages), max_tokens=_limit(max_tokens), temperature=temperature, top_p=top_p, min_p=min_p,
                          top_k=top_k, stream=stream)
        form = body.get("response_format")
        if form and form.get("type") == "json_object" and form.get("schema") is not None:  # llama-cpp-python's place for a schema
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": form["schema"]}}
        return self._llm.events("/v1/chat/completions", body) if stream else self._llm.request("/v1/chat/completions", body)

    def _body(self, fields: Mapping[str, Any], **named: Any) -> Dict[str, Any]:
        body = {"seed": self._seed, **fields, **named}
        return {name: value for name, value in body.items() if value is not None}

    # --- embeddings ---

    def create_embedding(self, input: Union[str, List[str]], model: Optional[str] = None) -> Answer:
        """Returns embeddings in OpenAI's format."""
        return dict(self._llm.request("/v1/embeddings", self._body({}, input=input, model=model)))

    def embed(self, input: Union[str, List[str]]) -> Any:
        """Returns the embedding of a text, or of each text of a list, of length 1."""
        found = [entry["embedding"] for entry in self.create_embedding(input)["data"]]
        return found[0] if isinstance(input, str) else found

    # --- tokens ---

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> List[int]:
        if not isinstance(text, bytes):
            raise TypeError(f"text is {text!r:.100}, expected bytes")
        return self._llm.tokenize(text.decode("utf-8", "replace"), add_special=add_bos, parse_special=special)

    def detokenize(self, tokens: Sequence[int]) -> bytes:
        return self._llm.detokenize_bytes(tokens)

    def token_bos(self) -> int:
        return _token(self._llm.info["bos_token"])

    def token_eos(self) -> int:
        return _token(self._llm.info["eos_token"])

    def n_ctx(self) -> int:
        return self._llm.context

    def n_vocab(self) -> int:
        return self._llm.vocabulary

    def n_embd(self) -> int:
        return int(self._llm.info["model_dim"])

    # --- one sequence, step by step ---

    @property
    def n_tokens(self) -> int:
        """Number of tokens of eval() since reset()."""
        return len(self._session)

    @property
    def input_ids(self) -> List[int]:
        return self._session.tokens

    @property
    def eval_logits(self) -> List[List[float]]:
        """The logits after the last token, as the only row."""
        return [self._session.logits().tolist()]

    def reset(self) -> None:
        self._session.truncate(0)

    def eval(self, tokens: Sequence[int]) -> None:
        """Appends tokens and computes them."""
        self._session.append(listed("tokens", tokens))
        self._session.prefill()

    def save_state(self) -> Session:
        """Returns the sequence. It shares its K and V and copies nothing."""
        return self._session.fork()

    def load_state(self, state: Session) -> None:
        self._session = state.fork()


def _limit(max_tokens: Optional[int]) -> int:
    return -1 if max_tokens is None or max_tokens <= 0 else max_tokens


def _token(id: Optional[int]) -> int:
    return -1 if id is None else id
