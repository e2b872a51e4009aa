"""What rows take in a target's step: as it measured of itself when it started, and as its steps have shown since."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from math import exp, log

from foreword.protocol.info import CostPoint

_SLOWEST_LEARNING = 0.05
"""Of a difference, how much a point takes over once it was seen often; the first times it takes over more."""
_PACE = 0.15
"""How fast the pace of all steps is followed: a machine is slower for a while, a context grows."""
_BEYOND = 2
"""Times the largest size that was measured: steps of more are of a prompt that is read, and tell little of blocks."""
_FARTHEST = 1.0
"""Largest difference that is believed at once, in e-folds: one step may be slow for reasons of its own."""


class StepCurve:
    """Straight between the points of the shortest contexts, and beyond the last as between the last two.

    A target measures itself while others start beside it, with a few steps of each size: what it says may be off by
    several times, for one size more than for another, and an error in the difference of two sizes is an error in what
    a session's own rows take. So every step moves the points around its rows, after it has been divided by the pace of
    the steps before it: only how sizes differ is learned, not how busy a machine is.
    """

    def __init__(self, points: Iterable[CostPoint] = ()) -> None:
        times: dict[int, int] = {}
        for point in sorted(points, key=lambda point: (point.rows, point.context)):
            times.setdefault(point.rows, point.step_us)
        self._rows = sorted(times)
        self._points_us = [float(max(1, times[rows])) for rows in self._rows]
        self._seen = [0.0] * len(self._rows)
        self._pace: float | None = None

    def took(self, rows: int, step_us: int) -> None:
        """Learn from a step of so many rows."""
        if len(self._rows) < 2 or step_us < 1 or not 0 < rows <= _BEYOND * self._rows[-1]:
            return
        at, share = self._place(rows)
        off = log(step_us / self._step_us(rows))
        if self._pace is None:
            self._pace = off
        beyond = max(-_FARTHEST, min(_FARTHEST, off - self._pace))
        share = min(1.0, max(0.0, share))  # what is outside moves the point next to it
        for number, weight in ((at, 1.0 - share), (at + 1, share)):
            if weight > 0.0:
                self._seen[number] += weight
                rate = max(_SLOWEST_LEARNING, 1.0 / (1.0 + self._seen[number]))
                self._points_us[number] *= exp(rate * weight * beyond)
        self._pace += _PACE * beyond

    def added_us(self, rows: int, added: int) -> float:
        """Return what the last `added` of so many rows take in a step; 0 where nothing, or one point, is known."""
        if len(self._rows) < 2 or added <= 0:
            return 0.0
        pace = exp(self._pace) if self._pace is not None else 1.0
        return pace * max(0.0, self._step_us(rows) - self._step_us(rows - added))

    def _place(self, rows: int) -> tuple[int, float]:
        """Return the point before so many rows, and their share of the way to the next one: over 1 beyond the last."""
        at = min(max(0, bisect_left(self._rows, rows) - 1), len(self._rows) - 2)
        return at, (rows - self._rows[at]) / (self._rows[at + 1] - self._rows[at])

    def _step_us(self, rows: int) -> float:
        """Return what a step takes at the pace of the first ones."""
        at, share = self._place(rows)
        return max(1.0, self._points_us[at] + share * (self._points_us[at + 1] - self._points_us[at]))
