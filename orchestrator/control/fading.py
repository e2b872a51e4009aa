"""Quantiles of the newest values, of which older ones count less."""

from __future__ import annotations

from collections import deque


class Fading:
    """Weighs the newest value 1, the one before `fade`, and so on; a quantile of that stands firm against outliers."""

    def __init__(self, *, fade: float = 0.9, size: int = 16) -> None:
        self._values: deque[float] = deque(maxlen=size)
        self._fade = fade
        self._median: float | None = None

    def __len__(self) -> int:
        return len(self._values)

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()
        self._median = None

    def add(self, value: float) -> None:
        """Take a value."""
        self._values.append(value)
        self._median = None

    @property
    def median(self) -> float | None:
        """The value that half of the weight does not exceed; None without values."""
        if self._median is None:
            self._median = self.quantile(0.5)
        return self._median

    def quantile(self, share: float) -> float | None:
        """Return the smallest value that at least `share` of the weight does not exceed; None without values."""
        if not self._values:
            return None
        weight, weighed = 1.0, []
        for value in reversed(self._values):
            weighed.append((value, weight))
            weight *= self._fade
        left = share * sum(weight for _, weight in weighed)
        for value, weight in sorted(weighed):
            left -= weight
            if left <= 1e-9:
                return value
        return max(self._values)
