"""The innermost loop of products with int8 weights: whole numbers all along, in LLVM's vectors.

Rows are rounded to 16 bits, each with a scale of its own. A panel of 16 columns lies by pairs of inputs, so that one
instruction multiplies pairs and adds them up (`vpmaddwd` on x86): half the instructions of widening to float32, which
is what takes the time once memory gives a byte a weight. Sums of 32 bits are exact; in any order they are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from foreword.runner.kernels.common import Floats
from foreword.runner.kernels.panels import LANES, fetch_ahead, spread, sum_up

Codes = npt.NDArray[np.int16]

_LARGEST = 32767
_WEIGHT = 127
_SUM = (1 << 31) - 1
_I64, _I32, _I16 = ir.IntType(64), ir.IntType(32), ir.IntType(16)
_BYTES = ir.VectorType(ir.IntType(8), 2 * LANES)
_PAIRS, _WIDE = ir.VectorType(_I16, 2 * LANES), ir.VectorType(_I32, 2 * LANES)
_SUMS, _FLOATS = ir.VectorType(_I32, LANES), ir.VectorType(ir.FloatType(), LANES)


def largest_code(length: int) -> int:
    """Return the largest code that a row of `length` inputs may have, so that no sum leaves 32 bits."""
    return min(_LARGEST, _SUM // (_WEIGHT * max(1, length)))


@njit(fastmath={"reassoc"}, cache=True, nogil=True)
def _is_odd(row: Floats) -> bool:
    """Whether something in a row is not a number, or is infinite: 0 times that is not 0."""
    total = np.float32(0)
    for value in row:
        total += value * np.float32(0)
    return bool(total != np.float32(0))


@njit(fastmath={"nnan", "ninf"}, cache=True, nogil=True)
def _largest(row: Floats) -> np.float32:
    largest = np.float32(0)
    for value in row:
        largest = max(largest, abs(value))
    return largest


@njit(cache=True, nogil=True)
def encode(rows: Floats, most: int, codes: Codes, scales: Floats) -> None:
    """Write float32 rows [N, K] as codes [N, K'] up to `most`, what is behind K as 0, and their scales [N].

    A row with something that is not a number, or is infinite, has a scale that makes all of its products so.
    """
    count, length = rows.shape
    for n in range(count):
        row, line = rows[n], codes[n]
        if _is_odd(row):
            scales[n] = np.float32(np.nan)
            line[:] = 0
            continue
        largest = _largest(row)
        scales[n] = largest / np.float32(most)
        inverse = np.float32(most) / largest if largest > np.float32(0) else np.float32(0)
        for k in range(length):
            line[k] = np.int16(np.int32(np.rint(row[k] * inverse)))  # there is an instruction for the first step
        line[length:] = 0


def codes_times_panels(rows: int, panels: int) -> Callable[..., None]:
    """Return the loop for so many rows and panels, as an intrinsic that compiled code calls.

    Its arguments are panels int8 [P, K / 2, 16, 2], codes int16 [N, K], their scales float32 [N], scales and biases of
    columns float32 [P, 16], out float32 [N, …], the number of the first panel, and the first row. All lie without
    gaps, and K is even. Every row and panel has a sum of its own: a few of them wait for each other's additions, more
    than there are registers for go through memory.
    """

    @intrinsic
    def product(
        context: Any, panels_: Any, codes: Any, sizes: Any, scales: Any, biases: Any, out: Any, panel: Any, row: Any
    ) -> Any:
        signature = types.void(panels_, codes, sizes, scales, biases, out, types.intp, types.intp)
        return signature, _code(rows, panels)

    return product


def _code(rows: int, panels: int) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, a) for kind, a in zip(signature.args, args[:6], strict=False)
        ]
        weights, codes, sizes, scales, biases, out = arrays
        panel, row = args[6:]
        pairs = cgutils.unpack_tuple(builder, weights.shape)[1]  # type: ignore[no-untyped-call]
        width = cgutils.unpack_tuple(builder, out.shape)[1]  # type: ignore[no-untyped-call]
        length = builder.mul(pairs, _I64(2))
        firsts = [builder.mul(builder.add(panel, _I64(p)), _I64(LANES)) for p in range(panels)]
        beginnings = [builder.gep(weights.data, [builder.mul(first, length)]) for first in firsts]
        lines = [builder.add(row, _I64(m)) for m in range(rows)]
        sources = [
            builder.bitcast(builder.gep(codes.data, [builder.mul(line, length)]), _I32.as_pointer()) for line in lines
        ]
        totals = _loop(builder, beginnings, sources, pairs)
        for first, column in zip(firsts, totals, strict=True):
            scale = _vector(builder, scales.data, first)
            bias = _vector(builder, biases.data, first)
            for line, total in zip(lines, column, strict=True):
                size = spread(builder, builder.load(builder.gep(sizes.data, [line])), _FLOATS)
                value = builder.fmul(builder.sitofp(total, _FLOATS), builder.fmul(scale, size))
                place = builder.gep(out.data, [builder.add(builder.mul(line, width), first)])
                builder.store(builder.fadd(value, bias), builder.bitcast(place, _FLOATS.as_pointer()), align=4)
        return context.get_dummy_value()

    return generate


def _loop(builder: Any, weights: list[Any], sources: list[Any], pairs: Any) -> list[list[Any]]:
    """Return, panel by panel, the sums over `pairs` (not 0) of each source's pair times 16 pairs of weights."""

    def step(k: Any, sums: list[list[Any]]) -> list[list[Any]]:
        values = []
        for source in sources:
            pair = spread(builder, builder.load(builder.gep(source, [k]), align=2), _SUMS)
            values.append(builder.bitcast(pair, _PAIRS))
        added = []
        for begin, column in zip(weights, sums, strict=True):
            place = builder.gep(begin, [builder.mul(k, _I64(2 * LANES))])
            fetch_ahead(builder, place, keep=True)
            both = builder.sext(builder.load(builder.bitcast(place, _BYTES.as_pointer()), align=1), _PAIRS)
            products = [_pair_sums(builder, both, value) for value in values]
            added.append([builder.add(total, one) for total, one in zip(column, products, strict=True)])
        return added

    return sum_up(builder, pairs, [[ir.Constant(_SUMS, [0] * LANES)] * len(sources)] * len(weights), step)


def _pair_sums(builder: Any, left: Any, right: Any) -> Any:
    """Return a·b + c·d for neighbours of int16 vectors, as int32: the form that compilers know the instruction for."""
    products = builder.mul(builder.sext(left, _WIDE), builder.sext(right, _WIDE))
    even, odd = (
        builder.shuffle_vector(products, ir.Constant(_WIDE, ir.Undefined), _SUMS(list(range(i, 2 * LANES, 2))))
        for i in (0, 1)
    )
    return builder.add(even, odd)


def _vector(builder: Any, data: Any, first: Any) -> Any:
    return builder.load(builder.bitcast(builder.gep(data, [first]), _FLOATS.as_pointer()), align=4)
