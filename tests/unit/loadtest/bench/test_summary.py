"""Medians, quantiles and intervals against definitions and simulation."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.bench.summary import median, median_interval, quantile, summarize

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(VALUES)
def test_the_median_is_that_of_the_standard_library(values: list[float]) -> None:
    assert median(values) == pytest.approx(statistics.median(values))


@given(VALUES, st.floats(0.0, 1.0))
def test_quantiles_grow_from_the_smallest_to_the_largest(values: list[float], share: float) -> None:
    assert quantile(values, 0.0) == min(values)
    assert quantile(values, 1.0) == max(values)
    assert min(values) <= quantile(values, share) <= max(values)


def test_quantiles_are_linear_between_neighbours() -> None:
    assert quantile([10.0, 20.0, 40.0], 0.25) == 15.0
    assert quantile([40.0, 10.0, 20.0], 0.75) == 30.0


@pytest.mark.parametrize(
    ("count", "places", "coverage"),
    [(1, (0, 0), 0.0), (2, (0, 1), 0.5), (5, (0, 4), 0.9375), (6, (0, 5), 0.96875), (9, (1, 7), 0.9609375)],
)
def test_intervals_are_order_statistics(count: int, places: tuple[int, int], coverage: float) -> None:
    """Coverage by hand: 1 - 2·Σ C(n, i)/2^n over the i under the place from below."""
    low, high, covers = median_interval([float(i) for i in range(count)][::-1])
    assert ((low, high), covers) == (places, pytest.approx(coverage))


@given(VALUES, st.floats(0.01, 0.999))
def test_an_interval_is_as_narrow_as_its_coverage_allows(values: list[float], confidence: float) -> None:
    low, high, coverage = median_interval(values, confidence)
    assert low <= median(values) <= high
    if (low, high) != (min(values), max(values)):
        assert coverage >= confidence
    if coverage < confidence:
        assert (low, high) == (min(values), max(values))


def test_intervals_hold_the_true_median_as_often_as_they_say() -> None:
    chance, held, runs = random.Random(5), 0, 4000
    for _ in range(runs):
        low, high, coverage = median_interval([chance.expovariate(1.0) for _ in range(9)])
        held += low <= math.log(2) <= high
    deviation = math.sqrt(coverage * (1 - coverage) / runs)
    assert abs(held / runs - coverage) < 4 * deviation
    # One place further in, as a mistake by one would have it, holds 0.82.
    assert coverage - 0.82 > 4 * deviation


def test_a_summary_says_how_far_to_trust_it() -> None:
    summary = summarize([3.0, 1.0, 2.0, 5.0, 4.0])
    assert (summary.median, summary.low, summary.high, summary.count) == (3.0, 1.0, 5.0, 5)
    assert summary.spread == 2.0
