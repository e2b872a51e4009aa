"""Deterministic virtual time: a queue of events that runs as fast as the processor allows."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from enum import Enum


class Ties(Enum):
    """Order of events that are due at the same microsecond."""

    INSERTION = "insertion"
    """As they were scheduled."""
    SHUFFLED = "shuffled"
    """In an order drawn from the seed, to walk through races."""


class VirtualTimer:
    """An event of a VirtualClock."""

    __slots__ = ("_callback", "_clock", "when_us")

    def __init__(self, clock: VirtualClock, when_us: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback: Callable[[], None] | None = callback
        self.when_us = when_us

    @property
    def waiting(self) -> bool:
        """Whether the event has neither run nor been cancelled."""
        return self._callback is not None

    def cancel(self) -> None:
        """Take the event back; without effect once it ran."""
        if self._callback is not None:
            self._callback = None
            self._clock._waiting -= 1

    def _run(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            self._clock._waiting -= 1
            callback()


class VirtualClock:
    """Implements `foreword.clock.Clock`; the same seed and the same calls give the same run.

    Not for several threads. What a callback raises comes out of the method that ran it; the event counts as done.
    """

    def __init__(self, *, start_us: int = 0, ties: Ties = Ties.INSERTION, seed: int = 0) -> None:
        self._now_us = start_us
        self._queue: list[tuple[int, float, int, VirtualTimer]] = []
        self._scheduled = 0
        self._waiting = 0
        self._ties = ties
        self._tie_order = random.Random(f"ties {seed}")
        self.random = random.Random(seed)
        """The simulation's own random numbers, apart from those that break ties."""

    def now_us(self) -> int:
        """Return virtual time; it stands still while a callback runs."""
        return self._now_us

    @property
    def waiting(self) -> int:
        """How many events are neither done nor cancelled."""
        return self._waiting

    def call_later(self, delay_us: int, callback: Callable[[], None]) -> VirtualTimer:
        """Schedule `callback` for `delay_us` from now; a negative delay counts as 0."""
        return self.call_at(self._now_us + max(0, delay_us), callback)

    def call_at(self, when_us: int, callback: Callable[[], None]) -> VirtualTimer:
        """Schedule `callback` for a moment; one that is past counts as now."""
        timer = VirtualTimer(self, max(when_us, self._now_us), callback)
        order = self._tie_order.random() if self._ties is Ties.SHUFFLED else 0.0
        self._scheduled += 1
        heapq.heappush(self._queue, (timer.when_us, order, self._scheduled, timer))
        self._waiting += 1
        return timer

    def next_us(self) -> int | None:
        """Return when the next event is due; None without one."""
        while self._queue and not self._queue[0][-1].waiting:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def step(self) -> bool:
        """Go to the next event and run it; return whether there was one."""
        when_us = self.next_us()
        if when_us is None:
            return False
        self._now_us = when_us
        heapq.heappop(self._queue)[-1]._run()
        return True

    def run_until(self, when_us: int) -> int:
        """Run everything due up to and including `when_us`, go there, and return how many events ran."""
        events = 0
        while (due_us := self.next_us()) is not None and due_us <= when_us:
            self.step()
            events += 1
        self._now_us = max(self._now_us, when_us)
        return events

    def run_for(self, duration_us: int) -> int:
        """Run everything due within `duration_us` from now, and return how many events ran."""
        return self.run_until(self._now_us + duration_us)

    def run(self, limit: int = 1_000_000) -> int:
        """Run until nothing waits, and return how many events ran; RuntimeError after `limit` of them."""
        events = 0
        while self.step():
            events += 1
            if events >= limit and self.next_us() is not None:
                raise RuntimeError(f"virtual clock: {events} events ran and {self._waiting} still wait")
        return events
