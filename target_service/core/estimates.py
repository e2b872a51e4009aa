"""Running estimates for the step policy: reply times, tokens a verification, step times; time comes from outside."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from statistics import median_low

from foreword.likeness import Likeness, Member
from foreword.protocol.info import CostPoint

_QUANTILE = 0.5
"""Of the replies that can still come, the share that has come when one counts as due.

The median: a late guess makes a step start without those who were about to come. Where half of all replies take 1 ms
and the others 10, a quantile of 0.9 says 10 of all.
"""
_GRACE_US, _GRACE_SHARE = 250, 32
"""What a reply may take beyond the longest one and still be about to come: that, or a share of the longest."""
_START_RATE, _START_WEIGHT = 0.7, 4.0
"""Of candidates that are kept before anything is known, and for how many that counts."""
EVERY_KEEP = 0.999
"""For the rate of all sessions: it sets the price, which nobody wants to swing."""
_SHORT_CONTEXT = 255
"""Contexts up to here count as one; longer ones fall into cells of powers of two."""
_SETTLED = 3
"""Steps of a cell before its median counts."""


class Replies:
    """The last reply times of a session: from a final Result to the block of the next round, microseconds."""

    def __init__(self, window: int = 32) -> None:
        self._recent: deque[int] = deque(maxlen=window)
        self._sorted: list[int] = []

    def add(self, reply_us: int) -> None:
        """Add one and forget the oldest beyond the window."""
        if len(self._recent) == self._recent.maxlen:
            del self._sorted[bisect_right(self._sorted, self._recent[0]) - 1]
        self._recent.append(reply_us)
        insort(self._sorted, reply_us)

    @property
    def known(self) -> bool:
        """Whether there were any."""
        return bool(self._sorted)

    def due(self, elapsed_us: int) -> int | None:
        """Return the reply time by which a block that is not here after `elapsed_us` comes in half of all cases.

        One that takes hardly longer than the longest is about to come: a window of replies that all took the same says
        nothing of the microsecond. None if no reply took nearly that long, or none is known.
        """
        passed = bisect_right(self._sorted, elapsed_us)
        left = len(self._sorted) - passed
        if left:
            return self._sorted[passed + int(left * _QUANTILE)]
        if not self._sorted:
            return None
        due_us = self._sorted[-1] + max(_GRACE_US, self._sorted[-1] // _GRACE_SHARE)
        return due_us if elapsed_us < due_us else None


class Emitted:
    """Running mean of tokens emitted per verification."""

    def __init__(self, start: float = 2.0, weight: float = 0.1) -> None:
        self.mean = start
        self._weight = weight

    def add(self, tokens: int) -> None:
        """Add one verification."""
        self.mean += self._weight * (tokens - self.mean)


class Acceptance:
    """Running estimate of the probability that a candidate is kept if all before it were.

    What comes after the first refusal says nothing and is not counted. Sessions lean on what all of them have shown, by
    how alike they are; each verification fades those before it.
    """

    def __init__(self, every: Acceptance | None = None, *, keep: float = 0.98) -> None:
        self._every = every
        self._likeness = Likeness()
        self._member = None if every is None else Member(every._likeness)
        self._kept = self._tried = 0.0
        self._keep = keep

    @property
    def rate(self) -> float:
        """The estimate."""
        known, before = _START_WEIGHT, _START_RATE
        if self._every is not None:
            before = self._every.rate
            known = self._every._likeness.weight(before)
        return (self._kept + known * before) / (self._tried + known)

    def add(self, kept: int, offered: int) -> None:
        """Add one verification."""
        tried = kept + (kept < offered)
        self._kept = self._keep * self._kept + kept
        self._tried = self._keep * self._tried + tried
        if self._every is not None and self._member is not None:
            self._member.add(kept, tried, self._every.rate)
            self._every.add(kept, offered)


class StepTimes:
    """Running medians of step times: by rows for the target's own decisions, by rows and context as its cost curve.

    Rows fall into four cells an octave: steps are flat up to a number of rows and grow behind it, and what a row costs
    depends on where that is. Between medians the curve is interpolated, below them it is level, beyond them it goes on
    with the mean slope of all. Step times grow faster with more rows, so that this is a low guess on purpose:
    a step larger than any before is tried, and measured; a high guess would never be found wrong. For the same
    reason a cell counts from its third step on: a first one may be slow for reasons of its own.
    """

    def __init__(self, window: int = 33) -> None:
        self._window = window
        self._times: dict[int, deque[tuple[int, int, int]]] = {}
        self._by_context: dict[tuple[int, int], deque[tuple[int, int, int]]] = {}
        self._points: list[CostPoint] = []
        self._settled: list[CostPoint] = []

    def add(self, rows: int, context: int, *, step_us: int) -> None:
        """Add a step of `rows` rows at a mean context of `context` tokens."""
        cell = _cell(rows)
        times = self._times.setdefault(cell, deque(maxlen=self._window))
        times.append((step_us, rows, context))
        both = cell, max(_SHORT_CONTEXT, context).bit_length()
        self._by_context.setdefault(both, deque(maxlen=self._window)).append((step_us, rows, context))
        point = _point(times)
        kept = [p for p in self._points if _cell(p.rows) != cell]
        self._points = sorted([*kept, point], key=lambda p: p.rows)
        self._settled = [p for p in self._points if len(self._times[_cell(p.rows)]) >= _SETTLED]

    def curve(self) -> tuple[CostPoint, ...]:
        """Return one measured point for each cell of rows and context, by rows and then by context."""
        return tuple(_point(self._by_context[cell]) for cell in sorted(self._by_context))

    def step_us(self, rows: int) -> float:
        """Return the expected time of a step with so many rows, in microseconds; 0 while nothing is known."""
        points = self._settled or self._points
        if not points:
            return 0.0
        after = next((i for i, p in enumerate(points) if p.rows >= rows), None)
        if after is None:
            return _beyond(points, rows)
        if after == 0:
            return float(points[0].step_us)
        low, high = points[after - 1], points[after]
        share = (rows - low.rows) / (high.rows - low.rows)
        return low.step_us + share * (high.step_us - low.step_us)


def _cell(rows: int) -> int:
    """Return the cell of a number of rows: those from 1 to 8 have their own, 9 to 10 the next, then 11 to 12."""
    shift = max(0, (rows - 1).bit_length() - 3)
    return (shift << 3) + ((rows - 1) >> shift)


def _beyond(points: list[CostPoint], rows: int) -> float:
    first, last = points[0], points[-1]
    if first is last:
        return float(last.step_us)
    slope = (last.step_us - first.step_us) / (last.rows - first.rows)
    return last.step_us + max(0.0, slope) * (rows - last.rows)


def _point(times: deque[tuple[int, int, int]]) -> CostPoint:
    step_us, rows, context = median_low(times)
    return CostPoint(rows=rows, context=context, step_us=step_us)
