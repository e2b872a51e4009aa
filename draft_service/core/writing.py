"""Writing one block: what is drawn next, when it is complete, and what goes out; pure."""

from __future__ import annotations

from dataclasses import dataclass

from draft_service.core.state import Outcome, Phase, Push, Session, Writing
from foreword.protocol.messages import Block, BlockLaw, OneHot, SparseCounts, Tokens
from foreword.protocol.words import Drafter, Rule
from foreword.values import replace


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
    confidence: float = 1.0
    """Estimated probability that these candidates are kept when those before them were."""
    drafter: Drafter | None = None
    """What drew them, where a drafter has several parts; the same for all candidates of a block."""


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
        rows=session.context_from(session.cached),
        position=writing.base + len(writing.ids),
        round=writing.round,
        digest=writing.digest,
        rule=writing.rule,
        left=_room(session, writing),
    )


def _room(session: Session, writing: Writing) -> int:
    """Return how many candidates still fit: γ of the order, and the context with the emitted token after them."""
    context_left = session.bounds.longest_length - session.length - 1
    return max(0, min(session.gamma - len(writing.ids), context_left))


def drawn(session: Session, work: Draw, result: Drawn) -> Outcome:
    """A drafting step is done: add what was drawn, and send the block if it is complete."""
    writing = session.writing
    assert writing is not None
    writing = replace(
        writing,
        ids=writing.ids + result.ids,
        laws=_laws(writing, result),
        survival=writing.survival * result.confidence,
        drafter=result.drafter if result.ids else writing.drafter,
    )
    session = replace(session, writing=writing, cached=work.cached + len(work.rows))
    ended = any(token in session.law.stop_ids for token in result.ids)
    if result.stop or ended or not result.ids or writing.survival < session.stop_threshold:
        return send(session)
    return finished(session)


def _laws(writing: Writing, result: Drawn) -> tuple[SparseCounts, ...] | None:
    """Return the laws of the longer block; a block whose laws were partly left out would lie about the others."""
    if not result.ids:
        return writing.laws
    if not writing.ids:
        return result.laws
    assert (writing.laws is None) == (result.laws is None), "a drafter gives laws for all candidates of a block or none"
    return None if writing.laws is None or result.laws is None else writing.laws + result.laws


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
        drafter=session.bounds.drafter if writing.drafter is None else writing.drafter,
        law=law,
    )
