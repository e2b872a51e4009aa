"""Names of fields: what the front calls them, and what a body calls them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from foreword.errors import InvalidField, NotFound
from orchestrator.http.fields import ChatRequest, CompletionRequest, Generating, Speculative
from orchestrator.http.grammar import grammar_field

_COMMON: Final[Mapping[str, str]] = {
    "bias": "logit_bias",
    "bias_ids": "logit_bias",
    "bias_values": "logit_bias",
    "banned_ids": "banned_token_ids",
    "stop_ids": "stop_token_ids",
    **{name: f"speculative.{name}" for name in Speculative.model_fields},
}
_OF_COMPLETIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("top_logprobs", "prompt_logprobs"), "logprobs"),
    **dict.fromkeys(("text", "tokens", "input"), "prompt"),
}
_TURNS: Final = ("prompt", "text", "input", "role", "content")
"""What a refusal of a conversation may be about."""
_INDEX: Final = re.compile(r"\[.*\]$")


def renamed(error: InvalidField | NotFound, body: Generating) -> InvalidField | NotFound:
    """Return the error with the name that the body has for its field."""
    if not error.field or error.field.startswith(("speculative.", "response_format.")):
        return error
    field = public_name(error.field, body)
    if field == error.field:
        return error
    if isinstance(error, NotFound):
        return NotFound.of(field, error.seen, error.wanted)
    return InvalidField(field, error.seen, error.wanted)


def public_name(field: str, body: Generating) -> str:
    """Return what a body calls a field of the front's."""
    plain = _INDEX.sub("", field).removeprefix("law.").removeprefix("speculation.")
    if plain.startswith("grammar"):
        return grammar_field(body)
    if isinstance(body, ChatRequest) and plain in _TURNS:
        return "messages"
    if isinstance(body, CompletionRequest):
        plain = _OF_COMPLETIONS.get(plain, plain)
    if plain == "max_tokens" and getattr(body, "max_completion_tokens", None) is not None:
        return "max_completion_tokens"
    return _COMMON.get(plain, plain)
