"""Tables, bars and plots of `foreword bench regret`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING

from loadtest.bench.bar import Bar, Side
from loadtest.bench.findings import Findings, Table
from loadtest.regret.cells import AGREEMENTS, RTTS_MS
from loadtest.regret.drift import Drifted
from loadtest.regret.judge import Judged
from loadtest.regret.load import Loaded
from loadtest.regret.real import Compared

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

MEAN, WORST, PLAIN = 0.97, 0.92, 0.97
DRIFT, LOAD, PRICE_CV, REAL = 0.95, 0.97, 0.05, 0.1


def of_grid(found: Sequence[Judged]) -> Findings:
    """Return the figures of all cells, and what they are held against."""
    columns = ("cell", "tokens/s, measured γ", "best γ", "tokens/s", "over the best", "over γ = 0")
    rows = tuple(
        (one.cell.name, one.adaptive, one.best_gamma, one.fixed[one.best_gamma], one.to_best, one.to_plain)
        for one in found
    )
    return Findings(
        figures={"grid": [_cell_json(one) for one in found]},
        bars=[
            Bar("mean of all cells, over the best fixed γ", fmean(one.to_best for one in found), MEAN),
            Bar("worst cell, over the best fixed γ", min(one.to_best for one in found), WORST),
            Bar("worst cell, over γ = 0", min(one.to_plain for one in found), PLAIN),
        ],
        tables=[Table("Tokens a second of all sessions", columns, rows)],
    )


def _cell_json(one: Judged) -> dict[str, object]:
    return asdict(one.cell) | {
        "tokens_s": round(one.adaptive, 2),
        "fixed_tokens_s": {str(gamma): round(rate, 2) for gamma, rate in one.fixed.items()},
        "best_gamma": one.best_gamma,
        "to_best": round(one.to_best, 4),
        "to_plain": round(one.to_plain, 4),
    }


def of_drift(found: Sequence[Drifted]) -> Findings:
    """Return the figures of changing conditions."""
    columns = ("change", "over the oracle", "by stage", "oracle's γ", "over the best fixed γ", "which")
    rows = tuple(
        (
            one.name,
            one.to_oracle,
            ", ".join(f"{share:.2f}" for share in one.by_stage),
            ", ".join(map(str, one.oracle_gammas)),
            one.to_fixed,
            one.best_gamma,
        )
        for one in found
    )
    figures = [
        asdict(one) | {"to_oracle": round(one.to_oracle, 4), "to_fixed": round(one.to_fixed, 4)} for one in found
    ]
    return Findings(
        figures={"drift": figures},
        bars=[Bar(f"{one.name}: over the oracle", one.to_oracle, DRIFT) for one in found],
        tables=[Table("Tokens while conditions change", columns, rows)],
    )


def of_load(found: Sequence[Loaded]) -> Findings:
    """Return the figures of growing load."""
    columns = (
        *("sessions", "tokens/s, measured γ", "γ = 0", "best γ", "tokens/s", "over the better"),
        *("price", "its variation", "target idle", "draft idle"),
    )
    rows = tuple(
        (
            str(one.sessions),
            *(one.adaptive, one.plain, one.best_gamma, one.best_fixed, one.to_best),
            *(one.price, one.price_cv, max(0.0, 1.0 - one.target_busy), max(0.0, 1.0 - one.draft_busy)),
        )
        for one in found
    )
    return Findings(
        figures={"load": [asdict(one) | {"to_best": round(one.to_best, 4)} for one in found]},
        bars=[
            Bar("worst load, over the better of γ = 0 and the best fixed γ", min(one.to_best for one in found), LOAD),
            Bar("largest variation of the price", max(one.price_cv for one in found), PRICE_CV, Side.AT_MOST),
        ],
        tables=[Table("Tokens a second of all sessions, steps of 1 ms a row over 16", columns, rows)],
    )


def of_real(found: Sequence[Compared]) -> Findings:
    """Return how the virtual world compares with the real one."""
    columns = ("cell", "tokens/s, real time", "virtual", "virtual over real", "a message takes, ms", "a step more, ms")
    rows = tuple((one.cell.name, one.real, one.virtual, one.ratio, one.hop_ms, one.turn_ms) for one in found)
    figures = [
        asdict(one.cell)
        | {"real": one.real, "virtual": one.virtual, "ratio": one.ratio}
        | {"hop_ms": one.hop_ms, "turn_ms": one.turn_ms}
        for one in found
    ]
    return Findings(
        figures={"real": figures},
        bars=[
            Bar("virtual over real time, largest", max(one.ratio for one in found), 1.0 + REAL, Side.AT_MOST),
            Bar("virtual over real time, smallest", min(one.ratio for one in found), 1.0 - REAL),
        ],
        tables=[Table("The same in real time, through the real stack", columns, rows)],
    )


def draw_grid(found: Sequence[Judged], figure: FigureBase) -> None:
    """Draw a panel for each number of sessions and cost."""
    kinds = list(dict.fromkeys((one.cell.sessions, one.cell.cost) for one in found))
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for (sessions, cost), axes in zip(kinds, panels, strict=True):
        shares = [[float("nan")] * len(RTTS_MS) for _ in AGREEMENTS]
        for one in found:
            if (one.cell.sessions, one.cell.cost) == (sessions, cost):
                shares[AGREEMENTS.index(one.cell.agreement)][RTTS_MS.index(one.cell.rtt_ms)] = one.to_best
        image = axes.imshow(shares, vmin=0.9, vmax=1.1, cmap="RdYlGn", aspect="auto")
        for row, line in enumerate(shares):
            for column, share in enumerate(line):
                axes.text(column, row, f"{share:.2f}", ha="center", va="center", fontsize="small")
        axes.set_title(f"{sessions} sessions, {cost}", fontsize="medium")
        axes.set_xticks(range(len(RTTS_MS)), [str(rtt) for rtt in RTTS_MS])
        axes.set_yticks(range(len(AGREEMENTS)), [str(agreement) for agreement in AGREEMENTS])
        axes.set_xlabel("RTT, ms")
    panels[0].set_ylabel("agreement")
    figure.colorbar(image, ax=panels, label="tokens/s over the best fixed γ")


def draw_load(found: Sequence[Loaded], figure: FigureBase) -> None:
    """Draw tokens over sessions, and the price over time."""
    rates, prices = figure.subplots(1, 2)
    sessions = [one.sessions for one in found]
    for label, values in (
        ("measured γ", [one.adaptive for one in found]),
        ("best fixed γ", [one.best_fixed for one in found]),
        ("γ = 0", [one.plain for one in found]),
    ):
        rates.plot(sessions, values, marker="o", label=label)
    rates.set_xscale("log", base=2)
    rates.set_xlabel("sessions")
    rates.set_ylabel("tokens/s")
    rates.legend(fontsize="small")
    for one in found:
        prices.plot(*zip(*one.trace, strict=True), label=str(one.sessions))
    prices.set_xlabel("s")
    prices.set_ylabel("price of a verified token")
    prices.legend(title="sessions", fontsize="small")
