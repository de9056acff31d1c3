"""The calls of vLLM's classes LLM and SamplingParams, for programs that use them: replace `from vllm import …` by `from kvik.vllm import …`.

Parameters that choose among vLLM's ways to compute are ignored; others that do not exist are errors.
"""
from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import kvik
from ._values import is_token, listed, plain_prompt

_IGNORED = frozenset((
    "block_size", "disable_log_stats", "dtype", "enable_chunked_prefill", "enable_prefix_caching", "enforce_eager", "gpu_memory_utilization",
    "max_num_batched_tokens", "swap_space", "tensor_parallel_size", "tokenizer", "tokenizer_mode", "trust_remote_code",
))
Prompt = Union[str, Sequence[int], Mapping[str, Any]]  # a mapping has "prompt" or "prompt_token_ids"
Messages = Sequence[Mapping[str, Any]]


@dataclasses.dataclass
class SamplingParams:
    """Parameters of sampling, with vLLM's names and defaults. A value of None is left out."""

    n: int = 1
    max_tokens: Optional[int] = 16
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: Optional[int] = None
    stop: Union[None, str, List[str]] = None
    stop_token_ids: Optional[List[int]] = None
    bad_words: Optional[List[str]] = None
    ignore_eos: bool = False
    logprobs: Optional[int] = None
    prompt_logprobs: Optional[int] = None
    logit_bias: Optional[Dict[int, float]] = None
    structured_outputs: Optional[Mapping[str, Any]] = None  # json, regex, choice or grammar

    def fields(self) -> Dict[str, Any]:
        """Returns the fields of a request."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        values.setdefault("max_tokens", -1)  # what the context holds
        return values


@dataclasses.dataclass(frozen=True)
class CompletionOutput:
    index: int
    text: str
    token_ids: List[int]
    finish_reason: Optional[str]
    logprobs: Optional[Dict[str, Any]] = None  # in OpenAI's format


@dataclasses.dataclass(frozen=True)
class RequestOutput:
    request_id: str
    prompt: Optional[str]
    prompt_token_ids: Optional[List[int]]
    outputs: List[CompletionOutput]
    num_cached_tokens: int
    prompt_logprobs: Optional[List[Any]] = None
    finished: bool = True


class LLM:
    """A model that answers lists of prompts in batches.

    >>> llm = LLM("demo", max_model_len=512)
    >>> [output.outputs[0].finish_reason for output in llm.generate(["ROMEO:", "JULIET:"], SamplingParams(max_tokens=4, temperature=0))]
    ['length', 'length']
    >>> llm.close()
    """

    def __init__(self, model: "Union[str, os.PathLike[str]]", *, max_model_len: Optional[int] = None, max_num_seqs: Optional[int] = None,
                 seed: Optional[int] = None, **options: Any) -> None:
        kept = {name: value for name, value in options.items() if name not in _IGNORED}
        self._llm = kvik.LLM(model, ctx=max_model_len, max_running=max_num_seqs, **kept)
        self._seed = seed

    def close(self) -> None:
        self._llm.close()

    def generate(self, prompts: "Union[Prompt, Sequence[Prompt]]", sampling_params: "Union[None, SamplingParams, Sequence[SamplingParams]]" = None,
                 use_tqdm: bool = False) -> List[RequestOutput]:
        """Completes prompts: texts, lists of tokens or mappings. use_tqdm: shows a bar if tqdm is installed."""
        named = [_prompt_of(prompt) for prompt in ([prompts] if _is_one(prompts) else listed("prompts", prompts, "a prompt or a list of prompts"))]
        bodies = [{**fields, "prompt": prompt} for prompt, fields in zip(named, self._fields(sampling_params, len(named)))]
        answers = self._llm.run_all("/v1/completions", bodies, progress=use_tqdm)
        return [_output_of(answer, prompt) for answer, prompt in zip(answers, named)]

    def chat(self, messages: "Union[Messages, Sequence[Messages]]", sampling_params: "Union[None, SamplingParams, Sequence[SamplingParams]]" = None,
             use_tqdm: bool = False, tools: Optional[Sequence[Mapping[str, Any]]] = None,
             chat_template_kwargs: Optional[Mapping[str, Any]] = None) -> List[RequestOutput]:
        """Answers a conversation, or several. use_tqdm: as of generate()."""
        given = listed("messages", messages, "a list of messages or of such lists")
        conversations: List[Any] = [given] if given and isinstance(given[0], Mapping) else given
        more = {name: value for name, value in (("tools", tools), ("chat_template_kwargs", chat_template_kwargs)) if value}
        bodies = [{**_chat_fields(fields), **more, "messages": listed("messages", conversation, "a list of messages")}
                  for conversation, fields in zip(conversations, self._fields(sampling_params, len(conversations)))]
        return [_output_of(answer, None) for answer in self._llm.run_all("/v1/chat/completions", bodies, progress=use_tqdm)]

    def _fields(self, params: "Union[None, SamplingParams, Sequence[SamplingParams]]", n: int) -> List[Dict[str, Any]]:
        each = [params or SamplingParams()] * n if params is None or isinstance(params, SamplingParams) else \
            listed("sampling_params", params, "SamplingParams or a list of them")
        for one in each:
            if not isinstance(one, SamplingParams):
                raise TypeError(f"sampling_params has {one!r:.100}, expected SamplingParams")
        if len(each) != n:
            raise ValueError(f"there are {len(each)} sampling_params for {n} prompts, expected one or as many")
        seed = {} if self._seed is None else {"seed": self._seed}
        return [{**seed, **one.fields(), "return_token_ids": True, "stream": False} for one in each]


def _is_one(prompts: Any) -> bool:
    """Returns whether they are a single prompt."""
    return isinstance(prompts, (str, Mapping)) or (isinstance(prompts, Sequence) and len(prompts) > 0 and all(map(is_token, prompts)))


def _prompt_of(prompt: Prompt) -> Union[str, List[int]]:
    if not isinstance(prompt, Mapping):
        return plain_prompt(prompt)
    for name in "prompt_token_ids", "prompt":
        if name in prompt:
            return plain_prompt(prompt[name])
    raise kvik.InvalidArgumentError(f"the prompt is {prompt!r:.100}, expected a mapping with prompt or prompt_token_ids")


def _chat_fields(fields: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns the fields as /v1/chat/completions names them."""
    changed = dict(fields)
    if "logprobs" in changed:
        changed["top_logprobs"], changed["logprobs"] = changed["logprobs"], True
    return changed


def _output_of(raw: Dict[str, Any], prompt: Union[None, str, List[int]]) -> RequestOutput:
    outputs = [CompletionOutput(choice["index"], choice["text"] if "text" in choice else choice["message"].get("content") or "",
                                choice.get("token_ids") or [], choice["finish_reason"], choice.get("logprobs")) for choice in raw["choices"]]
    first = raw["choices"][0]
    return RequestOutput(raw["id"], prompt if isinstance(prompt, str) else None, prompt if isinstance(prompt, list) else None, outputs,
                         raw["usage"]["prompt_tokens_details"]["cached_tokens"], first.get("prompt_logprobs", raw.get("prompt_logprobs")))
