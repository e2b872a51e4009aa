"""The innermost loop of products with weights of 8 or 4 bits: whole numbers all along, in LLVM's vectors.

Rows are rounded to 8 bits, each with a scale of its own. A panel of 16 columns lies by fours of inputs, so that one
instruction multiplies fours and adds them up (`vpdpbusd` on x86, which wants one side unsigned: weights are lifted by
half of their range, and what that adds to a sum is known from the row alone). AVX2 has `vpmaddubsw`, for weights of
4 bits. Sums of 32 bits are exact; in any order, and with any instruction, they are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from foreword.kernel import kernel
from foreword.runner.kernels.common import Floats, Integers, multiplies_bytes, multiplies_fours
from foreword.runner.kernels.panels import LANES, fetch_ahead, spread, sum_up

Codes = npt.NDArray[np.int8]
Lines = npt.NDArray[np.uint8] | npt.NDArray[np.int8]
"""Weights of panels [P, lines, 64]: a line has 4 inputs of 16 columns in 8 bits (uint8), or 8 in 4 bits, the first 4 of
them below (said by int8): loops for both differ in their types, and so in the names that Numba keeps them by."""
Bits = Literal[8, 4]

LINE = 64
"""Bytes of a line."""
STEP = 8
"""What the inputs of a product are filled up to: those of a line of 4 bits."""

_LARGEST = 127
_LIFT: dict[int, int] = {8: 128, 4: 8}
_FEW_SUMS = 16
"""Sums that registers hold."""
_I64, _I32, _I16, _I8 = ir.IntType(64), ir.IntType(32), ir.IntType(16), ir.IntType(8)
_BYTES, _SHORTS = ir.VectorType(_I8, LINE), ir.VectorType(_I16, LINE)
_TWOS = ir.VectorType(_I16, LINE // 2)
_WORDS, _PAIRS = ir.VectorType(_I32, LINE), ir.VectorType(_I32, LINE // 2)
_SUMS, _FLOATS = ir.VectorType(_I32, LANES), ir.VectorType(ir.FloatType(), LANES)


@kernel(fastmath={"reassoc"}, cache=True, nogil=True)
def _is_odd(row: Floats) -> bool:
    """Whether something in a row is not a number, or is infinite: 0 times that is not 0."""
    total = np.float32(0)
    for value in row:
        total += value * np.float32(0)
    return bool(total != np.float32(0))


@kernel(fastmath={"nnan", "ninf"}, cache=True, nogil=True)
def _largest(row: Floats) -> np.float32:
    largest = np.float32(0)
    for value in row:
        largest = max(largest, abs(value))
    return largest


@kernel(cache=True, nogil=True)
def encode(rows: Floats, codes: Codes, scales: Floats, sums: Integers) -> None:
    """Write float32 rows [N, K] as codes [N, K'], what is behind K as 0, with their scales and sums [N].

    A row with something that is not a number, or is infinite, has a scale that makes all of its products so.
    """
    count, length = rows.shape
    for n in range(count):
        row, line = rows[n], codes[n]
        if _is_odd(row):
            scales[n] = np.float32(np.nan)
            line[:] = 0
            sums[n] = 0
            continue
        largest = _largest(row)
        scales[n] = largest / np.float32(_LARGEST)
        inverse = np.float32(_LARGEST) / largest if largest > np.float32(0) else np.float32(0)
        total = np.int32(0)
        for k in range(length):
            code = np.int32(np.rint(row[k] * inverse))
            line[k] = np.int8(code)
            total += code
        line[length:] = 0
        sums[n] = total


def codes_times_panels(rows: int, panels: int) -> Callable[..., None]:
    """Return the loop for so many rows and panels, as an intrinsic that compiled code calls.

    Its arguments are lines [P, lines, 64], codes int8 [N, K'], their scales float32 and sums int32 [N], scales
    and biases of columns float32 [P, 16], out float32 [N, …], the number of the first panel, and the first row. All lie
    without gaps. Every row and panel has a sum of its own: a few of them wait for each other's additions, more than
    there are registers for go through memory.
    """

    @intrinsic
    def product(
        context: Any,
        lines: Any,
        codes: Any,
        sizes: Any,
        sums: Any,
        scales: Any,
        biases: Any,
        out: Any,
        panel: Any,
        row: Any,
    ) -> Any:
        kinds = (lines, codes, sizes, sums, scales, biases, out, types.intp, types.intp)
        return types.void(*kinds), _code(rows, panels, 8 if lines.dtype == types.uint8 else 4)

    return product


def _code(rows: int, panels: int, bits: Bits) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, a) for kind, a in zip(signature.args, args[:7], strict=False)
        ]
        weights, codes, sizes, row_sums, scales, biases, out = arrays
        panel, row = args[7:]
        count = cgutils.unpack_tuple(builder, weights.shape)[1]  # type: ignore[no-untyped-call]
        length = cgutils.unpack_tuple(builder, codes.shape)[1]  # type: ignore[no-untyped-call]
        width = cgutils.unpack_tuple(builder, out.shape)[1]  # type: ignore[no-untyped-call]
        numbers = [builder.add(panel, _I64(p)) for p in range(panels)]
        bytes_each = builder.mul(count, _I64(LINE))
        beginnings = [builder.gep(weights.data, [builder.mul(number, bytes_each)]) for number in numbers]
        lines = [builder.add(row, _I64(m)) for m in range(rows)]
        sources = [builder.gep(codes.data, [builder.mul(line, length)]) for line in lines]
        totals = _loop(builder, beginnings, sources, count, bits)
        lifts = [
            spread(builder, builder.mul(builder.load(builder.gep(row_sums.data, [line])), _I32(_LIFT[bits])), _SUMS)
            for line in lines
        ]
        for number, column in zip(numbers, totals, strict=True):
            first = builder.mul(number, _I64(LANES))
            scale = _vector(builder, scales.data, first)
            bias = _vector(builder, biases.data, first)
            for line, total, lift in zip(lines, column, lifts, strict=True):
                size = spread(builder, builder.load(builder.gep(sizes.data, [line])), _FLOATS)
                whole = builder.sitofp(builder.sub(total, lift), _FLOATS)
                value = builder.fmul(whole, builder.fmul(scale, size))
                place = builder.gep(out.data, [builder.add(builder.mul(line, width), first)])
                builder.store(builder.fadd(value, bias), builder.bitcast(place, _FLOATS.as_pointer()), align=4)
        return context.get_dummy_value()

    return generate


def _loop(builder: Any, weights: list[Any], sources: list[Any], count: Any, bits: Bits) -> list[list[Any]]:
    """Return, panel by panel, each source's sums over `count` (not 0) lines."""
    dots = _dots(bits)
    parts = 8 // bits
    apart = parts if dots.apart and len(weights) * len(sources) * parts <= _FEW_SUMS else 1

    def step(k: Any, sums: list[list[Any]]) -> list[list[Any]]:
        fours = [_fours(builder, source, k, parts) for source in sources]
        values = [[dots.spread(builder, four) for four in row] for row in fours]
        added = []
        for begin, column in zip(weights, sums, strict=True):
            place = builder.gep(begin, [builder.mul(k, _I64(LINE))])
            fetch_ahead(builder, place, keep=True)
            halves = _halves(builder, builder.load(builder.bitcast(place, _BYTES.as_pointer()), align=1), bits)
            rows = (column[i : i + apart] for i in range(0, len(column), apart))
            added.append(
                [s for row, value in zip(rows, values, strict=True) for s in dots.add(builder, row, halves, value)]
            )
        return added

    nothing = ir.Constant(dots.sums, [0] * dots.sums.count)
    totals = sum_up(builder, count, [[nothing] * (len(sources) * apart)] * len(weights), step)
    return [
        [
            dots.total(builder, column[i] if apart == 1 else builder.add(column[i], column[i + 1]))
            for i in range(0, len(column), apart)
        ]
        for column in totals
    ]


def _fours(builder: Any, source: Any, k: Any, parts: int) -> list[Any]:
    """Return a row's codes for a line, as one int32 for each four of them."""
    words = builder.bitcast(source, _I32.as_pointer())
    first = builder.mul(k, _I64(parts))
    return [builder.load(builder.gep(words, [builder.add(first, _I64(part))]), align=1) for part in range(parts)]


def _halves(builder: Any, line: Any, bits: Bits) -> list[Any]:
    """Return the weights of a line as vectors of bytes."""
    if bits == 8:
        return [line]
    upper = builder.bitcast(builder.lshr(builder.bitcast(line, _SUMS), _SUMS([4] * LANES)), _BYTES)
    return [builder.and_(half, _BYTES([15] * LINE)) for half in (line, upper)]


@dataclass(frozen=True, slots=True)
class _Dots:
    """How fours are multiplied and added up."""

    sums: Any
    """The type of what is added up."""
    spread: Callable[[Any, Any], Any]
    """A row's four (builder, int32) beside each column's."""
    add: Callable[[Any, list[Any], list[Any], list[Any]], list[Any]]
    """One or more sums of a row and a panel (builder, sums, unsigned weights, spread) with the products added."""
    total: Callable[[Any, Any], Any]
    """The sums of columns, int32 [16]."""
    apart: bool
    """Whether there are registers for sums that do not wait for each other."""


def _dots(bits: Bits) -> _Dots:
    if multiplies_fours():
        return _Dots(_SUMS, _spread, _each(_add_fours), _same, apart=True)
    if bits == 4 and multiplies_bytes():
        return _Dots(_SUMS, _spread, _add_twos, _same, apart=False)
    return _Dots(_PAIRS, _spread_wide, _each(_add_pairs), _total_of_pairs, apart=False)


def _each(add: Callable[[Any, Any, Any, Any], Any]) -> Callable[[Any, list[Any], list[Any], list[Any]], list[Any]]:
    """Return what adds one vector of weights after the other to the sums in turn."""

    def added(builder: Any, sums: list[Any], weights: list[Any], values: list[Any]) -> list[Any]:
        sums = list(sums)
        for number, (some, value) in enumerate(zip(weights, values, strict=True)):
            at = number % len(sums)
            sums[at] = add(builder, sums[at], some, value)
        return sums

    return added


def _spread(builder: Any, four: Any) -> Any:
    return spread(builder, four, _SUMS)


def _same(builder: Any, sums: Any) -> Any:
    return sums


def _add_fours(builder: Any, sums: Any, weights: Any, values: Any) -> Any:
    function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, ir.FunctionType(_SUMS, [_SUMS] * 3), "llvm.x86.avx512.vpdpbusd.512"
    )
    return builder.call(function, [sums, builder.bitcast(weights, _SUMS), values])


def _add_twos(builder: Any, sums: list[Any], weights: list[Any], values: list[Any]) -> list[Any]:
    """Multiply bytes, and add up twos in 16 bits, which weights of 4 bits leave room in."""
    twos = [
        _in_halves(builder, "llvm.x86.avx2.pmadd.ub.sw", some, builder.bitcast(value, _BYTES), _TWOS)
        for some, value in zip(weights, values, strict=True)
    ]
    both = reduce(builder.add, twos)
    fours = _in_halves(builder, "llvm.x86.avx2.pmadd.wd", both, _TWOS([1] * _TWOS.count), _SUMS)
    return [builder.add(sums[0], fours)]


def _in_halves(builder: Any, name: str, left: Any, right: Any, kind: Any) -> Any:
    """Return what an instruction of 256 bits makes of both halves of two vectors, as one of a kind."""
    half = ir.VectorType(kind.element, kind.count // 2)
    done = []
    for start in (0, 1):
        given = [_half(builder, one, start) for one in (left, right)]
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, ir.FunctionType(half, [one.type for one in given]), name
        )
        done.append(builder.call(function, given))
    return builder.shuffle_vector(*done, ir.VectorType(_I32, kind.count)(list(range(kind.count))))


def _half(builder: Any, vector: Any, number: int) -> Any:
    count = vector.type.count // 2
    places = ir.VectorType(_I32, count)(list(range(number * count, (number + 1) * count)))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), places)


