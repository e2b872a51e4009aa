"""The engine: applies what comes to sessions, and drafts for all that are ready, one step at a time.

It has no socket and no clock of its own, so that tests drive it step by step. `take` applies one message, `work` does
one step, `outgoing` holds what is to be said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median

from draft_service.core import reading, writing
from draft_service.core import session as transitions
from draft_service.core.state import Action, Bounds, Count, Free, Outcome, Phase, Push, PushLater, Session, Tell
from draft_service.drafters.port import CompareJob, Drafter, DrawJob, ReadJob
from draft_service.engine.admission import Room, Taken, refusal
from draft_service.engine.offers import Offers
from draft_service.engine.outgoing import Outgoing
from draft_service.engine.table import Entry, Table
from draft_service.engine_messages import Answers, BadCommand, Commands, Drain, Gauges, LinkUp, StreamEnded, ToEngine
from foreword.errors import ForewordError
from foreword.protocol.messages import Advance, DraftClose, DraftCommand, DraftOpen, Receipt, Refused, VerdictNotice
from foreword.protocol.words import LossCode, RefusalCode

GAUGES_EVERY_NS = 1_000_000_000
FOLLOW_PATIENCE_NS = 20_000_000
"""How long following waits for a step without drafting; after that it runs between two drafting steps."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings of an engine."""

    gamma_max: int = 16
    stop_threshold: float = 0.0
    chunk: int = 256
    """Most tokens that one step reads ahead."""
    room: Room = field(default_factory=Room)


