"""From what users write to a GenerateRequest: plain keyword arguments, checked for their types.

Ranges are the server's business, which knows the model; a wrong type is named here, before anything is sent.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypedDict

from foreword.client.fields import READERS, read_ids, read_text
from foreword.errors import InvalidField
from foreword.laws.parameters import Grammar, LawParameters
from foreword.protocol.generation import Chat, GenerateRequest, Message, Prompt, Speculation, TokenPrompt
from foreword.protocol.messages import Trace
from foreword.protocol.words import Drafter, Rule

PromptLike = Prompt | Sequence[Message] | Sequence[Mapping[str, str]] | Sequence[int]
"""A text; a chat as messages or as dictionaries with role and content; token ids; or a prompt value."""


_LAW: Final = (
    *("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("logit_bias", "banned_ids", "stop_ids", "min_tokens", "grammar"),
)
_SPECULATION: Final = ("gamma", "gamma_min", "gamma_max", "rule", "drafter", "draft")


class RequestFields(TypedDict, total=False):
    """Keyword arguments of `generate` and `stream`; what is left out is the server's choice."""

    request_id: str
    model: str
    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    banned_ids: Iterable[int]
    stop_ids: Iterable[int]
    min_tokens: int
    grammar: Grammar | None
    max_tokens: int | None
    stop: str | Iterable[str]
    include_stop: bool
    ignore_eos: bool
    seed: int | None
    n: int
    top_logprobs: int | None
    echo: bool
    gamma: int | None
    gamma_min: int | None
    gamma_max: int | None
    rule: Rule | str | None
    drafter: Drafter | str | None
    draft: str
    resume: Iterable[int]
    one_token_per_event: bool
    trace: Trace | None
    cache_salt: bytes
    skip_special_tokens: bool


def build_request(prompt: PromptLike | GenerateRequest, fields: RequestFields) -> GenerateRequest:
    """Return the request that `prompt` and `fields` describe; a GenerateRequest is taken as it is, without fields.

    Raises InvalidField for a value of the wrong type, TypeError for a name that is no field.
    """
    for name in fields:
        if name not in READERS:
            raise TypeError(f"generate() got an unexpected keyword argument {name!r}{_suggestion(name)}")
    if isinstance(prompt, GenerateRequest):
        if fields:
            raise TypeError(f"generate() got a GenerateRequest and {', '.join(fields)}, wanted one or the other")
        return prompt
    given = {name: READERS[name](name, value) for name, value in fields.items()}
    law = {name.removeprefix("logit_"): given.pop(name) for name in _LAW if name in given}
    speculation = {name: given.pop(name) for name in _SPECULATION if name in given}
    return GenerateRequest(
        prompt=read_prompt(prompt),
        law=LawParameters(**law) if law else None,
        speculation=Speculation(**speculation),
        **given,
    )


def read_prompt(prompt: PromptLike) -> Prompt:
    """Return `prompt` as one of the three kinds of prompt; raises InvalidField for anything else, or an empty list."""
    if isinstance(prompt, str | Chat | TokenPrompt):
        return prompt
    if not isinstance(prompt, Iterable) or isinstance(prompt, bytes | Mapping):
        raise InvalidField("prompt", prompt, "a text, a list of messages, or a list of token ids")
    items = list(prompt)
    if not items:
        raise InvalidField("prompt", items, "at least one message or token id")
    if isinstance(items[0], Message | Mapping):
        return Chat(tuple(_message(item) for item in items))
    return TokenPrompt(read_ids("prompt", items))


def _message(item: object) -> Message:
    if isinstance(item, Message):
        return item
    if isinstance(item, Mapping) and set(item) == {"role", "content"}:
        return Message(read_text("role", item["role"]), read_text("content", item["content"]))
    raise InvalidField("messages", item, "messages with role and content and nothing else")


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, READERS, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
