"""Causal attention of packed rows over keys and values in tiles of 16 tokens.

Keys lie position innermost, [tiles, KV heads, D, 16], values with the dimension of the head innermost, [tiles, KV
heads, 16, D]: scores and sums are then vectors of neighbours, no reduction runs across a vector, and everything is
added up in one order. A packed row holds its query heads, then its key heads, then its value heads.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from foreword.runner.kernels.common import FLAGS, Floats, Integers, exponentials

TILE = 16
"""Tokens of a tile; pages are whole tiles."""

_ZERO, _ONE = np.float32(0), np.float32(1)
_LOWEST = np.float32(-1e30)
_HIDDEN = np.float32(-200)
"""Under what the exponential tells from nothing."""


@njit(fastmath=FLAGS, cache=True, nogil=True)
def rotate(rows: Floats, heads: int, size: int, cosines: Floats, sines: Floats, positions: Integers) -> None:
    """Rotate the first `heads` heads of float32 [N, …] in place by their positions; tables are [longest, R / 2].

    Su et al. 2021, RoFormer, in the layout of halves; what lies behind R in a head stays as it is.
    """
    half = cosines.shape[1]
    for n in range(rows.shape[0]):
        cos, sin = cosines[positions[n]], sines[positions[n]]
        for head in range(heads):
            first = rows[n, head * size : head * size + half]
            second = rows[n, head * size + half : head * size + 2 * half]
            for d in range(half):
                a, b = first[d], second[d]
                first[d] = a * cos[d] - b * sin[d]
                second[d] = b * cos[d] + a * sin[d]


@njit(fastmath=FLAGS, cache=True, nogil=True)
def store(
    rows: Floats, heads: int, positions: Integers, owners: Integers, tables: Integers, keys: Floats, values: Floats
) -> None:
    """Write the keys and values of packed rows [N, (heads + 2 KV) · D] to their tiles."""
    groups, size = keys.shape[1], keys.shape[2]
    for n in range(rows.shape[0]):
        tile = tables[owners[n], positions[n] // TILE]
        j = positions[n] % TILE
        for k in range(groups):
            key = rows[n, (heads + k) * size : (heads + k + 1) * size]
            value = rows[n, (heads + groups + k) * size : (heads + groups + k + 1) * size]
            for d in range(size):
                keys[tile, k, d, j] = key[d]
                values[tile, k, j, d] = value[d]


@njit(fastmath=FLAGS, inline="always")
def _score(query: Floats, tile: Floats, scores: Floats) -> None:
    """Write the products of a query [D] with the 16 keys of a tile [D, 16]; D is a multiple of 8."""
    for j in range(TILE):
        scores[j] = _ZERO
    for d in range(0, len(query), 8):
        a, b, c, e = query[d], query[d + 1], query[d + 2], query[d + 3]
        f, g, h, i = query[d + 4], query[d + 5], query[d + 6], query[d + 7]
        for j in range(TILE):
            left = (a * tile[d, j] + b * tile[d + 1, j]) + (c * tile[d + 2, j] + e * tile[d + 3, j])
            right = (f * tile[d + 4, j] + g * tile[d + 5, j]) + (h * tile[d + 6, j] + i * tile[d + 7, j])
            scores[j] += left + right


@njit(fastmath=FLAGS, inline="always")
def _accumulate(weights: Floats, tile: Floats, out: Floats) -> None:
    """Add the values of a tile [16, D], weighted, to `out` [D]."""
    for j in range(0, TILE, 8):
        a, b, c, e = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        f, g, h, i = weights[j + 4], weights[j + 5], weights[j + 6], weights[j + 7]
        for d in range(len(out)):
            left = (a * tile[j, d] + b * tile[j + 1, d]) + (c * tile[j + 2, d] + e * tile[j + 3, d])
            right = (f * tile[j + 4, d] + g * tile[j + 5, d]) + (h * tile[j + 6, d] + i * tile[j + 7, d])
            out[d] += left + right


@njit(fastmath=FLAGS, inline="always")
def _softmax(scores: Floats, low: int, high: int, scale: float, softcap: float, bits: Integers) -> None:
    """Turn scores into weights in place; only those from `low` up to `high` count, the length is whole tiles."""
    factor, cap = np.float32(scale), np.float32(softcap)
    largest = _LOWEST
    for t in range(low, high):
        value = scores[t] * factor
        if cap > _ZERO:
            value = np.float32(math.tanh(value / cap)) * cap
        scores[t] = value
        largest = max(largest, value)
    for t in range(low, high):
        scores[t] -= largest
    for t in range(low):
        scores[t] = _HIDDEN
    for t in range(high, len(scores)):
        scores[t] = _HIDDEN
    exponentials(scores, bits)
    for t in range(low):
        scores[t] = _ZERO
    for t in range(high, len(scores)):
        scores[t] = _ZERO
    total = _ZERO
    for t in range(0, len(scores), 8):
        left = (scores[t] + scores[t + 1]) + (scores[t + 2] + scores[t + 3])
        right = (scores[t + 4] + scores[t + 5]) + (scores[t + 6] + scores[t + 7])
        total += left + right
    inverse = _ONE / total
    for t in range(len(scores)):
        scores[t] *= inverse


@njit(parallel=True, fastmath=FLAGS, cache=True, nogil=True)
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
    groups, size = keys.shape[1], keys.shape[2]
    shared = heads // groups
    for unit in prange(rows.shape[0] * groups):
        n, k = unit // groups, unit % groups
        table = tables[owners[n]]
        high = positions[n] + 1
        low = max(0, high - window) if window > 0 else 0
        first, last = low // TILE, (high + TILE - 1) // TILE
        scores = np.empty((shared, (last - first) * TILE), np.float32)
        bits = np.empty((last - first) * TILE, np.int32)
        for t in range(first, last):
            tile = keys[table[t], k]
            for h in range(shared):
                place = (k * shared + h) * size
                _score(rows[n, place : place + size], tile, scores[h, (t - first) * TILE : (t - first + 1) * TILE])
        for h in range(shared):
            _softmax(scores[h], low - first * TILE, high - first * TILE, scale, softcap, bits)
        for h in range(shared):
            place = (k * shared + h) * size
            result = out[n, place : place + size]
            for d in range(size):
                result[d] = _ZERO
            for t in range(first, last):
                _accumulate(scores[h, (t - first) * TILE : (t - first + 1) * TILE], values[table[t], k], result)
