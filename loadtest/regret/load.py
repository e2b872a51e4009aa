"""More and more sessions on a target whose steps take longer with every row over sixteen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean, pstdev

from loadtest.regret.cells import Cell
from loadtest.regret.judge import judged
from loadtest.simulator.run import Simulation
from loadtest.simulator.scene import LINEAR, SECOND, Scene, Schedule
from orchestrator.policy import Gamma

SESSIONS = (1, 2, 4, 8, 16, 32, 64)
_AGREEMENT = 0.8
_LONGER = 4
"""Times a run of the comparison: a target tells its price once a second."""
_STEADY_S = 0.3
"""Share of a run after which the price counts as steady."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of a load; tokens a second of all sessions, means of the seeds."""

    sessions: int
    adaptive: float
    plain: float
    best_fixed: float
    best_gamma: int
    price: float
    price_cv: float
    """Standard deviation over mean of the price, after it has settled."""
    trace: tuple[tuple[float, float], ...]
    """Seconds, price."""
    target_busy: float
    draft_busy: float

    @property
    def to_best(self) -> float:
        """Adaptive over the best fixed γ, or over γ = 0 where that is more."""
        return self.adaptive / max(self.best_fixed, self.plain)


def load(sessions: int, *, seeds: int, seconds: float) -> Loaded:
    """Play a load with every γ, and with the measured one."""
    scene = Scene(sessions=sessions, seconds=seconds, agreement=Schedule.constant(_AGREEMENT), step=LINEAR)

    def play(gamma: int | None, seed: int) -> float:
        wanted = Gamma() if gamma is None else Gamma(fixed=gamma)
        return Simulation(scene, wanted, seed=seed).run().tokens_s

    found = judged(Cell(_AGREEMENT, 0, sessions, "linear"), play, seeds=seeds)
    longer = replace(scene, seconds=_LONGER * seconds)
    shown = Simulation(longer, Gamma(), seed=0).run()
    steady = [price for at_us, price in shown.prices if at_us >= _STEADY_S * longer.seconds * SECOND]
    mean = fmean(steady)
    return Loaded(
        sessions,
        found.adaptive,
        found.plain,
        found.fixed[found.best_gamma],
        found.best_gamma,
        mean,
        pstdev(steady) / mean if mean else 0.0,
        tuple((at_us / SECOND, price) for at_us, price in shown.prices),
        shown.target_busy,
        shown.draft_busy,
    )
