"""One cell: the measuring policy against every fixed γ, with the same texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from loadtest.regret.cells import Cell
from loadtest.simulator.run import Simulation
from orchestrator.policy import Gamma

GAMMAS = tuple(range(17))
_FIRST_RUNS = 3
"""Sessions times seeds of the first look at a γ, at least."""
_NEAR = 0.94
"""Of the best after the first seeds: what a γ has to have to be played with all of them."""

Play = Callable[[int | None, int], float]
"""Tokens a second with a fixed γ, or with the one that is chosen (None), and a seed."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A cell and what came of it; tokens a second, means of the seeds."""

    cell: Cell
    adaptive: float
    plain: float
    fixed: dict[int, float]
    """Those that were among the best after a few seeds, with all of them."""

    @property
    def best_gamma(self) -> int:
        """The fixed γ with most tokens."""
        return max(self.fixed, key=lambda gamma: self.fixed[gamma])

    @property
    def to_best(self) -> float:
        """The adaptive policy's tokens over those of the best fixed γ."""
        return self.adaptive / self.fixed[self.best_gamma]

    @property
    def to_plain(self) -> float:
        """The same over those of γ = 0."""
        return self.adaptive / self.plain


def judge(cell: Cell, *, seeds: int, seconds: float) -> Judged:
    """Play a cell."""

    def play(gamma: int | None, seed: int) -> float:
        wanted = Gamma() if gamma is None else Gamma(fixed=gamma)
        return Simulation(cell.scene(seconds), wanted, seed=seed).run().tokens_s

    return judged(cell, play, seeds=seeds)


def judged(cell: Cell, play: Play, *, seeds: int) -> Judged:
    """Play every γ with a few seeds, and those near the best, and none at all, with the rest of them too."""
    first = range(min(max(1, _FIRST_RUNS // cell.sessions), seeds))
    tries = {gamma: [play(gamma, seed) for seed in first] for gamma in GAMMAS}
    leading = max(map(fmean, tries.values()))
    near = [gamma for gamma, found in tries.items() if gamma == 0 or fmean(found) >= _NEAR * leading]
    for gamma in near:
        tries[gamma] += [play(gamma, seed) for seed in range(len(first), seeds)]
    adaptive = fmean(play(None, seed) for seed in range(seeds))
    fixed = {gamma: fmean(tries[gamma]) for gamma in near}
    return Judged(cell, adaptive, fixed[0], fixed)
