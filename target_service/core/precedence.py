"""Verdicts go first: how long Results stay behind them while nobody waits for them; pure."""

from __future__ import annotations

from collections.abc import Collection

LONGEST_US = 1_200
"""A verdict is with its draft by then, on machines where it shares two cores with everything else."""
_SHARE = 4
"""A Commit that was there this many times sooner than its block could have come that much later."""


def results_wait_us(lags_us: Collection[int]) -> int:
    """Return how long the Results of a step may wait, in microseconds; 0 for those that somebody waits for.

    `lags_us` says of each of the step's blocks how much later than its Commit it was there. The one that was closest
    decides: Results that wait make the next Commit later by as much, and a block must still find it there.
    """
    return max(0, min(LONGEST_US, min(lags_us, default=0) // _SHARE))
