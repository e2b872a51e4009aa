"""Readers of values that users build themselves: every field of every part is read as keyword arguments are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from foreword.client.fields import READERS, Reader, optional, read_ids, read_pairs, read_text, record
from foreword.errors import InvalidField
from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Chat, GenerateRequest, Message, Prompt, Speculation, TokenPrompt

LAW: Final = (
    *("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("banned_ids", "stop_ids", "min_tokens", "grammar"),
)
"""Keyword arguments that are fields of LawParameters by the same name; its `bias` is `logit_bias`."""
SPECULATION: Final = ("gamma", "gamma_min", "gamma_max", "rule", "drafter", "draft")
"""Keyword arguments that are fields of Speculation."""


def read_request(request: GenerateRequest) -> GenerateRequest:
    """Return the request with its values as they are sent; raises InvalidField for one of the wrong type."""
    read: GenerateRequest = _REQUEST("request", request)
    return read


def read_prompt(name: str, prompt: object) -> Prompt:
    """Return `prompt` as one of the three kinds of prompt; raises InvalidField for anything else, or an empty list."""
    if isinstance(prompt, str):
        return read_text(name, prompt)
    if isinstance(prompt, Chat):
        return Chat(_messages(prompt.messages))
    if isinstance(prompt, TokenPrompt):
        return TokenPrompt(read_ids(name, prompt.ids))
    if not isinstance(prompt, Iterable) or isinstance(prompt, bytes | Mapping):
        raise InvalidField(name, prompt, "a text, a list of messages, or a list of token ids")
    items = list(prompt)
    if not items:
        raise InvalidField(name, items, "at least one message or token id")
    if isinstance(items[0], Message | Mapping):
        return Chat(_messages(items))
    return TokenPrompt(read_ids(name, items))


def _messages(items: object) -> tuple[Message, ...]:
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
        raise InvalidField("messages", items, "a list of messages")
    return tuple(_message(item) for item in items)


def _message(item: object) -> Message:
    if isinstance(item, Message):
        return Message(read_text("role", item.role), read_text("content", item.content))
    if isinstance(item, Mapping) and set(item) == {"role", "content"}:
        return Message(read_text("role", item["role"]), read_text("content", item["content"]))
    raise InvalidField("messages", item, "messages with role and content and nothing else")


_OWN: Final = (
    *("request_id", "model", "max_tokens", "stop", "include_stop", "ignore_eos", "seed", "n", "top_logprobs", "echo"),
    "prompt_logprobs",
    *("resume", "one_token_per_event", "trace", "cache_salt", "skip_special_tokens"),
)
_law: Final = record(
    LawParameters, "LawParameters, or None", {**{name: READERS[name] for name in LAW}, "bias": read_pairs}
)
_speculation: Final = record(Speculation, "a Speculation", {name: READERS[name] for name in SPECULATION})
_parts: Final[dict[str, Reader]] = {"prompt": read_prompt, "law": optional(_law), "speculation": _speculation}
_REQUEST: Final[Any] = record(
    GenerateRequest, "a GenerateRequest", {**_parts, **{name: READERS[name] for name in _OWN}}
)
