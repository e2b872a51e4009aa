"""Acceptance rates of kinds of candidates, learned from what came where they had been drafted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foreword.protocol.messages import Tokens

SESSION_SPAN = 32.0
"""Candidates that a session's memory reaches back, in the mean; a text changes from quoting to telling at once."""
SHARED_SPAN = 1024.0
_DOUBT = 4.0
"""Candidates that what is known beforehand counts for."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Candidates for what follows a text, each of some kind."""

    start: int
    """Length of the text."""
    ids: Tokens = ()
    kinds: Tokens = ()
    survivals: tuple[float, ...] = ()
    """For each candidate the estimated probability that it and all before it are kept."""


class Rates:
    """How often candidates of each kind are kept when those before them were; recent ones count most.

    Beforehand a kind has the rate that `before` knows: numbers, or the rates of all sessions, which learn along.
    """

    def __init__(self, before: Rates | Sequence[float], *, span: float) -> None:
        self._before = before
        self._fade = 1.0 - 1.0 / span
        self._tried: dict[int, float] = {}
        self._kept: dict[int, float] = {}

    def of(self, kind: int) -> float:
        """Return the rate of a kind, from 0 to 1."""
        before = self._before.of(kind) if isinstance(self._before, Rates) else self._before[kind]
        tried, kept = self._tried.get(kind, 0.0), self._kept.get(kind, 0.0)
        return (kept + _DOUBT * before) / (tried + _DOUBT)

    def note(self, kind: int, *, kept: bool) -> None:
        """Learn that a candidate was kept, or was the first that was not."""
        self._tried[kind] = self._tried.get(kind, 0.0) * self._fade + 1.0
        self._kept[kind] = self._kept.get(kind, 0.0) * self._fade + kept
        if isinstance(self._before, Rates):
            self._before.note(kind, kept=kept)

    def hear(self, guess: Guess, came: Tokens) -> None:
        """Learn from the tokens that came where a guess was made.

        Behind the first that differs nothing is known, nor behind the last that came: a target that took no block
        gives one token.
        """
        for token, kind, real in zip(guess.ids, guess.kinds, came, strict=False):
            self.note(kind, kept=token == real)
            if token != real:
                return

    def survivals(self, kinds: Iterable[int], threshold: float = 0.0) -> tuple[float, ...]:
        """Return the survival of each candidate, up to and with the first that is under the threshold.

        Their sum is the number of candidates that are expected to be kept.
        """
        found: list[float] = []
        known: dict[int, float] = {}
        survival = 1.0
        for kind in kinds:
            if (rate := known.get(kind)) is None:
                rate = known[kind] = self.of(kind)
            survival *= rate
            found.append(survival)
            if survival < threshold:
                break
        return tuple(found)
