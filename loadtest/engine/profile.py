"""Where the time of a pass goes, by the clock that the runner's compiled loop reads between its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Protocol

from loadtest.engine.clock import timed

PASS, LINEAR, ATTENTION, REST, AROUND = "pass", "linear layers", "attention", "rest of the model", "around the model"


class Spending(Protocol):
    """A runner whose model says where its time went."""

    @property
    def spent_ns(self) -> Sequence[int]:
        """Time of products, of attention and of the rest of the model, added up over all passes."""


def profiled(
    runner: Spending, once: Callable[[], object], undo: Callable[[], object], *, seconds: float
) -> dict[str, float]:
    """Return the mean seconds of `once`, a pass of the runner, by part; those behind the first add up to it."""
    before = tuple(runner.spent_ns)
    taken = timed(once, undo, seconds=seconds)
    calls = len(taken) + 1  # one is not counted
    linear, attention, rest = (1e-9 * (after - was) / calls for after, was in zip(runner.spent_ns, before, strict=True))
    total = mean(taken)
    return {PASS: total, LINEAR: linear, ATTENTION: attention, REST: rest, AROUND: total - linear - attention - rest}
