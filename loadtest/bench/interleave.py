"""The order of arms over repeats: interleaved, so that what drifts on the machine falls on all arms alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Arm = TypeVar("Arm")


def interleaved(arms: Sequence[Arm], repeats: int) -> Iterator[tuple[int, Arm]]:
    """Yield (repeat, arm), every arm once a repeat; every other repeat in reverse, so that none is always the first."""
    for repeat in range(repeats):
        for arm in arms if repeat % 2 == 0 else reversed(arms):
            yield repeat, arm
