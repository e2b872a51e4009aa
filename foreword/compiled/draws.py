"""What is asked of a law that lies as a row: one probability, a residual, the inverse CDF. Runs are weighed again."""

from __future__ import annotations

import numpy as np

from foreword.compiled.rows import Ids
from foreword.compiled.runs import FLAGS, RUN, Doubles, Floats, Words, add_up, exponentials, shift
from foreword.kernel import kernel


@kernel(fastmath=FLAGS, error_model="numpy")
def _run(
    row: Floats,
    run: int,
    law: Doubles,
    ids: Ids,
    taken: Doubles,
    room: tuple[Doubles, Doubles, Words],
    out: Doubles,
    bits: Words,
) -> None:
    """Write max(0, scale · p − taken) of a run to `out` [64]; `law` as in `Row`, ids ascending."""
    x, powers, whole = room
    shift(row[run * RUN : (run + 1) * RUN], law[0], law[1], x)
    exponentials(x, powers, whole, out, bits)
    for j in range(RUN):
        out[j] = out[j] * law[2] * law[3]
    for k in range(np.searchsorted(ids, run * RUN), len(ids)):
        if ids[k] >= (run + 1) * RUN:
            break
        out[ids[k] - run * RUN] = max(out[ids[k] - run * RUN] - taken[k], 0.0)


@kernel(cache=True, nogil=True, error_model="numpy")
def weight_at(row: Floats, law: Doubles, ids: Ids, taken: Doubles, token: int) -> float:
    """Return the weight of one id; `law` is float64 [4]: largest logit, temperature, 1 / total, scale."""
    x, powers, out = np.empty(RUN), np.empty(RUN), np.empty(RUN)
    _run(row, token // RUN, law, ids, taken, (x, powers, powers.view(np.int64)), out, out.view(np.int64))
    return float(out[token % RUN])


@kernel(cache=True, nogil=True, error_model="numpy")
def weights(row: Floats, law: Doubles, ids: Ids, taken: Doubles, out: Doubles) -> None:
    """Write the weight of every id to `out` [V]."""
    x, powers, part = np.empty(RUN), np.empty(RUN), np.empty(RUN)
    whole, bits = powers.view(np.int64), part.view(np.int64)
    for run in range((len(row) + RUN - 1) // RUN):
        _run(row, run, law, ids, taken, (x, powers, whole), part, bits)
        target = out[run * RUN : (run + 1) * RUN]
        for j in range(len(target)):
            target[j] = part[j]


@kernel(cache=True, nogil=True, error_model="numpy")
def residual(row: Floats, law: Doubles, ids: Ids, taken: Doubles, sums: Doubles, out: Doubles) -> float:
    """Write the weight of every run, given those of p, and return the sum: only runs of what is taken are weighed."""
    x, powers, part, one = np.empty(RUN), np.empty(RUN), np.empty(RUN), np.empty(1)
    whole, bits = powers.view(np.int64), part.view(np.int64)
    for run in range(len(sums)):
        out[run] = sums[run] * law[3]
    before = -1
    for token in ids:
        if token // RUN != before:
            before = token // RUN
            _run(row, before, law, ids, taken, (x, powers, whole), part, bits)
            add_up(part, one)
            out[before] = one[0]
    mass = 0.0
    for run in range(len(sums)):
        mass += out[run]
    return mass


@kernel(cache=True, nogil=True, error_model="numpy")
def find(row: Floats, law: Doubles, ids: Ids, taken: Doubles, sums: Doubles, u: float) -> int:
    """Return the id whose stretch of the cumulated weights contains u times their sum; never one of weight 0."""
    mass = 0.0
    for run in range(len(sums)):
        mass += sums[run]
    run, rest = _first_over(sums, u * mass)
    x, powers, part = np.empty(RUN), np.empty(RUN), np.empty(RUN)
    _run(row, run, law, ids, taken, (x, powers, powers.view(np.int64)), part, part.view(np.int64))
    return run * RUN + _first_over(part, rest)[0]


@kernel(error_model="numpy")
def _first_over(values: Doubles, wanted: float) -> tuple[int, float]:
    """Return the first index up to which the values add up to more, and what is left of `wanted` in front of it.

    Rounding may put `wanted` at the very end: then the last index that adds anything.
    """
    before, last = 0.0, 0
    for i in range(len(values)):
        if values[i] > 0.0:
            if before + values[i] > wanted:
                return i, wanted - before
            last = i
        before += values[i]
    return last, values[last]