class Engine:
    """All sessions of one draft service; one thread uses it."""

    def __init__(self, drafter: Drafter, policy: Policy, now_ns: Callable[[], int]) -> None:
        self.outgoing = Outgoing()
        self._drafter = drafter
        self._policy = policy
        self._now_ns = now_ns
        self._table = Table(policy.chunk)
        self._offers = Offers()
        self._draining = False
        self._step_ns = 0.0
        self._steps: deque[int] = deque(maxlen=64)
        self._gauges_ns = now_ns()
        abilities = drafter.abilities
        self._bounds = Bounds(
            abilities.longest_context, policy.gamma_max, abilities.kind, stop_threshold=policy.stop_threshold
        )

    # What comes.

    def take(self, message: ToEngine) -> None:
        """Apply one message."""
        match message:
            case Answers():
                for answer in message.answers:
                    self._answered(answer, message.arrived_ns)
            case Commands():
                for command in message.commands:
                    self._commanded(message.stream, command, message.arrived_ns)
            case StreamEnded():
                for entry in self._table:
                    if entry.stream == message.stream:
                        self._apply(entry, transitions.closed(entry.session))
            case LinkUp():
                for entry in self._table:
                    target = entry.session.target
                    if (target.address, target.instance) == (message.address, message.instance):
                        self._apply(entry, transitions.again(entry.session))
            case Drain():
                self._draining = True
                for entry in self._table:
                    self._lose(entry, LossCode.DRAINING, "this draft is shutting down")

    def _answered(self, answer: Receipt | VerdictNotice, arrived_ns: int) -> None:
        entry = self._table.by_ticket(answer.ticket)
        if entry is None:
            self.outgoing.count("answer_for_nobody")
            return
        came = transitions.verdict_came if isinstance(answer, VerdictNotice) else transitions.receipt_came
        self._apply(entry, came(entry.session, answer), arrived_ns)  # type: ignore[arg-type]

    def _commanded(self, stream: int, command: DraftCommand | BadCommand, arrived_ns: int) -> None:
        entry = self._table.get(stream, command.sid)
        match command:
            case DraftOpen() if entry is None:
                self._open(stream, command)
            case BadCommand() if entry is None:
                self.outgoing.tell(stream, Refused(command.sid, RefusalCode.BAD, command.message))
            case _ if entry is None:
                self.outgoing.count("command_for_nobody")
            case DraftOpen():
                self._lose(entry, LossCode.PROTOCOL, f"sid: got {command.sid} again, wanted each once in a stream")
            case BadCommand():
                self._lose(entry, LossCode.PROTOCOL, command.message)
            case Advance():
                self._advance(entry, command, arrived_ns)
            case DraftClose():
                self._apply(entry, transitions.closed(entry.session))

    def _open(self, stream: int, message: DraftOpen) -> None:
        taken = Taken(len(self._table), self._table.committed)
        abilities, room = self._drafter.abilities, self._policy.room
        refused = refusal(message, abilities, room=room, taken=taken, draining=self._draining)
        if refused is not None:
            self.outgoing.tell(stream, refused)
            self.outgoing.count(f"refused_{refused.code.name.lower()}")
            return
        entry = self._table.add(stream, transitions.opened(message, self._bounds), self._now_ns())
        self._drafter.open(entry.slot)
        # A prompt of one token has nothing to read ahead.
        self._apply(entry, reading.read(entry.session, reading.Read(0, ())))

    def _advance(self, entry: Entry, message: Advance, arrived_ns: int) -> None:
        self._apply(entry, transitions.advanced(entry.session, message), arrived_ns)
        if entry.session.order is message and message.send_by_us is not None and message.gamma > 0:
            entry.due_ns = arrived_ns + 1000 * message.send_by_us

    def _lose(self, entry: Entry, code: LossCode, message: str) -> None:
        self._apply(entry, transitions.lost(entry.session, code, message))
        self.outgoing.count(f"lost_{code.name.lower()}")

    # What follows from a transition.

    def _apply(self, entry: Entry, outcome: Outcome, cause_ns: int | None = None) -> None:
        session, actions = outcome
        now_ns = self._now_ns()
        if _another_block(entry.session, session):
            entry.restart(now_ns if cause_ns is None else cause_ns)
        if cause_ns is not None:
            entry.touched_ns = cause_ns
        entry.session = session
        self._bind(entry)
        for action in actions:
            self._do(entry, action, now_ns)
        self._table.settle(entry, now_ns)

    def _bind(self, entry: Entry) -> None:
        wanted = None if entry.session.phase is Phase.GONE else entry.session.target
        known = entry.bound
        if wanted is known or wanted == known:
            return
        self._table.bind(entry, wanted)
        if wanted is not None:
            self.outgoing.bind(entry.stream, wanted)
        if known is not None:
            self.outgoing.release(known.ticket)

    def _do(self, entry: Entry, action: Action, now_ns: int) -> None:
        match action:
            case Push(block):
                if entry.took_us is None:
                    began_ns = now_ns if entry.began_ns is None else entry.began_ns
                    entry.took_us = (max(0, began_ns - entry.cause_ns) // 1000, (now_ns - began_ns) // 1000)
                queue_us, compute_us = entry.took_us
                block = replace(block, draft_queue_us=queue_us, draft_compute_us=compute_us)
                self.outgoing.push(entry.session.target.address, block)
            case Tell(event):
                self.outgoing.tell(entry.stream, event)
            case PushLater():
                self._offers.add(entry, now_ns)
            case Free():
                self._drafter.close(entry.slot)
                if entry.session.phase is not Phase.GONE:
                    self._drafter.open(entry.slot)
            case Count(name):
                self.outgoing.count(name)

    # Work.

    def next_ns(self) -> int:
        """Return when `work` has something to do; not later than now if it has already."""
        if self._table.drafting or self._table.reading or self._table.following:
            return self._now_ns()
        due_ns = self._offers.next_ns()
        return self._gauges_ns if due_ns is None else min(due_ns, self._gauges_ns)

    def work(self) -> None:
        """Do what is due and at most one step of the drafter."""
        now_ns = self._now_ns()
        for entry in self._offers.due(now_ns):
            self._apply(entry, transitions.again(entry.session))
        self._send_due(now_ns)
        if now_ns >= self._gauges_ns:
            self._report(now_ns)
        if self._follow_now(now_ns):
            self._compare()
        elif self._table.drafting or self._table.reading:
            self._step()

    def _send_due(self, now_ns: int) -> None:
        """Send blocks that another step would make late, whatever they contain: see DESIGN.md on lateness."""
        for entry in list(self._table.drafting.values()):
            if entry.due_ns is not None and entry.due_ns <= now_ns + self._step_ns:
                self._apply(entry, writing.send(entry.session))

    def _follow_now(self, now_ns: int) -> bool:
        following = self._table.following
        if not following:
            return False
        if not self._table.drafting and not self._table.reading:
            return True
        since_ns = min(entry.followable_ns or now_ns for entry in following.values())
        return now_ns - since_ns >= FOLLOW_PATIENCE_NS

    def _step(self) -> None:
        drawing = list(self._table.drafting.values())
        draws = [DrawJob(entry.slot, entry.session, writing.draw(entry.session)) for entry in drawing]
        readers, reads = self._reads()
        began_ns = self._now_ns()
        for entry in drawing:
            if entry.began_ns is None:
                entry.began_ns = began_ns
        try:
            results = self._drafter.step(draws, reads)
        except ForewordError as error:
            for entry in (*drawing, *readers):
                self._lose(entry, LossCode.RUNNER, error.message)
            return
        if draws:
            self._timed(self._now_ns() - began_ns)
        for entry, draw_job, result in zip(drawing, draws, results, strict=True):
            if isinstance(result, ForewordError):
                self._lose(entry, LossCode.RUNNER, result.message)
            else:
                self._apply(entry, writing.drawn(entry.session, draw_job.draw, result))
        for entry, read_job in zip(readers, reads, strict=True):
            self._apply(entry, reading.read(entry.session, read_job.read))
        self._trim()

    def _reads(self) -> tuple[list[Entry], list[ReadJob]]:
        """Share one chunk among the sessions that read, oldest first."""
        left = self._policy.chunk
        readers: list[Entry] = []
        jobs: list[ReadJob] = []
        for entry in self._table.reading.values():
            if left == 0:
                break
            part = reading.next_read(entry.session, left)
            left -= len(part.rows)
            readers.append(entry)
            jobs.append(ReadJob(entry.slot, part))
        return readers, jobs

    def _compare(self) -> None:
        entries = list(self._table.following.values())
        jobs = [CompareJob(entry.slot, entry.session, reading.compare(entry.session)) for entry in entries]
        try:
            results = self._drafter.compare(jobs)
        except ForewordError as error:
            for entry in entries:
                self._lose(entry, LossCode.RUNNER, error.message)
            return
        for entry, job, result in zip(entries, jobs, results, strict=True):
            if isinstance(result, ForewordError):
                self._lose(entry, LossCode.RUNNER, result.message)
            else:
                self._apply(entry, reading.followed(entry.session, job.compare, result))

    def _trim(self) -> None:
        """Drop caches, least recently used first, while they hold more than there is room for."""
        room = self._policy.room.tokens
        if room is None or self._drafter.resident_tokens <= room:
            return
        busy = (Phase.PREFILL, Phase.DRAFT)
        resting = [e for e in self._table if e.session.phase not in busy and e.session.cached > 0]
        for entry in sorted(resting, key=lambda e: e.touched_ns):
            self._apply(entry, transitions.forgotten(entry.session))
            self.outgoing.count("cache_dropped")
            if self._drafter.resident_tokens <= room:
                return

    def _timed(self, took_ns: int) -> None:
        self._steps.append(took_ns)
        self._step_ns += (took_ns - self._step_ns) * (0.2 if len(self._steps) > 1 else 1.0)

    def _report(self, now_ns: int) -> None:
        self._gauges_ns = now_ns + GAUGES_EVERY_NS
        resident, room = self._drafter.resident_tokens, self._policy.room.tokens
        step_us = int(median(self._steps)) // 1000 if self._steps else 0
        self.outgoing.gauge(
            Gauges(
                sessions=len(self._table),
                waiting=len(self._table.reading),
                resident_tokens=resident,
                free_tokens=None if room is None else max(0, room - resident),
                step_us=step_us,
            )
        )


def _another_block(before: Session, after: Session) -> bool:
    old, new = before.writing, after.writing
    if new is None or new is old:
        return False
    return old is None or (old.round, old.digest, old.rule) != (new.round, new.digest, new.rule)
