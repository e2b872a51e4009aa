"""`foreword bench engine`: the target's engine against transformers on the same weights, dtype and threads."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from loadtest.bench import options
from loadtest.bench.command import bench_command
from loadtest.bench.findings import Findings
from loadtest.bench.frame import Destination, carry_out
from loadtest.bench.parts import read_parts
from loadtest.bench.progress import Progress
from loadtest.engine import batch, one, passes, prefix, prompt
from loadtest.engine.plan import Part, Plan
from loadtest.engine.report import Report, findings_of
from loadtest.engine.rig import Rig
from loadtest.prompts import read_prompts

DEFAULTS = Plan()
_PARTS: Final[Mapping[Part, Callable[[Rig, Plan, Progress], Awaitable[Report]]]] = {
    Part.ONE: one.measure,
    Part.BATCH: batch.measure,
    Part.PASSES: passes.measure,
    Part.PREFIX: prefix.measure,
    Part.PROMPT: prompt.measure,
}


def engine(
    only: Annotated[
        list[str] | None, typer.Option(help="Parts: one, batch, passes, prefix, prompt; several with commas.")
    ] = None,
    model: Annotated[str, typer.Option(help="Model of all arms, with weights.")] = DEFAULTS.model,
    prompts: Annotated[Path | None, typer.Option(help="JSON lines; the 100 dev prompts by default.")] = None,
    threads: Annotated[int, typer.Option(help="Threads of every arm; 0 takes all cores.", min=0)] = 0,
    tokens: Annotated[int, typer.Option(help="Output of a session that runs alone.")] = DEFAULTS.tokens,
    sessions: Annotated[int, typer.Option(help="Sessions that run together.")] = DEFAULTS.sessions,
    repeats: options.Repeats = DEFAULTS.repeats,
    json: options.Json = None,
    plot: options.Plot = None,
) -> None:
    """Compare the engine with transformers: one session, many, forward passes, cached beginnings, long prompts."""
    plan = Plan(
        parts=frozenset(read_parts(only or (), Part)),
        model=model,
        threads=threads or len(os.sched_getaffinity(0)),
        tokens=tokens,
        sessions=sessions,
        repeats=repeats,
        chats=() if prompts is None else read_prompts(prompts),
    )
    carry_out(partial(measure, plan), plan.json(), Destination(json, plot))


command = bench_command("engine", engine)


async def measure(plan: Plan, progress: Progress) -> Findings:
    """Carry out the parts of the plan, one after the other."""
    parts = [part for part in Part if part in plan.parts]
    progress.begin(len(parts))
    reports = []
    async with Rig(plan) as rig:
        for part in parts:
            progress.now(f"{part.value}: starting")
            reports.append(await _PARTS[part](rig, plan, progress))
            progress.done()
    return findings_of(reports, plan.repeats)
