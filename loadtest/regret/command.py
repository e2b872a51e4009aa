"""`foreword bench regret`: the command."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadtest.bench import options
from loadtest.bench.command import bench_command
from loadtest.bench.findings import Findings
from loadtest.bench.frame import Destination, carry_out
from loadtest.bench.parts import read_parts
from loadtest.bench.progress import Progress
from loadtest.regret import pair, pair_report, real, report
from loadtest.regret.cells import grid
from loadtest.regret.drift import ARMS, SCENES, Arm, drifted, play
from loadtest.regret.judge import Judged, judge
from loadtest.regret.load import SESSIONS, Loaded, load

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Part(Enum):
    """What is played."""

    GRID = "grid"
    DRIFT = "drift"
    LOAD = "load"
    REAL = "real"
    """Some cells of the grid on this machine, which should have nothing else to do."""
    PAIR = "pair"
    """The embedded target with its bundled draft."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of it."""

    parts: tuple[Part, ...]
    seeds: int
    seconds: float
    processes: int
    draft: str = "bundled"
    drafter: str = "mixed"

    def work(self) -> list[tuple[str, Callable[[], Any]]]:
        """Return what is to be played, by name, the longest first."""
        seeds, seconds = self.seeds, self.seconds
        made: list[tuple[str, Callable[[], Any]]] = []
        if Part.DRIFT in self.parts:
            arms = [(name, gamma) for name in SCENES for gamma in ARMS]
            made += [(f"{name}, {_of(gamma)}", partial(play, name, gamma, seeds=seeds)) for name, gamma in arms]
        if Part.LOAD in self.parts:
            made += [(f"{n} sessions", partial(load, n, seeds=seeds, seconds=seconds)) for n in reversed(SESSIONS)]
        if Part.GRID in self.parts:
            made += [(cell.name, partial(judge, cell, seeds=seeds, seconds=seconds)) for cell in grid()]
        return made


_STEPS = {Part.REAL: len(real.CELLS), Part.PAIR: pair.PROMPTS}


def regret(
    only: Annotated[
        list[str] | None, typer.Option(help="Parts: grid, drift, load, real, pair; several with commas.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Texts that each γ is played with; fewer than 18 favour a lucky one.", min=1, max=1000)
    ] = 20,
    seconds: Annotated[
        float, typer.Option(help="Virtual time of a run of grid and load; drift has its own.", min=3.0, max=3600.0)
    ] = 10.0,
    processes: Annotated[int, typer.Option(help="Runs at the same time.", min=1, max=256)] = 2,
    draft: Annotated[str, typer.Option(help="The draft of the real pair.")] = "bundled",
    drafter: Annotated[str, typer.Option(help="How it drafts: model, lookup or mixed.")] = "mixed",
    json: options.Json = None,
    plot: options.Plot = None,
) -> None:
    """Hold the measured γ against the best fixed one over agreement, network, load and change, in virtual time."""
    plan = Plan(read_parts(only or (), Part), seeds, seconds, processes, draft, drafter)
    settings = {"parts": [part.value for part in plan.parts], "seeds": seeds, "seconds": seconds, "draft": draft}
    carry_out(partial(_measure, plan), settings, Destination(json, plot))


command = bench_command("regret", regret)


async def _measure(plan: Plan, progress: Progress) -> Findings:
    work = plan.work()
    progress.begin(len(work) + sum(steps for part, steps in _STEPS.items() if part in plan.parts))
    loop = asyncio.get_running_loop()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(plan.processes, mp_context=spawn, initializer=_leave_interrupts) as pool:

        async def done(name: str, run: Callable[[], Any]) -> Any:
            played = await loop.run_in_executor(pool, run)
            progress.now(f"{name}: {played.to_best:.3f} of the best" if isinstance(played, Judged | Loaded) else name)
            progress.done()
            return played

        try:
            found = await asyncio.gather(*(done(name, run) for name, run in work))
        except asyncio.CancelledError:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for cell in real.CELLS if Part.REAL in plan.parts else ():
        progress.now(f"real time: {cell.name}")
        found.append(await real.compare(cell))
        progress.done()
    if Part.PAIR in plan.parts:
        found.append(await pair.measure(progress, draft=plan.draft, drafter=plan.drafter))
    return _findings(found)


def _leave_interrupts() -> None:
    """Let the process that asked for the work say that it was interrupted: Ctrl-C goes to all of them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _of(gamma: int | None) -> str:
    return "as measured" if gamma is None else f"γ {gamma}"


def _findings(found: Sequence[Any]) -> Findings:
    cells = [one for one in found if isinstance(one, Judged)]
    arms = [one for one in found if isinstance(one, Arm)]
    drifts = [drifted(name, [arm for arm in arms if arm.name == name]) for name in SCENES if arms]
    loads = sorted((one for one in found if isinstance(one, Loaded)), key=lambda one: one.sessions)
    reals = [one for one in found if isinstance(one, real.Compared)]
    parts = [
        *([report.of_grid(cells)] if cells else []),
        *([report.of_drift(drifts)] if drifts else []),
        *([report.of_load(loads)] if loads else []),
        *([report.of_real(reals)] if reals else []),
        *(pair_report.of_pair(one) for one in found if isinstance(one, pair.Measured)),
    ]
    return Findings(
        figures={name: value for part in parts for name, value in part.figures.items()},
        bars=[bar for part in parts for bar in part.bars],
        tables=[table for part in parts for table in part.tables],
        draw=partial(_draw, cells, loads) if cells or loads else None,
    )


def _draw(cells: Sequence[Judged], loads: Sequence[Loaded], figure: Figure) -> None:
    if cells and loads:
        above, below = figure.subfigures(2, 1, squeeze=False)[:, 0]
        figure.set_size_inches(11, 8)
        report.draw_grid(cells, above)
        report.draw_load(loads, below)
    elif cells:
        report.draw_grid(cells, figure)
    else:
        report.draw_load(loads, figure)
