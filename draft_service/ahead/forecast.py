"""How likely every outcome of a block is: from the draft's own ranking at each place, and from how outcomes came.

P(n kept) comes of an estimate for each candidate, P(y | n) of hit curves: how often the token that came was the first,
second, third of the ranking, told apart by what it was, a correction or a bonus. Both learn from every block. The
cache of outcomes is that of Saguaro (Kumar, Dao, May, arXiv 2603.03251); the allocation by measured curves is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draft_service.core.outcomes import Ending, Guess
from draft_service.drafters.estimate import Acceptance
from foreword.protocol.messages import Tokens

RANKS = 8
"""Places of a ranking that are told apart, and most guesses for one number of kept candidates."""
_BEFORE = {
    Ending.CORRECTION: (0.40, 0.16, 0.08, 0.05, 0.03, 0.02, 0.015, 0.01),
    Ending.BONUS: (0.65, 0.12, 0.05, 0.03, 0.02, 0.015, 0.01, 0.01),
}
"""Hit curves beforehand."""
_DOUBT = 8.0
"""Outcomes that what is known beforehand counts for."""
_SPAN = 512.0
"""Outcomes that a curve reaches back, in the mean."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the draft would say after every candidate of a block."""

    rankings: tuple[Tokens, ...]
    """For each number of kept candidates the tokens that may come then, likeliest first; one more than candidates."""
    leads: tuple[float, ...]
    """For each candidate by how many nats its law's first choice led the second."""


BLIND = Outlook((), ())
"""That of a block of which nothing could be foreseen."""


class Curve:
    """How often what came stood at each place of the ranking."""

    def __init__(self, before: Sequence[float]) -> None:
        self._before = tuple(before)
        self._tried = 0.0
        self._hits = [0.0] * len(self._before)

    def of(self, rank: int) -> float:
        """Return the probability that the token at a place of the ranking is what comes."""
        return (self._hits[rank] + _DOUBT * self._before[rank]) / (self._tried + _DOUBT)

    def note(self, rank: int | None) -> None:
        """Learn where the token that came stood; None for nowhere."""
        fade = 1.0 - 1.0 / _SPAN
        self._tried = self._tried * fade + 1.0
        self._hits = [hits * fade + (place == rank) for place, hits in enumerate(self._hits)]


class Forecast:
    """Probabilities of outcomes; one for all sessions of a drafter."""

    def __init__(self) -> None:
        self._acceptance = Acceptance()
        self._curves = {ending: Curve(before) for ending, before in _BEFORE.items()}

    def guesses(self, ids: Tokens, outlook: Outlook, *, most: int, least: float = 0.0) -> list[Guess]:
        """Return the likeliest outcomes of a block of candidates, likeliest first: those that come with `least`."""
        found: list[Guess] = []
        survival = 1.0
        for kept, ranking in enumerate(outlook.rankings):
            ending = _ending(kept, ids)
            curve = self._curves[ending]
            keeps = self._acceptance.estimate(kept, outlook.leads[kept]) if kept < len(ids) else 0.0
            for rank, token in enumerate(ranking[:RANKS]):
                probability = survival * (1.0 - keeps) * curve.of(rank)
                if probability >= least:
                    found.append(Guess(kept, token, ending, rank, probability))
            survival *= keeps
        found.sort(key=lambda guess: -guess.probability)
        return found[:most]

    def learn(self, ids: Tokens, outlook: Outlook, kept: int, token: int) -> Ending:
        """Learn what came of a block that was looked at; return how it ended."""
        ending = _ending(kept, ids)
        if not outlook.rankings:
            return ending
        for place in range(min(kept + 1, len(ids))):
            self._acceptance.observe(place, outlook.leads[place], kept=place < kept)
        ranking = outlook.rankings[kept][:RANKS]
        self._curves[ending].note(ranking.index(token) if token in ranking else None)
        return ending


def _ending(kept: int, ids: Tokens) -> Ending:
    return Ending.BONUS if kept == len(ids) else Ending.CORRECTION
