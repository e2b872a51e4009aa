"""How large the candidates of a target's own drafter should be in number, by how those before have fared; pure.

A simple rule: a session whose candidates are nearly all kept gets twice as many, one whose candidates are mostly
refused half as many, and where even few are refused it decodes plainly for a while, longer each time. A step without
candidates costs what a plain one costs and says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from foreword.values import replace

LEAST, FIRST, MOST = 2, 4, 16
"""Candidates a step: at least, at first, at most."""
FIRST_PAUSE, LAST_PAUSE = 32, 512
"""Tokens decoded plainly when candidates were not worth their rows; doubles each time."""
_FADE = 0.75
"""What is left of the counts at each further verification."""
_ENOUGH = 6.0
"""Candidates, faded, from which their share counts."""
_POOR, _GOOD = 0.2, 0.7
"""Shares of kept candidates under and over which the number changes."""


@dataclass(frozen=True, slots=True)
class LocalRecord:
    """How a session's local candidates have fared at the number that is offered now."""

    size: int = FIRST
    offered: float = 0.0
    kept: float = 0.0
    pauses: int = 0
    """Pauses since they last went well."""
    pause_ends: int = 0
    """Base from which they are tried again."""

    def gamma(self, base: int) -> int:
        """Return how many candidates a step may have; 0 during a pause."""
        return 0 if base < self.pause_ends else self.size

    def verified(self, kept: int, offered: int, *, base: int) -> LocalRecord:
        """Return the record after a verification; `base` is behind its tokens."""
        offered_now, kept_now = _FADE * self.offered + offered, _FADE * self.kept + kept
        if offered_now < _ENOUGH or _POOR * offered_now <= kept_now <= _GOOD * offered_now:
            return replace(self, offered=offered_now, kept=kept_now)
        if kept_now > _GOOD * offered_now:
            return LocalRecord(size=min(MOST, 2 * self.size))
        if self.size > LEAST:
            return replace(self, size=self.size // 2, offered=0.0, kept=0.0)
        pause = min(LAST_PAUSE, FIRST_PAUSE << self.pauses)
        return LocalRecord(size=LEAST, pauses=min(self.pauses + 1, 16), pause_ends=base + pause)
