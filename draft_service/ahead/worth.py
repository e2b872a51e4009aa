"""Whether a pass ahead is worth its time, and for how many branches: expected time gained against time lost.

While nothing else is to be done a pass costs nothing but this: a verdict that comes amid it waits until it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

OVERDUE = 8.0
"""A block that has been out for long stays out for a further part of that: one such share of its age."""


@dataclass(frozen=True, slots=True)
class Stake:
    """What one session has in a pass ahead."""

    left_ns: float
    """Expected time until its verdict."""
    gains: float
    """Probability that what the pass computes for it is used."""
    later: bool = False
    """Whether the pass only prepares for passes that do."""


def expected_left_ns(wait_ns: float | None, age_ns: float) -> float:
    """Return how long a block that is out for `age_ns` is expected to stay out, where such a wait takes `wait_ns`."""
    if wait_ns is None:
        return float("inf")
    return max(wait_ns - age_ns, age_ns / OVERDUE)


def gain_ns(stake: Stake, pass_ns: float) -> float:
    """Return by how much a pass of this length brings a session's next block forward, in expectation.

    What is used would else be computed when the verdict is there. What is not delays the block by the rest of the pass.
    """
    left, gains = stake.left_ns, stake.gains
    useful = min(max(0.0, left - pass_ns) if stake.later else left, pass_ns)
    if stake.later and left < pass_ns:
        gains = 0.0
    return gains * useful - (1.0 - gains) * max(0.0, pass_ns - left)


def worth_a_pass(stakes: Sequence[Stake], pass_ns: float) -> bool:
    """Whether sessions together gain more by a pass than they lose; one that takes no time is worth it."""
    useful = any(stake.gains > 0.0 for stake in stakes)
    return useful and sum(gain_ns(stake, pass_ns) for stake in stakes) >= 0.0


def affordable(
    probabilities: Sequence[float], *, window_ns: float, gamma: int, others: int, pass_ns: Callable[[int], float]
) -> int:
    """Return for how many of the outcomes, likeliest first, it pays to draft a branch each.

    More branches make hits more likely and passes longer, so that fewer fit into the time that there is. `others` are
    the rows that take part in the passes anyway; branches that cost nothing are all taken.
    """
    best, most, total = 0, 0.0, 0.0
    for count, probability in enumerate(probabilities, start=1):
        total += probability
        step_ns = pass_ns(others + count)
        steps = float(gamma) if step_ns <= 0.0 else min(float(gamma), window_ns / step_ns)
        if total * steps > most:
            best, most = count, total * steps
    return best
