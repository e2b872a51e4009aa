"""`foreword bench exactness`: texts of running services against what they have to be, counted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from loadtest.bench import options
from loadtest.bench.bar import Bar, Side
from loadtest.bench.command import bench_command
from loadtest.bench.findings import Findings, Table
from loadtest.bench.frame import Destination, carry_out
from loadtest.bench.parts import read_parts
from loadtest.bench.progress import Progress
from loadtest.exactness.comparison import Tally, Verdict
from loadtest.exactness.plan import Part, Plan
from loadtest.exactness.study import Results, SampledArm, run
from loadtest.prompts import dev_prompts, read_prompts

GATE = 1e-4
"""p-value over all sampled arms under which the law is refuted (Bonferroni)."""


def exactness(
    prompts: Annotated[Path | None, typer.Option(help="JSON lines; the 100 dev prompts by default.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Parts: greedy, coupled, sampled; several with commas.")
    ] = None,
    first: Annotated[int, typer.Option(help="Take only so many prompts.", min=1)] = 100,
    max_tokens: Annotated[int, typer.Option(help="Most output tokens of a greedy text.", min=1)] = 128,
    coupled_tokens: Annotated[int, typer.Option(help="Most output tokens of a seeded text.", min=1)] = 64,
    texts: Annotated[int, typer.Option(help="Sampled texts for each rule and law.", min=1)] = 1000,
    side_by_side: Annotated[int, typer.Option(help="Requests at a time.", min=1)] = 16,
    json: options.Json = None,
) -> None:
    """Compare greedy texts with transformers, seeded texts with each other, and sampled ones with their laws."""
    chosen = dev_prompts() if prompts is None else read_prompts(prompts)
    plan = Plan(
        prompts=chosen[:first],
        parts=frozenset(read_parts(only or (), Part)),
        max_tokens=max_tokens,
        coupled_tokens=coupled_tokens,
        texts=texts,
        side_by_side=side_by_side,
    )
    carry_out(partial(_measure, plan), plan.json(), Destination(json))


command = bench_command("exactness", exactness)


async def _measure(plan: Plan, progress: Progress) -> Findings:
    results = await run(plan, progress)
    return Findings(
        figures={
            "greedy": [tally.json() for tally in results.greedy],
            "coupled": [tally.json() for tally in results.coupled],
            "sampled": [{"arm": arm.name, **arm.findings.json()} for arm in results.sampled],
        },
        bars=_bars(results),
        tables=_tables(results),
        notes=("near tie: parted where the first choice leads the second by less than the stated tolerance",),
    )


def _bars(results: Results) -> list[Bar]:
    bars = []
    for name, tallies in (("greedy", results.greedy), ("coupled", results.coupled)):
        if tallies:
            different = sum(tally.count(Verdict.DIFFERENT) for tally in tallies)
            bars.append(Bar(f"{name}: texts that differ without a near-tie", float(different), 0.0, Side.AT_MOST))
    if results.sampled:
        smallest = min(arm.findings.p_value for arm in results.sampled)
        bars.append(Bar("sampled: smallest p-value", smallest, GATE / len(results.sampled)))
    return bars


def _tables(results: Results) -> list[Table]:
    tables = []
    if results.greedy:
        tables.append(_texts("Greedy texts against generate of transformers", results.greedy))
    if results.coupled:
        tables.append(_texts("Seeded texts against those without a draft", results.coupled))
    if results.sampled:
        tables.append(_laws(results.sampled))
    return tables


def _texts(title: str, tallies: Sequence[Tally]) -> Table:
    columns = ("arm", "texts", "tokens", "equal", "near ties", "different", "verifications", "kept")
    rows = tuple(
        (
            tally.arm,
            str(len(tally.comparisons)),
            str(tally.tokens),
            *(str(tally.count(verdict)) for verdict in Verdict),
            str(sum(usage.verifications for usage in tally.usages)),
            str(sum(usage.accepted_tokens for usage in tally.usages)),
        )
        for tally in tallies
    )
    return Table(title, columns, rows)


def _laws(arms: Sequence[SampledArm]) -> Table:
    columns = ("arm", "tokens", "verifications", "kept", "p, joint", "p, by what was kept", "p, by id")
    rows = tuple(
        (
            arm.name,
            str(arm.findings.tokens),
            str(arm.findings.verifications),
            str(arm.findings.accepted),
            arm.findings.joint_p,
            arm.findings.written_p,
            arm.findings.ids_p,
        )
        for arm in arms
    )
    return Table("Sampled texts against their laws", columns, rows)
