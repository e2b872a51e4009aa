"""What a session contributes to a step, and what a finished step means for it; pure.

Block or plain is decided once, when the step is built (docs/protocol.md, invariant 3).
"""

from __future__ import annotations

from dataclasses import dataclass

from foreword.acceptance import Evidence, Verdict
from foreword.protocol.messages import (
    BlockOrder,
    Commit,
    LocalOrder,
    LogProbabilities,
    Result,
    RoundTiming,
    Tokens,
    VerdictNotice,
)
from foreword.protocol.words import Drafter, LossCode, ResultKind
from foreword.values import replace
from target_service.core.session import lost, stream_ended
from target_service.core.state import Action, Answer, Guess, Outcome, Phase, Session, Tell


@dataclass(frozen=True, slots=True)
class Work:
    """A session's part of a step: `rows` enter the cache after truncation to `cached`; the last `need` want logits."""

    sid: int
    cached: int
    rows: Tokens
    need: int
    candidates: Tokens


def buildable(session: Session) -> bool:
    """Whether the session has something to do in a step; it has to wait with that while it is behind."""
    return session.phase in (Phase.READY, Phase.LEASE)


def behind(session: Session) -> bool:
    """Whether the cache lacks more of the context than its last token: that is read in pieces first."""
    return session.length - session.cached > 1


def unread(session: Session) -> int:
    """Return how many tokens the cache lacks; the last one stays out, so that every step has a row."""
    return session.length - session.cached - 1


def scores(session: Session) -> bool:
    """Whether log-probabilities of the prompt are wanted that have not been told."""
    return session.prompt_logprobs is not None and session.scored < session.sequence.prompt_len


def findable(session: Session) -> Tokens:
    """Return the beginning of the context that need not be read where it is cached: rows that score are wanted."""
    return session.context[: session.scored] if scores(session) else session.context


def opens_by_a_lease(session: Session) -> bool:
    """Whether a lease came with the Open: the last piece of the prompt can bring its first token with it."""
    if scores(session):
        return False
    first = session.remembered[0] if session.phase is Phase.PREFILL and session.remembered else None
    return isinstance(first, Commit) and not isinstance(first.order, BlockOrder)


def needed_rows(session: Session) -> int:
    """Return how many rows the session takes in a step that is built now."""
    return session.length - session.cached + len(_candidates(session))


def wanted_guess(session: Session) -> int:
    """Return how many candidates the session's next step takes from the target's own drafter: 0 if it wants none."""
    if session.phase is not Phase.LEASE or session.guess is not None or not leases_locally(session):
        return 0
    return _room(session)


def leases_locally(session: Session) -> bool:
    """Whether the Commit that is not answered asks for guesses of the target's own drafter."""
    return session.commit is not None and isinstance(session.commit.order, LocalOrder)


def guessed(session: Session, guess: Guess) -> Session:
    """Return the session whose next step verifies these candidates; the text before them is as it was when asked."""
    return replace(session, guess=guess) if guess.ids else session


def context_from(session: Session, start: int) -> Tokens:
    """Return the tokens of the context from `start` on: a few at the end of what may be long."""
    tokens, leased = session.sequence.tokens, session.assumed[: session.leased]
    if start <= len(tokens):
        return tokens[start:] + leased
    return leased[start - len(tokens) :]


def build(session: Session) -> tuple[Session, Work]:
    """Decide what the session does in the step that is being built, and mark it as running."""
    candidates = _candidates(session)
    work = Work(
        sid=session.sid,
        cached=session.cached,
        rows=context_from(session, session.cached) + candidates,
        need=len(candidates) + 1,
        candidates=candidates,
    )
    return replace(session, phase=Phase.RUN), work


def _candidates(session: Session) -> Tokens:
    proposal = session.proposal
    return proposal.ids[: _room(session)] if proposal else ()


def _room(session: Session) -> int:
    """Return how many candidates fit: γ of the order, what is left of a lease, of the output, and of the context."""
    order = session.commit.order if session.commit else None
    match order:
        case BlockOrder():
            gamma = min(order.gamma, session.bounds.gamma_max)
        case LocalOrder():
            gamma = min(order.gamma, session.bounds.gamma_max, order.limit - session.leased - 1)
        case _:
            gamma = 0
    output_left = session.bounds.max_output - session.output
    context_left = session.bounds.longest_length - session.length
    return max(0, min(gamma, output_left - 1, context_left - 1))


@dataclass(frozen=True, slots=True)
class Stepped:
    """What the engine found for one session in a step that is done."""

    evidence: Evidence
    verdict: Verdict
    """The target's own copy; only a Commit makes it count."""
    candidate_logprobs: LogProbabilities | None = None
    emit_logprobs: LogProbabilities | None = None


