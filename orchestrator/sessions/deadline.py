"""A moment that is moved often and passed seldom."""

from __future__ import annotations

from collections.abc import Callable

from foreword.clock import Clock, Timer


class Deadline:
    """Calls back when its moment has passed; moving it to a later one costs no timer."""

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._callback = callback
        self._due_us: int | None = None
        self._timer: Timer | None = None
        self._timer_us = 0

    def set(self, delay_us: int) -> None:
        """Move the moment to `delay_us` from now."""
        now_us = self._clock.now_us()
        self._due_us = now_us + delay_us
        if self._timer is not None and self._timer_us > self._due_us:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._arm(now_us)

    def clear(self) -> None:
        """Have no moment."""
        self._due_us = None

    def close(self) -> None:
        """Have no moment ever again, and keep no timer."""
        self._due_us = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, now_us: int) -> None:
        assert self._due_us is not None
        self._timer_us = self._due_us
        self._timer = self._clock.call_later(self._due_us - now_us, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._due_us is None:
            return
        now_us = self._clock.now_us()
        if now_us < self._due_us:
            self._arm(now_us)
            return
        self._due_us = None
        self._callback()
