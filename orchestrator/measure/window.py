"""The newest values of one measurement, with exact quantiles."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque


class Window:
    """Holds the newest `size` values; adding costs one insertion into a short sorted list."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._order: deque[int] = deque()
        self._sorted: list[int] = []

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, value: int) -> None:
        """Take a value; the oldest one goes when there are too many."""
        if len(self._order) == self._size:
            del self._sorted[bisect_left(self._sorted, self._order.popleft())]
        self._order.append(value)
        insort(self._sorted, value)

    def quantile(self, share: float) -> int | None:
        """Return the smallest value that at least `share` of the values do not exceed; None without values."""
        if not self._sorted:
            return None
        return self._sorted[max(0, math.ceil(share * len(self._sorted)) - 1)]
