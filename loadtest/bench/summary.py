"""What repeats say: medians, quantiles, and how far a median can be trusted; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Summary:
    """The median of some repeats, and an interval for the median of all that there could be."""

    median: float
    low: float
    high: float
    coverage: float
    """Probability that such an interval holds the true median; with few repeats less than was asked for."""
    count: int

    @property
    def spread(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2


def quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile of `values` at `share` in [0, 1], linear between neighbours (Hyndman, Fan 1996: type 7)."""
    assert values, "a quantile needs a value"
    assert 0.0 <= share <= 1.0, "a share is from 0 to 1"
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return quantile(values, 0.5)


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Return (low, high, coverage): the narrowest pair of order statistics that covers the median well enough.

    The k-th smallest and k-th largest of n values hold the median with probability 1 - 2·P(B(n, 1/2) < k), whatever
    their distribution (Thompson 1936). Where even the range does not reach `confidence`, it is the range.
    """
    assert values, "an interval needs a value"
    ordered, count = sorted(values), len(values)
    tail, k = 1.0, 1  # tail: Σ_{i<k} of the binomial coefficients
    while 2 * (k + 1) <= count:
        longer = tail + math.comb(count, k)
        if 1.0 - 2.0 * longer / 2.0**count < confidence:
            break
        tail, k = longer, k + 1
    return ordered[k - 1], ordered[count - k], max(0.0, 1.0 - 2.0 * tail / 2.0**count)


def summarize(values: Sequence[float]) -> Summary:
    """Return the summary of at least one repeat."""
    low, high, coverage = median_interval(values)
    return Summary(median(values), low, high, coverage, len(values))
