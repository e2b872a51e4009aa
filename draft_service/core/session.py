"""Transitions of a session at a draft, from messages (docs/protocol.md, table "Draft"); pure.

Nothing drawn is discarded because of its value: a block is only given up when it assumes tokens that were not
committed, and the digest of those tokens is in its random addresses.
"""

from __future__ import annotations

from draft_service.core.state import Bounds, Count, Free, Outcome, Phase, Push, PushLater, Session, Tell, Writing
from draft_service.core.writing import finished, start, to_block
from foreword.errors import ProtocolFault
from foreword.protocol import digest as digests
from foreword.protocol.messages import Advance, DraftOpen, DraftOpened, Lost, Receipt, Tokens, VerdictNotice
from foreword.protocol.sequence import Sequence, merge, usable
from foreword.protocol.words import LossCode, ReceiptCode
from foreword.values import replace

VERDICT_DIFFERS = "verdict_differs"
"""Name under which verdicts of a target are counted that were not its orchestrator's."""


def opened(message: DraftOpen, bounds: Bounds) -> Session:
    """Return the session that an Open starts; its tokens are not in the cache yet."""
    return Session(
        sid=message.sid,
        sequence=Sequence.of(message.tokens, message.prompt_len),
        law=message.law,
        keys=message.keys,
        bounds=bounds,
        target=message.target,
        gamma_max=message.gamma_max,
    )


def prefilled(session: Session) -> Outcome:
    """The tokens are in the cache: say so, then obey the newest order."""
    if session.phase is not Phase.PREFILL:
        return session, ()
    told = Tell(DraftOpened(session.sid, session.bounds.longest_length))
    session, actions = _obey(replace(session, phase=Phase.IDLE))
    return session, (told, *actions)


def advanced(session: Session, message: Advance) -> Outcome:
    """An Advance came: commit its tokens, and let only the newest order count."""
    if session.order is not None and (message.round, message.base) <= (session.order.round, session.order.base):
        return session, (Count("old_advance"),)
    try:
        sequence = merge(session.sequence, message.base, message.tokens, message.digest)
    except ProtocolFault as fault:
        return lost(session, LossCode.PROTOCOL, fault.message)
    moved = message.target is not None and message.target != session.target
    # A session that moved may have lost the Result that the notice told of; otherwise both were of the same evidence.
    told = (Count(VERDICT_DIFFERS),) if not moved and _contradicts(session, sequence) else ()
    session, actions = _commanded(session, message, sequence, moved=moved)
    return session, (*told, *actions)


def _contradicts(session: Session, sequence: Sequence) -> bool:
    """Whether what the orchestrator committed is something else than what the target's verdicts said it would be."""
    came = sequence.tokens[len(session.sequence.tokens) :]
    both = min(len(came), len(session.assumed))
    return came[:both] != session.assumed[:both]


def _commanded(session: Session, message: Advance, sequence: Sequence, *, moved: bool) -> Outcome:
    if not moved and (assumed := _still_assumed(session, message, sequence)) is not None:
        session = replace(session, sequence=sequence, order=message, assumed=assumed)
        return finished(session) if session.phase is Phase.DRAFT else (session, ())
    goes_on = _goes_on(session, message)
    following = session.order is not None and session.order.gamma == 0
    fresh = max(0, sequence.base - session.sequence.base)
    before = session.context
    session = replace(
        session,
        sequence=sequence,
        order=message,
        target=message.target or session.target,
        assumed=(),
        unfollowed=session.unfollowed + fresh if following else 0,
    )
    if goes_on:
        return _go_on(session, moved=moved)
    known = sequence.prompt_len + message.base - len(message.tokens)
    session = replace(session, writing=None, cached=usable(session.cached, before, sequence.tokens, known))
    if session.phase is Phase.PREFILL:
        return session, ()
    return _obey(session)


def _still_assumed(session: Session, message: Advance, sequence: Sequence) -> Tokens | None:
    """Return the tokens that are still assumed after an order that a later verdict has overtaken; None if none has.

    The verdict of round r may come before the Advance of round r: the block of round r + 1 goes on, and r is over.
    """
    writing = session.writing
    if writing is None or message.gamma == 0 or writing.round <= message.round or writing.rule is not message.rule:
        return None
    held, length = session.sequence.tokens + session.assumed, len(sequence.tokens)
    return held[length:] if held[:length] == sequence.tokens else None