def verified(session: Session, work: Work, stepped: Stepped, *, timing: RoundTiming = RoundTiming()) -> Outcome:
    """A step with the session's block is done: exactly one final Result, and the verdict for the draft."""
    if session.closing:
        return stream_ended(replace(session, phase=Phase.IDLE))
    commit, block = session.commit, session.block
    assert commit is not None
    assert block is not None
    result = _evidence(session, work, stepped, base=commit.base, final=True, drafter=block.drafter, timing=timing)
    answer = Answer(notice(session, stepped.verdict))
    session = replace(
        session,
        phase=Phase.IDLE,
        commit=None,
        block=None,
        assumed=work.candidates,
        cached=work.cached + len(work.rows),
    )
    return session, (answer, Tell(result))


def notice(session: Session, verdict: Verdict) -> VerdictNotice:
    """Return what the draft is told of the verdict on the session's block; it may go out before anything else."""
    assert session.block is not None
    return VerdictNotice(session.block.ticket, session.round, session.block.digest, verdict.kept, verdict.emitted)


def stepped_plain(
    session: Session, work: Work, token: int, stepped: Stepped, *, timing: RoundTiming = RoundTiming()
) -> Outcome:
    """A plain step is done: the end of a round without its block, or one token of a lease."""
    if session.closing:
        return stream_ended(replace(session, phase=Phase.IDLE))
    result = Result(
        sid=session.sid,
        round=session.round,
        base=session.output,
        final=_over(session, (token,)),
        kind=ResultKind.PLAIN,
        emit=(token,),
        emit_logprobs=stepped.emit_logprobs,
        timing=timing,
    )
    return _went_on(session, work, (token,), result)


def guess_verified(session: Session, work: Work, stepped: Stepped, *, timing: RoundTiming = RoundTiming()) -> Outcome:
    """A step of a lease with candidates of the target's own is done: its Result, and the lease goes on behind it.

    The target goes on from its own copy of the verdict, before the orchestrator has come to the same one from the same
    evidence and coins. All of a lease's blocks share a round. The base of each is the output position behind the one
    before it, so that no two blocks, and no block and plain step, read a number at the same address.
    """
    if session.closing:
        return stream_ended(replace(session, phase=Phase.IDLE))
    guess, verdict = session.guess, stepped.verdict
    assert guess is not None
    tokens = verdict.committed(work.candidates)
    result = _evidence(
        session, work, stepped, base=session.output, final=_over(session, tokens), drafter=guess.drafter, timing=timing
    )
    return _went_on(session, work, tokens, result)


def _evidence(
    session: Session,
    work: Work,
    stepped: Stepped,
    *,
    base: int,
    final: bool,
    drafter: Drafter | None,
    timing: RoundTiming,
) -> Result:
    """Return what a step found of the candidates that `drafter` wrote."""
    return Result(
        sid=session.sid,
        round=session.round,
        base=base,
        final=final,
        kind=ResultKind.EVIDENCE,
        emit=stepped.evidence.emit,
        ids=work.candidates,
        acceptance=stepped.evidence.acceptance,
        drafter=drafter,
        ratios=stepped.evidence.ratios,
        candidate_logprobs=stepped.candidate_logprobs,
        emit_logprobs=stepped.emit_logprobs,
        timing=timing,
    )


def _went_on(session: Session, work: Work, tokens: Tokens, result: Result) -> Outcome:
    """Go on behind the tokens of a step; the cache also holds the candidates that were not kept, if there were any."""
    refused = len(work.candidates) - (len(tokens) - 1)
    session = replace(
        session,
        phase=Phase.IDLE if result.final else Phase.LEASE,
        commit=None if result.final else session.commit,
        guess=None,
        assumed=session.assumed[: session.leased] + tokens,
        leased=session.leased + len(tokens),
        cached=work.cached + len(work.rows) - refused,
    )
    actions: tuple[Action, ...] = (Tell(result),)
    return session, actions


def failed(session: Session, code: LossCode, message: str) -> Outcome:
    """The step gave nothing for this session: it is lost, unless it was closing anyway."""
    idle = replace(session, phase=Phase.IDLE)
    return stream_ended(idle) if session.closing else lost(idle, code, message)


def _over(session: Session, tokens: Tokens) -> bool:
    """Whether the tokens that just came are the last of the Commit's round: of a lease, or in place of a block."""
    assert session.commit is not None
    order = session.commit.order
    limit = 1 if isinstance(order, BlockOrder) else order.limit
    return (
        session.recalled
        or session.leased + len(tokens) >= limit
        or any(token in session.law.stop_ids for token in tokens)
        or session.output + len(tokens) >= session.bounds.max_output
        or session.length + len(tokens) >= session.bounds.longest_length
    )