def _spread_wide(builder: Any, four: Any) -> Any:
    return builder.sext(builder.bitcast(spread(builder, four, _SUMS), _BYTES), _SHORTS)


def _add_pairs(builder: Any, sums: Any, weights: Any, values: Any) -> Any:
    """Add a·b + c·d for neighbours of int16 vectors: the form that compilers know an instruction for (`vpmaddwd`)."""
    products = builder.mul(builder.sext(builder.zext(weights, _SHORTS), _WORDS), builder.sext(values, _WORDS))
    return builder.add(sums, _neighbours(builder, products, _PAIRS))


def _total_of_pairs(builder: Any, sums: Any) -> Any:
    return _neighbours(builder, sums, _SUMS)


def _neighbours(builder: Any, vector: Any, kind: Any) -> Any:
    """Return the sums of elements 0 and 1, 2 and 3, …"""
    undefined = ir.Constant(vector.type, ir.Undefined)
    places = ir.VectorType(_I32, kind.count)
    even, odd = (
        builder.shuffle_vector(vector, undefined, places(list(range(start, vector.type.count, 2)))) for start in (0, 1)
    )
    return builder.add(even, odd)


def _vector(builder: Any, data: Any, first: Any) -> Any:
    return builder.load(builder.bitcast(builder.gep(data, [first]), _FLOATS.as_pointer()), align=4)
