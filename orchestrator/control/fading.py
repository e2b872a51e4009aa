"""Quantiles of the newest values, of which older ones count less."""

from __future__ import annotations

from collections import deque

_TELLING, _TAIL_FADE = 16.0, 0.98
_FARTHEST = 4.0


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


class Tail:
    """By how much values lie above the median of those around them, in the mean: what throughput sees and medians hide.

    What is beyond some medians counts as that much: a machine that slept tells nothing.
    """

    def __init__(self) -> None:
        self._sum = self._weights = 0.0

    @property
    def known(self) -> bool:
        """Whether there were enough values."""
        return self._weights > _TELLING

    @property
    def factor(self) -> float:
        """The mean over the median; 1 without values."""
        return self._sum / self._weights if self._weights else 1.0

    def add(self, value: float, median: float | None) -> None:
        """Take a value that came among some with this median."""
        if median:
            self._sum = _TAIL_FADE * self._sum + min(_FARTHEST, value / median)
            self._weights = _TAIL_FADE * self._weights + 1.0

    def clear(self) -> None:
        """Forget all values."""
        self._sum = self._weights = 0.0
