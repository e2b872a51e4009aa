"""How alike sessions are, and so how much the rate of all of them tells of one; pure."""

from __future__ import annotations

SAMPLE = 32
"""Candidates of a session that make one comparison with all."""
_START_WEIGHT, _START_SAMPLES = 48.0, 10.0
"""What is believed before there are comparisons, and how many of them it counts for."""
_LEAST, _MOST = 16.0, 1000.0
_KEEP = 0.99
"""Of the comparisons before, at each."""
_LEAST_VARIANCE = 0.03


class Likeness:
    """Variance of rates between sessions, beyond chance, by the method of moments (DerSimonian and Laird 1986).

    Sessions that differ by chance alone are best guessed by what all of them have shown; those that quote a text beside
    others that tell a story are not.
    """

    def __init__(self) -> None:
        self._samples = _START_SAMPLES
        self._excess = _START_SAMPLES * _variance(0.7) / _START_WEIGHT

    def add(self, kept: int, tried: int, rate: float) -> None:
        """Compare candidates of one session with the rate of all."""
        self._samples = _KEEP * self._samples + 1.0
        self._excess = _KEEP * self._excess + (kept / tried - rate) ** 2 - _variance(rate) / tried

    def weight(self, rate: float) -> float:
        """Return for how many of a session's own candidates the rate of all counts."""
        between = self._excess / self._samples
        variance = _variance(rate)
        return min(_MOST, max(_LEAST, variance / between)) if between * _MOST > variance else _MOST


class Member:
    """A session among those that are compared."""

    def __init__(self, likeness: Likeness) -> None:
        self._likeness = likeness
        self._kept = self._tried = 0
        """Since the last comparison."""

    def add(self, kept: int, tried: int, rate: float) -> None:
        """Count candidates of its own, `rate` being that of all sessions."""
        self._kept, self._tried = self._kept + kept, self._tried + tried
        if self._tried >= SAMPLE:
            self._likeness.add(self._kept, self._tried, rate)
            self._kept = self._tried = 0


def _variance(rate: float) -> float:
    return max(rate * (1.0 - rate), _LEAST_VARIANCE)
