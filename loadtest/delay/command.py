"""`foreword bench delay`: the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any

import typer

from foreword.protocol.words import Rule
from loadtest.bench import options
from loadtest.bench.bar import Bar
from loadtest.bench.command import bench_command
from loadtest.bench.findings import Findings, Table
from loadtest.bench.frame import Destination, carry_out
from loadtest.bench.parts import read_parts
from loadtest.bench.progress import Progress
from loadtest.delay.arms import Draft, Ran, World, run
from loadtest.delay.pair import MODEL, pair_prompts, run_pair
from loadtest.overhead.formula import expected_emitted

AHEAD = World(draft_ms=5.0, target_ms=20.0, agreement=0.8, rtt_ms=1.0)
AHEAD_GAMMA = 4
"""The best of the synchronous round at these costs, beside 3."""
SHIPPED = World(draft_ms=2.0, target_ms=20.0, agreement=0.9, rtt_ms=20.0)
GAMMAS = range(1, 33)
AHEAD_BAR, SHIPPED_BAR = 1.3, 1.25
DRAFTS = (
    Draft("match, temperature 0", Rule.MATCH, 0.0),
    *(
        Draft(f"match, {draw}, temperature {temperature:g}", Rule.MATCH, temperature, draw)
        for draw in ("coupled", "sampled", "argmax")
        for temperature in (0.7, 1.0)
    ),
    *(Draft(f"block, temperature {temperature:g}", Rule.BLOCK, temperature) for temperature in (0.7, 1.0)),
)


class Part(Enum):
    """What is measured."""

    AHEAD = "ahead"
    SHIPPED = "shipped"
    PAIR = "pair"


@dataclass(frozen=True, slots=True)
class _Pair:
    draft: Draft
    without: Ran
    ahead: Ran

    @property
    def gain(self) -> float:
        return self.ahead.tokens_s / self.without.tokens_s


def delay(
    only: Annotated[list[str] | None, typer.Option(help="Parts: ahead, shipped, pair; several with commas.")] = None,
    gamma: Annotated[int, typer.Option(help="Candidates of a block where blocks are shipped.", min=1, max=16)] = 8,
    alternatives: Annotated[int, typer.Option(help="Most blocks that are shipped for a round.", min=1, max=32)] = 8,
    per_category: Annotated[int, typer.Option(help="Dev prompts of each category for the real pair.", min=1)] = 1,
    json: options.Json = None,
    plot: options.Plot = None,
) -> None:
    """Measure what a draft hides by working ahead: drafting time, and with blocks shipped ahead the network too."""
    parts = read_parts(only or (), Part)
    settings = {
        "parts": [part.value for part in parts],
        "gamma": gamma,
        "alternatives": alternatives,
        "per_category": per_category,
    }
    carry_out(partial(_measure, parts, gamma, alternatives, per_category), settings, Destination(json, plot))


command = bench_command("delay", delay)


async def _measure(
    parts: Sequence[Part], gamma: int, alternatives: int, per_category: int, progress: Progress
) -> Findings:
    two = len(DRAFTS) * ((Part.AHEAD in parts) + (Part.PAIR in parts)) + (Part.SHIPPED in parts)
    progress.begin(2 * two)
    pairs = []
    for draft in DRAFTS if Part.AHEAD in parts else ():
        made = []
        for ahead in (False, True):
            progress.now(f"{draft.name}, {'ahead' if ahead else 'in turn'}")
            made.append(await run(AHEAD, draft, gamma=AHEAD_GAMMA, ahead=ahead))
            progress.done()
        pairs.append(_Pair(draft, *made))
    shipped = []
    for number in (0, alternatives) if Part.SHIPPED in parts else ():
        progress.now(f"RTT {SHIPPED.rtt_ms:g} ms, {number or 'no'} blocks shipped ahead")
        shipped.append(await run(SHIPPED, DRAFTS[0], gamma=gamma, ahead=True, alternatives=number))
        progress.done()
    real = []
    if Part.PAIR in parts:
        prompts = pair_prompts(per_category)
        without, ahead_of = [
            await run_pair(DRAFTS, prompts, progress, gamma=AHEAD_GAMMA, ahead=ahead) for ahead in (False, True)
        ]
        real = [_Pair(draft, without[draft.name], ahead_of[draft.name]) for draft in DRAFTS]
    return _findings(pairs, shipped, real)


def _findings(pairs: Sequence[_Pair], shipped: Sequence[Ran], real: Sequence[_Pair]) -> Findings:
    figures: dict[str, Any] = {}
    bars, tables = [], []
    if pairs:
        figures["ahead"] = _pairs_json(pairs)
        bars.append(Bar(f"{pairs[0].draft.name}: tokens/s with drafting ahead over without", pairs[0].gain, AHEAD_BAR))
        world = AHEAD
        title = (
            f"Drafting ahead: draft {world.draft_ms:g} ms, target {world.target_ms:g} ms, agreement "
            f"{world.agreement:g}, RTT {world.rtt_ms:g} ms, γ {AHEAD_GAMMA}"
        )
        tables.append(_ahead_table(title, pairs))
    if shipped:
        formula = best_formula(SHIPPED)
        figures["shipped"] = {"formula_tokens_s": formula, "without": _json(shipped[0]), "with": _json(shipped[1])}
        bars.append(Bar("blocks shipped ahead: tokens/s over the formula", shipped[1].tokens_s / formula, SHIPPED_BAR))
        tables.append(_shipped_table(shipped, formula))
    if real:
        figures["pair"] = _pairs_json(real)
        tables.append(
            _ahead_table(f"Drafting ahead: embedded with {MODEL}, all on this machine, γ {AHEAD_GAMMA}", real)
        )
    return Findings(figures=figures, bars=bars, tables=tables)


def best_formula(world: World) -> float:
    """Return the tokens a second of the synchronous round at its best γ: E(γ) / (γ·t_d + t_v + RTT)."""
    return max(
        1000.0 * expected_emitted(world.agreement, gamma) / (gamma * world.draft_ms + world.target_ms + world.rtt_ms)
        for gamma in GAMMAS
    )


def _pairs_json(pairs: Sequence[_Pair]) -> list[dict[str, Any]]:
    return [{"draft": pair.draft.name, "without": _json(pair.without), "with": _json(pair.ahead)} for pair in pairs]


def _json(ran: Ran) -> dict[str, Any]:
    return {
        "tokens_s": round(ran.tokens_s, 2),
        "acceptance_length": round(ran.acceptance_length, 3),
        "hit_rate": None if ran.hit_rate is None else round(ran.hit_rate, 3),
        "hits": {ending: {"hit": hit, "of": tried} for ending, (hit, tried) in ran.hits.items()},
        "target_idle": round(1.0 - ran.target_busy, 3),
    }


def _ahead_table(title: str, pairs: Sequence[_Pair]) -> Table:
    endings = sorted({ending for pair in pairs for ending in pair.ahead.hits})
    rows = tuple(
        (
            pair.draft.name,
            pair.ahead.hit_rate,
            *(_share(pair.ahead.hits.get(ending)) for ending in endings),
            pair.without.tokens_s,
            pair.ahead.tokens_s,
            pair.gain,
            1.0 - pair.ahead.target_busy,
        )
        for pair in pairs
    )
    rates = ("tokens/s without", "with", "gain", "target idle")
    columns = ("draft", "hits", *(f"of {ending}" for ending in endings), *rates)
    return Table(title, columns, rows)


def _share(count: tuple[int, int] | None) -> float | None:
    return None if count is None else count[0] / count[1]


def _shipped_table(shipped: Sequence[Ran], formula: float) -> Table:
    names = ("none shipped", "shipped")
    rows = tuple(
        (name, ran.hit_rate, ran.tokens_s, ran.tokens_s / formula, 1.0 - ran.target_busy)
        for name, ran in zip(names, shipped, strict=True)
    )
    columns = ("blocks before the verdict", "hits", "tokens/s", "over the formula at its best γ", "target idle")
    return Table(f"Shipped ahead: RTT {SHIPPED.rtt_ms:g} ms, agreement {SHIPPED.agreement:g}", columns, rows)
