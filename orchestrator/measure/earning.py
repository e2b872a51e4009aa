"""What a session's time is worth in tokens, and what a candidate takes of it: recent rounds, older ones fading."""

from __future__ import annotations

from foreword.protocol.messages import Result
from foreword.protocol.words import Drafter

FADE = 0.9
"""What a round counts for after the next one."""


class Earning:
    """Measures the rounds of one session at the orchestrator, in microseconds of its clock and of the draft's own."""

    def __init__(self) -> None:
        self._last_us: int | None = None
        self._tokens = self._time_us = 0.0
        self._candidates = self._drafting_us = 0.0

    def answered(self, result: Result, arrived_us: int, *, tokens: int) -> None:
        """Take a Result that brought so many tokens."""
        if self._last_us is not None:
            self._tokens = FADE * self._tokens + tokens
            self._time_us = FADE * self._time_us + arrived_us - self._last_us
        self._last_us = arrived_us
        took_us = result.timing.draft_compute_us
        if result.ids and took_us is not None and result.drafter is not Drafter.LOOKUP:
            self._candidates = FADE * self._candidates + len(result.ids)
            self._drafting_us = FADE * self._drafting_us + took_us

    @property
    def tokens_per_us(self) -> float | None:
        """Return the rate at which tokens come; None before the second Result."""
        return self._tokens / self._time_us if self._time_us > 0.0 else None

    @property
    def draft_us(self) -> float | None:
        """Return what drafting a candidate takes; None before the first block of a model."""
        return self._drafting_us / self._candidates if self._candidates > 0.0 else None
