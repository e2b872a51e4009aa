"""The engine: applies what comes to sessions, and drafts for all that are ready, one step at a time.

It has no socket and no clock of its own, so that tests drive it step by step: `take` applies one message, `work` does
one step, `outgoing` holds what is to be said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median

from draft_service.ahead.times import PassTimes
from draft_service.core import reading, writing
from draft_service.core import session as transitions
from draft_service.core.state import Bounds
from draft_service.drafters.foresight import Foresight
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import CompareJob, Drafter, ReadJob
from draft_service.engine.admission import Room
from draft_service.engine.ahead import Ahead
from draft_service.engine.intake import Intake
from draft_service.engine.keeper import Keeper
from draft_service.engine.outgoing import Outgoing
from draft_service.engine.table import Entry
from draft_service.engine_messages import Gauges, ToEngine
from foreword.errors import EngineFailure, ForewordError, Full, InvalidField
from foreword.protocol.info import CostPoint
from foreword.protocol.words import LossCode

GAUGES_EVERY_NS = 1_000_000_000
FOLLOW_PATIENCE_NS = 20_000_000
"""How long following waits for a step without drafting; after that it runs between two drafting steps."""
FAILURES = 3
"""Steps in a row that fail before the engine gives itself up."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings of an engine."""

    gamma_max: int = 16
    stop_threshold: float = 0.0
    chunk: int = 256
    """Most tokens that one step reads ahead."""
    room: Room = field(default_factory=Room)
    branches: int = 0
    """Most outcomes of a block that are prepared for; 0 drafts nothing ahead."""


