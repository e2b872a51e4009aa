"""Whether a session can ever be opened; what an Open asks for is checked before anything is built on it."""

from __future__ import annotations

from dataclasses import dataclass

from foreword.errors import InvalidField
from foreword.protocol.messages import Refused, TargetOpen
from foreword.protocol.words import RefusalCode


@dataclass(frozen=True, slots=True)
class Bars:
    """Bounds of what a target takes on."""

    max_sessions: int
    """Most sessions that have room in the cache at the same time."""
    max_waiting: int
    """Most that stand in line for it."""
    longest_length: int
    """Largest number of tokens of one session, prompt and output together; so many fit an empty cache."""
    vocabulary_size: int
    gamma_max: int
    most_logprobs: int = 128
    no_grammars: str = "this target has no grammars"
    """Why no session with a grammar is taken on, "" where they are."""


def refusal(message: TargetOpen, bars: Bars) -> Refused | None:
    """Return why this session can never be opened here, or None."""
    try:
        check(message, bars)
    except InvalidField as error:
        return Refused(message.sid, RefusalCode.BAD, error.message)
    length = len(message.tokens)
    if length >= bars.longest_length:
        text = f"tokens: got {length}, wanted under {bars.longest_length}, the longest sequence here"
        return Refused(message.sid, RefusalCode.TOO_LONG, text)
    return None


def check(message: TargetOpen, bars: Bars) -> None:
    """Raise InvalidField for the first field that is out of its range."""
    tokens = message.tokens
    if not 1 <= message.prompt_len <= len(tokens):
        raise InvalidField("prompt_len", message.prompt_len, f"1 to {len(tokens)}, the tokens given")
    if not 0 <= min(tokens) <= max(tokens) < bars.vocabulary_size:
        seen = min(tokens) if min(tokens) < 0 else max(tokens)
        raise InvalidField("tokens", seen, f"token ids from 0 to {bars.vocabulary_size - 1}")
    if len(tokens) - message.prompt_len >= message.max_output:
        least = len(tokens) - message.prompt_len + 1
        raise InvalidField("max_output", message.max_output, f"at least {least}, one more than the output so far")
    for field, count in (("top_logprobs", message.top_logprobs), ("prompt_logprobs", message.prompt_logprobs)):
        if count is not None and not 0 <= count <= bars.most_logprobs:
            raise InvalidField(field, count, f"0 to {bars.most_logprobs}")
    if message.law.grammar is not None and bars.no_grammars:
        raise InvalidField("law.grammar", message.law.grammar.kind, f"none: {bars.no_grammars}")
    message.law.validate(bars.vocabulary_size)
