"""Messages in flight: each arrives after what its way takes when it is sent, never before the one in front of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from foreword.testing.virtual_clock import VirtualClock


class Wire:
    """One direction between two services."""

    def __init__(self, clock: VirtualClock, delay_us: Callable[[int], int]) -> None:
        self._clock = clock
        self._delay_us = delay_us
        self._last_us = 0
        self._flying: deque[tuple[int, Callable[[], None]]] = deque()

    def send(self, deliver: Callable[[], None]) -> None:
        """Call `deliver` at the other end; what arrives at the same moment comes by one event."""
        now_us = self._clock.now_us()
        self._last_us = max(self._last_us, now_us + self._delay_us(now_us))
        alone = not self._flying or self._flying[-1][0] != self._last_us
        self._flying.append((self._last_us, deliver))
        if alone:
            self._clock.call_at(self._last_us, self._arrived)

    def _arrived(self) -> None:
        now_us = self._clock.now_us()
        while self._flying and self._flying[0][0] <= now_us:
            self._flying.popleft()[1]()
