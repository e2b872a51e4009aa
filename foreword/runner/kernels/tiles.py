"""The innermost loops of attention: some heads of a query with one tile of 16 tokens, written in LLVM's vectors.

Numba's own loops leave sums in memory, where each addition waits for the one before to be stored. Every sum is made by
the same instructions in the same order, whatever heads are beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from foreword.runner.kernels.panels import LANES, fused, spread, sum_up

_I64, _FLOAT = ir.IntType(64), ir.FloatType()
_FLOATS = ir.VectorType(_FLOAT, LANES)


def score_tile(heads: int) -> Callable[..., None]:
    """Return the loop that writes the products of so many heads of a query with the 16 keys of a tile.

    Its arguments are an array of queries and the place of the first of the heads in it, which are `size` apart, keys
    [.., D, 16] and the place of a tile, `size` (even), and scores with the place of the first head's, which are
    `apart` apart. A head's products of even and of odd dimensions are added up apart.
    """

    @intrinsic
    def score(
        context: Any, queries: Any, first: Any, keys: Any, tile: Any, size: Any, scores: Any, place: Any, apart: Any
    ) -> Any:
        signature = types.void(queries, types.intp, keys, types.intp, types.intp, scores, types.intp, types.intp)
        return signature, generate

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        queries, keys, scores = (_data(context, builder, signature, args, i) for i in (0, 2, 5))
        first, tile, size, place, apart = args[1], args[3], args[4], args[6], args[7]
        sources = [builder.gep(queries, [_at(builder, first, h, size)]) for h in range(heads)]
        start = [[ir.Constant(_FLOATS, [0.0] * LANES)] * heads] * 2
        rows = builder.gep(keys, [tile])

        def step(k: Any, sums: list[list[Any]]) -> list[list[Any]]:
            return [
                _added(builder, sums[odd], sources, builder.add(builder.mul(k, _I64(2)), _I64(odd)), rows)
                for odd in (0, 1)
            ]

        even, odd = sum_up(builder, builder.sdiv(size, _I64(2)), start, step)
        for h in range(heads):
            _store(builder, builder.fadd(even[h], odd[h]), builder.gep(scores, [_at(builder, place, h, apart)]))
        return context.get_dummy_value()

    return score


def add_values(heads: int, vectors: int) -> Callable[..., None]:
    """Return the loop that adds some weighted values of a tile to so many heads, 16 · `vectors` dimensions of each.

    Its arguments are weights and the place of the first head's, which are `apart` apart, values [.., 16, D] and the
    place of the first one to be added, `size` (D), how many are added (at least one), and `out` with the place of the
    first head's dimensions, which are `size` apart.
    """

    @intrinsic
    def add(
        context: Any,
        weights: Any,
        first: Any,
        apart: Any,
        values: Any,
        begin: Any,
        size: Any,
        count: Any,
        out: Any,
        at: Any,
    ) -> Any:
        kinds = (types.intp, types.intp, values, types.intp, types.intp, types.intp, out, types.intp)
        return types.void(weights, *kinds), generate

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        weights, values, out = (_data(context, builder, signature, args, i) for i in (0, 3, 7))
        first, apart, begin, size, count, at = args[1], args[2], args[4], args[5], args[6], args[8]
        sources = [builder.gep(weights, [_at(builder, first, h, apart)]) for h in range(heads)]
        places = [
            [builder.gep(out, [builder.add(_at(builder, at, h, size), _I64(v * LANES))]) for h in range(heads)]
            for v in range(vectors)
        ]
        start = [[_load(builder, place) for place in column] for column in places]

        def step(j: Any, sums: list[list[Any]]) -> list[list[Any]]:
            row = builder.gep(values, [builder.add(begin, builder.mul(j, size))])
            return [
                _fused(builder, column, sources, j, _load(builder, builder.gep(row, [_I64(v * LANES)])))
                for v, column in enumerate(sums)
            ]

        for column, sums in zip(places, sum_up(builder, count, start, step), strict=True):
            for place, total in zip(column, sums, strict=True):
                _store(builder, total, place)
        return context.get_dummy_value()

    return add


def _added(builder: Any, sums: list[Any], sources: list[Any], d: Any, rows: Any) -> list[Any]:
    """Return sums with the products of each source's element `d` and row `d` of a tile."""
    return _fused(builder, sums, sources, d, _load(builder, builder.gep(rows, [builder.mul(d, _I64(LANES))])))


def _fused(builder: Any, sums: list[Any], sources: list[Any], index: Any, vector: Any) -> list[Any]:
    values = [spread(builder, builder.load(builder.gep(source, [index])), _FLOATS) for source in sources]
    return [fused(builder, value, vector, total) for value, total in zip(values, sums, strict=True)]


def _data(context: Any, builder: Any, signature: Any, args: Any, number: int) -> Any:
    return context.make_array(signature.args[number])(context, builder, args[number]).data


def _at(builder: Any, first: Any, number: int, apart: Any) -> Any:
    return builder.add(first, builder.mul(_I64(number), apart))


def _load(builder: Any, place: Any) -> Any:
    return builder.load(builder.bitcast(place, _FLOATS.as_pointer()), align=4)


def _store(builder: Any, value: Any, place: Any) -> None:
    builder.store(value, builder.bitcast(place, _FLOATS.as_pointer()), align=4)
