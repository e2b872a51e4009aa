"""Products of few or many rows with weights that are read once, in panels of 16 columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit, prange

from foreword.runner.kernels.common import Floats
from foreword.runner.kernels.panels import LANES, MOST_ROWS, rows_times_panel

Panels = npt.NDArray[np.float32] | npt.NDArray[np.uint16] | npt.NDArray[np.int8]

_TOGETHER = 96
"""Rows that pass all panels before the next ones do: a core's cache holds them."""

_one, _two, _three = rows_times_panel(1), rows_times_panel(2), rows_times_panel(3)
_four, _five, _six = rows_times_panel(4), rows_times_panel(5), rows_times_panel(MOST_ROWS)


def panels_of(weight: Panels) -> Panels:
    """Return a weight [O, K] (float32, bfloat16 as uint16, int8) as panels [O / 16, K, 16], filled up with zeros."""
    outputs, length = weight.shape
    filled = np.zeros((-(-outputs // LANES) * LANES, length), weight.dtype)
    filled[:outputs] = weight
    return np.ascontiguousarray(filled.reshape(-1, LANES, length).transpose(0, 2, 1))


@njit(inline="always")
def _some(
    count: int,
    panels: Panels,
    rows: Floats,
    scales: Floats,
    biases: Floats,
    out: Floats,
    panel: int,
    row: int,
    column: int,
) -> None:
    """Multiply one to six rows with a panel."""
    if count == MOST_ROWS:
        _six(panels, rows, scales, biases, out, panel, row, column)
    elif count == 5:
        _five(panels, rows, scales, biases, out, panel, row, column)
    elif count == 4:
        _four(panels, rows, scales, biases, out, panel, row, column)
    elif count == 3:
        _three(panels, rows, scales, biases, out, panel, row, column)
    elif count == 2:
        _two(panels, rows, scales, biases, out, panel, row, column)
    else:
        _one(panels, rows, scales, biases, out, panel, row, column)


@njit(parallel=True, cache=True, nogil=True)
def multiply(rows: Floats, panels: Panels, scales: Floats, biases: Floats, out: Floats) -> None:
    """Write rows [N, K] times the panels, plus biases [P, 16], to `out` [N, 16 · P]; all lie without gaps.

    Columns of int8 panels are multiplied by `scales` [P, 16]; others have none that count.

    A row's sums are made in the order of K, whatever is beside it: its bits depend on nothing else.
    """
    count, wide = rows.shape[0], panels.shape[0]
    for start in range(0, count, _TOGETHER):
        stop = min(count, start + _TOGETHER)
        for panel in prange(wide):
            row = start
            while row < stop:
                left = stop - row
                # seven rows as four and three: one alone would read the panel for little
                some = min(left, MOST_ROWS) if left >= 2 * MOST_ROWS or left <= MOST_ROWS else (left + 1) // 2
                _some(some, panels, rows, scales, biases, out, panel, row, panel * LANES)
                row += some
