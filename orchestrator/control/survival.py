"""What becomes of the candidates of a block, place by place; learned from verdicts, pure.

A place counts only while everything before it was kept: what stands behind the first refusal was drawn after a text
that did not come, and says nothing (it is censored). A block that ended early, by the draft's own threshold or because
its time was up, has an empty place where it ended: nothing was kept there, and nothing drafted.
"""

from __future__ import annotations

from itertools import accumulate
from math import sqrt
from operator import mul

START_RATE = 0.7
"""Of candidates that are kept, before anything is known."""
_START_WEIGHT = 16.0
"""Candidates that what is known beforehand counts for, over all places together."""
_PLACE_WEIGHT = 12.0
"""Candidates that the rate over all places counts for at each of them: deep places are seldom seen."""
_NEW_FADE = 0.9
_ENOUGH = 12.0
"""Candidates of the last rounds from which they are compared with all."""
_SURPRISE = 3.5
"""Standard deviations that are more than chance."""
_LEAST_SPREAD = 0.03
_FORGOTTEN = 0.2
"""What is left of the counts after a change: a text begins to quote, a draft is replaced."""


class Survival:
    """Rates of one session, or of all sessions with the same draft; every verification fades those before it."""

    def __init__(self, before: Survival | None = None, *, fade: float = 0.99) -> None:
        self._before = before
        self._fade = fade
        self._kept: list[float] = []
        self._tried: list[float] = []
        self._written: list[float] = []
        self._wanted: list[float] = []
        self._all_kept = self._all_tried = 0.0
        self._new_kept = self._new_tried = 0.0
        """Of the last few rounds."""

    @property
    def rate(self) -> float:
        """The probability that a candidate is kept if those before it are, over all places."""
        before = START_RATE if self._before is None else self._before.rate
        return (self._all_kept + _START_WEIGHT * before) / (self._all_tried + _START_WEIGHT)

    @property
    def seen(self) -> float:
        """How many candidates this is from, older ones counted for less."""
        return self._all_tried

    def verified(self, kept: int, offered: int, ordered: int) -> None:
        """Learn from a block of `offered` candidates where `ordered` were allowed."""
        self._grow(ordered)
        self._dim(self._fade)
        for place in range(min(kept + 1, ordered)):
            self._tried[place] += 1.0
            self._kept[place] += place < kept
        for place in range(min(offered + 1, ordered)):
            self._wanted[place] += 1.0
            self._written[place] += place < offered
        self._count(kept, min(kept + 1, ordered), _NEW_FADE)
        if self._before is not None:
            self._before.verified(kept, offered, ordered)

    def followed(self, agreed: int, compared: int) -> None:
        """Learn from guesses against tokens that the target wrote alone: they tell nothing about a single place."""
        self._dim(self._fade ** (compared / 2))
        self._count(agreed, compared, _NEW_FADE**2)
        if self._before is not None:
            self._before.followed(agreed, compared)

    def kept(self, most: int) -> list[float]:
        """Return for each of `most` places the probability that its candidate and all before it are kept."""
        return list(accumulate((self._rate_at(place) for place in range(most)), mul))

    def written(self, most: int) -> list[float]:
        """Return for each of `most` places the probability that a block gets that far."""
        return list(accumulate((self._writing_at(place) for place in range(most)), mul))

    def _rate_at(self, place: int) -> float:
        rate = self.rate
        if self._before is not None and self._before.rate > 0.0:
            rate = min(1.0, rate * self._before._rate_at(place) / self._before.rate)
        if place >= len(self._tried):
            return rate
        return (self._kept[place] + _PLACE_WEIGHT * rate) / (self._tried[place] + _PLACE_WEIGHT)

    def _writing_at(self, place: int) -> float:
        rate = 1.0 if self._before is None else self._before._writing_at(place)
        if place >= len(self._wanted):
            return rate
        return (self._written[place] + _START_WEIGHT * rate) / (self._wanted[place] + _START_WEIGHT)

    def _grow(self, places: int) -> None:
        missing = places - len(self._tried)
        if missing > 0:
            for counts in (self._kept, self._tried, self._written, self._wanted):
                counts += [0.0] * missing

    def _count(self, kept: int, tried: int, fade: float) -> None:
        """Count over all places; if the last rounds differ from those before by more than chance, forget the latter."""
        self._all_kept += kept
        self._all_tried += tried
        self._new_kept = fade * self._new_kept + kept
        self._new_tried = fade * self._new_tried + tried
        if self._new_tried < _ENOUGH or self._all_tried < 2.0 * _ENOUGH:
            return
        mean = self._all_kept / self._all_tried
        spread = sqrt(max(mean * (1.0 - mean), _LEAST_SPREAD) / self._new_tried)
        if abs(self._new_kept / self._new_tried - mean) > _SURPRISE * spread:
            self._dim(_FORGOTTEN)

    def _dim(self, fade: float) -> None:
        self._kept = [fade * value for value in self._kept]
        self._tried = [fade * value for value in self._tried]
        self._written = [fade * value for value in self._written]
        self._wanted = [fade * value for value in self._wanted]
        self._all_kept *= fade
        self._all_tried *= fade
