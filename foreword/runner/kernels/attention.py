"""Causal attention of packed rows over keys and values in tiles of 16 tokens.

Keys lie position innermost, [tiles, KV heads, D / 8, 8, 16], values with the dimension of the head innermost, [tiles,
KV heads, 16, D]: scores and sums are then vectors of neighbours, no reduction runs across a vector, and everything is
added up in one order. The innermost loops are in `tiles`; the others run over shapes or constants, whole dimensions at
a time: an index that is a sum keeps the compiler from making vectors of them. A packed row holds its query heads, then
its key heads, then its value heads. There are as many rows as positions; what stands behind them is filling, and is
left alone.
"""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from foreword.kernel import kernel
from foreword.runner.kernels.common import FLAGS, Floats, Integers, exponentials, has_many_registers
from foreword.runner.kernels.panels import LANES
from foreword.runner.kernels.tiles import add_values, score_tile

TILE = 16
"""Tokens of a tile; pages are whole tiles."""

_score_one, _score_two, _score_three, _score_four = (score_tile(heads) for heads in (1, 2, 3, 4))
_add_vector, _add_to_one, _add_to_three = add_values(1, 1), add_values(1, 4), add_values(3, 4)
_WIDE = has_many_registers()

_ZERO, _ONE = np.float32(0), np.float32(1)
_LOWEST = np.float32(-1e30)


@kernel(fastmath=FLAGS, cache=True, nogil=True)
def rotate(rows: Floats, heads: int, size: int, cosines: Floats, sines: Floats, positions: Integers) -> None:
    """Rotate the first `heads` heads of float32 [N, …] in place by their positions; tables are [longest, R / 2].

    Su et al. 2021, RoFormer, in the layout of halves; what lies behind R in a head stays as it is.
    """
    half = cosines.shape[1]
    for n in range(len(positions)):
        cos, sin = cosines[positions[n]], sines[positions[n]]
        for head in range(heads):
            first = rows[n, head * size : head * size + half]
            second = rows[n, head * size + half : head * size + 2 * half]
            for d in range(half):
                a, b = first[d], second[d]
                first[d] = a * cos[d] - b * sin[d]
                second[d] = b * cos[d] + a * sin[d]


