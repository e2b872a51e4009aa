"""What a row more takes in a target's step, from the points that it measured of itself."""

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
        known = sorted(times.items())
        self._rows = [rows for rows, _ in known]
        self._slopes = [
            max(0.0, (more_us - less_us) / (more - less)) for (less, less_us), (more, more_us) in pairwise(known)
        ]

    def row_us(self, rows: int) -> float:
        """Return what a row more takes in a step of so many; 0 where nothing, or one point, is known."""
        if not self._slopes:
            return 0.0
        return self._slopes[min(max(0, bisect_left(self._rows, rows) - 1), len(self._slopes) - 1)]
