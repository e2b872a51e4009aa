"""Whether an Open is taken; pure."""

from __future__ import annotations

from dataclasses import dataclass

from draft_service.drafters.port import Abilities
from foreword.errors import InvalidField
from foreword.protocol.messages import DraftOpen, Refused
from foreword.protocol.words import RefusalCode
from foreword.values import replace

RETRY_MS = 1000
"""When to ask again after a refusal for want of room."""
LIGHT_TOKENS = 1 << 18
"""Tokens of all sessions where a token takes little memory and no number is set.

Lookup indexes them in some 110 MB: 340 to 400 bytes a token of text, 610 where two ids are all there is.
"""


@dataclass(frozen=True, slots=True)
class Room:
    """How much an engine takes."""

    sessions: int = 256
    tokens: int | None = None
    """Most committed tokens of all sessions, and of their caches; None for no bound."""


def bounded_room(room: Room, abilities: Abilities) -> Room:
    """Return the room with a bound on its tokens: the given one, else what the cache was made for."""
    if room.tokens is not None:
        return room
    return replace(room, tokens=LIGHT_TOKENS if abilities.cache_tokens is None else abilities.cache_tokens)


@dataclass(frozen=True, slots=True)
class Taken:
    """How much of it is in use."""

    sessions: int
    tokens: int


def refusal(message: DraftOpen, abilities: Abilities, *, room: Room, taken: Taken, draining: bool) -> Refused | None:
    """Return why the session cannot be opened; None if it can."""
    if draining:
        return Refused(message.sid, RefusalCode.DRAINING, "this draft is shutting down")
    expected, own = message.vocabulary_map_digest, abilities.vocabulary_map_digest
    if expected and expected != own:
        wanted = f"{own!r}, the map of this draft" if own else "none: this draft maps no ids"
        text = f"vocabulary_map_digest: got {expected!r}, wanted {wanted}"
        return Refused(message.sid, RefusalCode.MISMATCH, text)
    length, longest = len(message.tokens), abilities.longest_context
    if room.tokens is not None:
        longest = min(longest, room.tokens)
    if length + 1 > longest:
        text = f"tokens: got {length}, wanted fewer than {longest}, the longest context here"
        return Refused(message.sid, RefusalCode.TOO_LONG, text)
    try:
        message.law.validate(abilities.vocabulary_size)
    except InvalidField as error:
        return Refused(message.sid, RefusalCode.BAD, error.message)
    if taken.sessions >= room.sessions:
        text = f"sessions: {taken.sessions} are open, wanted fewer than {room.sessions}"
        return Refused(message.sid, RefusalCode.FULL, text, RETRY_MS)
    if room.tokens is not None and taken.tokens + length > room.tokens:
        text = f"tokens: {taken.tokens} are open and {length} more came, wanted at most {room.tokens}"
        return Refused(message.sid, RefusalCode.FULL, text, RETRY_MS)
    return None
