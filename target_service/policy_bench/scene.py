"""What a closed loop is made of: sessions with their reply times, and how long a step takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from foreword.errors import InvalidField


@dataclass(frozen=True, slots=True)
class Spread:
    """A time that is spread evenly, or around its middle."""

    share: float
    """Probability of this time, of all of a reply."""
    least_ms: float
    most_ms: float


@dataclass(frozen=True, slots=True)
class Reply:
    """From a session's Result to its next block: what drafting takes, and one of several delays on top."""

    draft_ms: float
    delays: tuple[Spread, ...] = (Spread(1.0, 0.0, 0.0),)

    def draw_us(self, chance: Random) -> int:
        """Return one reply time."""
        at = chance.random() * sum(delay.share for delay in self.delays)
        for delay in self.delays:
            if at < delay.share:
                break
            at -= delay.share
        return round(1000 * (self.draft_ms + chance.uniform(delay.least_ms, delay.most_ms)))


@dataclass(frozen=True, slots=True)
class StepCost:
    """Time of a step: a base up to a knee of rows, and a slope from there on."""

    base_ms: float = 20.0
    slope_ms: float = 0.0
    knee: int = 16

    def step_us(self, rows: int) -> int:
        """Return the time of a step with so many rows."""
        return round(1000 * (self.base_ms + self.slope_ms * max(0, rows - self.knee)))


@dataclass(frozen=True, slots=True)
class Scene:
    """One closed loop."""

    name: str
    replies: Sequence[Reply]
    """One for each session with a draft."""
    leases: int = 0
    """Sessions beside them that take plain steps, one after another."""
    step: StepCost = StepCost()
    gamma: int = 4
    agreement: float = 0.75
    """Probability that a candidate is kept if all before it were."""
    seconds: float = 30.0

    def __post_init__(self) -> None:
        if not self.replies and not self.leases:
            raise InvalidField("replies", 0, "a session at least")


DRAFTED = Reply(8.0)
"""Four candidates at 2 ms each."""
JITTER = (Spread(0.35, 0.0, 0.0), Spread(0.60, 1.0, 2.0), Spread(0.05, 15.0, 15.0))
"""Most blocks come at once or nearly so, and one in twenty 15 ms later."""
AHEAD = Reply(0.0, (Spread(0.6, 0.5, 1.5), Spread(0.4, 10.0, 12.0)))
"""Drafted ahead in six of ten rounds, from the start in the others."""


BARS = (0.97, 1.1)
"""What the wait rule is held to in the first scenes: its tokens over those of the better of the others."""


def scenes(*, seconds: float = 30.0) -> list[Scene]:
    """Return the scenes of the command; `BARS` are those of the first."""
    made = [
        Scene("in step", [DRAFTED] * 16),
        Scene("blocks late by 0, 1 to 2 or 15 ms", [Reply(8.0, JITTER)] * 16),
        Scene("the same, drafted ahead", [Reply(0.0, JITTER)] * 16),
        Scene("drafted ahead or not", [AHEAD] * 16),
        Scene("drafts 12 ± 2 ms", [Reply(0.0, (Spread(1.0, 10.0, 14.0),))] * 16),
        Scene("drafts 25 ± 3 ms", [Reply(0.0, (Spread(1.0, 22.0, 28.0),))] * 16),
        Scene("half of them far away, 110 ms", [DRAFTED, Reply(108.0, (Spread(1.0, 0.0, 6.0),))] * 8),
        Scene("half on leases, drafts 8 ms", [DRAFTED] * 8, leases=8),
        Scene("half on leases, drafts 12 ms", [Reply(12.0)] * 8, leases=8),
        Scene("half on leases, drafts 25 ms", [Reply(25.0)] * 8, leases=8),
        Scene("one with a draft, 15 on leases", [DRAFTED], leases=15),
        Scene("one on a lease, 15 with drafts", [DRAFTED] * 15, leases=1),
        Scene("steps of 1 ms a row over 16", [DRAFTED] * 16, step=StepCost(slope_ms=1.0)),
        Scene("late blocks, 0.1 ms a row over 16", [Reply(8.0, JITTER)] * 16, step=StepCost(slope_ms=0.1)),
    ]
    return [_lasting(scene, seconds) for scene in made]


def _lasting(scene: Scene, seconds: float) -> Scene:
    return Scene(scene.name, scene.replies, scene.leases, scene.step, scene.gamma, scene.agreement, seconds)
