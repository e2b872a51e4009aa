"""A draft's draw with the target's noise, from logits to token in one loop: what would be a law is never made.

Under `match` any way of drawing is exact, so ids that hold under a millionth of the likeliest one's probability are
left out: they would take most of the time, and are drawn by nobody.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from foreword.addresses.keys import Address
from foreword.addresses.philox import U64
from foreword.compiled.philox import place
from foreword.compiled.races import race_led
from foreword.compiled.rows import Ids
from foreword.compiled.runs import Doubles, Floats, Integer, largest_of
from foreword.kernel import kernel
from foreword.laws.parameters import LawParameters

LEAST = 1e-6
"""Of the likeliest id's probability."""


def draw_coupled(row: Floats, ids: Ids, law: LawParameters, key: bytes, position: int) -> tuple[int, float] | None:
    """Return the id that a law draws with the noise of a key at an output position, and its lead in nats.

    `row` is float32 [V] without edits, its columns stand for `ids` int32 [V], ascending; None where its largest is not
    finite. Temperature, min-p, top-k and top-p as in `foreword.laws`; other parameters have no say.
    """
    where = place(key, Address(position))
    least = max(law.min_p or 0.0, LEAST)
    column, lead = _draw(row, ids, law.temperature, least, law.top_k or len(row), law.top_p or 1.0, where)
    return None if column < 0 else (int(ids[column]), float(lead))


@kernel(cache=True, nogil=True, error_model="numpy")
def _draw(
    row: Floats, ids: Ids, temperature: float, least: float, top_k: Integer, top_p: float, where: U64
) -> tuple[Integer, float]:
    columns, weights = weighed(row, temperature, least, top_k, top_p)
    if not len(columns):
        return -1, 0.0
    winner, lead = race_led(ids[columns], weights / weights.sum(), where)
    return columns[winner], lead


@kernel(error_model="numpy")
def weighed(
    row: Floats, temperature: float, least: float, top_k: Integer, top_p: float
) -> tuple[npt.NDArray[np.int64], Doubles]:
    """Return the columns that a law keeps, ascending, and their weights, the likeliest one's 1.

    None where the largest is not finite; `least` is the smallest weight that counts at all.
    """
    largest = float(largest_of(row))
    if not np.isfinite(largest):
        return np.zeros(0, np.int64), np.zeros(0, np.float64)
    floor = np.float32(largest + temperature * math.log(least))
    columns = np.flatnonzero(row >= floor)
    weights = np.exp((row[columns].astype(np.float64) - largest) / temperature)
    if top_k < len(columns) or top_p < 1.0:
        kept = weights >= _smallest(weights, top_k, top_p)
        columns, weights = columns[kept], weights[kept]
    return columns, weights


@kernel(error_model="numpy")
def _smallest(weights: Doubles, top_k: Integer, top_p: float) -> float:
    """Return the smallest weight that top-k and then top-p keep."""
    if top_k < len(weights):  # the whole row is not sorted for a few of it
        weights = np.partition(weights, len(weights) - top_k)[len(weights) - top_k :]
    ordered = np.sort(weights)[::-1]
    wanted, reached = top_p * ordered.sum(), 0.0
    for weight in ordered:
        reached += weight
        if reached >= wanted:
            return float(weight)
    return float(ordered[-1])
