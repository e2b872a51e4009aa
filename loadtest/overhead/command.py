"""`foreword bench overhead`: what the servers add to a round, on synthetic models with set step times."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from foreword.client import AsyncClient
from foreword.stack.stack import Stack
from loadtest.bench import options
from loadtest.bench.cpu import family
from loadtest.bench.findings import Findings
from loadtest.bench.frame import Destination, carry_out
from loadtest.bench.interleave import interleaved
from loadtest.bench.progress import Progress
from loadtest.overhead.figures import bars_of, figures_of
from loadtest.overhead.plan import Plan, read_sessions
from loadtest.overhead.tables import draw_rounds, notes_of, tables_of
from loadtest.overhead.trial import run_trial

DEFAULTS = Plan()
_WARM_UP = -1
"""Number of the repeat that nobody looks at."""


def overhead(
    sessions: Annotated[
        str, typer.Option(help="How many sessions side by side; several numbers with commas.")
    ] = "1,32",
    tokens: Annotated[int, typer.Option(help="Output tokens of a session.")] = DEFAULTS.tokens,
    gamma: Annotated[int, typer.Option(help="Candidates per block.")] = DEFAULTS.gamma,
    draft_ms: Annotated[float, typer.Option(help="Step time of the draft.")] = DEFAULTS.draft_ms,
    target_ms: Annotated[float, typer.Option(help="Step time of the target.")] = DEFAULTS.target_ms,
    agreement: Annotated[float, typer.Option(help="Probability that a candidate is kept.")] = DEFAULTS.agreement,
    repeats: options.Repeats = DEFAULTS.repeats,
    json: options.Json = None,
    plot: options.Plot = None,
) -> None:
    """Start everything on this machine with synthetic models, and compare tokens per second with the formula."""
    plan = Plan(
        sessions=read_sessions(sessions),
        tokens=tokens,
        gamma=gamma,
        draft_ms=draft_ms,
        target_ms=target_ms,
        agreement=agreement,
        repeats=repeats,
    )
    carry_out(partial(measure, plan), plan.json(), Destination(json, plot))


async def measure(plan: Plan, progress: Progress) -> Findings:
    """Run all trials on one stack, the numbers of sessions interleaved, after one of each that does not count."""
    progress.begin(len(plan.sessions) * (plan.repeats + 1))
    progress.now("starting the services")
    stack = Stack(plan.stack())
    trials = []
    async with stack, AsyncClient(stack.address) as client:
        pids = family({name: stack.pid(name) for name in stack.services})
        for repeat, count in [
            *((_WARM_UP, count) for count in plan.sessions),
            *interleaved(plan.sessions, plan.repeats),
        ]:
            progress.now(f"{count} sessions")
            trial = await run_trial(client, plan, count, repeat=repeat, pids=pids)
            if repeat != _WARM_UP:
                trials.append(trial)
            progress.done()
    arms = figures_of(plan, trials)
    return Findings(
        figures={"arms": [arm.json(plan) for arm in arms]},
        bars=bars_of(arms),
        tables=tables_of(arms),
        notes=notes_of(plan, arms),
        draw=partial(draw_rounds, arms),
    )
