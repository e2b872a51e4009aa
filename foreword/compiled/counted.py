"""A draft's law in integer counts and its draw, from logits to token in one loop; `foreword.laws.counts`, fast.

A draft may have any law, as long as it draws from the very counts that it sends: ids that hold under a millionth of the
likeliest one's probability are left out.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from foreword.compiled.coupled import LEAST, weighed
from foreword.compiled.rows import Ids
from foreword.compiled.runs import Doubles, Floats, Integer
from foreword.kernel import kernel
from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import SparseCounts

Whole = npt.NDArray[np.int64]


def draw_counted(
    row: Floats, ids: Ids, law: LawParameters, number: int, *, bits: int, mass: float, cap: int
) -> tuple[int, SparseCounts, float] | None:
    """Return the id that a number of 64 bits draws from a law's counts, the counts, and the first one's lead in nats.

    `row` is float32 [V] without edits, its columns stand for `ids` int32 [V], ascending; None where its largest is not
    finite. Temperature, min-p, top-k and top-p as in `foreword.laws`; other parameters have no say. The support is the
    fewest of the likeliest ids that hold `mass`, at most `cap` and 2**bits.
    """
    least = max(law.min_p or 0.0, LEAST)
    most = min(cap, 1 << bits)
    columns, counts = _counts(
        row, law.temperature, least, law.top_k or len(row), law.top_p or 1.0, mass, most, 1 << bits
    )
    if not len(columns):
        return None
    drawn, lead = _draw(counts, number >> (64 - bits))
    kept = ids[columns]
    return int(kept[drawn]), SparseCounts(tuple(kept.tolist()), tuple(counts.tolist()), bits), lead


@kernel(cache=True, nogil=True, error_model="numpy")
def _counts(
    row: Floats,
    temperature: float,
    least: float,
    top_k: Integer,
    top_p: float,
    mass: float,
    most: Integer,
    total: Integer,
) -> tuple[Whole, Whole]:
    """Return the columns of the support, ascending, and their counts; none where the row has no finite largest."""
    columns, weights = weighed(row, temperature, least, top_k, top_p)
    if not len(columns):
        return columns, columns
    order = np.argsort(-weights, kind="mergesort")  # ties to the lowest column
    wanted, reached, size = mass * weights.sum(), 0.0, 0
    while size < min(most, len(order)) and (size == 0 or reached < wanted):
        reached += weights[order[size]]
        size += 1
    kept = np.sort(order[:size])
    return columns[kept], _apportioned(weights[kept], total)


@kernel(error_model="numpy")
def _apportioned(weights: Doubles, total: Integer) -> Whole:
    """Return counts of at least 1 that sum to `total`: what rounds to less gets 1, the rest by largest remainders."""
    size = len(weights)
    quotas, small = weights.copy(), np.zeros(size, np.bool_)
    while True:
        left, rest = float(total), 0.0
        for i in range(size):
            if small[i]:
                left -= 1.0
            else:
                rest += weights[i]
        again = False
        for i in range(size):
            quotas[i] = 1.0 if small[i] else weights[i] * (left / rest)
            again |= not small[i] and quotas[i] < 1.0
        if not again:
            break
        small |= quotas < 1.0
    counts = np.maximum(np.floor(quotas), 1.0).astype(np.int64)
    spare = total - counts.sum()
    order = np.argsort(np.where(small, 1.0, counts - quotas), kind="mergesort")
    counts[order[:spare]] += 1
    return counts


@kernel(cache=True, nogil=True, error_model="numpy")
def _draw(counts: Whole, number: Integer) -> tuple[Integer, float]:
    """Return which of the counts a number under their sum falls into, and by how much the largest leads."""
    drawn, passed = 0, counts[0]
    while passed <= number:
        drawn += 1
        passed += counts[drawn]
    first = second = 0
    for count in counts:
        if count > first:
            first, second = count, first
        else:
            second = max(second, count)
    return drawn, math.log(first) - math.log(second) if second else math.inf
