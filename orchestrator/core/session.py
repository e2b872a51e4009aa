"""Transitions of a generation, from the target's messages and the client (protocol.md, table "Orchestrator"); pure."""

from __future__ import annotations

from dataclasses import dataclass

from foreword.acceptance import Evidence, decide
from foreword.errors import ProtocolFault
from foreword.protocol.messages import (
    BlockOrder,
    LocalOrder,
    PlainOrder,
    Result,
    TargetAddress,
    TargetClose,
    TargetOpen,
    TargetOpened,
    Tokens,
)
from foreword.protocol.words import FinishReason, ResultKind, Rule
from foreword.values import replace
from orchestrator.core.draft_part import after_round
from orchestrator.core.rounds import (
    advance_draft,
    block_gamma,
    end_lease,
    finish,
    local_gamma,
    next_commit,
    output_left,
    recall,
    send_round,
    started,
)
from orchestrator.core.state import (
    Action,
    Count,
    DraftPhase,
    Emit,
    Ended,
    NeedTarget,
    Outcome,
    Phase,
    RoundPlan,
    Session,
    ToTarget,
    Watch,
)

TOLERATED_FALLBACKS = 2
"""Of the last 200 block rounds (1 %); with more, rules that trust lateness to be blind give way to `match`."""


def open_target(
    session: Session, sid: int, address: TargetAddress, plan: RoundPlan, *, gamma_max: int | None = None
) -> Outcome:
    """Ask a target to open the session from its committed tokens; a lease rides along unless the draft is LIVE.

    `address.ticket` is a fresh ticket: a draft that is already assigned goes on under it at the new target.
    `gamma_max` is the longest block that the target says it verifies.
    """
    request = session.request
    assigned = session.draft.phase is not DraftPhase.NONE
    draft = replace(session.draft, target=address, moved=True, link_down=False) if assigned else session.draft
    session = replace(
        session,
        target_sid=sid,
        target_base=session.sequence.base,
        longest_length=0,
        target_gamma=gamma_max,
        draft=draft,
        phase=Phase.OPENING,
        commit=None,
    )
    first = None
    if draft.phase is not DraftPhase.LIVE and request.max_output:
        first = next_commit(session, plan)
        session = started(session, first, phase=Phase.OPENING, draft=draft)
    message = TargetOpen(
        sid=sid,
        tokens=session.sequence.tokens,
        prompt_len=session.sequence.prompt_len,
        law=request.law,
        keys=request.target_keys,
        max_output=max(1, request.max_output),
        top_logprobs=request.top_logprobs,
        prompt_logprobs=request.prompt_logprobs,
        cache_salt=request.cache_salt,
        trace=request.trace,
        ticket=address.ticket if assigned else None,
        first=first,
    )
    return session, (ToTarget(message),)


def target_opened(session: Session, message: TargetOpened, plan: RoundPlan) -> Outcome:
    """The target has the prompt in its cache."""
    if session.phase is not Phase.OPENING or message.sid != session.target_sid:
        return session, (Count("old_opened"),)
    session = replace(session, longest_length=message.longest_length)
    if not session.request.max_output:
        return finish(session, Ended(FinishReason.LENGTH))
    if session.commit is None:
        return (replace(session, phase=Phase.HELD), ()) if session.client_full else send_round(session, plan)
    watch = (Watch(session.commit.round),)
    session = replace(session, phase=Phase.WAIT)
    session, advance = advance_draft(session, plan)
    if block_gamma(session, plan) > 0 or session.client_full:
        session, more = recall(session)
        return session, (*watch, *advance, *more)
    return session, (*watch, *advance)


def target_gone(session: Session, reason: str, *, close: bool = False) -> Outcome:
    """Refused, Lost, stream end or the hard limit: go on at another target from the committed tokens; r is spent."""
    if session.phase is Phase.DONE:
        return session, ()
    actions: tuple[Action, ...] = ()
    if close and session.target_sid is not None:
        actions = (ToTarget(TargetClose(session.target_sid, session.sequence.base)),)
    session = replace(session, phase=Phase.OPENING, commit=None, target_sid=None, recalled=False)
    return session, (*actions, NeedTarget(reason))


