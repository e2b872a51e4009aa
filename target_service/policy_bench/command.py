"""`foreword bench policy`: tokens a second under each step policy, scene by scene."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated

import typer
from rich.table import Table

from foreword.cli import options
from foreword.cli.output import stdout, write_json
from target_service.core.policy import StepPolicyName, step_policy
from target_service.policy_bench.play import Play, Played
from target_service.policy_bench.scene import Scene, scenes


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


def policy(
    seconds: Annotated[float, typer.Option(help="Virtual time of a scene.", min=1.0)] = 30.0,
    repeats: Annotated[int, typer.Option(help="Times that each is played, with other reply times.", min=1)] = 3,
    json: options.Json = False,
) -> None:
    """Compare the policies for starting steps, in closed loops of sessions in virtual time."""
    found = [compare(scene, repeats=repeats) for scene in scenes(seconds=seconds)]
    if json:
        write_json(stdout(), {"seconds": seconds, "repeats": repeats, "scenes": found})
    else:
        stdout().print(_table(found))


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


def _table(found: Sequence[Compared]) -> Table:
    names = [name.value for name in StepPolicyName]
    table = Table(box=None)
    table.add_column("tok/s", no_wrap=True)
    for head in (*names, "to the better"):
        table.add_column(head, justify="right")
    for one in found:
        table.add_row(one.scene, *(f"{one.tokens_s[name]:,.0f}" for name in names), f"{one.to_best_other:.3f}")
    return table
