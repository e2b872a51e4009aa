"""The price of a verified token: what a candidate's survival has to exceed to be worth a row of the step; pure.

A step yields a token for each of its sessions, and for every further row the survival of that candidate: the
probability that it and all before it are kept. Rows in the order of their survival make a step best until the tokens a
second fall (DESIGN.md, "Time"). The survival of the last of them is the price. It is 1 where no candidate pays, and
nothing where steps are flat in their rows, or where the target rests between them anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_LEAST = 0.01
"""Candidates that hardly survive are not looked at."""
_SETTLED = 8
_WEIGHT = 0.3
"""Of the newest price in the mean: a step time that is measured oscillates, and the price with it."""


def price(
    rates: Sequence[float], plain: int, *, most: int, step_us: Callable[[int], float], idle_us: float = 0.0
) -> float | None:
    """Return the price, from 0 to 1, of a step with `plain` sessions without drafts beside those with `rates`.

    A rate is the probability of a session's candidate to be kept if all before it were; its j-th candidate of at most
    `most` survives with rate^j. `step_us` is the measured time of a step with so many rows. None without sessions, and
    before anything is measured.
    """
    rows = len(rates) + plain
    if not rows or step_us(rows) <= 0.0:
        return None
    if not rates:
        return _slope(rows, float(rows), most=most, step_us=step_us, idle_us=idle_us)
    tokens = float(rows)
    best, last = tokens / (step_us(rows) + idle_us), 1.0
    survivals = _survivals(rates, most=most)
    for survival in survivals:
        rows, tokens = rows + 1, tokens + survival
        pace = tokens / (step_us(rows) + idle_us)
        if pace >= best:
            best, last = pace, survival
    if survivals and pace < best:
        return last
    # All pay: none of them says what a row is worth, only how much longer a step gets with more.
    return min(last, _slope(rows, tokens, most=most, step_us=step_us, idle_us=idle_us))


def _survivals(rates: Sequence[float], *, most: int) -> list[float]:
    """Return the survivals of all candidates that sessions may have, the largest first."""
    found = [rate**j for rate in rates for j in range(1, most + 1) if rate**j >= _LEAST]
    return sorted(found, reverse=True)


def _slope(rows: int, tokens: float, *, most: int, step_us: Callable[[int], float], idle_us: float) -> float:
    """Return what a further candidate would have to exceed: the tokens of the time that it adds, over a block's rows."""
    if not most:
        return 1.0
    before = step_us(rows)
    return min(1.0, max(0.0, tokens * (step_us(rows + most) - before) / (most * (before + idle_us))))


class SmoothPrice:
    """A running mean of prices."""

    def __init__(self) -> None:
        self._mean: float | None = None
        self._left = _SETTLED

    @property
    def value(self) -> float:
        """The mean; 0 before there was a price."""
        return self._mean or 0.0

    @property
    def settled(self) -> bool:
        """Whether it is the mean of some prices already; before that, whoever goes by it should hear of it soon."""
        return self._left == 0

    def add(self, latest: float | None) -> None:
        """Add one, if there is one."""
        if latest is not None:
            self._left = max(0, self._left - 1)
            self._mean = latest if self._mean is None else self._mean + _WEIGHT * (latest - self._mean)


class Idle:
    """How long a target rests between two steps, in the mean over recent ones."""

    def __init__(self, *, keep: float = 0.98) -> None:
        self._keep = keep
        self._mean: float | None = None

    @property
    def mean_us(self) -> float:
        """The mean; 0 before there were two steps."""
        return self._mean or 0.0

    def add(self, idle_us: int) -> None:
        """Add what passed between the end of a step and the start of the next."""
        self._mean = idle_us if self._mean is None else self._keep * self._mean + (1.0 - self._keep) * idle_us
