"""A session's draft assignment: found, dropped, replaced in the same request; a session never waits for one."""

from __future__ import annotations

from typing import Protocol

from foreword.clock import Clock, Timer
from foreword.errors import ForewordError
from foreword.protocol.info import ModelInfo
from foreword.protocol.messages import DraftEvent, DraftOpened, Follow, Lost, Refused
from orchestrator.pools.avoidance import Avoidance
from orchestrator.pools.drafts import DraftPeer, DraftPool, Wish
from orchestrator.sessions.deadline import Deadline
from orchestrator.sessions.limits import SessionLimits
from orchestrator.sessions.refusals import RETRY_AFTER_MS, useless_again


class DraftUser(Protocol):
    """The session behind the seat."""

    def wants_draft(self) -> bool:
        """Whether a draft would be of use now."""

    def model(self) -> ModelInfo | None:
        """Return the model that the draft has to fit."""

    def assigned(self, peer: DraftPeer, sid: int) -> None:
        """Open the session there."""

    def draft_opened(self, message: DraftOpened) -> None:
        """The draft is ready."""

    def draft_followed(self, message: Follow) -> None:
        """The draft told how its guesses went."""

    def unassigned(self, sid: int, reason: str) -> None:
        """The session is over at its draft."""

    def dismiss(self, reason: str) -> None:
        """Give the draft up although its stream works."""


class DraftSeat:
    """Finds the session a draft, and another one when that fails, with back-off for each."""

    def __init__(self, user: DraftUser, pool: DraftPool, wish: Wish, *, clock: Clock, limits: SessionLimits) -> None:
        self._user = user
        self._pool = pool
        self._wish = wish
        self._clock = clock
        self._limits = limits
        self._avoidance = Avoidance()
        self._failures = 0
        self._timer: Timer | None = None
        self._opening = Deadline(clock, self._overdue)
        self._closed = False
        self.peer: DraftPeer | None = None
        self.sid = 0
        self.used = 0
        """How many assignments became live."""

    def seek(self) -> None:
        """Ask for a draft now, or as soon as one is there; without effect if the session has one or wants none."""
        if self._closed or self.peer is not None or not self._user.wants_draft():
            return
        now_us = self._clock.now_us()
        peer = self._pool.choose(self._wish, self._user.model(), self._avoidance.now(now_us))
        if peer is None:
            self._wait(now_us)
            return
        self._stop_waiting()
        self.peer, self.sid = peer, peer.join(self)
        self._opening.set(self._limits.draft_open_us)
        self._user.assigned(peer, self.sid)

    def seek_another(self) -> None:
        """Find another draft after one was lost."""
        self._leave()
        self.seek()

    def doubt(self, reason: str) -> None:
        """The draft is suspect: change to another one if there is one that is free of doubt."""
        if self.peer is None:
            return
        avoid = self._avoidance.now(self._clock.now_us()) | {self.peer.address}
        if self._pool.choose(self._wish, self._user.model(), avoid) is not None:
            self._dismiss(reason)

    def outgrow(self) -> None:
        """The session is longer than what the draft can read: give it up for good, for another one that can."""
        if self.peer is not None:
            self._avoid(None)
            self._user.dismiss("the session has outgrown the draft's context")

    def close(self) -> None:
        """Give the draft up for good."""
        self._closed = True
        self._leave()
        self._opening.close()
        self._stop_waiting()

    def event(self, event: DraftEvent, arrived_us: int) -> None:
        """Take an event of the session."""
        match event:
            case DraftOpened():
                self._opening.clear()
                self.used += 1
                self._user.draft_opened(event)
            case Follow():
                self._user.draft_followed(event)
            case Refused():
                self._refused(event)
            case Lost():
                self._avoid(self._limits.retry_us(self._failures + 1))
                self._user.unassigned(self.sid, event.message)
            case _:
                return

    def fault(self, error: ForewordError) -> None:
        """An event could not be read: this session does without the draft."""
        self._dismiss(error.message)

    def down(self, reason: str) -> None:
        """The draft's stream ended; it is asked again as soon as it is back."""
        self._user.unassigned(self.sid, reason)

    def _refused(self, refused: Refused) -> None:
        if useless_again(refused):
            self._avoid(None)
        else:
            self._avoid((refused.retry_after_ms or RETRY_AFTER_MS) * 1000)
        self._user.unassigned(self.sid, refused.message)

    def _overdue(self) -> None:
        self._dismiss("the draft did not open in time")

    def _dismiss(self, reason: str) -> None:
        self._avoid(self._limits.retry_us(self._failures + 1))
        self._user.dismiss(reason)

    def _avoid(self, duration_us: int | None) -> None:
        """Leave the draft alone for so long, for good if None."""
        assert self.peer is not None
        self._failures += 1
        if duration_us is None:
            self._avoidance.add(self.peer.address)
        else:
            self._avoidance.add(self.peer.address, self._clock.now_us() + duration_us)

    def _wait(self, now_us: int) -> None:
        self._pool.waiting.add(self, self.seek)
        again_us = self._avoidance.next_us(peer.address for peer in self._pool.peers if peer.up)
        if now_us < again_us < float("inf"):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._clock.call_later(int(again_us - now_us) + 1, self.seek)

    def _stop_waiting(self) -> None:
        self._pool.waiting.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave(self) -> None:
        self._opening.clear()
        if self.peer is not None:
            self.peer.leave(self.sid)
            self.peer = None
