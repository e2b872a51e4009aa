"""Lines of the log that a peer can bring about as often as it likes: one in a while, which tells of those left out."""

from __future__ import annotations

import time
from collections.abc import Callable

EVERY_S = 10.0


class Seldom:
    """Says when another line is due."""

    def __init__(self, every_s: float = EVERY_S, now_s: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._now_s = now_s
        self._next_s = -float("inf")
        self._left_out = 0

    def due(self) -> int | None:
        """Return how many lines were left out since the last one, None if this one is to be left out too."""
        now_s = self._now_s()
        if now_s < self._next_s:
            self._left_out += 1
            return None
        self._next_s = now_s + self._every_s
        left_out, self._left_out = self._left_out, 0
        return left_out
