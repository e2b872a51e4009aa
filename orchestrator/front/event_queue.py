"""Events of one request between its sessions and its client: bounded by asking the sessions to pause."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from foreword.errors import ForewordError
from foreword.protocol.generation import Delta, Event


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Output tokens that may wait for a client."""

    full: int = 512
    """From here on the sessions pause; what is under way still comes."""
    drained: int = 128
    """Down to here they go on."""


class EventQueue:
    """One writer side that never blocks, one reader; `on_full` and `on_drained` are called alternately."""

    def __init__(self, limits: QueueLimits, *, on_full: Callable[[], None], on_drained: Callable[[], None]) -> None:
        self._limits = limits
        self._on_full = on_full
        self._on_drained = on_drained
        self._events: deque[Event] = deque()
        self._error: ForewordError | None = None
        self._full = False
        self._waker: asyncio.Future[None] | None = None
        self.tokens = 0
        """Output tokens that wait."""

    def put(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, Delta):
            self.tokens += len(event.ids)
        self._events.append(event)
        self._wake()
        if not self._full and self.tokens >= self._limits.full:
            self._full = True
            self._on_full()

    def fail(self, error: ForewordError) -> None:
        """End the stream with an error after the events that wait; the first error counts."""
        self._error = self._error or error
        self._wake()

    async def get(self) -> Event:
        """Return the next event; raises the error when nothing stands before it."""
        while not self._events:
            if self._error is not None:
                raise self._error
            self._waker = asyncio.get_running_loop().create_future()
            await self._waker
        event = self._events.popleft()
        if isinstance(event, Delta):
            self.tokens -= len(event.ids)
        if self._full and self.tokens <= self._limits.drained:
            self._full = False
            self._on_drained()
        return event

    def _wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)
