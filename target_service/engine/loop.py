"""The engine's loop: hear what came, decide when to step, step, say what came of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median_low

from foreword.grammars.port import Grammars
from foreword.protocol.messages import LoadReport, Recall, TargetClose
from foreword.runner.port import Runner
from target_service.core.budget import Budget
from target_service.core.estimates import StepTimes
from target_service.core.policy import Decision, Part, StartNow, StepPolicy
from target_service.core.precedence import results_wait_us
from target_service.core.price import Rest, SmoothPrice, Steps
from target_service.core.rest import StepRest
from target_service.core.state import Phase
from target_service.engine.admission import Bars
from target_service.engine.allotment import Allotment
from target_service.engine.arithmetic import REFERENCE, Arithmetic
from target_service.engine.beginnings import Beginnings
from target_service.engine.guessing import Guessing
from target_service.engine.intake import Intake
from target_service.engine.line import Line
from target_service.engine.masks import POLL_US, Masks
from target_service.engine.messages import Commands, FromEngine, Status, StepReport, ToEngine
from target_service.engine.outbox import Outbox
from target_service.engine.outlook import Outlook
from target_service.engine.planner import Plan, Planner
from target_service.engine.room import Room
from target_service.engine.sessions import Sessions
from target_service.engine.stepper import Stepper, StepSpan
from target_service.local.port import LocalDrafter
from target_service.ports import Channel, Now

STATUS_EVERY_US = 1_000_000
FIRST_STATUS_EVERY_US = 100_000
"""While the price has not settled."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What an engine is told by its settings."""

    instance: str
    budget: Budget
    arithmetic: Arithmetic = REFERENCE
    grammars: Callable[[], Grammars] | None = None
    """Loads the grammars of the model's tokenizer."""


