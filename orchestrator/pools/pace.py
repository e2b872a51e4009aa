"""How many sessions re-open at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Pace:
    """Lets a number of re-opens be unanswered at once; when a stream ends, all its sessions come at the same time."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._running = 0
        self._queue: deque[Callable[[], None]] = deque()
        self._starting = False

    def enter(self, start: Callable[[], None]) -> None:
        """Call `start` when there is room, perhaps at once; every start needs one `leave`."""
        self._queue.append(start)
        self._next()

    def leave(self) -> None:
        """Give the room to the next."""
        self._running -= 1
        self._next()

    def _next(self) -> None:
        if self._starting:
            return  # a start that gave its room back at once: the loop below goes on, however many do so
        self._starting = True
        try:
            while self._queue and self._running < self._at_once:
                self._running += 1
                self._queue.popleft()()
        finally:
            self._starting = False
