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
from loadtest.overhead.bare import BareTrial, run_bare
from loadtest.overhead.figures import bare_json, bars_of, figures_of
from loadtest.overhead.plan import Plan, read_sessions
from loadtest.overhead.tables import bare_table, draw_rounds, notes_of, tables_of
from loadtest.overhead.trial import Trial, run_trial

DEFAULTS = Plan()
_WARM_UP = -1
"""Number of the repeat that nobody looks at."""
_BARE = 0
"""Number of sessions of the arm that runs the bare processes."""


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
    """Run all trials, the numbers of sessions on one stack, interleaved, after one of each that does not count."""
    arms_to_run = (_BARE, *plan.sessions)
    progress.begin(len(arms_to_run) * (plan.repeats + 1))
    progress.now("starting the services")
    stack = Stack(plan.stack())
    trials: list[Trial] = []
    bare: list[BareTrial] = []
    async with stack, AsyncClient(stack.address) as client:
        pids = family({name: stack.pid(name) for name in stack.services})
        for repeat, count in [
            *((_WARM_UP, count) for count in arms_to_run),
            *interleaved(arms_to_run, plan.repeats),
        ]:
            progress.now("bare processes" if count == _BARE else f"{count} sessions")
            if count == _BARE:
                bare += [await run_bare(plan)] if repeat != _WARM_UP else []
            else:
                trial = await run_trial(client, plan, count, repeat=repeat, pids=pids)
                trials += [trial] if repeat != _WARM_UP else []
            progress.done()
    arms = figures_of(plan, trials)
    return Findings(
        figures={"arms": [arm.json(plan) for arm in arms], "bare": bare_json(bare)},
        bars=bars_of(arms),
        tables=[*tables_of(arms), bare_table(bare)],
        notes=notes_of(plan, arms),
        draw=partial(draw_rounds, arms),
    )
