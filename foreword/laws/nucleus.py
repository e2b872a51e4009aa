"""The largest values of a row, without sorting the whole row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]

_FIRST = 1024
"""How many of the largest values are looked at first."""


def descending(values: Values, count: int) -> Values:
    """Return the `count` largest values, largest first; only they are sorted."""
    if count < len(values):
        values = np.partition(values, len(values) - count)[len(values) - count :]
    return np.sort(values)[::-1]


def top_until(
    values: Values, mass: float, *, weigh: Callable[[Values], NDArray[np.float64]], limit: int | None = None
) -> tuple[Values, NDArray[np.float64]]:
    """Return enough of the largest values, largest first, that their weights sum to `mass`, and the cumulated weights.

    All values, or the `limit` largest, if their sum falls short. The largest 1,024 are tried first, then twice as many.
    `weigh` maps values to weights and keeps their order.
    """
    limit = len(values) if limit is None else min(limit, len(values))
    count = min(_FIRST, limit)
    while True:
        top = descending(values, count)
        cumulated = weigh(top).cumsum()
        if count == limit or cumulated[-1] >= mass:
            return top, cumulated
        count = min(2 * count, limit)


def reaching(cumulated: NDArray[np.float64], mass: float) -> int:
    """Return how many weights it takes for their sum to reach `mass`: at least 1, all if they fall short."""
    return min(int(cumulated.searchsorted(mass)) + 1, len(cumulated))


def pick(values: Values, count: int, least: float) -> NDArray[np.intp]:
    """Return the ascending indices of the `count` largest values, the smallest of which is `least`.

    Of several equal to `least`, the lowest indices are taken.
    """
    indices = np.flatnonzero(values >= least)
    surplus = len(indices) - count
    if surplus <= 0:
        return indices
    ties = np.flatnonzero(values[indices] == least)
    return np.delete(indices, ties[len(ties) - surplus :])
