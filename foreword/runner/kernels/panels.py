"""The innermost loop of matrix products: a few rows times a panel of 16 columns, written in LLVM's vectors.

Numba's own loops would leave the sums in memory. A panel is read once for all of its rows, narrow weights are widened
in registers, and the sums of every row are made by the same instructions in the same order, whatever their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16
"""Columns of a panel: two registers of AVX2, one of AVX-512, four of NEON."""
_AHEAD = 8192
"""Bytes of weights between what is read and what is asked for."""

_I64, _I32, _BYTE, _FLOAT = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.FloatType()
_FLOATS, _WORDS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_I32, LANES)
_HALVES = ir.VectorType(ir.IntType(16), LANES)


def rows_times_panel(count: int) -> Callable[..., None]:
    """Return the loop for `count` rows, as an intrinsic that compiled code calls.

    Its arguments are panels [P, K, 16] (float32, or bfloat16 as uint16), rows float32 [N, K], biases float32 [P, 16],
    out float32 [N, …], the number of a panel, the first row, and the first column of `out`. All lie without gaps.
    """

    @intrinsic
    def product(context: Any, panels: Any, rows: Any, biases: Any, out: Any, panel: Any, row: Any, column: Any) -> Any:
        signature = types.void(panels, rows, biases, out, types.intp, types.intp, types.intp)
        return signature, _code(count)

    return product


def _code(count: int) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, a) for kind, a in zip(signature.args, args[:4], strict=False)
        ]
        panels, rows, biases, out = arrays
        panel, row, column = args[4:]
        length = cgutils.unpack_tuple(builder, panels.shape)[1]  # type: ignore[no-untyped-call]
        width = cgutils.unpack_tuple(builder, out.shape)[1]  # type: ignore[no-untyped-call]

        def at(base: Any, offset: Any) -> Any:
            return builder.gep(base, [offset])

        weights = at(panels.data, builder.mul(panel, builder.mul(length, _I64(LANES))))
        lines = [builder.add(row, _I64(m)) for m in range(count)]
        sources = [at(rows.data, builder.mul(line, length)) for line in lines]
        bias = _load(builder, at(biases.data, builder.mul(panel, _I64(LANES))), _FLOATS, 4)
        sums = _loop(builder, weights, sources, length, start=bias)
        for line, total in zip(lines, sums, strict=True):
            place = at(out.data, builder.add(builder.mul(line, width), column))
            builder.store(total, builder.bitcast(place, _FLOATS.as_pointer()), align=4)
        return context.get_dummy_value()

    return generate


def _loop(builder: Any, weights: Any, sources: list[Any], length: Any, *, start: Any) -> list[Any]:
    """Return the sums over `length` (not 0) of each source's value times 16 weights, as vectors."""

    def step(k: Any, sums: list[list[Any]]) -> list[list[Any]]:
        place = builder.gep(weights, [builder.mul(k, _I64(LANES))])
        fetch_ahead(builder, place, keep=False)
        line = _weights(builder, place)
        values = [spread(builder, builder.load(builder.gep(source, [k])), _FLOATS) for source in sources]
        return [[fused(builder, value, line, total) for value, total in zip(values, sums[0], strict=True)]]

    return sum_up(builder, length, [[start] * len(sources)], step)[0]


def sum_up(
    builder: Any, count: Any, start: list[list[Any]], step: Callable[[Any, list[list[Any]]], list[list[Any]]]
) -> list[list[Any]]:
    """Return what becomes of vectors of sums in `count` (not 0) steps; they stay in registers meanwhile."""
    before, body, after = builder.block, builder.append_basic_block("panel"), builder.append_basic_block("sums")
    builder.branch(body)
    builder.position_at_end(body)
    k = builder.phi(_I64)
    k.add_incoming(_I64(0), before)
    sums = [[builder.phi(one.type) for one in column] for column in start]
    added = step(k, sums)
    for column, beginnings, ends in zip(sums, start, added, strict=True):
        for total, beginning, end in zip(column, beginnings, ends, strict=True):
            total.add_incoming(beginning, before)
            total.add_incoming(end, body)
    following = builder.add(k, _I64(1))
    k.add_incoming(following, body)
    builder.cbranch(builder.icmp_signed("<", following, count), body, after)
    builder.position_at_end(after)
    return added


def fused(builder: Any, left: Any, right: Any, addend: Any) -> Any:
    """Return left · right + addend, in one instruction where there is one."""
    function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, ir.FunctionType(_FLOATS, [_FLOATS] * 3), f"llvm.fmuladd.v{LANES}f32"
    )
    return builder.call(function, [left, right, addend])


def _weights(builder: Any, place: Any) -> Any:
    """Load 16 weights as float32; a bfloat16 is the upper half of one."""
    if place.type.pointee == _FLOAT:
        return _load(builder, place, _FLOATS, 4)
    words = builder.zext(_load(builder, place, _HALVES, 2), _WORDS)
    return builder.bitcast(builder.shl(words, _WORDS([16] * LANES)), _FLOATS)


def _load(builder: Any, place: Any, kind: Any, align: int) -> Any:
    return builder.load(builder.bitcast(place, kind.as_pointer()), align=align)


def fetch_ahead(builder: Any, place: Any, *, keep: bool) -> None:
    """Ask for weights that are read soon; to ask beyond their end does nothing.

    Without that, memory falls behind as soon as a panel meets more than five rows: six took 2.3 times one, with it 1.1.
    Weights that are more than any cache holds are not to be kept: they would drive out all else, a draft's among it.
    """
    prefetch = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _I32, _I32, _I32]), "llvm.prefetch.p0"
    )
    soon = builder.gep(builder.bitcast(place, _BYTE.as_pointer()), [_I64(_AHEAD)])
    builder.call(prefetch, [soon, _I32(0), _I32(3 if keep else 0), _I32(1)])  # to read, data


def spread(builder: Any, value: Any, kind: Any) -> Any:
    """Return a vector of 16 times the value."""
    undefined = ir.Constant(kind, ir.Undefined)
    single = builder.insert_element(undefined, value, _I32(0))
    return builder.shuffle_vector(single, undefined, _WORDS([0] * LANES))
