"""Sampling with addressed numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from foreword.addresses import Address
from foreword.addresses.noise import gumbel_at
from foreword.laws import sampling
from foreword.laws.law import Law
from foreword.laws.sampling import inverse_cdf, match_margin, races, sample_match, sample_uniform

KEY = bytes(range(16))
FIXED = settings(deadline=None, derandomize=True)


def random_law(seed: int, size: int, *, dense: bool, spread: float = 2.5) -> Law:
    rng = np.random.default_rng(seed)
    p = np.exp(rng.standard_normal(size) * spread)
    ids = None if dense else np.sort(rng.choice(3 * size, size, replace=False)).astype(np.int32)
    return Law(ids, p / p.sum())


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("size", [1, 2, 40, 600, 20_000])
@pytest.mark.parametrize("spread", [0.0, 2.5, 8.0])
def test_the_own_sample_is_the_argmax_of_log_p_and_gumbel_noise(size: int, dense: bool, spread: float) -> None:
    law = random_law(size, size, dense=dense, spread=spread)
    for position in range(6):
        scores = np.log(law.probabilities) + gumbel_at(KEY, Address(position), law.support)
        assert sample_match(law, KEY, position) == law.support[scores.argmax()]
        if size > 1:
            second, first = np.partition(scores, size - 2)[-2:]
            assert match_margin(law, KEY, position) == pytest.approx(first - second, rel=1e-6)


def test_a_dense_law_and_its_support_give_the_same_sample() -> None:
    law = random_law(3, 5000, dense=True)
    p = np.where(law.probabilities > 1e-4, law.probabilities, 0.0)
    ids = np.flatnonzero(p).astype(np.int32)
    for position in range(20):
        assert sample_match(Law(None, p), KEY, position) == sample_match(Law(ids, p[ids]), KEY, position)


def test_few_logarithms_for_a_large_law(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = sampling.exponentials
    monkeypatch.setattr(sampling, "exponentials", lambda numbers: asked.append(len(numbers)) or original(numbers))
    law = random_law(0, 50_000, dense=True)
    for position in range(20):
        asked.clear()
        sample_match(law, KEY, position)
        assert sum(asked) < 8000


def test_equal_scores_go_to_the_lowest_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "exponentials", lambda numbers: np.ones(len(numbers)))
    law = Law(np.array([3, 5, 8], dtype=np.int32), np.array([0.2, 0.4, 0.4]))
    assert sample_match(law, KEY, 0) == 5


def test_what_has_no_probability_never_comes() -> None:
    law = Law(None, np.array([0.0, 1e-300, 0.0]))
    assert {sample_match(law, KEY, i) for i in range(50)} == {1}
    assert {sample_uniform(law, u) for u in (0.0, 0.5, 1 - 2**-53)} == {1}
    assert match_margin(law, KEY, 0) == math.inf


def test_what_has_next_to_no_probability_comes_last_and_warns_nobody() -> None:
    law = Law(None, np.array([5e-324, 1.0, 1e-310]))
    assert {sample_match(law, b"k" * 16, position) for position in range(50)} == {1}


def test_a_position_has_one_sample_and_others_have_others() -> None:
    law = random_law(0, 50, dense=False)
    text = [sample_match(law, KEY, i) for i in range(40)]
    assert text == [sample_match(law, KEY, i) for i in range(40)]
    assert text == list(races(KEY, [(Address(i), law) for i in range(40)]))
    assert len(set(text)) > 5
    assert text != [sample_match(law, bytes(16), i) for i in range(40)]


def test_own_samples_have_the_law() -> None:
    law = Law(np.array([2, 5, 11, 12], dtype=np.int32), np.array([0.05, 0.15, 0.3, 0.5]))
    drawn = np.array(list(races(KEY, [(Address(i), law) for i in range(20_000)])))
    counts = [(drawn == token).sum() for token in law.support]
    assert stats.chisquare(counts, law.probabilities * 20_000).pvalue > 1e-4


@FIXED
@given(st.lists(st.integers(0, 9), min_size=1, max_size=900).filter(any), st.floats(0, 1, exclude_max=True))
def test_inverse_cdf_of_whole_weights(weights: list[int], u: float) -> None:
    index = inverse_cdf(np.array(weights, dtype=np.float64), u)
    assert weights[index] > 0
    assert sum(weights[:index]) <= u * sum(weights) < sum(weights[: index + 1])


def test_inverse_cdf_of_many_weights() -> None:
    law = random_law(1, 50_000, dense=True)
    us = np.random.default_rng(0).random(200)
    cumulated = law.probabilities.cumsum()
    assert [inverse_cdf(law.probabilities, u) for u in us] == cumulated.searchsorted(us, side="right").tolist()
    for u in (0.0, 1 - 2**-53):
        assert law.probabilities[inverse_cdf(law.probabilities, u)] > 0.0
    zero_tail = np.concatenate([law.probabilities[:1000], np.zeros(1000)])
    assert inverse_cdf(zero_tail, 1 - 2**-53) == 999


def test_inverse_cdf_never_takes_a_weight_of_0_where_runs_meet() -> None:
    # Every run of 256 starts with a zero, and numbers are taken at the very borders of runs.
    weights = np.random.default_rng(3).random(256 * 40)
    weights[::256] = 0.0
    borders = np.add.reduceat(weights, np.arange(0, len(weights), 256)).cumsum()
    for border in (borders / borders[-1]).tolist():
        for u in (np.nextafter(border, 0.0), border, np.nextafter(border, 1.0)):
            assert weights[inverse_cdf(weights, min(float(u), 1.0 - 2**-53))] > 0.0