class Engine:
    """All sessions of one draft service; one thread uses it."""

    def __init__(
        self, drafter: Drafter, policy: Policy, now_ns: Callable[[], int], *, costs: Iterable[CostPoint] = ()
    ) -> None:
        """Take over `drafter`; `costs` is what its passes took at start-up."""
        abilities = drafter.abilities
        longest = min(abilities.longest_context, policy.room.tokens or abilities.longest_context)
        bounds = Bounds(longest, policy.gamma_max, abilities.kind, stop_threshold=policy.stop_threshold)
        self._drafter = drafter
        self._policy = policy
        self._now_ns = now_ns
        self._keeper = Keeper(drafter, now_ns, chunk=policy.chunk)
        self._table = self._keeper.table
        self._times = PassTimes(costs)
        self._ahead = self._keeper.ahead = self._made_ahead()
        self._intake = Intake(self._keeper, abilities, bounds=bounds, room=policy.room)
        self._step_ns = 0.0
        """Running mean of drafting steps."""
        self._steps: deque[int] = deque(maxlen=64)
        self._failures = 0
        self._gauges_ns = now_ns()

    def _made_ahead(self) -> Ahead | None:
        drafter, branches = self._drafter, self._policy.branches
        if not branches or not isinstance(drafter, Foresight):
            return None
        return Ahead(
            drafter,
            drafter,
            self._keeper.outgoing,
            branches=branches,
            times=self._times,
            now_ns=self._now_ns,
            new_slot=self._table.new_slot,
        )

    @property
    def outgoing(self) -> Outgoing:
        """What is to be said."""
        return self._keeper.outgoing

    def take(self, message: ToEngine) -> None:
        """Apply one message."""
        self._intake.take(message)

    def next_ns(self) -> int:
        """Return when `work` has something to do; not later than now if it has already."""
        if self._table.drafting or self._table.reading or self._table.following:
            return self._now_ns()
        if self._ahead is not None and self._ahead.wants_a_pass():
            return self._now_ns()
        due_ns = self._keeper.offers.next_ns()
        return self._gauges_ns if due_ns is None else min(due_ns, self._gauges_ns)

    def work(self) -> None:
        """Do what is due, and at most one step of the drafter. Raises EngineFailure when step after step fails."""
        now_ns = self._now_ns()
        for entry in self._keeper.offers.due(now_ns):
            self._keeper.apply(entry, transitions.again(entry.session))
        self._send_due(now_ns)
        if now_ns >= self._gauges_ns:
            self._report(now_ns)
        if self._follow_now(now_ns):
            self._compare()
        elif self._table.drafting or self._table.reading:
            self._step()
        elif self._ahead is not None:
            self._ahead.work()

    def _send_due(self, now_ns: int) -> None:
        """Send blocks that another step would make late; what they contain has no say in it (docs/protocol.md)."""
        for entry in (*self._table.drafting.values(), *self._table.reading.values()):
            if entry.is_due(now_ns + round(self._step_ns)):
                self._keeper.apply(entry, writing.send(self._keeper.current(entry)))

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
        readers, reads = self._reads()
        self._pass(drawing, readers, reads)
        self._trim()

    def _pass(self, drawing: list[Entry], readers: list[Entry], reads: list[ReadJob]) -> None:
        began_ns = self._now_ns()
        pens = []
        for entry in drawing:
            if entry.began_ns is None:
                entry.began_ns = began_ns
            if entry.pen is None:
                entry.pen = Pen(entry.slot, entry.session)
            pens.append(entry.pen)
        try:
            results = self._drafter.step(pens, [job for job in reads if job.read.rows])
        except InvalidField as error:
            # Runners refuse a pass for one of its jobs before anything is changed; alone, that job is the one refused.
            if len(drawing) + len(readers) == 1:
                self._lose((*drawing, *readers), error)
            else:
                for entry in drawing:
                    self._pass([entry], [], [])
                for entry, job in zip(readers, reads, strict=True):
                    self._pass([], [entry], [job])
            return
        except Full as error:
            self._make_room(error)
            return
        except ForewordError as error:
            self._failed((*drawing, *readers), error)
            return
        self._failures = 0
        if pens:
            self._timed(self._now_ns() - began_ns)
            if not readers:
                self._times.note(len(pens), self._now_ns() - began_ns)
        for entry, pen, result in zip(drawing, pens, results, strict=True):
            if isinstance(result, ForewordError):
                self._keeper.lose(entry, LossCode.RUNNER, result.message)
            elif pen.add(result):
                self._keeper.complete(entry)
        for entry, job in zip(readers, reads, strict=True):
            self._keeper.apply(entry, reading.read(entry.session, job.read))

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
        self._follow(list(self._table.following.values()))

    def _follow(self, entries: list[Entry]) -> None:
        jobs = [CompareJob(entry.slot, entry.session, reading.compare(entry.session)) for entry in entries]
        try:
            results = self._drafter.compare(jobs)
        except InvalidField as error:
            if len(entries) == 1:
                self._lose(entries, error)
            else:
                for entry in entries:
                    self._follow([entry])
            return
        except Full as error:
            self._make_room(error)
            return
        except ForewordError as error:
            self._failed(entries, error)
            return
        self._failures = 0
        for entry, job, result in zip(entries, jobs, results, strict=True):
            if isinstance(result, ForewordError):
                self._keeper.lose(entry, LossCode.RUNNER, result.message)
            else:
                self._keeper.apply(entry, reading.followed(entry.session, job.compare, result))

    def _lose(self, entries: Iterable[Entry], error: ForewordError) -> None:
        for entry in entries:
            self._keeper.lose(entry, LossCode.RUNNER, error.message)

    def _failed(self, entries: Iterable[Entry], error: ForewordError) -> None:
        """Lose the sessions of a pass that failed; others go on, unless nothing works any more."""
        self._lose(entries, error)
        self._failures += 1
        if self._failures >= FAILURES:
            raise EngineFailure(f"drafter: {self._failures} passes in a row failed, the last with: {error.message}")

    def _trim(self) -> None:
        """Keep what is cached within the room: whoever does not fit any more goes, and caches of resting sessions.

        Without the first, sessions that have grown together beyond it would fill each other's caches again every round.
        """
        room = self._policy.room.tokens
        if room is None:
            return
        while self._table.committed > room:
            text = f"tokens: {self._table.committed} are open, wanted at most {room}, and this session is the youngest"
            self._keeper.lose(self._table.youngest(), LossCode.EVICTED, text)
        if self._drafter.resident_tokens <= room or self._resident <= room:
            return
        for entry in self._resting():
            self._forget(entry)
            if self._resident <= room:
                return

    def _make_room(self, error: Full) -> None:
        """Let go what a pass needs room for: branches, one cache that rests, or else the youngest session.

        A pass that had no room has computed nothing; the next one tries again.
        """
        if self._ahead is not None and self._ahead.release():
            self.outgoing.count("branches_dropped")
            return
        resting = self._resting()
        if resting:
            self._forget(resting[0])
        else:
            self._keeper.lose(self._table.youngest(), LossCode.EVICTED, error.message)

    def _resting(self) -> list[Entry]:
        """Return the sessions with a cache that no step needs, those first that nothing came for the longest."""
        resting = [entry for entry in self._table.resting() if entry.session.cached > 0]
        return sorted(resting, key=lambda entry: entry.touched_ns)

    def _forget(self, entry: Entry) -> None:
        self._keeper.apply(entry, transitions.forgotten(entry.session))
        self.outgoing.count("cache_dropped")

    @property
    def _resident(self) -> int:
        """Tokens that sessions have in the cache; branches share most of theirs, and go when room is wanted."""
        return self._drafter.resident_tokens - (self._ahead.tokens if self._ahead is not None else 0)

    def _timed(self, took_ns: int) -> None:
        self._steps.append(took_ns)
        self._step_ns += (took_ns - self._step_ns) * (0.2 if len(self._steps) > 1 else 1.0)

    def _report(self, now_ns: int) -> None:
        self._gauges_ns = now_ns + GAUGES_EVERY_NS
        resident, room = self._resident, self._policy.room.tokens
        self.outgoing.gauge(
            Gauges(
                sessions=len(self._table),
                waiting=len(self._table.reading),
                resident_tokens=resident,
                free_tokens=None if room is None else max(0, room - resident),
                step_us=int(median(self._steps)) // 1000 if self._steps else 0,
            )
        )
