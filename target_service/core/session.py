"""Transitions of a session at a target, from messages (docs/protocol.md, table "Target"); pure.

A block or a plain step is decided once, in `target_service.core.step.build`; nothing here retracts anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from foreword.errors import ProtocolFault
from foreword.protocol.messages import (
    Block,
    BlockOrder,
    Commit,
    LocalOrder,
    Lost,
    Recall,
    TargetClose,
    TargetOpen,
    TargetOpened,
    Tokens,
)
from foreword.protocol.sequence import Sequence, common, merge
from foreword.protocol.words import LossCode
from foreword.values import replace
from target_service.core.mailbox import unusable
from target_service.core.state import (
    Action,
    Bounds,
    Count,
    Free,
    HoldStep,
    Outcome,
    Phase,
    Session,
    Tell,
)


def opened(message: TargetOpen, bounds: Bounds) -> Session:
    """Return the session that an Open starts; its prompt is not in the cache yet."""
    return Session(
        sid=message.sid,
        sequence=Sequence.of(message.tokens, message.prompt_len),
        law=message.law,
        keys=message.keys,
        bounds=bounds,
        tickets=() if message.ticket is None else (message.ticket,),
        remembered=() if message.first is None else (message.first,),
        top_logprobs=message.top_logprobs,
        prompt_logprobs=message.prompt_logprobs,
    )


def prefilled(session: Session, cached_prefix: int = 0, *, prefill_us: int = 0) -> Outcome:
    """The prompt is in the cache: say so, then obey what came meanwhile as if it came now."""
    if session.closing:
        return _gone(session)
    told = opened_notice(session, cached_prefix, prefill_us=prefill_us)
    session, actions = obeyed(session)
    return session, (told, *actions)


def opened_notice(session: Session, cached_prefix: int, *, prefill_us: int) -> Tell:
    """Return what is told of a session whose prompt is in the cache."""
    return Tell(TargetOpened(session.sid, cached_prefix, session.bounds.longest_length, prefill_us))


def obeyed(session: Session) -> Outcome:
    """Obey what came during the prefill as if it came now."""
    remembered = session.remembered
    session = replace(session, phase=Phase.IDLE, remembered=())
    actions: tuple[Action, ...] = ()
    for message in remembered:
        if session.phase is Phase.GONE:
            break
        handle = committed if isinstance(message, Commit) else recalled
        session, more = handle(session, message)  # type: ignore[arg-type]
        actions += more
    return session, actions


def committed(session: Session, message: Commit) -> Outcome:
    """A Commit came: commit its tokens and start its order."""
    if message.round <= max(session.round, *(m.round for m in session.remembered), 0):
        return session, (Count("old_commit"),)
    if session.phase is Phase.PREFILL and not session.remembered:
        return replace(session, remembered=(message,)), ()
    if session.phase is not Phase.IDLE:
        running = session.remembered[0].round if session.remembered else session.round
        return lost(session, LossCode.PROTOCOL, f"round: got {message.round} while {running} is not answered")
    try:
        _check_ids(message.tokens, session.bounds.vocabulary_size)
        sequence = merge(session.sequence, message.base, message.tokens, message.digest)
        _check_room(session, message, sequence)
    except ProtocolFault as fault:
        return lost(session, LossCode.PROTOCOL, fault.message)
    equal = _still_equal(session, sequence, message)
    begin = partial(
        replace,
        session,
        sequence=sequence,
        assumed=(),
        leased=0,
        cached=_still_cached(session, sequence, equal),
        told=min(session.told, equal),
        round=message.round,
        commit=message,
        block=None,
        guess=None,
        recalled=False,
    )
    return _start(session, message, begin)


def _still_equal(session: Session, sequence: Sequence, message: Commit) -> int:
    """Return how many of the tokens that were known here begin the sequence that the Commit describes."""
    known = sequence.prompt_len + message.base - len(message.tokens)
    if known < len(session.sequence.tokens):
        return common(session.sequence.tokens + session.assumed, sequence.tokens, known)
    # The usual case, a Commit that goes on where the last one ended: the same without looking at all of it.
    return known + common(session.assumed, message.tokens, 0)


def _still_cached(session: Session, sequence: Sequence, equal: int) -> int:
    """Return how much of the cache serves a sequence of whose tokens `equal` were known here, as `usable` does."""
    return max(0, min(session.cached, equal, len(sequence.tokens) - 1))


def _check_ids(tokens: Tokens, vocabulary_size: int) -> None:
    if tokens and not 0 <= min(tokens) <= max(tokens) < vocabulary_size:
        raise ProtocolFault(f"tokens: got ids {min(tokens)} to {max(tokens)}, wanted ids under {vocabulary_size}")


def _check_room(session: Session, message: Commit, sequence: Sequence) -> None:
    if sequence.base >= session.bounds.max_output or len(sequence.tokens) >= session.bounds.longest_length:
        raise ProtocolFault(
            f"base: got {message.base}, wanted less than max_output {session.bounds.max_output} "
            f"and prompt + base less than {session.bounds.longest_length}"
        )


def _start(session: Session, commit: Commit, begin: Callable[..., Session]) -> Outcome:
    """Start a Commit's order; `begin` is the session in its new round, with what else is changed."""
    order = commit.order
    if not isinstance(order, BlockOrder):
        limit_ok = order.limit >= 1 and (not isinstance(order, LocalOrder) or order.gamma >= 1)
        if not limit_ok:
            return lost(begin(), LossCode.PROTOCOL, "limit: a lease of no tokens, wanted at least 1")
        return begin(phase=Phase.LEASE, mailbox=_later(session, commit.round)), ()
    if order.ticket not in session.tickets:
        return lost(begin(), LossCode.PROTOCOL, "ticket: a Commit names one that was never assigned or has ended")
    tickets = session.tickets[session.tickets.index(order.ticket) :]
    mine = [b for b in session.mailbox if (b.ticket, b.digest, b.round) == (order.ticket, commit.digest, commit.round)]
    mailbox = tuple(b for b in _later(session, commit.round) if b.ticket in tickets)
    if not mine:
        return begin(phase=Phase.WAIT, tickets=tickets, mailbox=mailbox), (HoldStep(session.sid, order.wait_us),)
    reason = unusable(mine[0], commit, session.bounds)
    if reason:  # its one receipt went out as held, so no other block will come: do not wait
        return begin(phase=Phase.READY, tickets=tickets, mailbox=mailbox), (Count("bad_block"),)
    return begin(phase=Phase.READY, tickets=tickets, mailbox=mailbox, block=mine[0]), ()


