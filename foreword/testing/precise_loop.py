"""An event loop whose timers are late by some 0.1 ms instead of up to 1 ms."""

from __future__ import annotations

import asyncio
import select
import selectors
import sys

if sys.platform == "linux":

    class _PreciseSelector(selectors.EpollSelector):
        """Waits by select(2) on the epoll descriptor: epoll_wait(2) knows whole milliseconds only, rounded up."""

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is not None and timeout > 0.0:
                select.select([self.fileno()], [], [], timeout)
                timeout = 0.0
            return super().select(timeout)

else:
    _PreciseSelector = selectors.DefaultSelector


def new_precise_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop for a thread of its own."""
    return asyncio.SelectorEventLoop(_PreciseSelector())
