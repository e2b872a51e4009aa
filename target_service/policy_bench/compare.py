"""One scene under every step policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from target_service.core.policy import StepPolicyName, step_policy
from target_service.policy_bench.play import Play, Played
from target_service.policy_bench.scene import Scene


@dataclass(frozen=True, slots=True)
class Compared:
    """One scene under all policies; tokens a second, means of the repeats."""

    scene: str
    sessions: int
    leases: int
    tokens_s: dict[str, float]
    slowest_tokens_s: dict[str, float]
    """Of the session that got least."""
    to_best_other: float
    """The wait rule's tokens over those of the better of the others."""


def compare(scene: Scene, *, repeats: int) -> Compared:
    """Play a scene under every policy, each with the same seeds."""
    played = {
        name: [Play(scene, step_policy(name), seed=seed).play() for seed in range(repeats)] for name in StepPolicyName
    }
    rates = {name: _mean(runs) for name, runs in played.items()}
    best = max(rate for name, rate in rates.items() if name is not StepPolicyName.WORTHWHILE)
    return Compared(
        scene=scene.name,
        sessions=len(scene.replies) + scene.leases,
        leases=scene.leases,
        tokens_s={name.value: round(rate, 1) for name, rate in rates.items()},
        slowest_tokens_s={
            name.value: round(fmean(run.slowest_tokens_s for run in runs), 1) for name, runs in played.items()
        },
        to_best_other=round(rates[StepPolicyName.WORTHWHILE] / best, 3),
    )


def _mean(runs: Sequence[Played]) -> float:
    return fmean(run.tokens_s for run in runs)
