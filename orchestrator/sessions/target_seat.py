"""A session's place at a target: found, kept, given up, found again, until a budget is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from foreword.clock import Clock, Timer
from foreword.errors import ForewordError, Unavailable
from foreword.protocol.messages import Lost, Refused, Result, TargetEvent, TargetOpened, TargetScored, Tokens
from foreword.protocol.words import LossCode, RefusalCode
from orchestrator.core.state import Request
from orchestrator.pools.avoidance import Avoidance
from orchestrator.pools.prefixes import Beginning, Beginnings
from orchestrator.pools.targets import TargetPeer, TargetPool
from orchestrator.sessions.limits import SessionLimits
from orchestrator.sessions.refusals import RETRY_AFTER_MS, error_of_loss, error_of_refusal, useless_again

LAW_FAILURES = 2
"""Times behind the same token that no law can be computed before the request fails: one target alone may be broken."""


class TargetUser(Protocol):
    """The session behind the seat."""

    def tokens(self) -> Tokens:
        """Return the committed tokens, which only grow."""

    def seated(self, peer: TargetPeer, sid: int) -> None:
        """Open the session there."""

    def scored(self, message: TargetScored) -> None:
        """Take log-probabilities of the prompt."""

    def opened(self, message: TargetOpened) -> None:
        """Go on: the target has the prompt."""

    def answered(self, result: Result, arrived_us: int) -> None:
        """Go on with a Result."""

    def unseated(self, reason: str, *, close: bool) -> None:
        """The session is over at its target; `close` if the target does not know."""

    def fail(self, error: ForewordError) -> None:
        """End the session with this error."""


class TargetSeat:
    """Opens on the best target by load and beginning, elsewhere after a refusal or a loss, until time is up.

    Time is counted from the last token, so that a session that makes progress may lose any number of targets.
    """

    def __init__(
        self, user: TargetUser, pool: TargetPool, request: Request, *, clock: Clock, limits: SessionLimits
    ) -> None:
        self._user = user
        self._pool = pool
        self._law = request.law
        self._beginnings = Beginnings(request.cache_salt)
        self._clock = clock
        self._limits = limits
        self._avoidance = Avoidance()
        self._error: ForewordError | None = None
        self._full: dict[str, ForewordError] = {}
        """By address: what was said by targets that had no room, and none in line for it, when they were last asked."""
        self._failures = 0
        self._law_failures = 0
        self._since_us: int | None = None
        """Since when there is no progress."""
        self._timer: Timer | None = None
        self._queued = False
        """Whether it stands in the pool's queue of re-opens."""
        self._paced = False
        """Whether it is one of the re-opens that are unanswered."""
        self._closed = False
        self.peer: TargetPeer | None = None
        self.sid = 0
        self.used = 0
        """How many targets have been asked and have opened."""

    @property
    def lawless(self) -> bool:
        """Whether no token has come since a target could not compute the law of this session."""
        return self._law_failures > 0

    def seek(self) -> None:
        """Ask a target for a place now, or as soon as one is there."""
        if self._closed or self.peer is not None:
            return
        now_us = self._clock.now_us()
        if self._since_us is None:
            self._since_us = now_us
        elif self._left_us(now_us) <= 0:
            self._user.fail(self._failure)
            return
        known = self._known()
        peer = self._pool.choose(self._avoidance.now(now_us), known)
        if peer is None:
            self._wait(now_us)
            return
        self._pool.sent(peer, known)
        self._stop_waiting()
        self.peer, self.sid = peer, peer.join(self)
        self._user.seated(peer, self.sid)

    def seek_again(self) -> None:
        """Find a place after one was lost or refused: not at once, and not all sessions at the same time."""
        self._leave()
        if self._law_failures >= LAW_FAILURES:
            self._user.fail(self._failure)
            return
        now_us = self._clock.now_us()
        if self._since_us is None:
            self._since_us = now_us
        self._failures += 1
        delay_us = self._limits.retry_us(self._failures - 1) if self._failures > 1 else 0
        self._later(min(delay_us, self._left_us(now_us)), self._enter)

    def close(self) -> None:
        """Give the place up for good."""
        self._closed = True
        if self.peer is not None:
            self._pool.sent(self.peer, self._known())  # a conversation that goes on begins with its last answer
        self._leave()
        self._stop_waiting()

    def event(self, event: TargetEvent, arrived_us: int) -> None:
        """Take an event of the session."""
        match event:
            case Result():
                self._since_us, self._failures, self._law_failures = None, 0, 0
                self._user.answered(event, arrived_us)
            case TargetOpened():
                self._unpace()
                self.used += 1
                self._user.opened(event)
            case TargetScored():
                self._user.scored(event)
            case Refused():
                self._refused(event)
            case Lost():
                self._lost(event)
            case _:
                return

    def fault(self, error: ForewordError) -> None:
        """An event could not be read: the session is given up here, nobody else's."""
        self._error = error
        self._user.unseated(error.message, close=True)

    def down(self, reason: str) -> None:
        """The target's stream ended."""
        address = self.peer.address if self.peer is not None else "unknown"
        self._error = Unavailable(f"target {address}: {reason}")
        self._user.unseated(reason, close=False)

    def overdue(self, what: str) -> None:
        """The target is stuck with this session."""
        assert self.peer is not None
        self._error = Unavailable(f"target {self.peer.address}: {what}")
        self._avoidance.add(self.peer.address, self._clock.now_us() + self._limits.last_retry_us)
        self._user.unseated(what, close=True)

    @property
    def _failure(self) -> ForewordError:
        """What the session fails with: what a target said, or that there was none."""
        return self._error or Unavailable(f"target: got none that is up{self._pool.troubles}, wanted one")

    def _refused(self, refused: Refused) -> None:
        assert self.peer is not None
        self._error = error_of_refusal(refused, self.peer.address)
        if refused.code is RefusalCode.TOO_LONG and self.used:  # it did fit where it was: no fault of the prompt
            self._error = Unavailable(f"target {self.peer.address}: {refused.message}")
        self._full.pop(self.peer.address, None)
        if refused.code is RefusalCode.FULL:
            self._full[self.peer.address] = self._error
        if useless_again(refused):
            self._avoidance.add(self.peer.address)
        else:
            after_us = (refused.retry_after_ms or RETRY_AFTER_MS) * 1000
            self._avoidance.add(self.peer.address, self._clock.now_us() + after_us)
        self._user.unseated(refused.message, close=False)

    def _lost(self, lost: Lost) -> None:
        assert self.peer is not None
        self._error = error_of_loss(lost, self.peer.address, self._law)
        after_us = self._limits.retry_us(self._failures + 1)
        if lost.code is LossCode.DEAD_END:  # no other target knows better
            self._law_failures = LAW_FAILURES
        if lost.code is LossCode.LAW:
            self._law_failures += 1
            others = (peer.address for peer in self._pool.peers if peer.up and peer is not self.peer)
            if self._avoidance.next_us(others) < math.inf:
                after_us = self._limits.last_retry_us  # the next word is another's, however long the queue of re-opens
        self._avoidance.add(self.peer.address, self._clock.now_us() + after_us)
        self._user.unseated(lost.message, close=False)

    def _known(self) -> Sequence[Beginning]:
        return self._beginnings.of(self._user.tokens()) if self._pool.by_prefix else ()

    def _wait(self, now_us: int) -> None:
        """No target can be asked now: wait for one to come up or to be asked again, and fail when time is up."""
        self._unpace()
        up = [peer.address for peer in self._pool.peers if peer.up]
        again_us = self._avoidance.next_us(up)
        if again_us == math.inf and up and not (self.used and self._one_may_return()):
            self._user.fail(self._failure)  # all that could be asked have refused it for good
            return
        full = self._all_full()
        if full is not None:
            self._user.fail(full)
            return
        self._pool.waiting.add(self, self._enter)
        self._later(int(min(self._left_us(now_us), again_us - now_us)), self._enter)

    def _one_may_return(self) -> bool:
        """Whether a target is known that is down and has not refused this session for good."""
        return self._avoidance.next_us(peer.address for peer in self._pool.peers if not peer.up) < math.inf

    def _all_full(self) -> ForewordError | None:
        """Return what to tell a session that has not been anywhere yet if every target has turned it away.

        Targets have lines to wait in. Waiting here for a place in one would be a second line, without an order and
        without a bound, whose end the client learns when its patience is over; told at once, it can go elsewhere. A
        session that has been served is another matter: it keeps looking, for its work would be lost.
        """
        staying = [peer.address for peer in self._pool.peers if peer.up and not peer.leaving]
        if self.used or not staying or not all(address in self._full for address in staying):
            return None
        return min((self._full[address] for address in staying), key=lambda error: error.retry_after_ms or 0)

    def _left_us(self, now_us: int) -> int:
        """Return how much of the time without progress is left."""
        return self._limits.target_us if self._since_us is None else self._since_us + self._limits.target_us - now_us

    def _stop_waiting(self) -> None:
        self._pool.waiting.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _enter(self) -> None:
        """Seek a place in turn with the other sessions that lost theirs."""
        if not self._queued and not self._paced:
            self._queued = True
            self._pool.pace.enter(self._paced_seek)

    def _paced_seek(self) -> None:
        self._queued, self._paced = False, True
        if self._closed or self.peer is not None:
            self._unpace()
            return
        self.seek()

    def _unpace(self) -> None:
        if self._paced:
            self._paced = False
            self._pool.pace.leave()

    def _later(self, delay_us: int, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_us, callback)

    def _leave(self) -> None:
        self._unpace()
        if self.peer is not None:
            self.peer.leave(self.sid)
            self.peer = None
