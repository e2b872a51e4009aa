"""The figures as tables and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadtest.bench.findings import Cell, Table
from loadtest.bench.show import number
from loadtest.bench.summary import Summary, median, summarize
from loadtest.overhead.bare import BareTrial
from loadtest.overhead.figures import OVERLAPPING, PARTS, ArmFigures
from loadtest.overhead.formula import expected_emitted
from loadtest.overhead.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tables_of(arms: Sequence[ArmFigures]) -> list[Table]:
    """Return the tables: throughput against the formula, the parts of a round, CPU time."""
    return [_throughput(arms), _parts(arms), *_cpu(arms)]


def bare_table(trials: Sequence[BareTrial]) -> Table:
    """Return the table of the bare processes, for comparison with one session."""
    rows: tuple[tuple[Cell, ...], ...] = (
        ("share", _with_interval(summarize([trial.share for trial in trials]))),
        ("added to the steps, ms", median([trial.added_ms for trial in trials])),
        ("round, ms", median([trial.round_ms for trial in trials])),
    )
    return Table("The same processes and streams with nothing in them", ("", "1 session"), rows)


def notes_of(plan: Plan, arms: Sequence[ArmFigures]) -> list[str]:
    """Return what a reader has to know."""
    count = arms[0].share.count
    coverage = f"{arms[0].share.coverage:.0%}"
    return [
        "formula: n·E(γ) / (γ·t_draft + t_target + RTT), RTT 0; step times and E(γ) as measured in the same trial",
        f"E(γ) in theory {expected_emitted(plan.agreement, plan.gamma):.3f}; of settings: the same formula with "
        f"{plan.draft_ms:g} ms and {plan.target_ms:g} ms",
        f"medians of {count} repeats, interleaved; in brackets an interval that holds the median with {coverage}",
    ]


def _throughput(arms: Sequence[ArmFigures]) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = (
        ("tokens/s", *(arm.median(lambda t: t.steady.tokens_per_s) for arm in arms)),
        ("formula, tokens/s", *(arm.ideal for arm in arms)),
        ("share", *(_with_interval(arm.share) for arm in arms)),
        ("share of settings", *(_with_interval(arm.share_of_settings) for arm in arms)),
        ("E(γ)", *(arm.median(lambda t: t.emitted) for arm in arms)),
        ("γ·t_draft, ms", *(arm.median(lambda t: t.cost.draft_ms) for arm in arms)),
        ("t_target, ms", *(arm.median(lambda t: t.cost.target_ms) for arm in arms)),
        ("other work, cores", *(arm.other_cores() for arm in arms)),
        ("late blocks", *(str(sum(trial.late for trial in arm.trials)) for arm in arms)),
    )
    return Table("Tokens per second against the formula", ("", *_heads(arms)), rows)


def _parts(arms: Sequence[ArmFigures]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in PARTS:
        label = name.replace("_", " ") + (" (overlaps)" if name in OVERLAPPING else "")
        rows.append((label, *(arm.part_ms(name) for arm in arms)))
    rows.append(("not accounted for", *(arm.other_ms for arm in arms)))
    rows.append(("round", *(arm.round_ms for arm in arms)))
    return Table("A round, ms", ("part", *_heads(arms)), tuple(rows))


def _cpu(arms: Sequence[ArmFigures]) -> list[Table]:
    spent = [arm.cpu_ms() for arm in arms]
    names = dict.fromkeys(name for one in spent for name in one)
    rows: list[tuple[Cell, ...]] = [(name, *(one.get(name) for one in spent)) for name in names]
    if not rows:
        return []
    rows.append(("all", *(sum(one.values()) for one in spent)))
    return [Table("CPU time of a round of all sessions, ms", ("process", *_heads(arms)), tuple(rows))]


def draw_rounds(arms: Sequence[ArmFigures], figure: Figure) -> None:
    """Draw the parts of a round for each number of sessions, and what the formula leaves of it."""
    axes = figure.subplots()
    names = [name for name in PARTS if name not in OVERLAPPING]
    places = range(len(arms))
    ends = [0.0] * len(arms)
    for name in names:
        widths = [arm.part_ms(name) or 0.0 for arm in arms]
        axes.barh(places, widths, left=ends, label=name.replace("_", " "))
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    for place, arm in zip(places, arms, strict=True):
        axes.vlines(arm.round_ms, place - 0.45, place + 0.45, colors="black")
    axes.set_yticks(places, _heads(arms))
    axes.set_xlabel("ms of a round; black: the round as the client saw it")
    figure.legend(loc="outside upper center", ncols=len(names), frameon=False)


def _heads(arms: Sequence[ArmFigures]) -> list[str]:
    return ["1 session" if arm.sessions == 1 else f"{arm.sessions} sessions" for arm in arms]


def _with_interval(summary: Summary) -> str:
    return f"{number(summary.median)} [{number(summary.low)}, {number(summary.high)}]"
