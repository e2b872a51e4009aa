"""One step: a forward pass, what it says about every session, and the transitions that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foreword.errors import EngineFailure, ForewordError, InvalidField, RunnerLost
from foreword.protocol.messages import RoundTiming
from foreword.protocol.words import LossCode
from foreword.runner.port import Logits, Runner
from target_service.core.rest import StepRest
from target_service.core.session import lost
from target_service.core.state import Answer, Outcome, Phase
from target_service.core.step import (
    Stepped,
    Work,
    behind,
    failed,
    guess_verified,
    leases_locally,
    notice,
    stepped_plain,
    verified,
)
from target_service.engine.arithmetic import REFERENCE, Arithmetic
from target_service.engine.intake import Intake
from target_service.engine.judge import judge
from target_service.engine.masks import Masks
from target_service.engine.planner import Piece, Plan
from target_service.engine.record import Record
from target_service.engine.scoring import score
from target_service.engine.sessions import Sessions

FAILURES = 3
"""Forward passes in a row that may raise before the engine gives up on its runner."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a step says about one session."""

    record: Record
    work: Work
    found: Stepped | ForewordError


@dataclass(frozen=True, slots=True)
class StepSpan:
    """When the parts of a step were done, and how many rows it had."""

    started_us: int
    forwarded_us: int
    done_us: int
    rows: int
    rest: StepRest
    """Before it."""

    @property
    def compute_us(self) -> int:
        """The step, evidence included."""
        return self.done_us - self.started_us

    @property
    def evidence_us(self) -> int:
        """Laws and evidence."""
        return self.done_us - self.forwarded_us


