"""The clock port: durations on one machine, and timers.

Pure cores take a `Clock`, so that a simulation can drive them with `foreword.testing.virtual_clock.VirtualClock`.
Times of two machines are never subtracted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Take the callback back; without effect once it ran."""


class Clock(Protocol):
    """Monotonic time and timers of one machine."""

    def now_us(self) -> int:
        """Return microseconds since some fixed moment; never less than before."""

    def call_later(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, `delay_us` microseconds from now; a delay of 0 runs after what is running now."""


class MonotonicClock:
    """The machine's monotonic clock, with timers of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_us(self) -> int:
        """Return the machine's monotonic time."""
        return time.monotonic_ns() // 1000

    def call_later(self, delay_us: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call back on the loop; late by as much as the loop is busy, and up to 1 ms by its rounding."""
        return self._loop.call_later(delay_us / 1e6, callback)
