"""Long prompts: cut into chunks by the sender, so that they do not stand in front of commits, joined by the reader."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import Generic, TypeVar

from foreword.errors import ForewordError, Full, InvalidField, ProtocolFault
from foreword.protocol.messages import DraftClose, DraftOpen, TargetClose, TargetOpen, Tokens
from foreword.wire.limits import Limits

O = TypeVar("O", TargetOpen, DraftOpen)  # noqa: E741


@dataclass(frozen=True, slots=True)
class FirstChunk(Generic[O]):
    """An Open with its first tokens; it has `token_count` in all."""

    open: O
    token_count: int


@dataclass(frozen=True, slots=True)
class NextChunk:
    """Tokens that follow those already sent for the session's Open."""

    tokens: Tokens


@dataclass(slots=True)
class _Partial(Generic[O]):
    first: FirstChunk[O]
    chunks: list[Tokens]
    missing: int


def chunks(tokens: Tokens, size: int) -> list[Tokens]:
    """Return `tokens` in pieces of at most `size`; at least one piece, which may be empty."""
    if len(tokens) <= size:
        return [tokens]
    return [tokens[start : start + size] for start in range(0, len(tokens), size)]


class Reassembler(Generic[O]):
    """Joins the chunks of one stream's Opens and gives each Open out once, complete; memory is bounded by Limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._partial: dict[int, _Partial[O]] = {}
        self._held = 0

    def take(self, sid: int | None, value: object) -> list[tuple[int | None, object]]:
        """Pass one decoded value through: what comes out is complete; chunks are held back. Raises nothing."""
        if sid is None:
            return [(sid, value)]
        try:
            match value:
                case FirstChunk():
                    value = self._open(sid, value)
                case NextChunk():
                    value = self._extend(sid, value)
                case ForewordError() | TargetClose() | DraftClose():
                    self._forget(sid)
        except ForewordError as error:
            self._forget(sid)
            value = error
        return [] if value is None else [(sid, value)]

    def _open(self, sid: int, first: FirstChunk[O]) -> O | None:
        if sid in self._partial:
            raise ProtocolFault(f"open.sid: got {sid} again before its tokens were complete, wanted each once")
        have = len(first.open.tokens)
        if have == first.token_count:
            return first.open
        if have == 0:
            raise InvalidField("open.tokens", have, "the first tokens")
        if len(self._partial) >= self._limits.partial_opens:
            raise Full(f"open.tokens: got {len(self._partial)} incomplete prompts, wanted no more on one stream")
        if self._held + first.token_count > self._limits.partial_tokens:
            wanted = f"at most {self._limits.partial_tokens} tokens in all incomplete prompts of a stream"
            raise InvalidField("open.token_count", first.token_count, wanted)
        self._held += first.token_count
        self._partial[sid] = _Partial(first, [first.open.tokens], first.token_count - have)
        return None

    def _extend(self, sid: int, chunk: NextChunk) -> O | None:
        partial = self._partial.get(sid)
        if partial is None:
            raise ProtocolFault(f"tokens.sid: got {sid}, wanted a session whose prompt is not complete")
        if not 0 < len(chunk.tokens) <= partial.missing:
            raise InvalidField("tokens.tokens", len(chunk.tokens), f"from 1 to {partial.missing} tokens")
        partial.missing -= len(chunk.tokens)
        partial.chunks.append(chunk.tokens)
        if partial.missing:
            return None
        self._forget(sid)
        return replace(partial.first.open, tokens=tuple(chain.from_iterable(partial.chunks)))

    def _forget(self, sid: int) -> None:
        partial = self._partial.pop(sid, None)
        if partial is not None:
            self._held -= partial.first.token_count
