"""From the logits of a step to what each session is told: laws, evidence and verdict, or a plain token.

Log-probabilities are those of the target law that the token was drawn from; at temperature 0, where the law is
certain, those of temperature 1 after bias and penalties. Plain and verified tokens are treated alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from foreword.acceptance import Evidence, Verdict, decide, gather, plain
from foreword.acceptance.source import Source
from foreword.errors import ForewordError
from foreword.laws.edits import TokenMask
from foreword.laws.law import TargetLaw
from foreword.laws.logprobs import log_probabilities
from foreword.laws.pipeline import LawRows, dead_end, refuse_dead_end
from foreword.protocol.messages import LogProbabilities
from foreword.runner.port import Logits
from foreword.values import replace
from target_service.core.state import Session
from target_service.core.step import Stepped, Work
from target_service.engine.arithmetic import REFERENCE, Arithmetic
from target_service.engine.greedy import greedy_step

Part = tuple[Session, Work, Logits]


def judge(
    parts: Sequence[Part], arithmetic: Arithmetic = REFERENCE, *, masks: Sequence[TokenMask | None] | None = None
) -> list[Stepped | ForewordError]:
    """Return what the step found for each session, or its error: unusable logits cost no other session its step.

    `masks` are those of sessions with a grammar. A plain token is a verdict on no candidates. Timings are left to the
    caller.
    """
    quick = [greedy_step(session, work, logits) for session, work, logits in parts]
    slow = [i for i, found in enumerate(quick) if found is None]
    theirs = [masks[i] for i in slow] if masks else None
    others = iter(_judge_by_laws([parts[i] for i in slow], arithmetic, theirs))
    return [next(others) if found is None else found for found in quick]


def _judge_by_laws(
    parts: Sequence[Part], arithmetic: Arithmetic, masks: Sequence[TokenMask | None] | None = None
) -> list[Stepped | ForewordError]:
    rows = [law_rows(*part, mask) for part, mask in zip(parts, masks or [None] * len(parts), strict=True)]
    judged: list[Stepped | ForewordError] = []
    for (session, work, _), one, laws in zip(parts, rows, arithmetic.laws(rows), strict=True):
        if isinstance(laws, ForewordError):
            judged.append(laws)
            continue
        try:
            judged.append(_judge(session, work, one, laws, source=arithmetic.source))
        except ForewordError as error:
            judged.append(error)
    return judged


def law_rows(session: Session, work: Work, logits: Logits, mask: TokenMask | None = None) -> LawRows:
    """Return the session's rows with what its laws depend on; row i is the one after `work.candidates[:i]`."""
    prompt: tuple[int, ...] = ()
    output: tuple[int, ...] = ()
    if session.law.penalizes or mask is not None:
        length = session.sequence.prompt_len
        prompt, output = session.context[:length], session.context[length:]
    return LawRows(
        session.law,
        logits,
        prompt=prompt,
        output=output,
        candidates=work.candidates,
        first_position=session.output,
        mask=mask,
    )


def _judge(session: Session, work: Work, rows: LawRows, laws: Sequence[TargetLaw], *, source: Source) -> Stepped:
    commit, proposal = session.commit, session.proposal
    assert commit is not None
    if proposal is None:
        token = plain(
            commit.rule, laws[0], keys=session.keys, round=session.round, position=session.output, source=source
        )
        _, emit_logs = _logprobs(session, rows, laws, ids=(), emit=(token,))
        return Stepped(Evidence((), (token,)), Verdict(0, token), emit_logprobs=emit_logs)
    law = proposal.law[: len(work.candidates)] if isinstance(proposal.law, tuple) else proposal.law
    # Not the Commit's base: a lease verifies block after block, and an address with a base that stands still would be
    # read again where two of them overlap, although what it gave has been seen.
    base = session.output
    evidence = gather(
        commit.rule, laws, work.candidates, law, keys=session.keys, round=session.round, base=base, source=source
    )
    verdict = decide(commit.rule, evidence, coin_key=session.keys.coin, round=session.round, base=base)
    evidence = _open_ends(evidence, verdict, rows)
    candidate_logs, emit_logs = _logprobs(session, rows, laws, ids=work.candidates, emit=evidence.emit)
    return Stepped(evidence, verdict, candidate_logs, emit_logs)


def _open_ends(evidence: Evidence, verdict: Verdict, rows: LawRows) -> Evidence:
    """Return the evidence without emits where nothing may come; raise InvalidField if the text comes to one of them."""
    if rows.mask is None or dead_end(rows) not in evidence.emit:
        return evidence
    if verdict.emitted == dead_end(rows):
        refuse_dead_end(rows.parameters, rows.first_position + verdict.kept)
    return replace(evidence, emit=tuple(None if token == dead_end(rows) else token for token in evidence.emit))


def _logprobs(
    session: Session,
    rows: LawRows,
    laws: Sequence[TargetLaw],
    *,
    ids: tuple[int, ...],
    emit: tuple[int | None, ...],
) -> tuple[LogProbabilities | None, LogProbabilities | None]:
    if session.top_logprobs is None:
        return None, None
    candidate_logs, emit_logs = log_probabilities(rows, laws, (ids, emit), top=session.top_logprobs)
    return candidate_logs, emit_logs
