"""The port that drafters sit behind: batched drafting, reading ahead, and comparing guesses with what came.

A drafter holds slots, one a session. What to draw, and after which tokens, is in every pen and job. Rollback is their
`cached`: what the slot holds beyond it is forgotten. Beside its cache a drafter may remember of a session how well it
drafted: the next block's tokens tell what came where it had drawn, so nobody needs to tell it. What it remembers
may choose how the next block is drawn, never what of a block that is drawn is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from draft_service.core.reading import Compare, Read
from draft_service.core.state import Session
from draft_service.core.writing import Drawn
from draft_service.drafters.pen import Pen
from foreword.errors import ForewordError
from foreword.protocol.info import ModelInfo
from foreword.protocol.messages import Tokens
from foreword.protocol.words import Drafter as Kind


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Take tokens into one slot's cache."""

    slot: int
    read: Read


@dataclass(frozen=True, slots=True)
class CompareJob:
    """Guess tokens that came, for one session."""

    slot: int
    session: Session
    compare: Compare


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a drafter is and can do."""

    kind: Kind
    longest_context: int
    """Most tokens of one session."""
    vocabulary_size: int | None
    """Ids that it can read are below it; None for a drafter that takes any."""
    model: ModelInfo | None
    """None for a drafter without a model."""
    cache_tokens: int | None = None
    """Most tokens of all sessions that the cache has room for; None where they take little."""
    vocabulary_map_digest: str = ""
    """Of the map from its head's columns to ids; empty where they are the same."""
    on_gpu: bool = False
    """Whether its passes run on a device that is no CPU."""


class Drafter(Protocol):
    """Writes candidates for many sessions.

    One thread uses a drafter. `step` and `compare` raise EngineFailure when a pass fails for all of its jobs; what
    concerns one session alone comes back in its place.
    """

    @property
    def abilities(self) -> Abilities:
        """What it is and can do; constant."""

    @property
    def resident_tokens(self) -> int:
        """Tokens cached over all slots."""

    def open(self, slot: int, *, salt: bytes = b"") -> None:
        """Start an empty slot under a number that is not in use; slots share beginnings under the same salt only."""

    def adopt(self, slot: int, tokens: Tokens) -> int:
        """Let an empty slot begin with what is cached of `tokens`; return how many it holds then, fewer than given."""

    def close(self, slot: int) -> None:
        """Free a slot; its number may be used again."""

    def step(self, pens: Sequence[Pen], reads: Sequence[ReadJob]) -> list[Drawn | ForewordError]:
        """Draw for all `pens` and read all `reads` in one pass; return one result a pen, in order.

        A model gives one candidate a step, lookup a whole block. One block has laws of one kind. No slot comes twice;
        pens are not changed.
        """

    def compare(self, jobs: Sequence[CompareJob]) -> list[int | ForewordError]:
        """Return for each job how many of its wanted tokens were guessed, each after those that really came before."""
