"""Integer-count laws."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.errors import InvalidField
from foreword.laws.counts import counts_law, sample, to_counts, validate, validate_block
from foreword.laws.law import Law
from foreword.protocol.messages import OneHot, SparseCounts

FIXED = settings(deadline=None, derandomize=True)


def law_of(weights: list[float], ids: list[int] | None = None) -> Law:
    p = np.array(weights, dtype=np.float64)
    return Law(None if ids is None else np.array(ids, dtype=np.int32), p / p.sum())


weights = st.lists(st.floats(0, 1) | st.floats(0, 1e-6), min_size=1, max_size=40).filter(lambda w: sum(w) > 1e-9)


@FIXED
@given(weights, st.integers(6, 16), st.floats(0.05, 1.0), st.integers(1, 50))
def test_counts_are_a_law_near_the_given_one(some: list[float], bits: int, mass: float, cap: int) -> None:
    law = law_of(some)
    counts = to_counts(law, bits=bits, mass=mass, cap=cap)
    size, total = len(counts.ids), 1 << bits
    for token in counts.ids:
        validate(counts, token, len(some))
    # The fewest likeliest tokens that reach the mass, the lowest of equal ids.
    order = sorted((t for t in range(len(some)) if some[t] > 0), key=lambda t: (-law.probabilities[t], t))
    assert list(counts.ids) == sorted(order[:size])
    assert size <= min(cap, len(order))
    assert size == min(cap, len(order)) or math.fsum(law.probabilities[order[:size]]) >= mass - 1e-12
    assert size == 1 or math.fsum(law.probabilities[order[: size - 1]]) < mass + 1e-12
    # Where every quota is over 1, each count is its quota rounded up or down.
    quotas = law.probabilities[list(counts.ids)] / math.fsum(law.probabilities[list(counts.ids)]) * total
    if quotas.min() >= 1.0:
        assert np.abs(np.array(counts.counts) - quotas).max() < 1.0 + 1e-6


def test_counts_of_a_known_law() -> None:
    assert to_counts(law_of([5, 3, 2], [4, 8, 9]), bits=4, mass=1.0) == SparseCounts((4, 8, 9), (8, 5, 3), 4)
    # Ties of remainders go to the lowest id; what is under 1 gets 1.
    assert to_counts(law_of([1, 1, 1]), bits=4, mass=1.0) == SparseCounts((0, 1, 2), (6, 5, 5), 4)
    assert to_counts(law_of([1000, 1, 1]), bits=4, mass=1.0) == SparseCounts((0, 1, 2), (14, 1, 1), 4)
    assert to_counts(law_of([90, 9, 1]), bits=4, mass=0.95) == SparseCounts((0, 1), (15, 1), 4)
    assert to_counts(law_of([1] * 8), bits=3, mass=1.0) == SparseCounts(tuple(range(8)), (1,) * 8, 3)
    assert to_counts(law_of([3, 2, 2, 2]), bits=1, mass=1.0) == SparseCounts((0, 1), (1, 1), 1)
    assert to_counts(Law.one_hot(7)) == SparseCounts((7,), (4096,), 12)


def test_rounding_costs_little() -> None:
    law = law_of(np.exp(np.random.default_rng(0).standard_normal(1000) * 2.5).tolist())
    rounded = counts_law(to_counts(law, bits=12, mass=1.0, cap=128))
    kept = law.probabilities_of(rounded.support)
    assert 0.5 * np.abs(rounded.probabilities - kept / kept.sum()).sum() < 0.01


@pytest.mark.parametrize(("bits", "cap", "field"), [(0, 1, "bits"), (17, 1, "bits"), (3, 0, "cap")])
def test_settings_out_of_range(bits: int, cap: int, field: str) -> None:
    with pytest.raises(InvalidField, match=f"^{field}: got"):
        to_counts(Law.one_hot(0), bits=bits, cap=cap)


@FIXED
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_samples_have_exactly_the_law_of_the_counts(parts: list[int], random: object) -> None:
    bits = max(1, math.ceil(math.log2(sum(parts))))
    parts[0] += (1 << bits) - sum(parts)
    counts = SparseCounts(tuple(range(10, 10 + len(parts))), tuple(parts), bits)
    step = 1 << (64 - bits)
    drawn = Counter(sample(counts, i * step + offset) for i in range(1 << bits) for offset in (0, step - 1))
    assert drawn == {token: 2 * count for token, count in zip(counts.ids, counts.counts, strict=True)}


def test_a_law_of_counts_is_exact_and_ascending() -> None:
    law = counts_law(SparseCounts((9, 2, 5), (1, 3, 4), 3))
    assert law.ids is not None
    assert law.ids.tolist() == [2, 5, 9]
    assert law.probabilities.tolist() == [0.375, 0.5, 0.125]


GOOD = SparseCounts((1, 5), (3, 5), 3)


@pytest.mark.parametrize(
    ("law", "candidate", "message"),
    [
        (SparseCounts((1, 5), (3, 4), 3), 1, r"law.counts: got 'a sum of 7', wanted 2\*\*3 = 8"),
        (SparseCounts((1, 5, 6), (3, 5, 0), 3), 1, "law.counts: got 0, wanted counts of at least 1"),
        (SparseCounts((1, 5), (9, -1), 3), 1, "law.counts: got -1"),
        (SparseCounts((1, 1), (3, 5), 3), 1, "law.ids: got 'a repeated id'"),
        (SparseCounts((1, 10), (3, 5), 3), 1, "law.ids: got 10, wanted token ids from 0 to 9"),
        (SparseCounts((-1, 5), (3, 5), 3), 5, "law.ids: got -1"),
        (SparseCounts((1, 5, 6), (3, 5), 3), 1, "law.counts: got '2 counts', wanted one for each of 3 ids"),
        (SparseCounts((), (), 3), 1, "law.counts: got None"),
        (SparseCounts((1, 5), (3, 5), 17), 1, "law.total_bits: got 17, wanted 1 to 16"),
        (GOOD, 2, "candidate: got 2, wanted a token on the support"),
    ],
)
def test_a_bad_law_is_refused(law: SparseCounts, candidate: int, message: str) -> None:
    with pytest.raises(InvalidField, match=message):
        validate(law, candidate, 10)


def test_a_block_is_checked_candidate_by_candidate() -> None:
    validate_block(None, (9, 0), 10)
    validate_block(OneHot(), (9, 0), 10)
    validate_block((GOOD, GOOD), (1, 5), 10)
    with pytest.raises(InvalidField, match="ids: got 10"):
        validate_block(OneHot(), (9, 10), 10)
    with pytest.raises(InvalidField, match="ids: got -1"):
        validate_block(None, (-1,), 10)
    with pytest.raises(InvalidField, match="law: got '1 laws', wanted one for each of 2 candidates"):
        validate_block((GOOD,), (1, 5), 10)
    with pytest.raises(InvalidField, match="candidate: got 2"):
        validate_block((GOOD, GOOD), (1, 2), 10)
