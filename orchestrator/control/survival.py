"""What becomes of the candidates of a block, place by place; learned from verdicts, pure.

A place counts only while everything before it was kept: what stands behind the first refusal was drawn after a text
that did not come, and says nothing (it is censored). A block that ended early, by the draft's own threshold or because
its time was up, has an empty place where it ended: nothing was kept there, and nothing drafted.
"""

from __future__ import annotations

from itertools import accumulate
from math import sqrt
from operator import mul

from foreword.likeness import Likeness, Member

START_RATE = 0.7
"""Of candidates that are kept, before anything is known."""
_START_WEIGHT = 16.0
"""Candidates that a guess at the rate counts for, over all places together, where nothing is known."""
_WRITING_WEIGHT = 4.0
_PLACE_WEIGHT = 60.0
"""Candidates that the rate over all places counts for at each of them, at least: deep places are seldom seen."""
_NEW_FADE = 0.9
_ENOUGH = 12.0
"""Candidates of the last rounds from which they are compared with all."""
_SURPRISE = 3.5
"""Standard deviations that are more than chance."""
_LEAST_SPREAD = 0.03
_FORGETTING = 5.0
"""How much more a new count weighs after a change: a text begins to quote, a draft is replaced."""
_MOST_GUESSES = 64
"""Guesses that are believed at once."""
_HEAVY = 1e9
"""Weight of a new count from which all are divided by it."""


class Survival:
    """Rates of one session, or of all sessions with the same draft; every verification fades those before it.

    Instead of fading all counts, a new one weighs more than the one before: ratios are the same.
    """

    def __init__(self, before: Survival | None = None, *, fade: float = 0.99) -> None:
        self._before = before
        self._likeness = Likeness()
        """Of the sessions that this one's rates are of all of."""
        self._member = None if before is None else Member(before._likeness)
        self._growth = 1.0 / fade
        self._weight = 1.0
        self._kept: list[float] = []
        self._tried: list[float] = []
        self._written: list[float] = []
        self._wanted: list[float] = []
        self._all_kept = self._all_tried = 0.0
        self._new_kept = self._new_tried = 0.0
        """Of the last few rounds; these fade."""

    @property
    def rate(self) -> float:
        """The probability that a candidate is kept if those before it are, over all places."""
        before = START_RATE if self._before is None else self._before.rate
        known = self._prior_weight * self._weight
        return (self._all_kept + known * before) / (self._all_tried + known)

    @property
    def _prior_weight(self) -> float:
        """For how many candidates counts what was known before this session."""
        return _START_WEIGHT if self._before is None else self._before._likeness.weight(self._before.rate)

    @property
    def known(self) -> float:
        """How many candidates of all sessions tell of one."""
        every = self if self._before is None else self._before
        return every._all_tried / every._weight

    def verified(self, kept: int, offered: int, ordered: int) -> None:
        """Learn from a block of `offered` candidates where `ordered` were allowed."""
        if ordered > len(self._tried):
            self._grow(ordered)
        self._weight = weight = self._weight * self._growth
        tried, written = min(kept + 1, ordered), min(offered + 1, ordered)
        for place in range(tried):
            self._tried[place] += weight
        for place in range(min(kept, ordered)):
            self._kept[place] += weight
        for place in range(written):
            self._wanted[place] += weight
        for place in range(min(offered, ordered)):
            self._written[place] += weight
        self._count(kept, tried, _NEW_FADE)
        if self._before is not None:
            self._before.verified(kept, offered, ordered)

    def followed(self, agreed: int, compared: int) -> None:
        """Learn from guesses against tokens that the target wrote alone: they tell nothing about a single place."""
        if compared > _MOST_GUESSES:
            agreed, compared = round(agreed * _MOST_GUESSES / compared), _MOST_GUESSES
        self._weight *= self._growth ** (compared / 2)
        self._count(agreed, compared, _NEW_FADE**2)
        if self._before is not None:
            self._before.followed(agreed, compared)

    def kept(self, most: int) -> list[float]:
        """Return for each of `most` places the probability that its candidate and all before it are kept."""
        return list(accumulate(self._rates(most), mul))

    def written(self, most: int) -> list[float]:
        """Return for each of `most` places the probability that a block gets that far."""
        return list(accumulate(self._writing(most), mul))

    def _rates(self, most: int) -> list[float]:
        rate = self.rate
        rates = [rate] * most
        if self._before is not None and (mean := self._before.rate) > 0.0:
            rates = [min(1.0, rate * at_place / mean) for at_place in self._before._rates(most)]
        known = max(_PLACE_WEIGHT, self._prior_weight) * self._weight
        for place, (kept, tried) in enumerate(zip(self._kept[:most], self._tried, strict=False)):
            rates[place] = (kept + known * rates[place]) / (tried + known)
        return rates

    def _writing(self, most: int) -> list[float]:
        rates = [1.0] * most if self._before is None else self._before._writing(most)
        known = _WRITING_WEIGHT * self._weight
        for place, (written, wanted) in enumerate(zip(self._written[:most], self._wanted, strict=False)):
            rates[place] = (written + known * rates[place]) / (wanted + known)
        return rates

    def _count(self, kept: int, tried: int, fade: float) -> None:
        """Count over all places; if the last rounds differ from those before by more than chance, forget the latter."""
        if self._before is not None and self._member is not None:
            self._member.add(kept, tried, self._before.rate)
        self._all_kept += self._weight * kept
        self._all_tried += self._weight * tried
        self._new_kept = fade * self._new_kept + kept
        self._new_tried = fade * self._new_tried + tried
        if self._weight > _HEAVY:
            self._lighten()
        if self._new_tried < _ENOUGH or self._all_tried < 2.0 * _ENOUGH * self._weight:
            return
        mean = self._all_kept / self._all_tried
        spread = sqrt(max(mean * (1.0 - mean), _LEAST_SPREAD) / self._new_tried)
        if abs(self._new_kept / self._new_tried - mean) > _SURPRISE * spread:
            self._weight *= _FORGETTING

    def _grow(self, places: int) -> None:
        missing = places - len(self._tried)
        for counts in (self._kept, self._tried, self._written, self._wanted):
            counts += [0.0] * missing

    def _lighten(self) -> None:
        for counts in (self._kept, self._tried, self._written, self._wanted):
            counts[:] = [value / self._weight for value in counts]
        self._all_kept, self._all_tried = self._all_kept / self._weight, self._all_tried / self._weight
        self._weight = 1.0
