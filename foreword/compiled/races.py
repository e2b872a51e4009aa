"""Exponential races, as `foreword.laws.sampling` runs them: the id whose noise over probability is smallest.

Noise E = -log u is at least 1 - u, so an id whose 1 - u is over the best score so far times its probability is out
without a logarithm, and a run of ids without a weight: its mass is more than each of its probabilities. What is left
out cannot win, so the winner does not depend on the order.
"""

from __future__ import annotations

import math

import numpy as np
from numba import carray, prange  # type: ignore[attr-defined]

from foreword.addresses.philox import U64
from foreword.compiled.philox import BLOCKS, Block, block, blocks, uniform
from foreword.compiled.rows import Ids, pointer
from foreword.compiled.runs import FLAGS, RUN, Doubles, Floats, Integer, Words, exponentials, shift
from foreword.kernel import kernel

_TOGETHER = 4 * BLOCKS // RUN
"""Runs whose numbers are computed together."""
_SLACK = 1.0 + 1e-9
"""More than the rounding of a bound."""
_MARGIN = 16384.0
"""More than the numbers that stand for one uniform number, and the rounding of one as a float64."""
Racer = tuple[float, Integer]
"""A score, and the id that has it."""


@kernel(error_model="numpy")
def _better(best: Racer, p: float, number: Integer, token: Integer) -> Racer:
    """Return the better of the best so far and this id; ties go to the lower id."""
    u = uniform(number)
    if p <= 0.0 or (1.0 - u) > best[0] * p * _SLACK:
        return best
    score = -math.log(u) / p
    if score < best[0] or (score == best[0] and token < best[1]):
        return score, token
    return best


@kernel(error_model="numpy")
def _lane(numbers: Block, lane: Integer) -> Integer:
    if lane < 2:
        return numbers[0] if lane == 0 else numbers[1]
    return numbers[2] if lane == 2 else numbers[3]


@kernel(cache=True, nogil=True, error_model="numpy")
def race_some(ids: Ids, probabilities: Doubles, place: U64) -> Integer:
    """Return the index of the winner among some ids, ascending."""
    best: Racer = (np.inf, np.int64(1) << 62)
    winner = 0
    numbers, drawn = block(place, 0), 0
    for i in range(len(ids)):
        if ids[i] // 4 != drawn:
            drawn = ids[i] // 4
            numbers = block(place, drawn)
        found = _better(best, probabilities[i], _lane(numbers, ids[i] % 4), ids[i])
        if found[1] != best[1]:
            best, winner = found, i
    return winner


@kernel(cache=True, nogil=True, error_model="numpy")
def race_led(ids: Ids, probabilities: Doubles, place: U64) -> tuple[Integer, float]:
    """Return the index of the winner among some ids, ascending, and by how many nats its score leads the second.

    Infinite where no second has a probability.
    """
    best, second, winner = np.inf, np.inf, 0
    numbers, drawn = block(place, 0), 0
    for i in range(len(ids)):
        if ids[i] // 4 != drawn:
            drawn = ids[i] // 4
            numbers = block(place, drawn)
        u, p = uniform(_lane(numbers, ids[i] % 4)), probabilities[i]
        if p <= 0.0 or (1.0 - u) > second * p * _SLACK:
            continue
        score = -math.log(u) / p
        if score < best:
            best, second, winner = score, best, i
        elif score < second:
            second = score
    return winner, math.log(second) - math.log(best)


@kernel(error_model="numpy")
def _hopeless(words: U64, column: Integer, reach: float) -> bool:
    """Whether all numbers of a run, whose blocks begin at `column`, have a 1 - u over `reach`."""
    if not reach < 0.5:  # also what is no number: nothing found yet, and nothing to find
        return False
    least = np.uint64((1.0 - reach) * 2.0**64 - _MARGIN)
    found = np.uint64(0)
    for lane in range(4):
        part = words[lane, column : column + RUN // 4]
        for i in range(RUN // 4):
            found |= np.uint64(part[i] >= least)
    return bool(found == np.uint64(0))


@kernel(error_model="numpy", fastmath=FLAGS)
def _race_runs(
    row: Floats, law: Doubles, sums: Doubles, first: Integer, behind: Integer, best: Racer, place: U64
) -> Racer:
    """Return the best of what `best` is and the ids of the runs from `first` to before `behind`."""
    x, powers, p = np.empty(RUN), np.empty(RUN), np.empty(RUN)
    whole, bits = powers.view(np.int64), p.view(np.int64)
    words = np.empty((4, BLOCKS), np.uint64)
    for start in range(first, behind, _TOGETHER):
        blocks(place, start * RUN // 4, words)
        for run in range(start, min(start + _TOGETHER, behind)):
            column = (run - start) * RUN // 4
            if not _hopeless(words, column, best[0] * sums[run] * _SLACK):
                shift(row[run * RUN : (run + 1) * RUN], law[0], law[1], x)
                exponentials(x, powers, whole, p, bits)
                for j in range(RUN):
                    best = _better(best, p[j] * law[2], words[j % 4, column + j // 4], run * RUN + j)
    return best


@kernel(error_model="numpy")
def _race(row: Floats, law: Doubles, sums: Doubles, place: U64) -> Integer:
    heaviest = int(sums.argmax()) // _TOGETHER * _TOGETHER
    behind = min(heaviest + _TOGETHER, len(sums))
    best = _race_runs(row, law, sums, heaviest, behind, (np.inf, np.int64(1) << 62), place)
    best = _race_runs(row, law, sums, 0, heaviest, best, place)
    return _race_runs(row, law, sums, behind, len(sums), best, place)[1]


@kernel(parallel=True, cache=True, nogil=True, error_model="numpy")
def race_rows(addresses: Words, widths: Words, laws: Doubles, sums: Doubles, places: U64, winners: Words) -> None:
    """Write the winner of every row, float32 [width] at an address.

    `laws` is float64 [R, 4] as in `foreword.compiled.draws`, `sums` [R, runs] the mass of every run, `places` [R, 5].
    """
    for r in prange(len(addresses)):
        row = carray(pointer(addresses[r]), (widths[r],))
        winners[r] = _race(row, laws[r], sums[r], places[r])


@kernel(cache=True, nogil=True, error_model="numpy")
def race_row(row: Floats, law: Doubles, sums: Doubles, place: U64) -> Integer:
    """Return the winner of one row: waking other threads would cost more than they spare."""
    return _race(row, law, sums, place)
