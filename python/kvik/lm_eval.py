"""Kvik as a model of lm-evaluation-harness (`pip install lm-eval`).

    python -m kvik.lm_eval --model kvik --model_args pretrained=model.gguf --tasks hellaswag

takes the arguments of the program lm_eval; a Python program imports this module and calls lm_eval.simple_evaluate(model="kvik", …). model_args
are `pretrained`, max_length, max_gen_toks, add_bos_token, prefix_token_id, compute_device, and options of docs/guides/library.md.
"""
from __future__ import annotations

import concurrent.futures
import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

from lm_eval import utils
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import normalize_gen_kwargs, postprocess_generated_text
from tqdm import tqdm

from . import LLM

_AT_ONCE = 64  # requests that wait in threads; the engine computes them in batches
Scored = Tuple[float, bool]


@register_model("kvik")
class KvikLM(TemplateLM):
    """Scores and generates with an LLM. Requests run together and share the K and V of common prefixes; the numbers do not depend on that, so
    batch_size is ignored."""

    def __init__(self, pretrained: str, *, max_length: Optional[int] = None, max_gen_toks: int = 256, add_bos_token: Optional[bool] = None,
                 prefix_token_id: Optional[int] = None, batch_size: Any = None, max_batch_size: Any = None, device: Any = None,
                 compute_device: Optional[str] = None, **options: Any) -> None:
        super().__init__()
        self._llm = LLM(pretrained, ctx=max_length, device=compute_device, **options)  # `device` is the harness's, "cuda" unless it was given
        info = self._llm.info
        self._bos, self._eos = info["bos_token"], info["eos_token"]
        self._bos_text = "" if self._bos is None else self._llm.detokenize([self._bos])
        self._prefix = prefix_token_id if prefix_token_id is not None else self._bos if self._bos is not None else self._eos
        self._adds_special = True if add_bos_token is None else bool(add_bos_token)
        self._digest = str(info["digest"])
        self.max_length, self.max_gen_toks = self._llm.context, max_gen_toks

    # --- tokens ---

    @property
    def eot_token_id(self) -> int:
        return int(self._eos)

    @property
    def prefix_token_id(self) -> int:
        if self._prefix is None:
            raise ValueError("the model has neither a BOS nor an EOS token: give prefix_token_id, with which texts without a context begin")
        return int(self._prefix)

    @property
    def tokenizer_name(self) -> str:
        return f"kvik-{self._digest}"

    def tok_encode(self, string: str, add_special_tokens: Optional[bool] = None, **_: Any) -> List[int]:
        adds = self._adds_special if add_special_tokens is None else add_special_tokens
        begins = bool(self._bos_text) and string.startswith(self._bos_text)
        return self._llm.tokenize(string, add_special=adds and not begins, parse_special=True)

    def tok_decode(self, tokens: Sequence[int], **_: Any) -> str:
        return self._llm.detokenize(tokens)

    def apply_chat_template(self, chat_history: List[Dict[str, str]], add_generation_prompt: bool = True) -> str:
        if not add_generation_prompt:
            raise NotImplementedError("an answer that the prompt begins (gen_prefix) is not supported together with a chat template")
        return str(self._llm.request("/apply-template", {"messages": chat_history})["prompt"])

    # --- log probabilities ---

    def _score(self, context: Sequence[int], continuation: Sequence[int]) -> Scored:
        """Returns the sum of the continuation's log probabilities, and whether greedy decoding would generate it. Of a text that is too long,
        the last tokens are used."""
        if not continuation:
            return 0.0, True
        room = self.max_length + 1 - len(continuation)
        if room < 1:
            raise ValueError(f"a continuation has {len(continuation)} tokens, expected at most {self.max_length}, the context of the model")
        scores = self._llm.score_after(list(context)[-room:], continuation)
        return sum(scores.logprobs), scores.likeliest == list(continuation)

    def _loglikelihood_tokens(self, requests: Sequence[Any], disable_tqdm: bool = False, **_: Any) -> List[Scored]:
        found: List[Scored] = [(0.0, True)] * len(requests)
        # Texts with a common beginning follow each other.
        order = sorted(range(len(requests)), key=lambda i: (requests[i][1], requests[i][2]))
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            scores = pool.map(lambda i: self._score(requests[i][1], requests[i][2]), order)
            for i, scored in zip(order, tqdm(scores, total=len(order), disable=disable_tqdm, desc="Running loglikelihood requests")):
                found[i] = scored
                if requests[i][0] is not None:
                    self.cache_hook.add_partial("loglikelihood", requests[i][0], scored)
        return found

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> List[float]:
        windows: List[Any] = []
        ends: List[int] = []  # number of windows up to each request
        for (text,) in (request.args for request in requests):
            pairs = utils.get_rolling_token_windows(self.tok_encode(text, add_special_tokens=False), self.prefix_token_id, self.max_length, 1)
            windows.extend((None, *utils.make_disjoint_window(pair)) for pair in pairs)
            ends.append(len(windows))
        scores = [scored[0] for scored in self._loglikelihood_tokens(windows, disable_tqdm)]
        sums = [sum(scores[begin:end]) for begin, end in zip([0, *ends], ends)]
        for request, scored in zip(requests, sums):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, scored)
        return sums

    # --- answers ---

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> List[str]:
        groups: Dict[str, List[int]] = {}  # requests with the same settings
        for i, request in enumerate(requests):
            groups.setdefault(json.dumps(request.args[1], sort_keys=True), []).append(i)
        texts = [""] * len(requests)
        for group in groups.values():
            settings = dict(normalize_gen_kwargs(requests[group[0]].args[1], self.max_gen_toks))
            until, n_new = settings.pop("until"), settings.pop("max_gen_toks")
            settings.pop("do_sample")
            prompts = [self.tok_encode(requests[i].args[0])[-max(self.max_length - n_new, 1):] for i in group]
            answers = self._llm.generate(prompts, max_tokens=n_new, stop=until, **settings)
            for i, answer in zip(group, answers):
                texts[i] = postprocess_generated_text(answer.text, until, None)
                self.cache_hook.add_partial("generate_until", requests[i].args, texts[i])
        return texts


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
