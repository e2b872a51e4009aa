"""Causal attention of packed rows over keys and values in tiles of 16 tokens.

Keys lie position innermost, [tiles, KV heads, D / 8, 8, 16], values with the dimension of the head innermost, [tiles,
KV heads, 16, D]: scores and sums are then vectors of neighbours, no reduction runs across a vector, and everything is
added up in one order. Loops run over shapes or constants, whole dimensions at a time: an index that is a sum keeps the
compiler from making vectors of them. A packed row holds its query heads, then its key heads, then its value heads.
There are as many rows as positions; what stands behind them is filling, and is left alone.
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
    for n in range(len(positions)):
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


@njit(fastmath=FLAGS)
def _score(query: Floats, tile: Floats, scores: Floats) -> None:
    """Write the products of a query [D / 8, 8] with the 16 keys of a tile [D / 8, 8, 16]."""
    for j in range(TILE):
        scores[j] = _ZERO
    for m in range(tile.shape[0]):
        part, keys = query[m], tile[m]
        a, b, c, e, f, g, h, i = part[0], part[1], part[2], part[3], part[4], part[5], part[6], part[7]
        ka, kb, kc, ke, kf, kg, kh, ki = keys[0], keys[1], keys[2], keys[3], keys[4], keys[5], keys[6], keys[7]
        for j in range(TILE):
            left = (a * ka[j] + b * kb[j]) + (c * kc[j] + e * ke[j])
            right = (f * kf[j] + g * kg[j]) + (h * kh[j] + i * ki[j])
            scores[j] += left + right


@njit(fastmath=FLAGS)
def _accumulate(weights: Floats, tile: Floats, out: Floats) -> None:
    """Add the values of a tile [16, D], weighted, to `out` [D]."""
    for j in range(0, TILE, 8):
        a, b, c, e = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        f, g, h, i = weights[j + 4], weights[j + 5], weights[j + 6], weights[j + 7]
        va, vb, vc, ve = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        vf, vg, vh, vi = tile[j + 4], tile[j + 5], tile[j + 6], tile[j + 7]
        for d in range(len(out)):
            left = (a * va[d] + b * vb[d]) + (c * vc[d] + e * ve[d])
            right = (f * vf[d] + g * vg[d]) + (h * vh[d] + i * vi[d])
            out[d] += left + right


@njit(fastmath=FLAGS)
def _accumulate_some(weights: Floats, tile: Floats, low: int, high: int, out: Floats) -> None:
    """Add the values of a tile from `low` up to `high`, weighted, to `out` [D]; what else lies there is not read.

    Behind a sequence its last page holds what others left there, and before a window what is out of sight: a weight of
    0 makes nothing of a value that is not a number.
    """
    for j in range(low, high):
        weight, value = weights[j], tile[j]
        for d in range(len(out)):
            out[d] += weight * value[d]


@njit(fastmath=FLAGS)
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
    groups, size = values.shape[1], values.shape[3]
    shared, parts = heads // groups, size // 8
    queries = rows.reshape(rows.shape[0], -1, 8)
    for unit in prange(len(positions) * groups):
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
                head = (k * shared + h) * parts
                _score(queries[n, head : head + parts], tile, scores[h, (t - first) * TILE : (t - first + 1) * TILE])
        for h in range(shared):
            _softmax(scores[h], low - first * TILE, high - first * TILE, scale, softcap, bits)
        for h in range(shared):
            place = (k * shared + h) * size
            result = out[n, place : place + size]
            for d in range(size):
                result[d] = _ZERO
            for t in range(first, last):
                weights, tile = scores[h, (t - first) * TILE : (t - first + 1) * TILE], values[table[t], k]
                if t * TILE < low or (t + 1) * TILE > high:
                    _accumulate_some(weights, tile, max(0, low - t * TILE), min(TILE, high - t * TILE), result)
                else:
                    _accumulate(weights, tile, result)
