"""Outcomes that the block which is out may have, and going on with a block that was prepared for one of them; pure.

A prepared block is the block that the session would begin if the outcome came: the same transition makes both. It is
found again by its round, rule, and the digest of all tokens that it assumes, so that one for anything else never hits.
Nothing of it is chosen or left out by what was drawn, and its random numbers are at addresses of its own (invariants 6
and 10 of docs/protocol.md); which outcomes are prepared is decided by what was seen before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from draft_service.core.session import verdict_came
from draft_service.core.state import Outcome, Phase, Session, Shipped, Writing
from draft_service.core.writing import finished, send
from foreword.protocol.messages import Tokens, VerdictNotice
from foreword.protocol.words import Rule
from foreword.values import replace

Name = tuple[int, int, Rule]
"""Round, digest of the tokens that are assumed, and rule of a block."""


class Ending(Enum):
    """How an outcome ends."""

    CORRECTION = "correction"
    """A candidate is not kept, and a token comes in its place."""
    BONUS = "bonus"
    """All are kept, and one token more comes."""


@dataclass(frozen=True, slots=True)
class Guess:
    """One outcome of a block: so many candidates kept, and the token after them."""

    kept: int
    token: int
    ending: Ending
    rank: int
    """Place of the token in the draft's ranking, from 0."""
    probability: float


def name_of(writing: Writing) -> Name:
    """Return what a block is found by."""
    return writing.round, writing.digest, writing.rule


def has_outcomes(session: Session) -> bool:
    """Whether a block is out, and another would follow it."""
    return session.phase is Phase.SENT and session.writing is not None and session.gamma > 0


def begins(session: Session) -> bool:
    """Whether a block has begun of which nothing is drawn yet."""
    return session.phase is Phase.DRAFT and session.writing is not None and not session.writing.ids


def supposed(session: Session, guess: Guess) -> Session | None:
    """Return the session as it would begin its next block after an outcome; None if it would not draft then."""
    writing = session.writing
    assert writing is not None
    notice = VerdictNotice(session.target.ticket, writing.round, writing.digest, guess.kept, guess.token)
    after, _ = verdict_came(session, notice)
    return after if begins(after) else None


def what_came(before: Session, after: Session) -> tuple[int, int] | None:
    """Return how many candidates of the block that was out came true, and the token after them; None if none is known.

    A rejected candidate that comes again as the token in its place counts as kept (possible under block verification).
    """
    writing = before.writing
    assert writing is not None
    start = before.length - len(writing.ids)
    came = after.context_from(start)
    for kept, (candidate, token) in enumerate(zip(writing.ids, came, strict=False)):
        if candidate != token:
            return kept, token
    return (len(writing.ids), came[len(writing.ids)]) if len(came) > len(writing.ids) else None


def resumed(session: Session, prepared: Session, *, stopped: bool, shipped_ns: int | None) -> Outcome:
    """Go on with a block that was prepared under the same name; one that is complete under the newest order goes out.

    `stopped`: whether the drafter ended it; `shipped_ns`: when it was shipped to the session's target, if it was.
    """
    known, begun = prepared.writing, session.writing
    assert known is not None
    assert begun is not None
    assert name_of(known) == name_of(begun)
    session = replace(session, writing=known, cached=prepared.cached)
    if shipped_ns is not None:  # the target has it: whatever the order says now, this is what it uses
        return replace(session, phase=Phase.SENT), (Shipped(shipped_ns),)
    ended = any(token in session.law.stop_ids for token in known.ids)
    if stopped or ended or known.survival < session.stop_threshold:
        return send(session)
    session, actions = finished(session)
    if session.phase is Phase.DRAFT:
        session = replace(session, cached=min(session.cached, session.length - 1))
    return session, actions


def foreseen(session: Session, rows: Tokens, cached: int) -> Session:
    """Return the session after its drafter has looked behind every candidate: all of its context is in the cache."""
    return replace(session, cached=cached + len(rows))
