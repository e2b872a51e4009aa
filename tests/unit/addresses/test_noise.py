"""Noise by token id."""

import numpy as np
import pytest
from scipy import stats

from foreword.addresses import Address
from foreword.addresses.noise import exponential_at, exponentials, gumbel_at
from foreword.addresses.philox import integers

KEY = bytes(range(16))


@pytest.mark.parametrize("size", [5, 50, 2000])
def test_noise_belongs_to_the_id_whatever_else_is_asked_for(size: int) -> None:
    whole = exponentials(integers(KEY, Address(3), 4000))
    ids = np.sort(np.random.default_rng(size).choice(4000, size, replace=False)).astype(np.int32)
    assert np.array_equal(exponential_at(KEY, Address(3), ids), whole[ids])
    assert np.array_equal(gumbel_at(KEY, Address(3), ids), -np.log(whole[ids]))


def test_noise_is_exponential_and_gumbel() -> None:
    ids = np.arange(20_000)
    assert stats.kstest(exponential_at(KEY, Address(0), ids), "expon").pvalue > 1e-4
    assert stats.kstest(gumbel_at(KEY, Address(0), ids), "gumbel_r").pvalue > 1e-4


def test_the_largest_number_has_noise_over_0() -> None:
    assert exponentials(np.array([2**64 - 1], dtype=np.uint64))[0] > 0.0
