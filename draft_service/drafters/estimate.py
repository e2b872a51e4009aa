"""How likely a candidate is kept, from how far the draft's first choice led its second.

For every place k in a block, p_k = σ(w_k·m + b_k) with m the lead in nats, fitted online: after every hundred
observations one Newton step with a ridge, and never a falling slope. (The estimator of vLLM's adaptive verification.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PLACES = 16
"""Places of a block that are told apart; those behind them count as the last."""
EVERY = 100
"""Observations of a place between two steps of its fit."""
RIDGE = 1e-3
LARGEST_LEAD = 20.0
"""Nats; a lead may be infinite, where a law is certain."""


@dataclass(slots=True)
class _Place:
    slope: float = 1.0
    offset: float = 0.0
    count: int = 0
    gradient: tuple[float, float] = (0.0, 0.0)
    curvature: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Σ p(1 − p)·(m², m, 1)."""


class Acceptance:
    """Estimates, and learns from what came of them; one for all sessions of a drafter."""

    def __init__(self) -> None:
        self._places = [_Place() for _ in range(PLACES)]

    def estimate(self, place: int, lead: float) -> float:
        """Return the probability that the candidate at a place of its block is kept if those before it are."""
        fit = self._places[min(place, PLACES - 1)]
        return _logistic(fit.slope * min(lead, LARGEST_LEAD) + fit.offset)

    def observe(self, place: int, lead: float, *, kept: bool) -> None:
        """Take note of what came of a candidate whose predecessors in the block were all kept."""
        fit = self._places[min(place, PLACES - 1)]
        lead = min(lead, LARGEST_LEAD)
        p = _logistic(fit.slope * lead + fit.offset)
        error, weight = kept - p, p * (1.0 - p)
        fit.gradient = fit.gradient[0] + error * lead, fit.gradient[1] + error
        squares, products, ones = fit.curvature
        fit.curvature = squares + weight * lead * lead, products + weight * lead, ones + weight
        fit.count += 1
        if fit.count % EVERY == 0:
            _refit(fit)


def _refit(fit: _Place) -> None:
    """Step towards the likeliest fit of the last observations, and forget them."""
    (by_lead, by_one), (squares, products, ones) = fit.gradient, fit.curvature
    squares, ones = squares + RIDGE * EVERY, ones + RIDGE * EVERY
    determinant = squares * ones - products * products
    if determinant > 0.0:
        fit.slope = max(0.0, fit.slope + _bounded((ones * by_lead - products * by_one) / determinant))
        fit.offset += _bounded((squares * by_one - products * by_lead) / determinant)
    fit.gradient, fit.curvature = (0.0, 0.0), (0.0, 0.0, 0.0)


def _bounded(step: float) -> float:
    """Keep a step small: a hundred observations may all say the same."""
    return max(-1.0, min(1.0, step))


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else 1.0 - 1.0 / (1.0 + math.exp(x))
