"""Sending the next round: a Commit with a block and an Advance, or a lease; pure."""

from __future__ import annotations

from foreword.protocol.messages import (
    Advance,
    BlockOrder,
    Commit,
    DraftClose,
    LocalOrder,
    Order,
    PlainOrder,
    Recall,
    TargetClose,
)
from foreword.protocol.words import FinishReason
from foreword.values import replace
from orchestrator.core.state import (
    Action,
    Count,
    DraftPart,
    DraftPhase,
    Ended,
    Outcome,
    Phase,
    RoundPlan,
    Session,
    ToDraft,
    ToTarget,
    Watch,
)


def output_left(session: Session) -> int:
    """Return how many more tokens may be output: what was asked for, as far as the target has room."""
    left = session.request.max_output - session.sequence.base
    if session.longest_length:
        left = min(left, max(1, session.longest_length - len(session.sequence.tokens)))  # full ones do not open
    return left


def next_commit(session: Session, plan: RoundPlan) -> Commit:
    """Return the next round's Commit; `started` tells the session that it goes out."""
    gamma = block_gamma(session, plan)
    order: Order
    if gamma > 0:
        assert session.draft.target is not None
        order = BlockOrder(plan.wait_us, gamma, session.draft.target.ticket)
    else:
        order = _lease(session, plan)
    return Commit(
        sid=session.target_sid or 0,
        round=session.round + 1,
        base=session.sequence.base,
        tokens=session.sequence.since(session.target_base),
        digest=session.sequence.digest,
        rule=session.rule,
        order=order,
    )


def block_gamma(session: Session, plan: RoundPlan) -> int:
    """Return the largest block of the next round: 0 unless the draft part is LIVE, and never past budget or context."""
    draft = session.draft
    if draft.phase is not DraftPhase.LIVE or plan.gamma <= 0:
        return 0
    return max(0, min(plan.gamma, session.gamma_max, output_left(session) - 1, _draft_left(session)))


def local_gamma(session: Session, plan: RoundPlan) -> int:
    """Return how many candidates of the target's own drafter a step of a lease may have; 0 for a plain lease."""
    if plan.local is None:
        return 0
    return min(session.local.gamma(session.sequence.base), session.gamma_max, plan.local_most)


def _lease(session: Session, plan: RoundPlan) -> PlainOrder | LocalOrder:
    """Return the lease that is ordered while no draft writes: with the target's own drafter, if that pays."""
    limit = min(output_left(session), plan.lease or output_left(session))
    gamma = local_gamma(session, plan)
    if plan.local is not None and gamma > 0 and limit > 1:
        return LocalOrder(plan.local, gamma, limit)
    pause = session.local.pause_ends - session.sequence.base
    return PlainOrder(min(limit, pause) if plan.local is not None and pause > 0 else limit)


def _draft_left(session: Session) -> int:
    """Return how many candidates fit into the draft's context, with the token after them."""
    return session.draft.longest_length - len(session.sequence.tokens) - 1


def _outgrown(session: Session, plan: RoundPlan) -> tuple[Action, ...]:
    """Say that the session has left the draft's context: it decodes plainly, or another draft takes over."""
    wanted = session.draft.phase is DraftPhase.LIVE and plan.gamma > 0 and output_left(session) > 1
    return (Count("draft_outgrown"),) if wanted and _draft_left(session) <= 0 else ()


def started(session: Session, commit: Commit, *, phase: Phase, draft: DraftPart) -> Session:
    """Return the session whose next round is out."""
    return replace(
        session, phase=phase, round=commit.round, commit=commit, target_base=commit.base, recalled=False, draft=draft
    )


def send_round(session: Session, plan: RoundPlan) -> Outcome:
    """Send r+1: the Commit first, then the Advance."""
    commit, outgrown = next_commit(session, plan), _outgrown(session, plan)
    draft, advance = _advanced(session, commit, plan)
    session = started(session, commit, phase=Phase.WAIT, draft=draft)
    return session, (ToTarget(commit), *advance, Watch(commit.round), *outgrown)


def advance_draft(session: Session, plan: RoundPlan) -> Outcome:
    """Bring committed tokens to the draft, with the order that the Commit that is out implies."""
    if session.commit is None:
        return session, ()
    draft, advance = _advanced(session, session.commit, plan)
    return (replace(session, draft=draft), advance) if advance else (session, ())


def _advanced(session: Session, commit: Commit, plan: RoundPlan) -> tuple[DraftPart, tuple[ToDraft, ...]]:
    draft, sequence = session.draft, session.sequence
    if draft.phase is DraftPhase.NONE or len(sequence.tokens) >= draft.longest_length > 0:
        return draft, ()
    gamma = commit.order.gamma if isinstance(commit.order, BlockOrder) else 0
    advance = Advance(
        sid=draft.sid,
        round=commit.round,
        base=sequence.base,
        tokens=sequence.since(draft.base),
        digest=sequence.digest,
        rule=commit.rule,
        gamma=gamma,
        stop_threshold=plan.stop_threshold,
        lookup_threshold=plan.lookup_threshold,
        send_by_us=plan.send_by_us if gamma else None,
        alternatives=plan.alternatives if gamma else 0,
        target=draft.target if draft.moved else None,
    )
    return replace(draft, base=sequence.base, moved=False), (ToDraft(advance),)


def recall(session: Session) -> Outcome:
    """End the wait or the lease that is out, once."""
    if session.phase is not Phase.WAIT or session.commit is None or session.recalled:
        return session, ()
    message = Recall(session.target_sid or 0, session.commit.round)
    return replace(session, recalled=True), (ToTarget(message),)


def end_lease(session: Session) -> Outcome:
    """End the lease that is out, if one is; a wait for a block goes on, because it ends by itself."""
    leasing = session.commit is not None and not isinstance(session.commit.order, BlockOrder)
    return recall(session) if leasing else (session, ())


def finish(session: Session, ended: Ended, *, final_length: int | None = None) -> Outcome:
    """Close both sides; `final_length` is the number of output tokens that count, all committed ones if None."""
    if session.phase is Phase.DONE:
        return session, ()
    length = session.sequence.base if final_length is None else final_length
    actions: list[Action] = []
    if session.target_sid is not None:
        unsent = session.sequence.tokens[
            session.sequence.prompt_len + session.target_base : session.sequence.prompt_len + length
        ]
        actions.append(ToTarget(TargetClose(session.target_sid, length, unsent)))
    if session.draft.phase is not DraftPhase.NONE:
        actions.append(ToDraft(DraftClose(session.draft.sid)))
    session = replace(session, phase=Phase.DONE, commit=None, target_sid=None)
    return session, (*actions, ended)


def aborted(session: Session) -> Outcome:
    """The client cancelled, or the deadline passed."""
    return finish(session, Ended(FinishReason.ABORT))
