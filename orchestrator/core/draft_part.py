"""The draft part of a generation: assigned, live, suspect, gone; pure. It never stops a request."""

from __future__ import annotations

from foreword.protocol.messages import (
    BlockOrder,
    DraftClose,
    DraftOpen,
    DraftOpened,
    Follow,
    LinkState,
    Result,
    TargetAddress,
    TargetTicket,
)
from foreword.protocol.words import Drafter, ResultKind
from foreword.values import replace
from orchestrator.core.rounds import block_gamma, end_lease, recall
from orchestrator.core.state import (
    Action,
    Count,
    DraftPart,
    DraftPhase,
    NeedDraft,
    Outcome,
    Phase,
    RoundPlan,
    Session,
    ToDraft,
    ToTarget,
)

LATE_ROUNDS = 2
"""Rounds in a row without a block that make a draft suspect."""
FIRST_RETRY = 8
"""Tokens before a suspect is tried again; doubles each time, up to the next constant."""
LAST_RETRY = 4096


def assign_draft(session: Session, sid: int, address: TargetAddress, *, vocabulary_map: str = "") -> Outcome:
    """Give the session a draft: make the ticket known to the target, then open at the draft.

    `vocabulary_map` is the digest that the draft gave of its map; one that maps otherwise by now refuses.
    """
    if session.phase is Phase.DONE:
        return session, ()
    request = session.request
    part = DraftPart(phase=DraftPhase.OPENING, sid=sid, target=address, base=session.sequence.base)
    opened = DraftOpen(
        sid=sid,
        tokens=session.sequence.tokens,
        prompt_len=session.sequence.prompt_len,
        law=request.law,
        keys=request.draft_keys,
        target=address,
        gamma_max=session.gamma_max,
        vocabulary_map_digest=vocabulary_map,
        wide_ids=request.wide_ids,
        trace=request.trace,
        cache_salt=request.cache_salt,
    )
    actions: tuple[Action, ...] = (ToDraft(opened),)
    if session.target_sid is not None:
        actions = (ToTarget(TargetTicket(session.target_sid, address.ticket)), *actions)
    return replace(session, draft=part), actions


def draft_opened(session: Session, message: DraftOpened, plan: RoundPlan) -> Outcome:
    """The draft has read the committed tokens: it is live from the next round, which ends a lease if it is a block."""
    if session.draft.phase is not DraftPhase.OPENING or message.sid != session.draft.sid:
        return session, (Count("old_draft_opened"),)
    draft = replace(session.draft, phase=DraftPhase.LIVE, longest_length=message.longest_length)
    if draft.link_down:
        return replace(session, draft=replace(draft, phase=DraftPhase.SUSPECT)), ()
    session = replace(session, draft=draft)
    return end_lease(session) if block_gamma(session, plan) > 0 else (session, ())


def draft_gone(session: Session, sid: int, reason: str) -> Outcome:
    """Refused, Lost or stream end: the session goes on without; another draft may take over in the same request."""
    if session.draft.phase is DraftPhase.NONE or session.draft.sid != sid or session.phase is Phase.DONE:
        return session, ()
    session, actions = _end_wait(replace(session, draft=DraftPart()))
    return session, (*actions, NeedDraft(reason))


def drop_draft(session: Session, reason: str) -> Outcome:
    """Give the draft up although its stream works."""
    if session.draft.phase is DraftPhase.NONE:
        return session, ()
    close = ToDraft(DraftClose(session.draft.sid))
    session, actions = draft_gone(session, session.draft.sid, reason)
    return session, (close, *actions)


def link_state(session: Session, message: LinkState) -> Outcome:
    """One end of the draft–target link reports it; ignored unless it names the current ticket."""
    draft = session.draft
    if draft.phase is DraftPhase.NONE or draft.target is None or message.ticket != draft.target.ticket:
        return session, (Count("old_link_state"),)
    if message.up:
        return replace(session, draft=replace(draft, link_down=False)), ()
    session = replace(session, draft=_suspect(session, draft, link_down=True))
    session, actions = _end_wait(session)
    return session, (*actions, Count("link_down"))


def followed(session: Session, message: Follow) -> Outcome:
    """The draft compared its guesses with leased tokens: a suspect whose stretch is over is tried again.

    Even one whose link was reported down: of the two ends that report, the slower may tell of the loss after the other
    has told that the link is back, and then no news follows until a block is asked for. In vain it costs one wait.
    """
    draft = session.draft
    if message.sid != draft.sid or draft.phase is not DraftPhase.SUSPECT or session.sequence.base < draft.retry_base:
        return session, ()
    draft = replace(draft, phase=DraftPhase.LIVE, late=LATE_ROUNDS - 1, link_down=False)
    return end_lease(replace(session, draft=draft))


def after_round(session: Session, result: Result) -> Outcome:
    """Count a round that went without its block; after two in a row the draft is suspect.

    A model sends an empty block only when its time is up before its first candidate. Lookup does where nothing matches.
    """
    draft, commit = session.draft, session.commit
    if commit is None or not isinstance(commit.order, BlockOrder) or draft.phase is not DraftPhase.LIVE:
        return session, ()
    if result.kind is ResultKind.EVIDENCE and (result.ids or result.drafter is Drafter.LOOKUP):
        if not draft.late and not draft.suspected:
            return session, ()
        return replace(session, draft=replace(draft, late=0, suspected=0)), ()
    draft = replace(draft, late=draft.late + 1)
    if draft.late < LATE_ROUNDS:
        return replace(session, draft=draft), (Count("late_block"),)
    return replace(session, draft=_suspect(session, draft)), (Count("late_block"), Count("suspect"))


def _suspect(session: Session, draft: DraftPart, *, link_down: bool = False) -> DraftPart:
    stretch = min(LAST_RETRY, FIRST_RETRY << min(draft.suspected, 16))
    return replace(
        draft,
        phase=DraftPhase.SUSPECT if draft.phase is DraftPhase.LIVE else draft.phase,
        suspected=draft.suspected + 1,
        retry_base=session.sequence.base + stretch,
        link_down=link_down or draft.link_down,
    )


def _end_wait(session: Session) -> Outcome:
    """End a wait for a block that will not come."""
    waiting = session.commit is not None and isinstance(session.commit.order, BlockOrder)
    return recall(session) if waiting else (session, ())