class Engine:
    """One runner, its sessions, and their steps; driven by one thread."""

    def __init__(
        self,
        runner: Runner,
        channel: Channel,
        *,
        now: Now,
        policy: StepPolicy,
        bars: Bars,
        options: EngineOptions,
        times: StepTimes | None = None,
        local: LocalDrafter | None = None,
    ) -> None:
        self._channel = channel
        self._now = now
        self._policy = policy
        self._times = times or StepTimes()
        self._recent: deque[int] = deque(maxlen=33)
        self._price, self._rest = SmoothPrice(), Rest()
        self._stepped_us: int | None = None
        """When the last step was done."""
        self._runner = runner
        self._budget = options.budget
        self._outbox = Outbox()
        room = Room(runner, block=bars.gamma_max, longest_length=bars.longest_length)
        self._line = Line(runner, room, max_sessions=bars.max_sessions)
        guessing = Guessing(local, self._outbox)
        self._sessions = Sessions(runner, self._line, self._outbox, guessing, instance=options.instance)
        self._intake = Intake(self._sessions, self._line, self._outbox, bars=bars)
        masks = Masks(options.grammars)
        self._beginnings = Beginnings(runner, self._line, self._intake, self._outbox, masks=masks)
        self._outlook = Outlook(self._sessions, options.budget)
        allotment = Allotment(runner, self._line, self._outbox)
        self._planner = Planner(
            runner, self._sessions, allotment, guessing, budget=options.budget, step_us=self._times.step_us
        )
        self._stepper = Stepper(runner, self._sessions, self._intake, options.arithmetic, masks=masks)
        self._postponed: list[ToEngine] = []
        self._status_us = now()

    def run(self) -> None:
        """Serve until the channel raises because its other end is gone, or the runner keeps failing (EngineFailure)."""
        until_us: int | None = self._now()
        while True:
            self._hear(until_us)
            until_us = self._turn()

    def _hear(self, until_us: int | None) -> None:
        """Apply what has come, waiting for it up to `until_us`."""
        postponed, self._postponed = self._postponed, []
        now_us = self._now()
        for message in postponed:
            self._intake.take(message, now_us=now_us)
        wait_s = 0.0 if postponed or until_us is None else max(0, until_us - now_us) / 1e6
        for batch in self._channel.receive(wait_s):
            now_us = self._now()
            for message in batch:
                self._intake.take(message, now_us=now_us)

    def _turn(self) -> int | None:
        """Step if it is time to; return until when nothing is to be done unless something comes, None for at once."""
        now_us = self._now()
        wait_us = self._intake.expire(now_us)
        if now_us >= self._status_us:
            self._report(now_us)
        until_us = self._status_us if wait_us is None else min(wait_us, self._status_us)
        self._line.admit()
        if self._beginnings.begin(now_us):
            until_us = min(until_us, now_us + POLL_US)
        ready = self._outlook.ready()
        if not ready.rows:
            if not len(self._sessions):
                self._stepped_us = None  # nobody is between two rounds: what passes now is no part of any
            self._flush()
            return until_us
        decision = self._decide(now_us, ready)
        if not isinstance(decision, StartNow):
            self._flush_urgent()
            return min(until_us, decision.at_us)
        self._step()
        return None

    def _decide(self, now_us: int, ready: Part) -> Decision:
        if ready.rows >= self._budget.step_rows:
            return StartNow()  # nobody else would get in
        return self._policy.decide(now_us, ready, self._outlook.arrivals(now_us), step_us=self._times.step_us)

    def _step(self) -> None:
        started_us = self._now()
        plan = self._planner.plan(started_us)
        self._flush_urgent()
        if plan is None:
            return
        rest = StepRest.of(self._stepped_us, plan.blocks_us)
        if self._stepped_us is not None:
            longest, drafting_us = plan.longest_block
            self._rest.add(started_us - self._stepped_us, longest=longest, drafting_us=drafting_us)
        rows, context = plan.work_rows + plan.prompt_rows, plan.mean_context
        logits = self._stepper.forward(plan, started_us)
        if logits is None:
            self._outbox.count("failed_step")
            return
        forwarded_us = self._now()
        self._hear_of_running()
        findings = self._stepper.judge(plan, logits)
        times = StepSpan(started_us, forwarded_us, self._now(), rows, rest)
        verified, guessed, wait_us = self._stepper.tell_drafts(findings), plan.guessed, results_wait_us(plan.lags_us)
        self._send(self._outbox.take_answers())
        self._stepper.apply(findings, times, opened=plan.opened)
        self._stepper.settle(plan, logits, times.done_us)
        self._stepped_us = times.done_us
        self._times.add(rows, context, step_us=times.compute_us)
        self._recent.append(times.compute_us)
        self._give_way(wait_us)
        self._send([*self._outbox.take_rest(), _step_report(plan, times, verified=verified, guessed=guessed)])

    def _give_way(self, wait_us: int) -> None:
        """Let verdicts get to their drafts first, unless there is something else to do (docs/decisions/0019)."""
        if wait_us and not self._postponed and not self._outlook.ready().rows:
            self._postponed = [message for batch in self._channel.receive(wait_us / 1e6) for message in batch]

    def _hear_of_running(self) -> None:
        """Let Recall and Close reach sessions that are in the step that just ran; the rest waits its turn."""
        for batch in self._channel.receive(0.0):
            for message in batch:
                self._postponed.append(self._take_urgent(message) if isinstance(message, Commands) else message)

    def _take_urgent(self, message: Commands) -> Commands:
        """Apply the commands that change what the running step means; return the others."""
        others = []
        for command in message.commands:
            record = self._sessions.get(message.stream, command.sid)
            running = record is not None and record.session.phase is Phase.RUN
            if running and isinstance(command, Recall | TargetClose):
                self._outbox.consumed(message.stream, 1)
                self._intake.command(message.stream, command, at_us=message.at_us, now_us=message.at_us)
            else:
                others.append(command)
        return replace(message, commands=tuple(others))

    def _report(self, now_us: int) -> None:
        self._status_us = now_us + (STATUS_EVERY_US if self._price.settled else FIRST_STATUS_EVERY_US)
        memory = self._runner.memory
        steps = Steps(self._times.step_us, self._rest.idle_us, self._rest.candidate_us)
        self._price.add(self._outlook.price(steps))
        load = LoadReport(
            sessions=len(self._sessions),
            waiting=self._line.waiting,
            free_tokens=memory.free * memory.page_size,
            step_us=median_low(self._recent) if self._recent else 0,
            price=self._price.value,
        )
        status = Status(
            load,
            self._times.curve(),
            resident_tokens=self._runner.resident_tokens,
            memory=memory,
            prefixes=self._outbox.take_prefixes(),
            counts=self._outbox.take_counts(),
        )
        self._send([status])

    def _flush(self) -> None:
        self._send([*self._outbox.take_answers(), *self._outbox.take_rest()])

    def _flush_urgent(self) -> None:
        """Let what can wait go out with what the step has to say: a message costs as much as a session's evidence."""
        if self._outbox.urgent:
            self._flush()

    def _send(self, batch: Sequence[FromEngine]) -> None:
        if batch:
            self._channel.send(batch)


def _step_report(plan: Plan, times: StepSpan, *, verified: int, guessed: int) -> StepReport:
    return StepReport(
        rows=times.rows,
        prompt_rows=plan.read_rows,
        verified=verified,
        guessed=guessed,
        plain=len(plan.works) - verified - guessed,
        step_us=times.compute_us,
        evidence_us=times.evidence_us,
    )
