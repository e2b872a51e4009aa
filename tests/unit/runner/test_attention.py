"""Attention over tiles against float64, whatever its shape, with what must not be read all around."""

from __future__ import annotations

import numpy as np
import pytest

from foreword.runner.kernels.attention import TILE, attend, store

GROUPS, LENGTH = 2, 75
ROWS = (0, 1, 15, 16, 17, 40, 74)
"""Positions of the queries."""


def wanted(rows, keys, values, shared, size, window, softcap):
    out = np.zeros((len(ROWS), GROUPS * shared * size))
    for n, position in enumerate(ROWS):
        low = max(0, position + 1 - window) if window else 0
        for head in range(GROUPS * shared):
            k = head // shared
            query = rows[n, head * size : (head + 1) * size].astype(np.float64)
            scores = keys[low : position + 1, k].astype(np.float64) @ query * 0.3
            scores = np.tanh(scores / softcap) * softcap if softcap else scores
            weights = np.exp(scores - scores.max())
            out[n, head * size : (head + 1) * size] = weights / weights.sum() @ values[low : position + 1, k]
    return out


def attended(rows, keys, values, shared, size, window, softcap):
    heads, tiles = GROUPS * shared, -(-LENGTH // TILE)
    held_keys = np.full((2 * tiles, GROUPS, size // 8, 8, TILE), np.nan, np.float32)
    held_values = np.full((2 * tiles, GROUPS, TILE, size), np.nan, np.float32)
    tables = np.random.default_rng(1).permutation(2 * tiles)[None, :tiles].astype(np.int32)
    packed = np.zeros((LENGTH, (heads + 2 * GROUPS) * size), np.float32)
    packed[:, heads * size : (heads + GROUPS) * size] = keys.reshape(LENGTH, -1)
    packed[:, (heads + GROUPS) * size :] = values.reshape(LENGTH, -1)
    everywhere = np.arange(LENGTH, dtype=np.int32)
    store(packed, heads, everywhere, np.zeros(LENGTH, np.int32), tables, held_keys, held_values)
    out = np.full((len(ROWS), heads * size), np.nan, np.float32)
    at, owners = np.array(ROWS, np.int32), np.zeros(len(ROWS), np.int32)
    attend(rows, heads, at, owners, tables, held_keys, held_values, out, 0.3, window, softcap)
    return out


@pytest.mark.parametrize("size", [8, 16, 24, 64, 80, 128])
@pytest.mark.parametrize("shared", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize(("window", "softcap"), [(0, 0.0), (20, 0.0), (0, 5.0)])
def test_a_row_sees_what_stands_before_it_and_nothing_else(size, shared, window, softcap):
    chances = np.random.default_rng(size + shared)
    rows = chances.normal(size=(len(ROWS), (GROUPS * shared + 2 * GROUPS) * size)).astype(np.float32)
    keys, values = chances.normal(size=(2, LENGTH, GROUPS, size)).astype(np.float32)
    made = attended(rows, keys, values, shared, size, window, softcap)
    np.testing.assert_allclose(made, wanted(rows, keys, values, shared, size, window, softcap), rtol=0, atol=3e-6)


def test_heads_have_the_same_bits_in_any_company():
    """Four, three, two heads or one of a group go through loops of their own."""
    chances, size = np.random.default_rng(3), 64
    rows = chances.normal(size=(len(ROWS), (GROUPS * 7 + 2 * GROUPS) * size)).astype(np.float32)
    keys, values = chances.normal(size=(2, LENGTH, GROUPS, size)).astype(np.float32)
    together = attended(rows, keys, values, 7, size, 0, 0.0)
    for head in range(7):
        one = np.zeros((len(ROWS), (GROUPS + 2 * GROUPS) * size), np.float32)
        for k in range(GROUPS):
            place = (k * 7 + head) * size
            one[:, k * size : (k + 1) * size] = rows[:, place : place + size]
        alone = attended(one, keys, values, 1, size, 0, 0.0)
        for k in range(GROUPS):
            place = (k * 7 + head) * size
            assert (alone[:, k * size : (k + 1) * size] == together[:, place : place + size]).all()
