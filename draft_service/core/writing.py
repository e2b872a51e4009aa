"""Writing one block: what is drawn next, when it is complete, and what goes out; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from draft_service.core.state import Outcome, Phase, Push, Session, Tell, Writing
from foreword.protocol.messages import Block, BlockLaw, Follow, OneHot, SparseCounts, Tokens
from foreword.protocol.words import Rule

FOLLOW_EVERY = 8
"""Tokens compared before a Follow goes out."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One session's part of a drafting step: `rows` enter the cache after truncation to `cached`."""

    sid: int
    cached: int
    rows: Tokens
    position: int
    """Output position of the next candidate."""
    round: int
    digest: int
    """Digest of the tokens that the block assumes; part of the draft's random addresses."""
    rule: Rule
    left: int
    """How many candidates the block may still get."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a drafter drew for one session: candidates, and their laws unless all were one-hot."""

    ids: Tokens
    laws: tuple[SparseCounts, ...] | None
    stop: bool = False
    """Whether the block should go now; what was drawn goes with it."""


def start(session: Session, writing: Writing) -> Outcome:
    """Start a block; where there is no room for a candidate it goes out empty at once."""
    return finished(replace(session, phase=Phase.DRAFT, writing=writing))


def draw(session: Session) -> Draw:
    """Return what the drafting step has to do for a session that is drafting."""
    writing = session.writing
    assert writing is not None
    return Draw(
        sid=session.sid,
        cached=session.cached,
        rows=session.context[session.cached :],
        position=writing.base + len(writing.ids),
        round=writing.round,
        digest=writing.digest,
        rule=writing.rule,
        left=_room(session, writing),
    )


def _room(session: Session, writing: Writing) -> int:
    """Return how many candidates still fit: γ of the order, and the context with the emitted token after them."""
    context_left = session.bounds.longest_length - len(session.context) - 1
    return max(0, min(session.gamma - len(writing.ids), context_left))


def drawn(session: Session, work: Draw, result: Drawn) -> Outcome:
    """A drafting step is done: add what was drawn, and send the block if it is complete."""
    writing = session.writing
    assert writing is not None
    cached = work.cached + len(work.rows)
    one_hot = result.laws is None or (writing.laws is None and writing.ids)
    laws = None if one_hot else (writing.laws or ()) + (result.laws or ())
    writing = replace(writing, ids=writing.ids + result.ids, laws=laws)
    session = replace(session, writing=writing, cached=cached)
    ended = any(token in session.law.stop_ids for token in result.ids)
    if result.stop or ended or not result.ids:
        return send(session)
    return finished(session)


def finished(session: Session) -> Outcome:
    """Send the block if nothing more fits into it."""
    assert session.writing is not None
    return send(session) if _room(session, session.writing) == 0 else (session, ())


def send(session: Session) -> Outcome:
    """Send what was drawn, possibly nothing: the block is complete, or its time is up."""
    if session.phase is not Phase.DRAFT:
        return session, ()
    session = replace(session, phase=Phase.SENT)
    return session, (Push(to_block(session)),)


def to_block(session: Session) -> Block:
    """Return the block as it goes out; its durations are filled in by the engine."""
    writing = session.writing
    assert writing is not None
    law: BlockLaw | None = None
    if writing.rule is not Rule.MATCH:
        law = OneHot() if writing.laws is None else writing.laws
    return Block(
        ticket=session.target.ticket,
        round=writing.round,
        base=writing.base,
        digest=writing.digest,
        ids=writing.ids,
        drafter=session.bounds.drafter,
        law=law,
    )


def followable(session: Session) -> bool:
    """Whether committed tokens came under an order with γ = 0 that the drafter has not compared yet."""
    return session.phase is Phase.IDLE and session.unfollowed >= FOLLOW_EVERY


def followed(session: Session, agreed: int) -> Outcome:
    """The drafter compared its guesses with the tokens that came: tell the orchestrator."""
    told = Follow(session.sid, session.sequence.base, session.unfollowed, agreed)
    return replace(session, unfollowed=0, cached=len(session.sequence.tokens) - 1), (Tell(told),)