class Stepper:
    """Runs steps and applies what comes of them."""

    def __init__(
        self,
        runner: Runner,
        sessions: Sessions,
        intake: Intake,
        arithmetic: Arithmetic = REFERENCE,
        *,
        masks: Masks,
    ) -> None:
        self._runner = runner
        self._sessions = sessions
        self._intake = intake
        self._arithmetic = arithmetic
        self._masks = masks
        self._failures = 0

    def forward(self, plan: Plan, now_us: int) -> Sequence[Logits] | None:
        """Run the forward pass; None if it raised, which costs the sessions of this step and no others.

        Raises EngineFailure when passes keep failing: the runner cannot be trusted any more. RunnerLost passes.
        """
        try:
            logits = self._runner.forward(plan.batch())
        except RunnerLost:
            raise
        except Exception as error:
            self._failures += 1
            if self._failures >= FAILURES:
                raise EngineFailure(
                    f"{self._failures} forward passes in a row failed, the last with: {error}"
                ) from error
            self._lose(plan, f"forward pass failed: {error}", now_us)
            return None
        self._failures = 0
        return logits

    def judge(self, plan: Plan, logits: Sequence[Logits]) -> list[Finding]:
        """Compute laws, evidence and tokens of all sessions but those that were closed during the pass."""
        live = [
            (record, work, rows)
            for (record, work), rows in zip(plan.works, logits, strict=False)  # of what is read no logits are wanted
            if not record.session.closing
        ]
        masks = [self._masks.of(record) for record, _, _ in live]
        parts = [
            (record.session, work, rows)
            for (record, work, rows), mask in zip(live, masks, strict=True)
            if not isinstance(mask, ForewordError)
        ]
        made = [mask for mask in masks if not isinstance(mask, ForewordError)]
        found = iter(judge(parts, self._arithmetic, masks=made))
        return [
            Finding(record, work, mask if isinstance(mask, ForewordError) else next(found))
            for (record, work, _), mask in zip(live, masks, strict=True)
        ]

    def tell_drafts(self, findings: Sequence[Finding]) -> int:
        """Queue the verdicts on blocks, before anything else is done with them; return how many there are."""
        count = 0
        for finding in findings:
            session = finding.record.session
            if isinstance(finding.found, Stepped) and session.block is not None:
                self._sessions.answer(notice(session, finding.found.verdict))
                count += 1
        return count

    def apply(self, findings: Sequence[Finding], times: StepSpan, *, opened: Sequence[Record] = ()) -> None:
        """Apply what the step means for every session; the prompts of `opened` end in it."""
        for finding in findings:
            record, found = finding.record, finding.found
            if record in opened:
                self._intake.opened(record, now_us=times.done_us)
            if isinstance(found, ForewordError):
                outcome = failed(record.session, *_loss(found))
            else:
                outcome = _outcome(record, finding.work, found, _timing(record, times))
            self._sessions.apply(record, outcome, at_us=times.done_us)

    def settle(self, plan: Plan, logits: Sequence[Logits], now_us: int) -> None:
        """Free the sessions that were closed during the pass, and note what was read, and what that says of prompts."""
        for record, _ in plan.works:
            if record.session.closing and record.session.phase is Phase.RUN:
                self._sessions.apply(record, failed(record.session, LossCode.RUNNER, ""), at_us=now_us)
        for piece, rows in zip(plan.pieces, logits[len(plan.works) :], strict=True):
            if not piece.need or self._scored(piece.record, rows, now_us):
                self._read(piece, now_us)
        for record in plan.opened:
            if record.session.phase is not Phase.GONE:
                self._sessions.share(record)

    def _scored(self, record: Record, rows: Logits, now_us: int) -> bool:
        """Tell what the rows of a piece say of the prompt; False if the session is lost by it."""
        try:
            outcome = score(record.session, rows)
        except ForewordError as error:
            outcome = lost(record.session, LossCode.LAW, error.message)
        self._sessions.apply(record, outcome, at_us=now_us)
        return record.session.phase is not Phase.GONE

    def _read(self, piece: Piece, now_us: int) -> None:
        record = piece.record
        self._sessions.read(record, len(piece.tokens))
        if record.session.phase is Phase.PREFILL and not behind(record.session):
            self._intake.prefill_done(record, now_us=now_us)

    def _lose(self, plan: Plan, reason: str, now_us: int) -> None:
        for record, _ in plan.works:
            self._sessions.apply(record, failed(record.session, LossCode.RUNNER, reason), at_us=now_us)
        for piece in plan.pieces:
            outcome = lost(piece.record.session, LossCode.RUNNER, reason)
            self._sessions.apply(piece.record, outcome, at_us=now_us)


def _loss(error: ForewordError) -> tuple[LossCode, str]:
    """Return why a session ends that has no law or no token: what its own law is to blame for is so everywhere."""
    if isinstance(error, InvalidField) and error.field.startswith("law."):
        return LossCode.DEAD_END, error.wanted
    return LossCode.LAW, error.message


def _outcome(record: Record, work: Work, found: Stepped, timing: RoundTiming) -> Outcome:
    """Return what the step means for a session, and remember how its candidates went."""
    session, kept = record.session, found.verdict.kept
    if leases_locally(session):
        record.guessed.add(kept + 1)
    if session.block is not None:
        record.emitted.add(kept + 1)
        record.acceptance.add(kept, len(work.candidates))
        session, actions = verified(session, work, found, timing=timing)
        return session, tuple(a for a in actions if not isinstance(a, Answer))  # the draft knows already
    if session.guess is not None:
        return guess_verified(session, work, found, timing=timing)
    return stepped_plain(session, work, found.verdict.emitted, found, timing=timing)


def _timing(record: Record, times: StepSpan) -> RoundTiming:
    block = record.session.block
    return RoundTiming(
        verify_queue_us=max(0, times.started_us - record.ready_us),
        verify_compute_us=times.compute_us,
        block_lag_us=record.lag_us,
        draft_queue_us=block.draft_queue_us if block else None,
        draft_compute_us=block.draft_compute_us if block else None,
        step_rows=times.rows,
        evidence_us=times.evidence_us,
        others_us=times.rest.without(record.ready_us),
    )