@kernel(fastmath=FLAGS, cache=True, nogil=True)
def store(
    rows: Floats, heads: int, positions: Integers, owners: Integers, tables: Integers, keys: Floats, values: Floats
) -> None:
    """Write the keys and values of packed rows [N, (heads + 2 KV) · D] to their tiles."""
    groups, size = values.shape[1], values.shape[3]
    for n in range(len(positions)):
        tile = tables[owners[n], positions[n] // TILE]
        j = positions[n] % TILE
        for k in range(groups):
            key = rows[n, (heads + k) * size : (heads + k + 1) * size]
            value = rows[n, (heads + groups + k) * size : (heads + groups + k + 1) * size]
            for d in range(size):
                keys[tile, k, d // 8, d % 8, j] = key[d]
                values[tile, k, j, d] = value[d]


@kernel(inline="always")
def _score(
    queries: Floats, first: int, keys: Floats, tile: int, size: int, scores: Floats, t: int, shared: int
) -> None:
    """Write the products of heads that share keys, from place `first` of the queries, with the 16 keys at `tile`."""
    apart, h = scores.shape[1], 0
    while shared - h >= 4:
        _score_four(queries, first + h * size, keys, tile, size, scores, h * apart + t, apart)
        h += 4
    if shared - h == 3:
        _score_three(queries, first + h * size, keys, tile, size, scores, h * apart + t, apart)
    elif shared - h == 2:
        _score_two(queries, first + h * size, keys, tile, size, scores, h * apart + t, apart)
    elif shared - h == 1:
        _score_one(queries, first + h * size, keys, tile, size, scores, h * apart + t, apart)


@kernel(inline="always")
def _accumulate(
    scores: Floats, t: int, values: Floats, begin: int, size: int, count: int, out: Floats, at: int, shared: int
) -> None:
    """Add `count` values from place `begin`, weighted by the scores from `t` on, to the heads from `at` of the output.

    What else lies in a tile is not read: behind a sequence its last page holds what others left there, and before a
    window what is out of sight; a weight of 0 makes nothing of a value that is not a number.
    """
    apart, whole, h = scores.shape[1], size // LANES * LANES, 0
    while h < shared:
        heads = 3 if _WIDE and shared - h >= 3 else 1
        first, place, d = h * apart + t, at + h * size, 0
        while whole - d >= 4 * LANES:
            if heads == 3:
                _add_to_three(scores, first, apart, values, begin + d, size, count, out, place + d)
            else:
                _add_to_one(scores, first, apart, values, begin + d, size, count, out, place + d)
            d += 4 * LANES
        while d < whole:
            for g in range(heads):
                _add_vector(scores, first + g * apart, apart, values, begin + d, size, count, out, place + g * size + d)
            d += LANES
        h += heads
    if whole < size:
        _accumulate_rest(scores, t, values, begin, size, count, out, at)


@kernel(fastmath=FLAGS)
def _accumulate_rest(
    scores: Floats, t: int, values: Floats, begin: int, size: int, count: int, out: Floats, at: int
) -> None:
    """Do the same for the dimensions that fill no vector."""
    flat, result = values.reshape(-1), out.reshape(-1)
    for h in range(scores.shape[0]):
        for j in range(count):
            for d in range(size // LANES * LANES, size):
                result[at + h * size + d] += scores[h, t + j] * flat[begin + j * size + d]


@kernel(fastmath=FLAGS)
def _softmax(scores: Floats, low: int, high: int, scale: float, softcap: float, bits: Integers) -> None:
    """Turn scores into weights in place; only those from `low` up to `high` count, the length is whole tiles."""
    factor, cap, length = np.float32(scale), np.float32(softcap), len(scores)
    for t in range(length):
        scores[t] *= factor
    if cap > _ZERO:
        for t in range(low, high):
            scores[t] = np.float32(math.tanh(scores[t] / cap)) * cap
    _fill_outside(scores, low, high, _LOWEST)
    lanes = np.full(LANES, _LOWEST, np.float32)
    for t in range(0, length, LANES):
        for j in range(LANES):
            lanes[j] = max(lanes[j], scores[t + j])
    largest = lanes[0]
    for j in range(1, LANES):
        largest = max(largest, lanes[j])
    for t in range(length):
        scores[t] -= largest
    exponentials(scores, bits)
    _fill_outside(scores, low, high, _ZERO)
    lanes[:] = _ZERO
    for t in range(0, length, LANES):
        for j in range(LANES):
            lanes[j] += scores[t + j]
    total = _ZERO
    for j in range(LANES):
        total += lanes[j]
    inverse = _ONE / total
    for t in range(length):
        scores[t] *= inverse


@kernel(fastmath=FLAGS)
def _fill_outside(scores: Floats, low: int, high: int, value: np.float32) -> None:
    for t in range(low):
        scores[t] = value
    for t in range(high, len(scores)):
        scores[t] = value


@kernel(parallel=True, fastmath=FLAGS, cache=True, nogil=True)
def attend(
    rows: Floats,
    heads: int,
    positions: Integers,
    owners: Integers,
    tables: Integers,
    keys: Floats,
    values: Floats,
    out: Floats,
    scale: float,
    window: int,
    softcap: float,
) -> None:
    """Attend with the queries of packed rows and write [N, heads · D].

    A row at position i sees i - window + 1 … i, all up to i where `window` is 0. `tables` [spans, tiles] names the
    tiles of every span, `owners` [N] the span of every row. `softcap` bounds scores by tanh; 0 does not.
    """
    groups, size = values.shape[1], values.shape[3]
    shared, wide = heads // groups, rows.shape[1]
    for unit in prange(len(positions) * groups):
        n, k = unit // groups, unit % groups
        table = tables[owners[n]]
        high = positions[n] + 1
        low = max(0, high - window) if window > 0 else 0
        first, last = low // TILE, (high + TILE - 1) // TILE
        scores = np.empty((shared, (last - first) * TILE), np.float32)
        bits = np.empty((last - first) * TILE, np.int32)
        for t in range(first, last):
            tile = (table[t] * groups + k) * TILE * size
            _score(rows, n * wide + k * shared * size, keys, tile, size, scores, (t - first) * TILE, shared)
        for h in range(shared):
            _softmax(scores[h], low - first * TILE, high - first * TILE, scale, softcap, bits)
        place = n * heads * size + k * shared * size
        out.reshape(-1)[place : place + shared * size] = _ZERO
        for t in range(first, last):
            begin, end = max(low, t * TILE), min(high, (t + 1) * TILE)
            value = ((table[t] * groups + k) * TILE + begin - t * TILE) * size
            _accumulate(scores, begin - first * TILE, values, value, size, end - begin, out, place, shared)
