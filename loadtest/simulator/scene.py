"""What a simulation is made of: sessions, steps, a network, and how well the draft guesses, all of it over time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from foreword.errors import InvalidField
from target_service.policy_bench.scene import StepCost

MS = 1000
SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """A value that changes at certain moments, in microseconds of virtual time; the first moment is 0."""

    moments: tuple[int, ...]
    values: tuple[float, ...]

    @classmethod
    def constant(cls, value: float) -> Schedule:
        """Return one that never changes."""
        return cls((0,), (value,))

    @classmethod
    def steps(cls, seconds: float, *values: float) -> Schedule:
        """Return one that takes each of the values for so long, and keeps the last."""
        return cls(tuple(round(i * seconds * SECOND) for i in range(len(values))), values)

    def at(self, now_us: int) -> float:
        """Return the value at a moment."""
        return self.values[max(0, bisect_right(self.moments, now_us) - 1)]


FLAT = StepCost()
LINEAR = StepCost(slope_ms=1.0)
"""The two costs that bars name (docs/benchmarks.md)."""

GOOD = Schedule.constant(0.8)
NEAR = Schedule.constant(0)


@dataclass(frozen=True, slots=True)
class Scene:
    """A closed loop: each session begins a new text as soon as its last one has ended."""

    sessions: int = 1
    seconds: float = 20.0
    agreement: Schedule = GOOD
    """Probability that a candidate is right, independent by position."""
    rtt_us: Schedule = NEAR
    """Between the draft and the other two, which are beside each other."""
    step: StepCost = FLAT
    draft_us: int = 2 * MS
    """Of a candidate for every session that drafts, in one pass."""
    tokens: int = 256
    """Of a text."""
    hop_us: int = 0
    """What a message takes beside the network: encoding, kernel, wake-ups."""

    def __post_init__(self) -> None:
        if self.sessions < 1:
            raise InvalidField("sessions", self.sessions, "a whole number from 1")
        if self.tokens < 2:
            raise InvalidField("tokens", self.tokens, "a whole number from 2")

    @property
    def end_us(self) -> int:
        """When it ends."""
        return round(self.seconds * SECOND)
