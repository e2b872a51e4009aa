"""From what users write to a GenerateRequest: plain keyword arguments, checked for their types.

Ranges are the server's business, which knows the model; a wrong type is named here, before anything is sent.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from foreword.client.fields import READERS
from foreword.client.values import LAW, SPECULATION, read_prompt, read_request
from foreword.laws.parameters import Grammar, LawParameters
from foreword.protocol.generation import GenerateRequest, Message, Prompt, Speculation
from foreword.protocol.messages import Trace
from foreword.protocol.words import Drafter, Rule

PromptLike = Prompt | Sequence[Message] | Sequence[Mapping[str, str]] | Sequence[int]
"""A text; a chat as messages or as dictionaries with role and content; token ids; or a prompt value."""


class RequestFields(TypedDict, total=False):
    """Keyword arguments of `generate` and `stream`; what is left out, or None, is the server's choice."""

    request_id: str | None
    model: str | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: Mapping[int, float] | None
    banned_ids: Iterable[int] | None
    stop_ids: Iterable[int] | None
    min_tokens: int | None
    grammar: Grammar | None
    max_tokens: int | None
    stop: str | Iterable[str] | None
    include_stop: bool | None
    ignore_eos: bool | None
    seed: int | None
    n: int | None
    top_logprobs: int | None
    prompt_logprobs: int | None
    echo: bool | None
    gamma: int | None
    gamma_min: int | None
    gamma_max: int | None
    rule: Rule | str | None
    drafter: Drafter | str | None
    draft: str | None
    resume: Iterable[int] | None
    one_token_per_event: bool | None
    trace: Trace | None
    cache_salt: bytes | None
    skip_special_tokens: bool | None


def build_request(prompt: PromptLike | GenerateRequest, fields: RequestFields) -> GenerateRequest:
    """Return the request that `prompt` and `fields` describe; a GenerateRequest comes alone.

    Raises InvalidField for a value of the wrong type, TypeError for a name that is no field.
    """
    for name in fields:
        if name not in READERS:
            raise TypeError(f"generate() got an unexpected keyword argument {name!r}{_suggestion(name)}")
    if isinstance(prompt, GenerateRequest):
        if fields:
            raise TypeError(f"generate() got a GenerateRequest and {', '.join(fields)}, wanted one or the other")
        return read_request(prompt)
    given = {name: READERS[name](name, value) for name, value in fields.items() if value is not None}
    law: dict[str, Any] = {name: given.pop(name) for name in LAW if name in given}
    if "logit_bias" in given:
        law["bias"] = given.pop("logit_bias")
    speculation = {name: given.pop(name) for name in SPECULATION if name in given}
    return GenerateRequest(
        prompt=read_prompt("prompt", prompt),
        law=LawParameters(**law) if law else None,
        speculation=Speculation(**speculation),
        **given,
    )


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, READERS, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
