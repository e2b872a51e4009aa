"""Table and bars of the real pair."""

from __future__ import annotations

from loadtest.bench.bar import Bar
from loadtest.bench.findings import Findings, Table
from loadtest.regret.pair import Measured

BEST, BEST_LOW, PLAIN = 1.0, 0.97, 0.97


def of_pair(found: Measured) -> Findings:
    """Return the figures, and what they are held against."""
    best = found.best_gamma
    ratio, low, high = found.ratio(best)
    plain = found.by_category(0)
    to_best = found.by_category(best)
    worst = min(plain, key=lambda name: plain[name])
    speeds = {"measured" if arm is None else str(arm): found.total(arm).tokens_per_s for arm in found.texts}
    rows = [
        ("all", ratio, *found.ratio(0)[:1], found.total(None).block_length),
        *((name, to_best[name], plain[name], None) for name in plain),
    ]
    arms = tuple((f"γ {name}" if name != "measured" else "γ measured", speed) for name, speed in speeds.items())
    return Findings(
        figures={
            "pair": {
                "tokens_s": speeds,
                "best_gamma": best,
                "over_best": {"ratio": ratio, "low": low, "high": high},
                "over_plain": dict(zip(("ratio", "low", "high"), found.ratio(0), strict=True)),
                "over_best_by_category": to_best,
                "over_plain_by_category": plain,
            }
        },
        bars=[
            Bar(f"real pair: over the best fixed γ, {best}", ratio, BEST),
            Bar("the same, lower end of 95 %", low, BEST_LOW),
            Bar(f"worst category over γ = 0: {worst}", plain[worst], PLAIN),
        ],
        tables=[
            Table("The real pair: tokens a second", ("arm", "tokens/s"), arms),
            Table("Measured γ", ("prompts", f"over γ {best}", "over γ 0", "candidates of a block"), tuple(rows)),
        ],
    )
