"""Counters and histograms that cost a fraction of a microsecond, read when metrics are scraped.

A round touches some twenty of them for every session; the client library's own take a lock each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class Tally:
    """A histogram: values up to each bound, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.total = 0.0
        """Sum of the values."""

    def add(self, value: float) -> None:
        """Take a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return (bound, how many values do not exceed it), as Prometheus writes them."""
        bounds = [*map(str, map(float, self._bounds)), "+Inf"]
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self._counts), strict=True)]