def _goes_on(session: Session, message: Advance) -> bool:
    """Whether the block that is being written, or is out, is the one that this order asks for."""
    writing = session.writing
    return (
        writing is not None
        and message.gamma > 0
        and (writing.round, writing.base, writing.digest, writing.rule)
        == (message.round, message.base, message.digest, message.rule)
    )


def _go_on(session: Session, *, moved: bool) -> Outcome:
    if session.phase is Phase.SENT and moved:
        return session, (Push(to_block(session)),)
    if session.phase is Phase.DRAFT:
        return finished(session)
    return session, ()


def _obey(session: Session) -> Outcome:
    """Start what the newest order asks for."""
    order = session.order
    if order is None or order.gamma == 0:
        return replace(session, phase=Phase.IDLE, writing=None), ()
    return start(session, Writing(order.round, order.base, order.digest, order.rule))


def verdict_came(session: Session, notice: VerdictNotice) -> Outcome:
    """The target's copy of a verdict came: start the continuation for the next round under the last order."""
    writing = session.writing
    named = (notice.ticket, notice.round, notice.digest)
    if session.phase is not Phase.SENT or writing is None:
        return session, ()
    if named != (session.target.ticket, writing.round, writing.digest) or notice.kept > len(writing.ids):
        return session, (Count("old_verdict"),)
    gained = (*writing.ids[: notice.kept], notice.emitted)
    before = session.context
    assumed = session.assumed + gained
    ahead = session.sequence.tokens + assumed
    over = notice.emitted in session.law.stop_ids or any(t in session.law.stop_ids for t in gained)
    cached = usable(session.cached, before, ahead, len(before) - len(writing.ids))
    session = replace(session, assumed=assumed, writing=None, cached=cached)
    if over or session.gamma == 0:
        return replace(session, phase=Phase.IDLE), ()
    digest = digests.extend(writing.digest, gained)
    return start(session, Writing(notice.round + 1, writing.base + len(gained), digest, writing.rule))


def is_news(answer: Receipt | VerdictNotice) -> bool:
    """Whether an answer is anything to act on: a block that was taken or is held waits for its verdict."""
    return not isinstance(answer, Receipt) or answer.code not in (ReceiptCode.TAKEN, ReceiptCode.HELD)


def receipt_came(session: Session, receipt: Receipt) -> Outcome:
    """A receipt came: what the target could not take yet, for want of the ticket or of room, is offered again."""
    writing = session.writing
    if session.phase is not Phase.SENT or writing is None:
        return session, ()
    if (receipt.round, receipt.digest) != (writing.round, writing.digest):
        return session, ()
    if receipt.code is ReceiptCode.UNKNOWN:
        return session, (PushLater(session.sid), Count("unknown_ticket"))
    if receipt.code is ReceiptCode.FULL:
        return session, (PushLater(session.sid), Count("full_mailbox"))
    if receipt.code is ReceiptCode.BAD:
        return session, (Count("bad_block"),)
    return session, ()


def again(session: Session) -> Outcome:
    """The link came back, or it is time to offer the block again: send it if its round is still the newest."""
    if session.phase is not Phase.SENT or session.writing is None:
        return session, ()
    return session, (Push(to_block(session)),)


def forgotten(session: Session) -> Outcome:
    """Memory was needed: drop the cache and keep the tokens; the next order fills it again."""
    return replace(session, cached=0), (Free(session.sid),)


def closed(session: Session) -> Outcome:
    """A Close came, or the session's stream ended."""
    if session.phase is Phase.GONE:
        return session, ()
    return replace(session, phase=Phase.GONE, writing=None), (Free(session.sid),)


def lost(session: Session, code: LossCode, message: str) -> Outcome:
    """Give the session up and say why."""
    told = Tell(Lost(session.sid, code, message))
    session, actions = closed(session)
    return session, (told, *actions)
