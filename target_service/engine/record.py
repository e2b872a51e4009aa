"""A session and what the engine knows of it beyond the protocol."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum, auto

from foreword.laws.edits import TokenMask
from foreword.protocol.messages import Block
from target_service.core.estimates import Acceptance, Emitted, Replies
from target_service.core.state import Session

BlockName = tuple[bytes, int, int]
"""Ticket, round and digest of a block."""


class Place(Enum):
    """How far a session has got into the cache."""

    QUEUED = auto()
    """It stands in line since its Open."""
    PREEMPTED = auto()
    """It stands in line again: older sessions needed its pages."""
    ADMITTED = auto()
    """There is room for it, and nothing of it is in the cache yet."""
    CACHED = auto()
    """It has begun with what others left of its text, and reads what it lacks."""


@dataclass(slots=True)
class Record:
    """One session; times are microseconds."""

    stream: int
    slot: int
    """Its number at the runner; slots count upwards, so that a larger number is a younger session."""
    session: Session
    opened_us: int
    salt: bytes = b""
    place: Place = Place.QUEUED
    shared_pages: int = 0
    """Full pages of committed tokens that others may begin with."""
    hit_tokens: int | None = None
    """Tokens that were cached when it began for the first time; None before that."""
    served: int = 0
    """Number of the last step that it had a part in."""
    commit_us: int = 0
    """When the Commit that is not answered arrived."""
    hold_us: int = 0
    """Until when the step may be held for its block; meaningful in WAIT."""
    ready_us: int = 0
    """When it became part of the next step."""
    lag_us: int | None = None
    """Block arrival minus Commit arrival of the block that is here."""
    result_us: int | None = None
    """When its last final Result was known; None before the first."""
    rows: int = 1
    """Rows of its last step."""
    mask: Future[TokenMask] | None = None
    """What its grammar lets come next, made or being made; None for a session that has no grammar or has not begun."""
    arrivals: dict[BlockName, int] = field(default_factory=dict)
    replies: Replies = field(default_factory=Replies)
    emitted: Emitted = field(default_factory=Emitted)
    acceptance: Acceptance = field(default_factory=Acceptance)
    guessed: Emitted = field(default_factory=lambda: Emitted(start=1.0))
    """Tokens a step of leases with the target's own drafter."""


def name_of(block: Block) -> BlockName:
    """Return what tells a block from all others."""
    return block.ticket, block.round, block.digest
