"""All rows of all sessions of a step in one parallel loop: each by itself, whatever is beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import carray, prange  # type: ignore[attr-defined]
from numba.core import types
from numba.extending import intrinsic

from foreword.compiled.cuts import cut
from foreword.compiled.runs import FLAGS, Doubles, Floats, Integer, Words, largest_of, measure, weigh_into
from foreword.kernel import kernel

Ids = npt.NDArray[np.int32]


def _pointer() -> Callable[..., Any]:
    """Return what makes a pointer of the address of float32, as an intrinsic that compiled code calls."""

    @intrinsic
    def convert(context: Any, address: Any) -> Any:
        return types.CPointer(types.float32)(types.int64), _as_pointer  # type: ignore[no-untyped-call]

    return convert


def _as_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.inttoptr(args[0], ir.FloatType().as_pointer())


pointer = _pointer()


@kernel(parallel=True, cache=True, nogil=True, error_model="numpy")
def describe(
    addresses: Words, widths: Words, settings: Doubles, top_k: Words, sums: Doubles, found: Doubles, stays: Words
) -> None:
    """Describe the laws of rows of logits, which lie at addresses and are float32 [width].

    `settings` is float64 [R, 3]: temperature, min-p (0 for none), top-p (1 for none); top-k is 0 for none. Written are
    `sums` [R, runs], the weight of every run of a row that nothing cuts; `found` [R, 3], the largest logit (nothing
    else for one that is not finite), the weight of what stays, and the smallest logit that does; and `stays` [R, 2],
    the last id of that logit, and how many stay, 0 where nothing cuts.
    """
    for r in prange(len(addresses)):
        row = carray(pointer(addresses[r]), (widths[r],))
        largest = largest_of(row)
        found[r, 0] = largest
        stays[r, 0], stays[r, 1] = 0, 0
        if np.isfinite(largest):
            temperature, min_p, top_p = settings[r, 0], settings[r, 1], settings[r, 2]
            if min_p > 0.0 or top_k[r] > 0 or top_p < 1.0:
                least, last, count, weight = cut(row, largest, temperature, min_p, top_k[r], top_p, sums[r])
                found[r, 1], found[r, 2] = weight, least
                stays[r, 0], stays[r, 1] = last, count
            else:
                found[r, 1] = measure(row, largest, temperature, sums[r])


@kernel(parallel=True, cache=True, nogil=True, error_model="numpy")
def write(
    addresses: Words,
    widths: Words,
    settings: Doubles,
    found: Doubles,
    stays: Words,
    offsets: Words,
    ids: Ids,
    probabilities: Doubles,
) -> None:
    """Write what stays of rows that are cut, as `describe` found: row r from `offsets[r]` on, ids ascending."""
    for r in prange(len(addresses)):
        if stays[r, 1]:
            row = carray(pointer(addresses[r]), (widths[r],))
            first, behind = offsets[r], offsets[r] + stays[r, 1]
            _write(row, found[r], stays[r, 0], settings[r, 0], ids[first:behind], probabilities[first:behind])


@kernel(fastmath=FLAGS, error_model="numpy")
def _write(row: Floats, found: Doubles, last: int, temperature: float, ids: Ids, probabilities: Doubles) -> None:
    largest, weight, least = found[0], found[1], found[2]
    chosen, logits = np.empty(len(row), np.int32), np.empty(len(row), np.float32)
    n: Integer = 0
    for i in range(len(row)):  # without a branch, which could not be foretold
        chosen[n], logits[n] = i, row[i]
        n += np.int64((row[i] > least) | ((row[i] == least) & (i <= last)))
    ids[:] = chosen[: len(ids)]
    weigh_into(logits[: len(ids)], largest, temperature, probabilities)
    scale = 1.0 / weight
    for j in range(len(ids)):
        probabilities[j] *= scale
