"""What a target rests for before a step: the blocks that it takes in; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepRest:
    """When the step before had ended, and when the last two blocks of this one were there; of one clock."""

    since_us: int = 0
    last_us: int = 0
    other_us: int = 0

    @classmethod
    def of(cls, since_us: int | None, blocks_us: Iterable[int]) -> StepRest:
        """Return it for blocks that were there at those times, after a step that ended at `since_us`.

        None says that there was no step before.
        """
        if since_us is None:
            return cls()
        other_us, last_us = sorted((since_us, since_us, *blocks_us))[-2:]
        return cls(since_us, last_us, other_us)

    def without(self, ready_us: int) -> int:
        """Return how long the target would have rested without the block that was there at `ready_us`."""
        return (self.other_us if ready_us >= self.last_us else self.last_us) - self.since_us
