"""The line of sessions that wait for room in the cache, and the way into it and out of it.

    Open ──► QUEUED ──admit──► ADMITTED ──begin──► CACHED
                                  ▲                   │
                                  └──── PREEMPTED ◄───┘

Age decides, by the order of opening. The line is served strictly in that order, so that what is long is not passed
for ever, and a session that was preempted goes before everything that came later. Where pages run out the youngest
gives up its own. The oldest session therefore always gets on, and the others after it.
"""

from __future__ import annotations

from collections import deque

from foreword.runner.port import Runner
from foreword.values import replace
from target_service.core.state import Phase
from target_service.core.step import findable
from target_service.engine.record import Place, Record
from target_service.engine.room import Room

_ENDS = 16
"""Sessions that ended, from which the pace of the line is estimated."""
_FIRST_RETRY_MS, _LEAST_RETRY_MS, _MOST_RETRY_MS = 1_000, 100, 30_000


class Line:
    """Knows every session by its place; the slots of those in line are empty."""

    def __init__(self, runner: Runner, room: Room, *, max_sessions: int) -> None:
        """Let at most `max_sessions` have room at the same time."""
        self._runner = runner
        self._room = room
        self._max_sessions = max_sessions
        self._waiting: dict[int, Record] = {}
        self._beginning: dict[int, Record] = {}
        self._cached: dict[int, Record] = {}
        self._tried: tuple[int, int] | None = None
        """The session that did not fit when it was last tried, and the pages that there were for it."""
        self._ends: deque[int] = deque(maxlen=_ENDS)

    @property
    def waiting(self) -> int:
        """Sessions in line."""
        return len(self._waiting)

    @property
    def queued(self) -> int:
        """Those of them that never had room."""
        return sum(record.place is Place.QUEUED for record in self._waiting.values())

    @property
    def beginning(self) -> list[Record]:
        """Sessions with room that have not begun, oldest first."""
        return [self._beginning[slot] for slot in sorted(self._beginning)] if self._beginning else []

    @property
    def cached(self) -> list[Record]:
        """Sessions that are in the cache, in no order."""
        return list(self._cached.values())

    def enter(self, record: Record) -> None:
        """Put a new session at the end of the line."""
        self._waiting[record.slot] = record

    def leave(self, record: Record, *, at_us: int) -> None:
        """Forget a session that is over."""
        if self._waiting.pop(record.slot, None) is None:
            self._beginning.pop(record.slot, None)
            self._cached.pop(record.slot, None)
            self._ends.append(at_us)

    def begun(self, record: Record) -> None:
        """Note that a session has begun to use the cache."""
        record.place = Place.CACHED
        del self._beginning[record.slot]
        self._cached[record.slot] = record

    def admit(self) -> None:
        """Admit sessions in the order of the line, as long as each fits with all it holds and a block."""
        if not self._waiting:
            return
        admitted = [*self._beginning.values(), *self._cached.values()]
        promised = sum(self._room.claim(record) for record in admitted)
        count = len(admitted)
        for slot in sorted(self._waiting):
            record = self._waiting[slot]
            if count >= self._max_sessions:
                return
            if record.session.phase is Phase.IDLE:  # it reads nothing before its Commit comes, but that may be soon
                promised += self._room.claim(record) if count else 0
                continue
            if not self._fits(record, promised):
                return
            record.place = Place.ADMITTED
            self._beginning[slot] = self._waiting.pop(slot)
            promised += self._room.claim(record)
            count += 1

    def preempt(self, record: Record) -> None:
        """Take a session's pages away and put it back in line; all else of it stays as it is."""
        self._runner.truncate(record.slot, 0)
        self._beginning.pop(record.slot, None)
        self._cached.pop(record.slot, None)
        self._waiting[record.slot] = record
        record.session = replace(record.session, cached=0)
        record.place, record.shared_pages = Place.PREEMPTED, 0

    def holders(self) -> list[Record]:
        """Return the sessions that hold pages, oldest first."""
        admitted = {**self._beginning, **self._cached}
        return [admitted[slot] for slot in sorted(admitted) if self._runner.length(slot)]

    def retry_after_ms(self, now_us: int) -> int:
        """Return when to ask again if the line is full: when half of it is served at the pace of the last sessions."""
        if not self._ends:
            return _FIRST_RETRY_MS
        each_ms = (now_us - self._ends[0]) / len(self._ends) / 1000
        return round(min(_MOST_RETRY_MS, max(_LEAST_RETRY_MS, each_ms * self.queued / 2)))

    def _fits(self, record: Record, promised: int) -> bool:
        """Whether the session fits beside the promises; if so, it holds what is cached of its text already."""
        room = self._room.free - promised
        if self._room.claim(record) <= room:
            return True
        if self._tried == (record.slot, room):
            return False
        self._runner.adopt(record.slot, findable(record.session))
        if self._room.claim(record) <= self._room.free - promised:
            return True
        self._runner.truncate(record.slot, 0)
        self._tried = record.slot, room
        return False
