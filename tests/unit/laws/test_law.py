"""The law type."""

import math

import numpy as np
import pytest

from foreword.laws.law import Law

DENSE = Law(None, np.array([0.0, 0.5, 0.25, 0.25]))
SPARSE = Law(np.array([3, 7, 9], dtype=np.int32), np.array([0.2, 0.2, 0.6]))


@pytest.mark.parametrize(
    ("law", "expected"),
    [(DENSE, {0: 0.0, 1: 0.5, 3: 0.25, 4: 0.0, -1: 0.0}), (SPARSE, {3: 0.2, 9: 0.6, 4: 0, 10: 0, -1: 0})],
)
def test_probabilities(law: Law, expected: dict[int, float]) -> None:
    assert {token: law.probability_of(token) for token in expected} == expected
    tokens = np.array(list(expected), dtype=np.int32)
    assert law.probabilities_of(tokens).tolist() == list(expected.values())


def test_sizes() -> None:
    assert (DENSE.size, DENSE.support_size, DENSE.support.tolist()) == (4, 3, [0, 1, 2, 3])
    assert (SPARSE.size, SPARSE.support_size, SPARSE.support.tolist()) == (3, 3, [3, 7, 9])


def test_the_best_is_the_lowest_of_equals() -> None:
    assert DENSE.best == 1
    assert Law(np.array([4, 6], dtype=np.int32), np.array([0.5, 0.5])).best == 4


def test_margin() -> None:
    assert DENSE.margin == pytest.approx(math.log(2))
    assert SPARSE.margin == pytest.approx(math.log(3))
    assert Law.one_hot(5).margin == math.inf
    assert Law(None, np.array([0.0, 1.0])).margin == math.inf


def test_one_hot() -> None:
    law = Law.one_hot(5)
    assert (law.best, law.size, law.probability_of(5), law.probability_of(0)) == (5, 1, 1.0, 0.0)
