"""What rows take in a target's step, from the points that it measured of itself."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise

from foreword.protocol.info import CostPoint


class StepCurve:
    """Straight between the points of the shortest contexts, and beyond the last as between the last two."""

    def __init__(self, points: Iterable[CostPoint] = ()) -> None:
        times: dict[int, int] = {}
        for point in sorted(points, key=lambda point: (point.rows, point.context)):
            times.setdefault(point.rows, point.step_us)
        self._known = sorted(times.items())
        self._rows = [rows for rows, _ in self._known]
        self._slopes = [
            max(0.0, (more_us - less_us) / (more - less)) for (less, less_us), (more, more_us) in pairwise(self._known)
        ]

    def added_us(self, rows: int, added: int) -> float:
        """Return what the last `added` of so many rows take in a step; 0 where nothing, or one point, is known."""
        return max(0.0, self._step_us(rows) - self._step_us(rows - added)) if self._slopes else 0.0

    def _step_us(self, rows: int) -> float:
        piece = min(max(0, bisect_left(self._rows, rows) - 1), len(self._slopes) - 1)
        from_rows, from_us = self._known[piece]
        return from_us + self._slopes[piece] * (rows - from_rows)
