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
MOST_ROWS = 6
"""What the 16 registers of AVX2 hold the sums of, beside a panel's weights and a row's value."""

_SUMS = 4
"""Sums of 16 that additions of one thread keep busy."""

_I64, _I32, _FLOAT = ir.IntType(64), ir.IntType(32), ir.FloatType()
_FLOATS, _WORDS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_I32, LANES)
_HALVES = ir.VectorType(ir.IntType(16), LANES)
_BYTE = ir.IntType(8)
_BYTES = ir.VectorType(_BYTE, LANES)
_NOTHING = ir.Constant(_FLOATS, [0.0] * LANES)


def rows_times_panel(count: int) -> Callable[..., None]:
    """Return the loop for `count` rows, as an intrinsic that compiled code calls.

    Its arguments are panels [P, K, 16] (float32, bfloat16 as uint16, or int8), rows float32 [N, K], scales and biases
    float32 [P, 16], out float32 [N, …], the number of a panel, the first row, and the first column of `out`. All lie
    without gaps. Scales are those of int8 weights; others have none that count.
    """

    @intrinsic
    def product(
        context: Any, panels: Any, rows: Any, scales: Any, biases: Any, out: Any, panel: Any, row: Any, column: Any
    ) -> Any:
        signature = types.void(panels, rows, scales, biases, out, types.intp, types.intp, types.intp)
        return signature, _code(count)

    return product


def _code(count: int) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, a) for kind, a in zip(signature.args, args[:5], strict=False)
        ]
        panels, rows, scales, biases, out = arrays
        panel, row, column = args[5:]
        length = cgutils.unpack_tuple(builder, panels.shape)[1]  # type: ignore[no-untyped-call]
        width = cgutils.unpack_tuple(builder, out.shape)[1]  # type: ignore[no-untyped-call]

        def at(base: Any, offset: Any) -> Any:
            return builder.gep(base, [offset])

        weights = at(panels.data, builder.mul(panel, builder.mul(length, _I64(LANES))))
        lines = [builder.add(row, _I64(m)) for m in range(count)]
        sources = [at(rows.data, builder.mul(line, length)) for line in lines]
        bias = _load(builder, at(biases.data, builder.mul(panel, _I64(LANES))), _FLOATS, 4)
        if weights.type.pointee == _BYTE:
            scale = _load(builder, at(scales.data, builder.mul(panel, _I64(LANES))), _FLOATS, 4)
            sums = _bytes_loop(builder, weights, sources, length)
            sums = [_multiply_add(builder, total, scale, bias) for total in sums]
        else:
            sums = _loop(builder, weights, sources, length, start=bias)
        for line, total in zip(lines, sums, strict=True):
            place = at(out.data, builder.add(builder.mul(line, width), column))
            builder.store(total, builder.bitcast(place, _FLOATS.as_pointer()), align=4)
        return context.get_dummy_value()

    return generate


def _loop(builder: Any, weights: Any, sources: list[Any], length: Any, *, start: Any) -> list[Any]:
    """Return the sums over `length` (not 0) of each source's value times 16 weights, as vectors."""
    return _stretch(builder, weights, sources, (_I64(0), length), starts=[[start] * len(sources)])[0]


def _bytes_loop(builder: Any, weights: Any, sources: list[Any], length: Any) -> list[Any]:
    """Return the same sums for int8 weights, of a few rows by several sums side by side.

    Such weights come so fast that one sum alone would wait for its own last addition; six rows fill all registers.
    """
    several = max(1, _SUMS // len(sources))
    whole = builder.sub(length, builder.urem(length, _I64(several)))
    starts = [[_NOTHING] * len(sources) for _ in range(several)]
    parts = _stretch(builder, weights, sources, (_I64(0), whole), starts=starts)
    while len(parts) > 1:
        parts = [
            [builder.fadd(a, b) for a, b in zip(parts[i], parts[i + 1], strict=True)] for i in range(0, len(parts), 2)
        ]
    return _stretch(builder, weights, sources, (whole, length), starts=parts)[0]


def _stretch(
    builder: Any, weights: Any, sources: list[Any], ends: tuple[Any, Any], *, starts: list[list[Any]]
) -> list[list[Any]]:
    """Add up from the first to before the second of `ends`, as many steps at a time as there are sets of sums."""
    first, last = ends
    before, body, after = builder.block, builder.append_basic_block("panel"), builder.append_basic_block("sums")
    builder.cbranch(builder.icmp_signed("<", first, last), body, after)
    builder.position_at_end(body)
    k = builder.phi(_I64)
    k.add_incoming(first, before)
    sums = [[builder.phi(_FLOATS) for _ in sources] for _ in starts]
    added: list[list[Any]] = []
    for step, (running, begun) in enumerate(zip(sums, starts, strict=True)):
        place = builder.add(k, _I64(step))
        line = _weights(builder, builder.gep(weights, [builder.mul(place, _I64(LANES))]))
        added.append([])
        for total, start, source in zip(running, begun, sources, strict=True):
            total.add_incoming(start, before)
            value = _spread(builder, builder.load(builder.gep(source, [place])))
            added[-1].append(_multiply_add(builder, value, line, total))
            total.add_incoming(added[-1][-1], body)
    following = builder.add(k, _I64(len(starts)))
    k.add_incoming(following, body)
    builder.cbranch(builder.icmp_signed("<", following, last), body, after)
    builder.position_at_end(after)
    return [
        [_either(builder, before, a, body, b) for a, b in zip(*pair, strict=True)]
        for pair in zip(starts, added, strict=True)
    ]


def _either(builder: Any, before: Any, start: Any, body: Any, total: Any) -> Any:
    found = builder.phi(_FLOATS)
    found.add_incoming(start, before)
    found.add_incoming(total, body)
    return found


def _multiply_add(builder: Any, one: Any, other: Any, addend: Any) -> Any:
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    fused = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, kind, f"llvm.fmuladd.v{LANES}f32"
    )
    return builder.call(fused, [one, other, addend])


def _weights(builder: Any, place: Any) -> Any:
    """Load 16 weights as float32; a bfloat16 is the upper half of one."""
    if place.type.pointee == _FLOAT:
        return _load(builder, place, _FLOATS, 4)
    if place.type.pointee == _BYTE:
        return builder.sitofp(builder.sext(_load(builder, place, _BYTES, 1), _WORDS), _FLOATS)
    words = builder.zext(_load(builder, place, _HALVES, 2), _WORDS)
    return builder.bitcast(builder.shl(words, _WORDS([16] * LANES)), _FLOATS)


def _load(builder: Any, place: Any, kind: Any, align: int) -> Any:
    return builder.load(builder.bitcast(place, kind.as_pointer()), align=align)


def _spread(builder: Any, value: Any) -> Any:
    """Return a vector of 16 times the value."""
    undefined = ir.Constant(_FLOATS, ir.Undefined)
    single = builder.insert_element(undefined, value, _I32(0))
    return builder.shuffle_vector(single, undefined, _WORDS([0] * LANES))
