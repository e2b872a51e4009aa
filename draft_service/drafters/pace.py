"""How long a drafting step takes, and how long a block is on its way until what came is known."""

from __future__ import annotations

from collections import deque
from statistics import median

_RECENT = 16
"""Durations that count. Medians: a prompt read beside a step, or a client that was slow, is not what comes next."""


class Pace:
    """Medians of recent durations in ns; 0 before the first."""

    def __init__(self) -> None:
        self._steps: deque[int] = deque(maxlen=_RECENT)
        self._waits: deque[int] = deque(maxlen=_RECENT)

    def stepped(self, took_ns: int) -> None:
        """Note a pass of a model."""
        self._steps.append(took_ns)

    def waited(self, took_ns: int) -> None:
        """Note the time from the last candidate of a block to the first of the next."""
        self._waits.append(took_ns)

    @property
    def step_ns(self) -> float:
        """Time of one candidate of a model."""
        return median(self._steps) if self._steps else 0.0

    @property
    def wait_ns(self) -> float:
        """Time of a round beside its drafting."""
        return median(self._waits) if self._waits else 0.0
