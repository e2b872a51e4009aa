"""The price of a verified token: what a candidate's survival has to exceed to be worth a row of the step; pure.

A step yields a token for each of its sessions, and for every further row the survival of that candidate: the
probability that it and all before it are kept. Rows in the order of their survival make a step best until the tokens a
second fall (architecture.md). What a row costs there is the time that it adds, in tokens of all sessions. Where that
changes at the best step itself, as at the last row that costs nothing, it lies so between the last candidate that is
admitted and the first that is refused that sessions which also reckon with their drafting time draw the same line
(docs/decisions/0017-gamma.md). It is nothing where steps are flat, and where the target rests between them anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_LEAST = 0.01
"""Candidates that hardly survive are not looked at."""
_LOOKED_AT = 512
"""Of more candidates every second or third is looked at: with many sessions they lie close together."""
_SETTLED = 8
_WEIGHT = 0.3
"""Of the newest price in the mean: a step time that is measured oscillates, and the price with it."""
_JUMP = 0.4
"""By how much more a price is another one, of other sessions: the mean begins anew."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What a step of so many rows takes, and what passes until the next one; microseconds."""

    step_us: Callable[[int], float]
    """As measured; 0 before anything is."""
    idle_us: float = 0.0
    """Between two steps, whatever is drafted: network, and waiting for sessions."""
    candidate_us: float = 0.0
    """More for each candidate of the longest block: a step waits while it is drafted."""

    def cycle_us(self, rows: int, depth: int) -> float:
        """Return the time from the start of a step to that of the next."""
        return self.step_us(rows) + self.idle_us + self.candidate_us * depth


def price(rates: Sequence[float], plain: int, *, most: int, steps: Steps) -> float | None:
    """Return the price, from 0 to 1, of a step with `plain` sessions without drafts beside those with `rates`.

    A rate is the probability of a session's candidate to be kept if all before it were; its j-th candidate of at most
    `most` survives with rate^j. None without sessions, and before anything is measured.
    """
    rows = len(rates) + plain
    if not rows or steps.step_us(rows) <= 0.0:
        return None
    best = _Best(rows, rows, float(rows), rows / steps.cycle_us(rows, 0))
    tokens, deepest, first_refused = best.tokens, 0, None
    found = _candidates(rates, most=most)
    every = -(-len(found) // _LOOKED_AT)
    for number, (survival, depth) in enumerate(found, start=1):
        tokens, deepest = tokens + survival, max(deepest, depth)
        if number % every:
            continue
        pace = tokens / steps.cycle_us(rows + number, deepest)
        if pace >= best.pace:
            best, first_refused = _Best(rows + number, rows, tokens, pace, survival), None
        elif first_refused is None:
            first_refused = survival
    low, high = _slopes(best, len(rates) or rows, steps)
    if not rates:  # nobody has candidates: what it would cost if each began to
        return min(1.0, high)
    found_price = low
    if first_refused is not None:
        drafting = steps.candidate_us * best.pace / rows
        found_price = max(low, min(high, (best.last + first_refused) / 2.0 - drafting))
    return min(1.0, found_price / (1.0 - _drafting_share(best, len(rates), steps)))


@dataclass(frozen=True, slots=True)
class _Best:
    """The step with most tokens a second."""

    rows: int
    plain: int
    """Rows that are there without any candidates."""
    tokens: float
    pace: float
    last: float = 1.0
    """Survival of the last candidate that it admits."""


def _candidates(rates: Sequence[float], *, most: int) -> list[tuple[float, int]]:
    """Return survival and place of all candidates that sessions may have, the largest survival first."""
    found = [(rate**j, j) for rate in rates for j in range(1, most + 1) if rate**j >= _LEAST]
    return sorted(found, reverse=True)


def _slopes(best: _Best, some: int, steps: Steps) -> tuple[float, float]:
    """Return what a row takes of the best step's tokens by the time that it adds, over some rows less and more."""
    here_us = steps.step_us(best.rows)
    less = max(0.0, here_us - steps.step_us(max(1, best.rows - some))) / some
    more = max(0.0, steps.step_us(best.rows + some) - here_us) / some
    return min(less, more) * best.pace, max(less, more) * best.pace


def _drafting_share(best: _Best, drafted: int, steps: Steps) -> float:
    """Return the share of the best cycle in which a session's candidates are drafted.

    A session reckons its drafting time at what is left of its tokens when its rows are paid for, which is less than
    what it yields; a candidate that is not worth its time would pass by the difference, so the price has that too.
    """
    candidates = (best.rows - best.plain) / drafted if drafted else 0.0
    return min(0.9, steps.candidate_us * candidates * best.pace / best.tokens)


class SmoothPrice:
    """A running mean of prices since the last time that it jumped.

    Sessions come together, or begin with drafts together, and what a row costs them then is nothing like before: a mean
    that crept there had sixteen of them take blocks for six seconds that were not worth their rows.
    """

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
        if latest is None:
            return
        if self._mean is None or (self.settled and abs(latest - self._mean) > _JUMP):
            self._mean, self._left = latest, _SETTLED
        else:
            self._mean += _WEIGHT * (latest - self._mean)
        self._left = max(0, self._left - 1)


class Rest:
    """How long a target rests between two steps: means over recent ones, drafting apart from the rest of it."""

    def __init__(self, *, keep: float = 0.98) -> None:
        self._keep = keep
        self._idle_us: float | None = None
        self._candidate_us: float | None = None

    @property
    def idle_us(self) -> float:
        """What passes whatever is drafted; 0 before there were two steps."""
        return self._idle_us or 0.0

    @property
    def candidate_us(self) -> float:
        """What a further candidate of the longest block adds; 0 where steps follow each other anyway."""
        return self._candidate_us or 0.0

    def add(self, rest_us: int, *, longest: int, drafting_us: int) -> None:
        """Add what passed before a step whose longest block has so many candidates, drafted in so much time."""
        drafting_us = min(rest_us, drafting_us)
        self._idle_us = self._mixed(self._idle_us, rest_us - drafting_us)
        if longest:
            self._candidate_us = self._mixed(self._candidate_us, drafting_us / longest)

    def _mixed(self, mean: float | None, value: float) -> float:
        return value if mean is None else self._keep * mean + (1.0 - self._keep) * value