def _later(session: Session, round: int) -> tuple[Block, ...]:
    """Return the blocks that wait for a later round."""
    return tuple(b for b in session.mailbox if b.round > round) if session.mailbox else ()


def recalled(session: Session, message: Recall) -> Outcome:
    """A Recall came: end the wait or the lease of that round early; the round is still answered once."""
    if session.phase is Phase.PREFILL and len(session.remembered) == 1 and session.remembered[0].round == message.round:
        return replace(session, remembered=(*session.remembered, message)), ()
    if message.round != session.round or session.commit is None:
        return session, (Count("old_recall"),)
    if session.phase is Phase.WAIT:
        return waited(session)
    leasing = not isinstance(session.commit.order, BlockOrder)
    if leasing and session.phase in (Phase.LEASE, Phase.RUN):
        return replace(session, recalled=True), ()
    return session, ()


def waited(session: Session) -> Outcome:
    """The wait limit is over: the next step need not be held, and is plain if the block is still not here."""
    if session.phase is not Phase.WAIT:
        return session, ()
    return replace(session, phase=Phase.READY), ()


def assigned(session: Session, ticket: bytes) -> Outcome:
    """A draft assignment was made: keep it beside the one that Commits use."""
    if ticket in session.tickets:
        return session, ()
    using = session.commit.order.ticket if session.commit and isinstance(session.commit.order, BlockOrder) else None
    kept = tuple(t for t in session.tickets if t == using)
    mailbox = tuple(b for b in session.mailbox if b.ticket in kept)
    return replace(session, tickets=(*kept, ticket), mailbox=mailbox), ()


def closed(session: Session, message: TargetClose) -> Outcome:
    """A Close came: free after the running step; only tokens up to its final length may enter the prefix index."""
    if session.phase is Phase.GONE:
        return session, ()
    sequence = session.sequence
    if message.final_length - len(message.tokens) == sequence.base:
        sequence = sequence.extended(message.tokens)
    elif message.final_length < sequence.base:  # a stop text ended before tokens that a Commit already named
        sequence = Sequence.of(sequence.tokens[: sequence.prompt_len + message.final_length], sequence.prompt_len)
    shorter = min(len(session.sequence.tokens), len(sequence.tokens))
    kept = common(session.sequence.tokens + session.assumed, sequence.tokens, shorter)
    return stream_ended(replace(session, sequence=sequence, assumed=(), leased=0, cached=min(session.cached, kept)))


def stream_ended(session: Session) -> Outcome:
    """The session's stream ended, or it is closed: free after the running step."""
    if session.phase is Phase.GONE:
        return session, ()
    if session.phase is Phase.RUN:
        return replace(session, closing=True), ()
    return _gone(session)


def lost(session: Session, code: LossCode, message: str) -> Outcome:
    """Give the session up and say why."""
    told = Tell(Lost(session.sid, code, message))
    session, actions = stream_ended(session)
    return session, (told, *actions)


def _gone(session: Session) -> Outcome:
    held = min(session.cached, len(session.sequence.tokens))
    return replace(session, phase=Phase.GONE, commit=None, mailbox=()), (Free(session.sid, held),)
