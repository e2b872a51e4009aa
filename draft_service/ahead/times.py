"""How long a drafting pass takes by its number of rows: measured at start-up, and by every pass since."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from foreword.protocol.info import CostPoint

_NEWEST = 0.2
"""Share of the newest pass in a running mean."""


class PassTimes:
    """Running means for rows of 1, 2, 4, 8, … and what lies between them; ns."""

    def __init__(self, known: Iterable[CostPoint] = ()) -> None:
        self._means: dict[int, float] = {_bucket(point.rows): 1000.0 * point.step_us for point in known}
        self._sizes = sorted(self._means)

    def note(self, rows: int, took_ns: int) -> None:
        """Take note of a pass of one row a session."""
        size = _bucket(rows)
        if size not in self._means:
            self._means[size] = float(took_ns)
            self._sizes = sorted(self._means)
            return
        self._means[size] += _NEWEST * (took_ns - self._means[size])

    def of(self, rows: int) -> float:
        """Return how long a pass takes: on the line through the two sizes around it, or through the last two.

        0 where nothing is known.
        """
        sizes, means = self._sizes, self._means
        if len(sizes) < 2 or rows <= sizes[0]:
            return means[sizes[0]] if sizes else 0.0
        at = min(bisect_left(sizes, rows), len(sizes) - 1)
        low, high = sizes[at - 1], sizes[at]
        rise = (means[high] - means[low]) / (high - low)
        return means[low] + rise * (rows - low) if rows <= high else means[high] + max(0.0, rise) * (rows - high)


def _bucket(rows: int) -> int:
    """Return the power of two that is next to `rows` from above."""
    return 1 << max(0, rows - 1).bit_length()
