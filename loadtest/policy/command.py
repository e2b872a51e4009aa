"""`foreword bench policy`: tokens a second under each step policy, scene by scene."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from loadtest.bench import options
from loadtest.bench.bar import Bar
from loadtest.bench.command import bench_command
from loadtest.bench.findings import Cell, Findings, Table
from loadtest.bench.frame import Destination, carry_out
from loadtest.bench.progress import Progress
from target_service.policy_bench.compare import Compared, compare
from target_service.policy_bench.scene import BARS, scenes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def policy(
    seconds: Annotated[float, typer.Option(help="Virtual time of a scene.", min=1.0, max=3600.0)] = 30.0,
    repeats: Annotated[int, typer.Option(help="Times that each is played, with other reply times.", min=1)] = 3,
    json: options.Json = None,
    plot: options.Plot = None,
) -> None:
    """Compare the policies for starting steps, in closed loops of sessions in virtual time."""
    work = partial(_measure, seconds, repeats)
    carry_out(work, {"seconds": seconds, "repeats": repeats}, Destination(json, plot))


command = bench_command("policy", policy)


async def _measure(seconds: float, repeats: int, progress: Progress) -> Findings:
    played = scenes(seconds=seconds)
    progress.begin(len(played))
    found = []
    for scene in played:
        progress.now(scene.name)
        found.append(compare(scene, repeats=repeats))
        progress.done()
    return Findings(
        figures={"scenes": [asdict(one) for one in found]},
        bars=[
            Bar(f"{one.scene}: over the better of the others", one.to_best_other, least)
            for one, least in zip(found, BARS, strict=False)
        ],
        tables=[_table(found)],
        draw=partial(_draw, found),
    )


def _table(found: Sequence[Compared]) -> Table:
    names = tuple(found[0].tokens_s)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (one.scene, *(one.tokens_s[name] for name in names), one.to_best_other) for one in found
    )
    return Table("Tokens a second under each policy", ("scene", *names, "over the better"), rows)


def _draw(found: Sequence[Compared], figure: Figure) -> None:
    axes = figure.add_subplot()
    places = range(len(found))
    for number, name in enumerate(found[0].tokens_s):
        best = [max(one.tokens_s.values()) for one in found]
        shares = [one.tokens_s[name] / most for one, most in zip(found, best, strict=True)]
        axes.barh([place + 0.25 * (number - 1) for place in places], shares, height=0.25, label=name)
    axes.set_yticks(list(places), [one.scene for one in found], fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("tokens a second over those of the best policy of the scene")
    axes.legend(fontsize="small")
