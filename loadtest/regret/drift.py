"""Conditions that change: the measuring policy against an oracle that knows when, and what is best then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from loadtest.regret.judge import GAMMAS
from loadtest.simulator.run import Played, Simulation
from loadtest.simulator.scene import MS, SECOND, Scene, Schedule
from orchestrator.policy import Gamma

ARMS = (None, *GAMMAS)
STAGES = 3
STAGE_S = 20.0

SCENES = {
    "RTT 2, 60, 2 ms": Scene(
        seconds=STAGES * STAGE_S,
        rtt_us=Schedule.steps(STAGE_S, 2 * MS, 60 * MS, 2 * MS),
        agreement=Schedule.constant(0.8),
    ),
    "agreement 0.9, 0.3, 0.9": Scene(
        seconds=STAGES * STAGE_S, rtt_us=Schedule.constant(2 * MS), agreement=Schedule.steps(STAGE_S, 0.9, 0.3, 0.9)
    ),
}


@dataclass(frozen=True, slots=True)
class Drifted:
    """What came of a scene; tokens of the whole run, means of the seeds."""

    name: str
    adaptive: float
    oracle: float
    """In every stage the best fixed γ of that stage."""
    oracle_gammas: tuple[int, ...]
    best_fixed: float
    best_gamma: int
    """Over the whole run."""
    by_stage: tuple[float, ...]
    """Adaptive over oracle, stage by stage."""

    @property
    def to_oracle(self) -> float:
        """What is left of the oracle's tokens."""
        return self.adaptive / self.oracle

    @property
    def to_fixed(self) -> float:
        """The same over those of the best fixed γ."""
        return self.adaptive / self.best_fixed


@dataclass(frozen=True, slots=True)
class Arm:
    """A scene with one γ, or with the measured one."""

    name: str
    gamma: int | None
    stages: tuple[float, ...]
    """Tokens of each, means of the seeds."""


def play(name: str, gamma: int | None, *, seeds: int) -> Arm:
    """Play a scene."""
    wanted = Gamma() if gamma is None else Gamma(fixed=gamma)
    runs = [_by_stage(Simulation(SCENES[name], wanted, seed=seed).run()) for seed in range(seeds)]
    return Arm(name, gamma, tuple(fmean(run[stage] for run in runs) for stage in range(STAGES)))


def drifted(name: str, arms: Sequence[Arm]) -> Drifted:
    """Return what came of a scene, from all its arms."""
    fixed = {arm.gamma: arm.stages for arm in arms if arm.gamma is not None}
    adaptive = next(arm.stages for arm in arms if arm.gamma is None)
    best = tuple(max(fixed, key=lambda gamma: fixed[gamma][stage]) for stage in range(STAGES))
    oracle = [fixed[gamma][stage] for stage, gamma in enumerate(best)]
    whole = max(fixed, key=lambda gamma: sum(fixed[gamma]))
    return Drifted(
        name,
        sum(adaptive),
        sum(oracle),
        best,
        sum(fixed[whole]),
        whole,
        tuple(mine / known for mine, known in zip(adaptive, oracle, strict=True)),
    )


def _by_stage(played: Played) -> list[int]:
    ends = [
        next(tokens for at_us, tokens in played.times_us if at_us >= (stage + 1) * STAGE_S * SECOND)
        for stage in range(STAGES)
    ]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
