"""The port of tokenizers: text to ids, ids to text, and what peers compare to know that they mean the same ids."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from foreword.errors import InvalidField

ROLES: Final = ("system", "user", "assistant", "tool")
"""Roles of a conversation; a chat template may know more."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """Sampling parameters that a model's makers recommend; None where they say nothing."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None


class TextStream(Protocol):
    """Turns ids into text one by one; no piece of text ever splits a character."""

    def push(self, token: int) -> str:
        """Return the text that is decided by now, "" while a character is incomplete."""

    def finish(self) -> str:
        """Return what was held back; an incomplete character becomes U+FFFD."""


class Tokenizer(Protocol):
    """Text to ids and back."""

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest id."""

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a text."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that stand for no text."""

    @property
    def digest(self) -> str:
        """`digest_of` what the ids mean."""

    @property
    def has_chat_template(self) -> bool:
        """Whether `chat` can be used."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of a prompt, with the leading special ids that the model wants."""

    def chat(self, messages: Sequence[ChatMessage]) -> tuple[int, ...]:
        """Return the ids of a conversation up to where the assistant answers; raise InvalidField where it cannot be."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` without special ids."""

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that an id stands for; those of its name where it is special."""

    def stream(self) -> TextStream:
        """Start the text of a new output."""


def check_roles(messages: Iterable[ChatMessage], more: Iterable[str] = ()) -> None:
    """Raise InvalidField for a role that is neither one of `ROLES` nor one of `more`: templates write any word."""
    known = dict.fromkeys((*ROLES, *more))
    for place, message in enumerate(messages):
        if message.role not in known:
            raise InvalidField(f"messages[{place}].role", message.role, f"one of {', '.join(known)}")


def digest_of(pieces: Iterable[bytes], special_ids: Iterable[int]) -> str:
    """Return what two tokenizers have in common exactly when each id means the same to both.

    SHA-256, in hexadecimal, over the bytes of ids 0, 1, … (each after its length as u32, little-endian; none for an id
    that does not exist), then 0xFFFFFFFF, then the special ids in ascending order as u32. How text is cut into ids is
    no part of it.
    """
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(struct.pack("<I", len(piece)) + piece)
    digest.update(struct.pack("<I", 0xFFFFFFFF))
    for token in sorted(special_ids):
        digest.update(struct.pack("<I", token))
    return digest.hexdigest()
