"""A modelled target: steps of everything that is ready, started by the real step policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from foreword.protocol.messages import (
    Block,
    BlockOrder,
    Commit,
    LoadReport,
    PlainOrder,
    Recall,
    Result,
    RoundTiming,
    TargetClose,
    TargetCommand,
    TargetOpen,
    TargetOpened,
    TargetTicket,
    VerdictNotice,
)
from foreword.protocol.words import ResultKind
from foreword.testing.virtual_clock import VirtualClock, VirtualTimer
from foreword.values import replace
from loadtest.simulator.scene import SECOND
from loadtest.simulator.text import RIGHT
from loadtest.simulator.wires import Wire
from orchestrator.pools.targets import TargetPeer
from target_service.core.estimates import EVERY_KEEP, Acceptance, Emitted, Replies, StepTimes
from target_service.core.policy import Arrival, Part, StartNow, StepPolicy
from target_service.core.price import Rest, SmoothPrice, Steps, price
from target_service.core.rest import StepRest
from target_service.policy_bench.scene import StepCost

_LONGEST = 1 << 30
_WARM_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_GAMMA_MAX = 16
_FIRST_US = 100_000
"""Between reports until the price has settled, as the engine has it."""


class _Phase(Enum):
    IDLE = auto()
    WAIT = auto()
    READY = auto()
    LEASE = auto()


@dataclass(slots=True)
class _Session:
    sid: int
    tickets: set[bytes] = field(default_factory=set)
    phase: _Phase = _Phase.IDLE
    commit: Commit | None = None
    base: int = 0
    """Behind the last token that a Result told."""
    left: int = 0
    recalled: bool = False
    block: Block | None = None
    early: Block | None = None
    """For the round after the last Commit."""
    early_us: int = 0
    lag_us: int | None = None
    commit_us: int = 0
    ready_us: int = 0
    hold_us: int = 0
    result_us: int | None = None
    rows: int = 1
    running: bool = False
    replies: Replies = field(default_factory=Replies)
    emitted: Emitted = field(default_factory=Emitted)
    acceptance: Acceptance = field(default_factory=Acceptance)


class SimTarget:
    """The other end of the orchestrator's link to a target."""

    def __init__(
        self,
        clock: VirtualClock,
        peer: TargetPeer,
        *,
        step: StepCost,
        policy: StepPolicy,
        to_orchestrator: Wire,
        to_draft: Wire,
        tell_draft: Callable[[VerdictNotice], None],
    ) -> None:
        self._clock = clock
        self._peer = peer
        self._step_cost = step
        self._policy = policy
        self._to_orchestrator = to_orchestrator
        self._to_draft = to_draft
        self._tell_draft = tell_draft
        self._sessions: dict[int, _Session] = {}
        self._by_ticket: dict[bytes, _Session] = {}
        self._replies = Replies(window=128)
        self._acceptance = Acceptance(keep=EVERY_KEEP)
        self._stepping = self._considering = False
        self._wake: VirtualTimer | None = None
        self._last_us = 0
        self._price, self._rest = SmoothPrice(), Rest()
        self.prices: list[tuple[int, float]] = []
        """When the price was what."""
        self.busy_us = 0
        """Time in steps."""
        self._times = StepTimes()
        for rows in _WARM_ROWS:
            for _ in range(3):
                self._times.add(rows, 0, step_us=step.step_us(rows))
        clock.call_later(_FIRST_US, self._report)

    def take(self, command: TargetCommand) -> None:
        """Take a command that has arrived."""
        if isinstance(command, TargetOpen):
            self._open(command)
            return
        session = self._sessions.get(command.sid)
        if session is None:
            return
        match command:
            case Commit():
                self._commit(session, command)
            case Recall(round=round):
                self._recall(session, round)
            case TargetTicket(ticket=ticket):
                self._assign(session, ticket)
            case TargetClose():
                del self._sessions[session.sid]
                for ticket in session.tickets:
                    self._by_ticket.pop(ticket, None)
        self._consider()

    def block(self, block: Block) -> None:
        """Take a block that has arrived."""
        session, now_us = self._by_ticket.get(block.ticket), self._clock.now_us()
        if session is None:
            return
        commit = session.commit
        waits = session.phase is _Phase.WAIT or (session.phase is _Phase.READY and session.block is None)
        if waits and commit is not None and block.round == commit.round and not session.running:
            self._join(session, block, lag_us=now_us - session.commit_us)
            self._consider()
        elif commit is None or block.round > commit.round:
            session.early, session.early_us = block, now_us

    def _open(self, command: TargetOpen) -> None:
        session = _Session(command.sid, base=len(command.tokens) - command.prompt_len)
        session.acceptance = Acceptance(self._acceptance)
        self._sessions[command.sid] = session
        self._tell(TargetOpened(command.sid, 0, _LONGEST))
        if command.first is not None:
            self._commit(session, command.first)
        self._consider()

    def _assign(self, session: _Session, ticket: bytes) -> None:
        session.tickets.add(ticket)
        self._by_ticket[ticket] = session

    def _commit(self, session: _Session, commit: Commit) -> None:
        now_us = self._clock.now_us()
        session.commit, session.recalled, session.block, session.lag_us = commit, False, None, None
        session.commit_us = now_us
        if isinstance(commit.order, PlainOrder):
            session.phase, session.left, session.ready_us = _Phase.LEASE, commit.order.limit, now_us
            return
        assert isinstance(commit.order, BlockOrder)
        self._assign(session, commit.order.ticket)
        early, session.early = session.early, None
        if early is not None and early.round == commit.round:
            self._join(session, early, lag_us=session.early_us - now_us)
            return
        session.phase, session.hold_us = _Phase.WAIT, now_us + commit.order.wait_us
        round = commit.round
        self._clock.call_later(commit.order.wait_us, lambda: self._waited(session, round))

    def _join(self, session: _Session, block: Block, *, lag_us: int) -> None:
        now_us, order = self._clock.now_us(), session.commit.order if session.commit is not None else None
        if isinstance(order, BlockOrder) and len(block.ids) > order.gamma:
            block = replace(block, ids=block.ids[: order.gamma])  # begun under the order before
        session.block, session.lag_us = block, lag_us
        session.phase, session.ready_us = _Phase.READY, now_us
        if session.result_us is not None:
            session.replies.add(now_us - session.result_us)
            self._replies.add(now_us - session.result_us)

    def _waited(self, session: _Session, round: int) -> None:
        if session.phase is _Phase.WAIT and session.commit is not None and session.commit.round == round:
            session.phase, session.ready_us = _Phase.READY, self._clock.now_us()
            self._consider()

    def _recall(self, session: _Session, round: int) -> None:
        if session.commit is None or session.commit.round != round:
            return
        if session.phase is _Phase.LEASE:
            session.recalled = True
        else:
            self._waited(session, round)

    # Steps.

    def _consider(self) -> None:
        """Decide about a step after everything that comes at this moment has come, as of one frame."""
        if not self._considering:
            self._considering = True
            self._clock.call_later(0, self._decide)

    def _decide(self) -> None:
        self._considering = False
        if self._stepping:
            return
        now_us = self._clock.now_us()
        ready = self._ready()
        if not ready:
            return
        part = Part()
        for session in ready:
            leased = session.phase is _Phase.LEASE
            tokens = session.emitted.mean if session.block is not None else 1.0
            part += Part(1 + len(session.block.ids if session.block else ()), tokens, 1.0 if leased else 0.0)
        decision = self._policy.decide(now_us, part, self._arrivals(now_us), step_us=self._times.step_us)
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if isinstance(decision, StartNow):
            self._start(ready)
        else:
            self._wake = self._clock.call_at(max(decision.at_us, now_us + 1), self._consider)

    def _ready(self) -> list[_Session]:
        return [s for s in self._sessions.values() if s.phase is _Phase.READY or s.phase is _Phase.LEASE]

    def _arrivals(self, now_us: int) -> list[Arrival]:
        found = []
        for session in self._sessions.values():
            if session.phase not in (_Phase.WAIT, _Phase.IDLE) or session.result_us is None:
                continue
            replies = session.replies if session.replies.known else self._replies
            reply_us = replies.due(now_us - session.result_us)
            due_us = None if reply_us is None else session.result_us + reply_us
            rows, limit_us = session.rows, None
            if session.phase is _Phase.WAIT and session.commit is not None:
                due_us = session.hold_us if due_us is None else min(due_us, session.hold_us)
                order = session.commit.order
                rows = 1 + (order.gamma if isinstance(order, BlockOrder) else 0)
                limit_us = session.hold_us
            if due_us is not None:
                part = Part(rows, session.emitted.mean)
                found.append(Arrival(part, due_us, limit_us, due_us - session.result_us))
        return found

    def _start(self, ready: list[_Session]) -> None:
        now_us = self._clock.now_us()
        self._stepping = True
        rows = sum(1 + len(session.block.ids if session.block else ()) for session in ready)
        for session in ready:
            session.running = True
        took_us = self._step_cost.step_us(rows)
        blocks = [(len(s.block.ids), s.block.draft_compute_us) for s in ready if s.block is not None]
        longest, drafting_us = max(blocks, default=(0, 0))
        rest = StepRest.of(self._last_us, [s.ready_us for s in ready if s.block is not None])
        self._rest.add(now_us - self._last_us, longest=longest, drafting_us=drafting_us)
        self.busy_us += took_us
        self._clock.call_later(took_us, lambda: self._done(ready, rows, rest, started_us=now_us))

    def _done(self, works: list[_Session], rows: int, rest: StepRest, *, started_us: int) -> None:
        self._stepping = False
        self._last_us = now_us = self._clock.now_us()
        self._times.add(rows, 0, step_us=now_us - started_us)
        for session in works:
            session.running = False
            if session.sid in self._sessions:
                self._answer(session, rows, rest, started_us)
        self._consider()

    def _answer(self, session: _Session, rows: int, rest: StepRest, started_us: int) -> None:
        now_us, commit, block = self._clock.now_us(), session.commit, session.block
        assert commit is not None
        ids = block.ids if block is not None else ()
        kept = next((n for n, token in enumerate(ids) if token != RIGHT), len(ids))
        final = True
        if session.phase is _Phase.LEASE:
            session.left -= 1
            final = session.left <= 0 or session.recalled
        timing = RoundTiming(
            verify_queue_us=max(0, started_us - session.ready_us),
            verify_compute_us=now_us - started_us,
            block_lag_us=session.lag_us,
            draft_queue_us=block.draft_queue_us if block is not None else None,
            draft_compute_us=block.draft_compute_us if block is not None else None,
            step_rows=rows,
            others_us=rest.without(session.ready_us),
        )
        if block is not None:
            session.emitted.add(kept + 1)
            session.acceptance.add(kept, len(ids))
            notice = VerdictNotice(block.ticket, block.round, 0, kept, RIGHT)
            self._to_draft.send(lambda: self._tell_draft(notice))
        result = Result(
            session.sid,
            commit.round,
            session.base,
            final=final,
            kind=ResultKind.PLAIN if block is None else ResultKind.EVIDENCE,
            emit=(RIGHT,) * (len(ids) + 1),
            ids=ids,
            acceptance=tuple(float(n < kept) for n in range(len(ids))),
            drafter=block.drafter if block is not None else None,
            timing=timing,
        )
        session.base += kept + 1
        session.rows, session.block = len(ids) + 1, None
        session.ready_us = now_us
        if final:
            session.phase, session.result_us = _Phase.IDLE, now_us
        self._tell(result)

    def _tell(self, event: TargetOpened | Result) -> None:
        self._to_orchestrator.send(lambda: self._peer.received([(event.sid, event)], self._clock.now_us()))

    def _report(self) -> None:
        self._clock.call_later(SECOND if self._price.settled else _FIRST_US, self._report)
        rates = [s.acceptance.rate for s in self._sessions.values() if s.tickets]
        plain = len(self._sessions) - len(rates)
        steps = Steps(self._times.step_us, self._rest.idle_us, self._rest.candidate_us)
        self._price.add(price(rates, plain, most=_GAMMA_MAX, steps=steps))
        self.prices.append((self._clock.now_us(), self._price.value))
        report = LoadReport(sessions=len(self._sessions), step_us=self._step_cost.step_us(1), price=self._price.value)
        self._to_orchestrator.send(lambda: self._peer.received([(None, report)], self._clock.now_us()))
