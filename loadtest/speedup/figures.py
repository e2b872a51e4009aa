"""From texts to figures, bars and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from foreword.protocol.info import CostPoint
from loadtest.bench.bar import Bar, Side
from loadtest.bench.findings import Cell, Findings, Table
from loadtest.speedup.assisted import Assisted
from loadtest.speedup.plan import LAWS, Plan, Sampling
from loadtest.speedup.texts import Spent, Text, totals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OVERALL = "all"
SPEEDUPS = dict(zip(LAWS, (1.5, 1.3, 1.1), strict=True))
"""Tokens per second with the draft over those without, over all prompts."""
EDIT = "edit", 2.0
"""A category whose output repeats its input, and what it should gain at temperature 0."""
FORMULA = 0.93
COST, COST_OF_16 = 0.10, 3.0
"""Most that drafting a candidate may cost, in steps of the target; and for 16 sessions, in that for one."""
ASSISTED = 1.3
"""Times the tokens per second of transformers' assisted generation."""

Pairs = Mapping[Sampling, Sequence[tuple[Text, Text]]]
"""For every law: each prompt's text without a draft, and with."""


@dataclass(frozen=True, slots=True)
class Row:
    """One category under one law."""

    category: str
    texts: int
    plain: Spent
    drafted: Spent

    @property
    def speedup(self) -> float:
        """Tokens per second with the draft over those without."""
        return self.drafted.tokens_per_s / self.plain.tokens_per_s

    def json(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        return {
            "category": self.category,
            "texts": self.texts,
            "tokens": self.drafted.tokens,
            "speedup": self.speedup,
            "acceptance_length": self.drafted.acceptance_length,
            "block_length": self.drafted.block_length,
            "kept_share": self.drafted.kept_share,
            "tokens_per_s": self.drafted.tokens_per_s,
            "plain_tokens_per_s": self.plain.tokens_per_s,
            "share_of_formula": self.drafted.share_of_formula,
            "draft_ms": self.drafted.draft_ms,
            "step_ms": self.drafted.step_ms,
            "plain_step_ms": self.plain.step_ms,
        }

    @property
    def cost_ratio(self) -> float:
        """Time of drafting one candidate over that of a plain step of the target."""
        return self.drafted.draft_ms / self.plain.step_ms


def rows_of(pairs: Sequence[tuple[Text, Text]]) -> list[Row]:
    """Return a row for every category, and the last for all."""
    categories = sorted({plain.category for plain, _ in pairs})
    rows = [_row(name, [pair for pair in pairs if pair[0].category == name]) for name in categories]
    return [*rows, _row(OVERALL, pairs)]


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured."""

    pairs: Pairs
    assisted: Sequence[tuple[Text, Assisted]]
    """Drafted texts at temperature 0 beside those of transformers."""
    manner: str
    """What assisted transformers."""
    draft_costs: Sequence[CostPoint]
    """What the draft says that its steps cost."""


def findings_of(plan: Plan, found: Found) -> Findings:
    """Return everything that was found."""
    pairs, assisted, manner = found.pairs, found.assisted, found.manner
    rows = {law: rows_of(texts) for law, texts in pairs.items()}
    costs = {point.rows: point.step_us for point in found.draft_costs}
    figures: dict[str, Any] = {"laws": {law.name: [row.json() for row in found] for law, found in rows.items()}}
    figures["draft_step_us"] = costs
    bars = _bars(rows)
    if 1 in costs and 16 in costs:
        bars.append(Bar("drafting for 16 sessions over one", costs[16] / costs[1], COST_OF_16, Side.AT_MOST))
    notes = [
        f"{plan.manner}, one session, {plan.dtype.value}; prompts cached; speed-up: all tokens over all time of calls"
    ]
    if assisted:
        ours = totals(text for text, _ in assisted).tokens_per_s
        theirs = sum(one.tokens for _, one in assisted) / sum(one.seconds for _, one in assisted)
        figures["assisted"] = {"ours": ours, "theirs": theirs, "ratio": ours / theirs, "with": manner}
        bars.append(Bar("T 0: tokens/s over transformers' assisted generation", ours / theirs, ASSISTED))
        notes.append(f"transformers' assisted generation ({manner}): {theirs:.1f} tokens/s, here {ours:.1f}")
    return Findings(
        figures=figures,
        bars=bars,
        tables=[_table(law, found) for law, found in rows.items()],
        notes=notes,
        draw=partial(_draw, rows),
    )


def _row(name: str, pairs: Sequence[tuple[Text, Text]]) -> Row:
    return Row(name, len(pairs), totals(plain for plain, _ in pairs), totals(drafted for _, drafted in pairs))


def _bars(rows: Mapping[Sampling, Sequence[Row]]) -> list[Bar]:
    bars = []
    for law, found in rows.items():
        by_name = {row.category: row for row in found}
        overall = by_name[OVERALL]
        if law in SPEEDUPS:
            bars.append(Bar(f"{law.name}: speed-up", overall.speedup, SPEEDUPS[law]))
        name, bound = EDIT
        if law.temperature == 0 and name in by_name:
            bars.append(Bar(f"{law.name}: speed-up of {name}", by_name[name].speedup, bound))
        if law.temperature == 0:
            bars.append(Bar(f"{law.name}: a candidate, in target steps", overall.cost_ratio, COST, Side.AT_MOST))
        bars.append(Bar(f"{law.name}: share of the formula", overall.drafted.share_of_formula, FORMULA))
    return bars


def _table(law: Sampling, rows: Sequence[Row]) -> Table:
    columns = (
        *("category", "speed-up", "per step", "block", "kept", "tokens/s", "plain", "of formula"),
        *("draft, ms", "step, ms", "plain step, ms"),
    )
    cells: list[tuple[Cell, ...]] = [
        (
            row.category,
            row.speedup,
            row.drafted.acceptance_length,
            row.drafted.block_length,
            row.drafted.kept_share,
            row.drafted.tokens_per_s,
            row.plain.tokens_per_s,
            row.drafted.share_of_formula,
            row.drafted.draft_ms,
            row.drafted.step_ms,
            row.plain.step_ms,
        )
        for row in rows
    ]
    return Table(law.name, columns, tuple(cells))


def _draw(rows: Mapping[Sampling, Sequence[Row]], figure: Figure) -> None:
    figure.set_figwidth(9)
    axes = figure.subplots()
    width = 0.8 / len(rows)
    for number, (law, found) in enumerate(rows.items()):
        places = [place + (number - (len(rows) - 1) / 2) * width for place in range(len(found))]
        axes.bar(places, [row.speedup for row in found], width, label=law.name)
    names = [row.category for row in next(iter(rows.values()))]
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.axhline(1.0, color="0.3", linewidth=0.8)
    axes.set_ylabel("speed-up over γ = 0")
    axes.legend()
