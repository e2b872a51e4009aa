"""Products with weights of 8 or 4 bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import prange

from foreword.kernel import kernel
from foreword.runner.kernels.codes import LINE, STEP, Bits, Codes, Lines, codes_times_panels, encode
from foreword.runner.kernels.common import Floats, Integers, multiplies_fours
from foreword.runner.kernels.panels import LANES

GROUP = 4
"""Panels that are taken together: with one of them, additions of few rows would wait for each other."""
_TOGETHER = 96
"""Rows that pass all panels before the next ones do: a core's cache holds them."""
_MOST = 8 if multiplies_fours() else 4
_BY_ONE, _BY_TWO, _BY_FOUR, _BY_EIGHT = (4, 4, 2, 2) if multiplies_fours() else (2, 1, 1, 1)
"""Panels that one, two, … rows take at once: as many sums as registers hold."""


def lines_of(codes: npt.NDArray[np.int8], bits: Bits) -> Lines:
    """Return codes [O, K] as lines [O / 16, …, 64], lifted, and filled up to whole groups of panels."""
    outputs, length = codes.shape
    lift = 1 << (bits - 1)
    whole = np.full((-(-outputs // (GROUP * LANES)) * GROUP * LANES, -(-length // STEP) * STEP), lift, np.uint8)
    whole[:outputs, :length] = codes.astype(np.int16) + lift
    fours = whole.reshape(len(whole) // LANES, LANES, -1, 8 // bits, 4)
    line = fours[:, :, :, 0] if bits == 8 else fours[:, :, :, 0] | fours[:, :, :, 1] << 4
    lines = np.ascontiguousarray(line.transpose(0, 2, 1, 3)).reshape(len(line), -1, LINE)
    return lines if bits == 8 else lines.view(np.int8)


class Narrow(NamedTuple):
    """Weights of L products with inputs of one length, in 8 or 4 bits."""

    lines: Lines
    """[L, P, lines, 64], whole groups of P."""
    biases: Floats
    """[L, P, 16]."""
    outputs: int
    """Of the P · 16 columns, those that are meant."""
    scales: Floats
    """[L, P, 16]."""


_one, _two = codes_times_panels(1, _BY_ONE), codes_times_panels(2, _BY_TWO)
_four, _eight = codes_times_panels(4, _BY_FOUR), codes_times_panels(8, _BY_EIGHT)


@kernel(inline="always")
def _some(
    count: int,
    lines: Lines,
    codes: Codes,
    sizes: Floats,
    sums: Integers,
    scales: Floats,
    biases: Floats,
    out: Floats,
    panel: int,
    row: int,
) -> None:
    """Multiply one, two, four or eight rows with a group of panels."""
    end = panel + GROUP
    if count == _MOST and count > 4:
        for first in range(panel, end, _BY_EIGHT):
            _eight(lines, codes, sizes, sums, scales, biases, out, first, row)
    elif count == 4:
        for first in range(panel, end, _BY_FOUR):
            _four(lines, codes, sizes, sums, scales, biases, out, first, row)
    elif count == 2:
        for first in range(panel, end, _BY_TWO):
            _two(lines, codes, sizes, sums, scales, biases, out, first, row)
    else:
        for first in range(panel, end, _BY_ONE):
            _one(lines, codes, sizes, sums, scales, biases, out, first, row)


@kernel(parallel=True, cache=True, nogil=True)
def _multiply(
    codes: Codes, sizes: Floats, sums: Integers, lines: Lines, scales: Floats, biases: Floats, out: Floats
) -> None:
    """Write codes [N, K'] times lines to `out` [N, 16 · P], with scales [N] and [P, 16], and biases [P, 16]."""
    count, groups = codes.shape[0], lines.shape[0] // GROUP
    for start in range(0, count, _TOGETHER):
        stop = min(count, start + _TOGETHER)
        for group in prange(groups):
            row = start
            while row < stop:
                left = stop - row
                taken = _MOST if left >= _MOST else 4 if left >= 4 else 2 if left >= 2 else 1
                _some(taken, lines, codes, sizes, sums, scales, biases, out, group * GROUP, row)
                row += taken


@kernel(cache=True, nogil=True)
def narrow_times(rows: Floats, lines: Lines, scales: Floats, biases: Floats) -> Floats:
    """Return float32 [N, 16 · P]: rows [N, K] times weights of 8 or 4 bits, as `lines_of` lays them out."""
    count, length = rows.shape[0], (rows.shape[1] + STEP - 1) // STEP * STEP
    codes, sizes = np.empty((count, length), np.int8), np.empty(count, np.float32)
    sums = np.empty(count, np.int32)
    encode(rows, codes, sizes, sums)
    out = np.empty((count, biases.shape[0] * LANES), np.float32)
    _multiply(codes, sizes, sums, lines, scales, biases, out)
    return out
