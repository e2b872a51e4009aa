"""A draft's counts from logits are those of the law that it does not make, and every number draws from them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from foreword.compiled.counted import draw_counted
from foreword.laws.counts import counts_law, to_counts, validate
from foreword.laws.parameters import LawParameters
from tests.unit.compiled.laws import LAWS, rows_of


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("size", [1, 2, 3, 500, 8192])
@pytest.mark.parametrize(("bits", "mass", "cap"), [(12, 0.995, 128), (4, 0.9, 128), (12, 1.0, 3), (16, 0.5, 1)])
def test_counts_are_those_of_the_law(law: LawParameters, size: int, bits: int, mass: float, cap: int) -> None:
    numbers = np.random.default_rng(bits)
    for row, ids, dense in rows_of(law, size, count=10):
        wanted = to_counts(dense, bits=bits, mass=mass, cap=cap)
        found = draw_counted(row, ids, law, int(numbers.integers(1 << 63)), bits=bits, mass=mass, cap=cap)
        assert found is not None
        token, counts, lead = found
        validate(counts, token, 49_152)
        others, own = (dict(zip(side.ids, side.counts, strict=True)) for side in (wanted, counts))
        assert len(others.keys() ^ own.keys()) <= 1, "what is left out may move the last one over the mass"
        for one in own.keys() & others.keys():
            assert own[one] == pytest.approx(others[one], rel=2e-3, abs=1), "all others share what that one had"
        assert lead == pytest.approx(counts_law(counts).margin)


def test_every_token_is_drawn_as_often_as_it_counts() -> None:
    row = np.array([0.3, -1.0, 2.0, 1.9, -4.0, 0.0], np.float32)
    ids = np.array([3, 5, 8, 13, 21, 34], np.int32)
    drawn: Counter[int] = Counter()
    for top in range(1 << 8):
        found = draw_counted(row, ids, LawParameters(), top << 56 | 12345, bits=8, mass=1.0, cap=6)
        assert found is not None
        token, counts, _ = found
        drawn[token] += 1
    assert drawn == dict(zip(counts.ids, counts.counts, strict=True))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_without_a_finite_largest_draws_nothing(bad: float) -> None:
    row = np.zeros(8, np.float32)
    row[5] = bad
    ids = np.arange(8, dtype=np.int32)
    assert draw_counted(row, ids, LawParameters(), 1, bits=12, mass=0.995, cap=128) is None
    assert draw_counted(np.full(8, -np.inf, np.float32), ids, LawParameters(), 1, bits=12, mass=0.995, cap=128) is None
