"""Work that can wait until what was queued on the links is on its way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from foreword.clock import Clock


class Afterwards:
    """Calls back after what runs now, all sessions of one frame by one timer.

    Links write in a task that what is queued wakes; a timer of no delay runs behind it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._callbacks: deque[Callable[[], None]] = deque()

    def call(self, callback: Callable[[], None]) -> None:
        """Call back soon, in order."""
        if not self._callbacks:
            self._clock.call_later(0, self._run)
        self._callbacks.append(callback)

    def _run(self) -> None:
        callbacks, self._callbacks = self._callbacks, deque()
        while callbacks:
            callback = callbacks.popleft()
            try:
                callback()
            except BaseException:
                for rest in callbacks:  # one session's failure is not the others'
                    self.call(rest)
                raise
