"""The port that drafters inside the target sit behind.

A drafter holds what it was told of a session in a slot. It is told the text as it grows: of what it was told before so
much stands, and this follows. A slot comes into being when it is first named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from foreword.laws.edits import TokenMask
from foreword.protocol.messages import Tokens
from foreword.protocol.words import Drafter
from target_service.core.state import Guess, Session


@dataclass(frozen=True, slots=True)
class Wish:
    """What one session tells, and how many candidates it wants behind that."""

    slot: int
    session: Session
    """For what candidates depend on beside the text: the rule, the law's parameters, keys and positions."""
    stands: int
    """How many of the tokens that the slot was told still are right."""
    new: Tokens
    """The tokens behind those."""
    most: int
    """How many candidates are wanted; 0 while the slot lacks more of the text."""
    mask: TokenMask | None = None
    """What the session's grammar lets come next; candidates may be any, but those that it bars are refused."""


class LocalDrafter(Protocol):
    """Writes candidates inside the target's engine, between two of its steps. One thread uses it."""

    @property
    def kind(self) -> Drafter:
        """Who the candidates are by; orders name it."""

    @property
    def longest_context(self) -> int:
        """Most tokens of one session."""

    @property
    def at_once(self) -> int:
        """Most tokens that it is told before one step; texts that have more to tell take plain steps meanwhile."""

    def guess(self, wishes: Sequence[Wish]) -> list[Guess]:
        """Return candidates for each wish, in order: up to `most`, perhaps none, and the law they were drawn from.

        A law is honest under every rule: each candidate was drawn from its own, which depends on the text before it and
        on nothing that was drawn for it. No slot comes twice.
        """

    def close(self, slot: int) -> None:
        """Free a slot; one that was never named is none of its business."""
