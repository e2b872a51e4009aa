"""Products of few or many rows with weights that are read once, in panels of 16 columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import prange
from numba.extending import overload

from foreword.kernel import kernel
from foreword.runner.kernels.common import Floats, has_many_registers
from foreword.runner.kernels.narrow import Narrow, narrow_times
from foreword.runner.kernels.panels import LANES, rows_times_panel

Panels = npt.NDArray[np.float32] | npt.NDArray[np.uint16]

_TOGETHER = 96
"""Rows that pass all panels before the next ones do: a core's cache holds them."""

_one, _two, _three, _four = (rows_times_panel(rows) for rows in (1, 2, 3, 4))
_five, _six, _seven, _eight = (rows_times_panel(rows) for rows in (5, 6, 7, 8))
_dozen = rows_times_panel(12)

_WIDE = has_many_registers()
_MOST_ROWS = 8 if _WIDE else 6
"""Rows that share a panel: registers hold their sums, the panel's weights, and a row's value."""
_DOZEN = 12
"""As many as share one where there are many rows, and many registers."""


def panels_of(weight: Panels) -> Panels:
    """Return a weight [O, K] (float32, or bfloat16 as uint16) as panels [O / 16, K, 16], filled up with zeros."""
    outputs, length = weight.shape
    filled = np.zeros((-(-outputs // LANES) * LANES, length), weight.dtype)
    filled[:outputs] = weight
    return np.ascontiguousarray(filled.reshape(-1, LANES, length).transpose(0, 2, 1))


@kernel(inline="always")
def _some(count: int, panels: Panels, rows: Floats, biases: Floats, out: Floats, panel: int, row: int) -> None:
    """Multiply one to eight rows, or twelve, with a panel."""
    column = panel * LANES
    if count == _DOZEN:
        _dozen(panels, rows, biases, out, panel, row, column)
    elif count == 8:
        _eight(panels, rows, biases, out, panel, row, column)
    elif count == 7:
        _seven(panels, rows, biases, out, panel, row, column)
    elif count == 6:
        _six(panels, rows, biases, out, panel, row, column)
    elif count == 5:
        _five(panels, rows, biases, out, panel, row, column)
    elif count == 4:
        _four(panels, rows, biases, out, panel, row, column)
    elif count == 3:
        _three(panels, rows, biases, out, panel, row, column)
    elif count == 2:
        _two(panels, rows, biases, out, panel, row, column)
    else:
        _one(panels, rows, biases, out, panel, row, column)


@kernel(inline="always")
def _next_count(left: int) -> int:
    """Return how many of the rows that are left share the next panel: seven as four and three, none alone."""
    if left <= _MOST_ROWS:
        return left
    if _WIDE and (left == _DOZEN or left >= _DOZEN + _MOST_ROWS):
        return _DOZEN
    return _MOST_ROWS if left >= 2 * _MOST_ROWS else (left + 1) // 2


@kernel(parallel=True, cache=True, nogil=True)
def multiply(rows: Floats, panels: Panels, biases: Floats, out: Floats) -> None:
    """Write rows [N, K] times the panels, plus biases [P, 16], to `out` [N, 16 · P]; all lie without gaps.

    A row's sums are made in the order of K, whatever is beside it: its bits depend on nothing else.
    """
    count, wide = rows.shape[0], panels.shape[0]
    for start in range(0, count, _TOGETHER):
        stop = min(count, start + _TOGETHER)
        for panel in prange(wide):
            row = start
            while row < stop:
                some = _next_count(stop - row)
                _some(some, panels, rows, biases, out, panel, row)
                row += some


class Wide(NamedTuple):
    """Weights of L products with inputs of one length, in float32 or bfloat16."""

    panels: Panels
    """[L, P, K, 16]."""
    biases: Floats
    """[L, P, 16]."""
    outputs: int
    """Of the P · 16 columns, those that are meant."""


Weights = Wide | Narrow
"""Weights of L products with inputs of one length."""


def _times(rows: Floats, weights: Weights, number: int) -> Floats:
    """Return float32 [N, P · 16]: for compiled code, which chooses by the kind of the weights."""
    raise NotImplementedError  # only a name: compiled code takes what is overloaded below


@overload(_times, strict=False)  # strict compares annotations too
def _times_by_kind(rows: Any, weights: Any, number: Any) -> Callable[..., Floats]:
    def wide(rows: Floats, weights: Wide, number: int) -> Floats:
        out = np.empty((rows.shape[0], weights.biases.shape[1] * LANES), np.float32)
        multiply(rows, weights.panels[number], weights.biases[number], out)
        return out

    def narrow(rows: Floats, weights: Narrow, number: int) -> Floats:
        return narrow_times(rows, weights.lines[number], weights.scales[number], weights.biases[number])

    return narrow if weights.instance_class is Narrow else wide


@kernel(cache=True, nogil=True)
def product(rows: Floats, weights: Weights, number: int) -> Floats:
    """Return float32 [N, O] without gaps: rows [N, K] times the weights of this number, plus biases."""
    out = _times(rows, weights, number)
    if out.shape[1] == weights.outputs:
        return out
    return np.ascontiguousarray(out[:, : weights.outputs])