def result_came(session: Session, result: Result, plan: RoundPlan) -> Outcome:
    """A Result came: decide, commit, send the next round, then hand the tokens to the sink."""
    return next_round(decided(session, result), plan)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a Result decided."""

    session: Session
    emit: Emit | None = None
    """None if the Result was none of this round."""
    actions: tuple[Action, ...] = ()
    """What there is to do if nothing else follows: the session is over, or lost its target."""
    goes_on: bool = False


def decided(session: Session, result: Result) -> Taken:
    """Decide on a Result and commit its tokens."""
    if session.phase is not Phase.WAIT or session.commit is None or result.sid != session.target_sid:
        return Taken(session, actions=(Count("old_result"),))
    fault = _fault(session, result)
    if fault:
        return _broken(session, fault)
    try:
        verdict = decide(
            session.commit.rule,
            Evidence(result.acceptance, result.emit, result.ratios),
            coin_key=session.request.target_keys.coin,
            round=result.round,
            base=result.base,
        )
    except ProtocolFault as error:
        return _broken(session, error.message)
    tokens, ended = _cut(session, (*result.ids[: verdict.kept], verdict.emitted))
    emit = Emit(tokens, verdict, result)
    session = _note_local(replace(session, sequence=session.sequence.extended(tokens)), emit)
    if ended is None:
        return Taken(session, emit, goes_on=True)
    session, actions = finish(session, ended)
    return Taken(session, emit, (emit, *actions))


def next_round(taken: Taken, plan: RoundPlan) -> Outcome:
    """Send what follows a Result, then hand its tokens to the sink."""
    if not taken.goes_on or taken.emit is None:
        return taken.session, taken.actions
    session, actions = _go_on(taken.session, taken.emit.result, plan)
    return session, (*actions, taken.emit)


def _broken(session: Session, fault: str) -> Taken:
    session, actions = target_gone(session, fault, close=True)
    return Taken(session, actions=(Count("protocol_fault"), *actions))


def _go_on(session: Session, result: Result, plan: RoundPlan) -> Outcome:
    if not result.final:
        return _lease_goes_on(session, plan)
    session, actions = after_round(session, result)
    session = _watch_fallbacks(session, result)
    if session.client_full:
        return replace(session, phase=Phase.HELD, commit=None), actions
    session, sent = send_round(session, plan)
    return session, (*actions, *sent)


def _lease_goes_on(session: Session, plan: RoundPlan) -> Outcome:
    block = block_gamma(session, plan) > 0
    actions: tuple[Action, ...] = ()
    if block or session.sequence.base - session.draft.base >= plan.stretch:
        session, actions = advance_draft(session, plan)
    if block or session.client_full or _outdated(session, plan):
        session, more = recall(session)
        return session, (*more, *actions)
    return session, actions


def _note_local(session: Session, emit: Emit) -> Session:
    """Take note of how candidates of the target's own drafter fared."""
    offered = len(emit.result.ids)
    if session.commit is None or not isinstance(session.commit.order, LocalOrder) or not offered:
        return session
    record = session.local.verified(emit.verdict.kept, offered, base=session.sequence.base)
    return replace(session, local=record)


def _outdated(session: Session, plan: RoundPlan) -> bool:
    """Whether the lease that runs has more or fewer local candidates than have turned out to pay."""
    order = session.commit.order if session.commit is not None else None
    return isinstance(order, LocalOrder) and order.gamma != local_gamma(session, plan)


def _fault(session: Session, result: Result) -> str:
    """Return how a Result breaks the protocol, or an empty text."""
    commit = session.commit
    assert commit is not None
    if result.round != commit.round:
        return f"round: got a Result of {result.round}, wanted {commit.round}"
    if result.base != session.sequence.base:
        return f"base: got a Result at {result.base}, wanted {session.sequence.base}"
    gamma = 0 if isinstance(commit.order, PlainOrder) else commit.order.gamma
    if len(result.ids) > gamma or (result.kind is ResultKind.PLAIN and result.ids):
        return f"ids: got {len(result.ids)} candidates, wanted at most {gamma}"
    if len(result.acceptance) != len(result.ids) or len(result.emit) != len(result.ids) + 1:
        return f"emit: got {len(result.emit)} for {len(result.ids)} candidates, wanted one more than candidates"
    if isinstance(commit.order, BlockOrder) and not result.final:
        return "final: a block's Result must be final"
    size = session.request.vocabulary_size
    ids = (*result.ids, *(token for token in result.emit if token is not None))
    if ids and not 0 <= min(ids) <= max(ids) < size:
        return f"ids: got {min(ids)} to {max(ids)}, wanted ids from 0 to {size - 1}"
    return ""


def _cut(session: Session, tokens: Tokens) -> tuple[Tokens, Ended | None]:
    """Cut what was decided at the first stop id and at the budget: what lies behind never was output."""
    stop_ids = session.request.law.stop_ids
    for index, token in enumerate(tokens[: output_left(session)]):
        if token in stop_ids:
            return tokens[: index + 1], Ended(FinishReason.STOP, token)
    if len(tokens) >= output_left(session):
        return tokens[: output_left(session)], Ended(FinishReason.LENGTH)
    return tokens, None


def _watch_fallbacks(session: Session, result: Result) -> Session:
    """Count rounds that went without their block; over 1 % of the last 200, lateness may depend on content."""
    if session.rule is Rule.MATCH or session.commit is None or not isinstance(session.commit.order, BlockOrder):
        return session
    late = int(result.kind is ResultKind.PLAIN)
    bits = ((session.fallbacks << 1) | late) & ((1 << 200) - 1)
    rule = Rule.MATCH if bits.bit_count() > TOLERATED_FALLBACKS else session.rule
    return replace(session, fallbacks=bits, rule=rule)


def client_full(session: Session) -> Outcome:
    """The client's queue is filling: end the lease that runs; the next Commit is not sent until it has drained."""
    return end_lease(replace(session, client_full=True))


def client_drained(session: Session, plan: RoundPlan) -> Outcome:
    """The client's queue has room again."""
    session = replace(session, client_full=False)
    if session.phase is not Phase.HELD:
        return session, ()
    return send_round(session, plan)


def stopped(session: Session, final_length: int) -> Outcome:
    """The sink found a stop text; only the first `final_length` output tokens count."""
    return finish(session, Ended(FinishReason.STOP), final_length=final_length)


def overdue(session: Session, round: int) -> Outcome:
    """The hard limit of a round passed: the target is given up."""
    if session.phase is not Phase.WAIT or session.commit is None or session.commit.round != round:
        return session, ()
    return target_gone(session, f"round {round} was not answered in time", close=True)
