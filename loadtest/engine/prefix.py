"""The second request with the same long beginning: how much of it is not read again, and what that saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from foreword.models.dtype import Dtype
from loadtest.bench.bar import Bar, Side
from loadtest.bench.findings import Cell, Table
from loadtest.bench.interleave import interleaved
from loadtest.bench.progress import Progress
from loadtest.bench.summary import Summary, median, summarize
from loadtest.engine.plan import Deployment, Part, Plan
from loadtest.engine.rates import Output
from loadtest.engine.report import Report, with_interval
from loadtest.engine.rig import Rig

SKIPPED = 0.95
"""Share of the second prompt that must come from the cache."""
GAMMAS = (0, 4)
_OWN = 24
"""Tokens of each prompt behind the common ones."""
_OUTPUT = 8
_STRIDE = 5


@dataclass(frozen=True, slots=True)
class Pair:
    """Two requests with the same beginning, one after the other."""

    first: Output
    second: Output

    @property
    def skipped(self) -> float:
        """Share of the second prompt that was not read again."""
        return self.second.cached_tokens / self.second.prompt_tokens

    @property
    def gain(self) -> float:
        """Time to the first token of the first request over that of the second."""
        return self.first.arrivals[0] / self.second.arrivals[0]


async def measure(rig: Rig, plan: Plan, progress: Progress) -> Report:
    """Ask twice with each beginning, with and without a draft, after one pair of each that does not count."""
    services = await rig.services(Deployment(Dtype.FLOAT32, draft="lookup"))
    prompts = await rig.prompts()
    pairs: dict[int, list[Pair]] = {gamma: [] for gamma in GAMMAS}
    for number, (repeat, gamma) in enumerate([*((-1, g) for g in GAMMAS), *interleaved(GAMMAS, plan.repeats)]):
        progress.now(f"a beginning of {plan.prefix} tokens, γ {gamma}")
        length = plan.prefix if repeat >= 0 else plan.prefix // 8
        common = prompts.long(length, number)
        salt = f"prefix {number}".encode()
        outputs = [
            await services.output((*common, *prompts.long(_OWN, other)), _OUTPUT, salt=salt, gamma=gamma)
            for other in (_STRIDE * number + 1, _STRIDE * number + 2)
        ]
        if repeat >= 0:
            pairs[gamma].append(Pair(*outputs))
    return report_of(pairs, plan.prefix)


def report_of(pairs: Mapping[int, Sequence[Pair]], prefix: int) -> Report:
    """Return the figures by γ."""
    without, with_draft = (pairs[gamma] for gamma in GAMMAS)
    apart = max(abs(a.skipped - b.skipped) for a, b in zip(without, with_draft, strict=True))
    return Report(
        Part.PREFIX,
        figures={f"gamma_{gamma}": _json(pairs[gamma]) for gamma in GAMMAS},
        bars=[
            Bar(f"share of the prompt from the cache, γ {GAMMAS[0]}", median([p.skipped for p in without]), SKIPPED),
            Bar("difference of that share with a draft", apart, 0.0, Side.AT_MOST),
        ],
        tables=[_table(pairs, prefix)],
        draw=partial(_draw, pairs),
    )


def _first_ms(outputs: Sequence[Output]) -> Summary:
    return summarize([1e3 * output.arrivals[0] for output in outputs])


def _json(pairs: Sequence[Pair]) -> dict[str, Any]:
    return {
        "skipped": asdict(summarize([pair.skipped for pair in pairs])),
        "first_token_ms": asdict(_first_ms([pair.first for pair in pairs])),
        "first_token_cached_ms": asdict(_first_ms([pair.second for pair in pairs])),
        "gain": asdict(summarize([pair.gain for pair in pairs])),
    }


def _table(pairs: Mapping[int, Sequence[Pair]], prefix: int) -> Table:
    every = list(pairs.values())
    rows: tuple[tuple[Cell, ...], ...] = (
        ("share of the second prompt from the cache", *(median([p.skipped for p in some]) for some in every)),
        ("time to first token, ms", *(with_interval(_first_ms([p.first for p in some])) for some in every)),
        ("of the second request, ms", *(with_interval(_first_ms([p.second for p in some])) for some in every)),
        ("ratio", *(with_interval(summarize([p.gain for p in some])) for some in every)),
    )
    title = f"The same {prefix} tokens again, {_OWN} others behind them, float32"
    return Table(title, ("", *(f"γ {gamma}" for gamma in pairs)), rows)


def _draw(pairs: Mapping[int, Sequence[Pair]], axes: Any) -> None:
    names, values = [], []
    for gamma, some in pairs.items():
        names += [f"read, γ {gamma}", f"cached, γ {gamma}"]
        values += [_first_ms([p.first for p in some]).median, _first_ms([p.second for p in some]).median]
    axes.barh(names, values)
    axes.invert_yaxis()
    axes.set_xlabel("time to first token, ms")
