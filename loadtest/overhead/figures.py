"""From trials to figures and bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from loadtest.bench.bar import Bar
from loadtest.bench.summary import Summary, median, summarize
from loadtest.overhead.bare import BareTrial
from loadtest.overhead.formula import RoundCost, expected_emitted, ideal_tokens_per_s
from loadtest.overhead.plan import Plan
from loadtest.overhead.trial import Trial

BARS = {1: 0.95, 32: 0.85}
"""Share of the formula that so many sessions should reach."""

PARTS = ("draft_queue", "draft_compute", "network", "block_lag", "verify_queue", "verify_compute", "host")
"""The seven parts of a round; block lag overlaps the others."""
OVERLAPPING = ("block_lag",)
RTT_MS = 0.0
"""Everything is on loopback; what the kernel and gRPC take there is overhead and counts as such."""


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """The trials of one number of sessions."""

    sessions: int
    trials: tuple[Trial, ...]
    nominal: RoundCost
    """Step times as they were set, not as they were measured."""

    @property
    def share(self) -> Summary:
        """Tokens per second over the formula, for the step times that the services measured in the same trial."""
        return summarize([trial.share(trial.cost) for trial in self.trials])

    @property
    def share_of_settings(self) -> Summary:
        """Tokens per second over the formula, for the step times that were set."""
        return summarize([trial.share(self.nominal) for trial in self.trials])

    @property
    def ideal(self) -> float:
        """Tokens per second of the formula."""
        return self.median(lambda t: ideal_tokens_per_s(t.sessions, t.emitted, t.cost))

    def part_ms(self, name: str) -> float | None:
        """Return a part of the round; None if it never occurred."""
        values = [trial.parts_ms[name] for trial in self.trials if name in trial.parts_ms]
        return median(values) if values else None

    @property
    def round_ms(self) -> float:
        """Time of a round at the client."""
        return self.median(lambda t: 1000.0 * t.steady.round_s)

    @property
    def other_ms(self) -> float:
        """What the parts leave of the round; medians need not add up."""
        return self.round_ms - sum(self.part_ms(name) or 0.0 for name in PARTS if name not in OVERLAPPING)

    def cpu_ms(self) -> dict[str, float]:
        """Return CPU time by process for one round of all sessions."""
        names = dict.fromkeys(name for trial in self.trials for name in trial.cpu_ms)
        return {name: median([t.cpu_ms[name] for t in self.trials if name in t.cpu_ms]) for name in names}

    def other_cores(self) -> float | None:
        """Return how many cores were busy with something else; figures beside it are of a disturbed machine."""
        known = [trial.other_cores for trial in self.trials if trial.other_cores is not None]
        return median(known) if known else None

    def median(self, of: Callable[[Trial], float]) -> float:
        """Return the median of something over the trials."""
        return median([of(trial) for trial in self.trials])

    def json(self, plan: Plan) -> dict[str, Any]:
        """Return them as what JSON can say."""
        return {
            "sessions": self.sessions,
            "share": asdict(self.share),
            "share_of_settings": asdict(self.share_of_settings),
            "tokens_per_s": asdict(summarize([trial.steady.tokens_per_s for trial in self.trials])),
            "formula_tokens_per_s": self.ideal,
            "emitted_per_verification": self.median(lambda t: t.emitted),
            "emitted_per_verification_in_theory": expected_emitted(plan.agreement, plan.gamma),
            "draft_step_ms": self.median(lambda t: t.cost.draft_ms / plan.gamma),
            "target_step_ms": self.median(lambda t: t.cost.target_ms),
            "rtt_ms": RTT_MS,
            "late_blocks": sum(trial.late for trial in self.trials),
            "rounds": sum(trial.steady.rounds for trial in self.trials),
            "round_ms": self.round_ms,
            "parts_ms": {name: self.part_ms(name) for name in PARTS},
            "other_ms": self.other_ms,
            "cpu_ms_per_round": self.cpu_ms(),
            "other_work_cores": self.other_cores(),
        }


def figures_of(plan: Plan, trials: Sequence[Trial]) -> list[ArmFigures]:
    """Return figures by number of sessions, in the order of the plan."""
    nominal = RoundCost(plan.gamma * plan.draft_ms, plan.target_ms, RTT_MS)
    return [
        ArmFigures(count, tuple(trial for trial in trials if trial.sessions == count), nominal)
        for count in plan.sessions
    ]


def bare_json(trials: Sequence[BareTrial]) -> dict[str, Any]:
    """Return what the bare processes did: one session's rounds without Foreword."""
    return {
        "share": asdict(summarize([trial.share for trial in trials])),
        "round_ms": median([trial.round_ms for trial in trials]),
        "added_ms": median([trial.added_ms for trial in trials]),
    }


def bars_of(arms: Sequence[ArmFigures]) -> list[Bar]:
    """Return the bars of those numbers of sessions that have one."""
    return [
        Bar(f"share of the formula, {_sessions(arm.sessions)}", arm.share.median, BARS[arm.sessions])
        for arm in arms
        if arm.sessions in BARS
    ]


def _sessions(count: int) -> str:
    return "1 session" if count == 1 else f"{count} sessions"
