"""The grid: agreement, network, load and the target's costs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from loadtest.simulator.scene import FLAT, LINEAR, MS, Scene, Schedule

AGREEMENTS = (0.4, 0.6, 0.8, 0.95)
RTTS_MS = (0, 2, 10, 40, 100)
SESSIONS = (1, 16)
COSTS = {"flat": FLAT, "linear": LINEAR}


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination."""

    agreement: float
    rtt_ms: int
    sessions: int
    cost: str

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"a {self.agreement:g}, RTT {self.rtt_ms} ms, {self.sessions} sessions, {self.cost}"

    def scene(self, seconds: float) -> Scene:
        """Return the closed loop."""
        return Scene(
            sessions=self.sessions,
            seconds=seconds,
            agreement=Schedule.constant(self.agreement),
            rtt_us=Schedule.constant(self.rtt_ms * MS),
            step=COSTS[self.cost],
        )


def grid() -> list[Cell]:
    """Return all cells, those that take longest first."""
    cells = [Cell(*values) for values in itertools.product(AGREEMENTS, RTTS_MS, SESSIONS, COSTS)]
    return sorted(cells, key=lambda cell: -cell.sessions)
