"""Truncation of large rows: against sorting, without doing it."""

import math

import numpy as np
import pytest

from foreword.laws import nucleus, truncate
from foreword.laws.parameters import LawParameters
from foreword.laws.truncate import truncated_law

V = 30_000


def by_sorting(logits: np.ndarray, parameters: LawParameters) -> tuple[list[int], np.ndarray]:
    """Return the kept ids and their probabilities, by sorting everything in double precision."""
    order = np.lexsort((np.arange(len(logits)), -logits))
    z = logits[order].astype(np.float64)
    p = np.exp((z - z[0]) / parameters.temperature)
    if parameters.min_p:
        p[p < parameters.min_p] = 0.0
    if parameters.top_k is not None:
        p[parameters.top_k :] = 0.0
    if parameters.top_p is not None:
        # Not normalized first: a sum of equal weights stays exact.
        p[int(np.searchsorted(p.cumsum(), parameters.top_p * p.sum())) + 1 :] = 0.0
    kept = order[p > 0.0]
    ascending = kept.argsort()
    return kept[ascending].tolist(), (p[p > 0.0] / p.sum())[ascending]


ROWS = {
    "peaked": lambda rng: rng.standard_normal(V) * 4,
    "flat": lambda rng: rng.standard_normal(V) * 0.01,
    "coarse": lambda rng: rng.integers(-6, 6, V) / 2,
    "two levels": lambda rng: (rng.random(V) < 0.3) * 1.0,
    "masked": lambda rng: np.where(rng.random(V) < 0.999, -np.inf, rng.standard_normal(V)),
    "one spike": lambda rng: np.where(np.arange(V) == 17, 50.0, rng.standard_normal(V)),
}
PARAMETERS = [
    LawParameters(top_p=0.95),
    LawParameters(top_p=0.5, temperature=0.7),
    LawParameters(top_p=0.999, temperature=1.5),
    LawParameters(top_k=1),
    LawParameters(top_k=50),
    LawParameters(top_k=5000, top_p=0.9),
    LawParameters(top_k=V + 1),
    LawParameters(min_p=0.1),
    LawParameters(min_p=0.02, top_k=300, top_p=0.97, temperature=0.8),
]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("parameters", PARAMETERS, ids=range(len(PARAMETERS)))
def test_large_rows_are_cut_as_by_sorting(row: str, parameters: LawParameters) -> None:
    for seed in range(3):
        logits = ROWS[row](np.random.default_rng(seed)).astype(np.float32)
        law = truncated_law(logits, parameters)
        ids, p = by_sorting(logits, parameters)
        assert law.ids is not None
        assert law.ids.dtype == np.int32
        assert law.ids.tolist() == ids
        assert np.allclose(law.probabilities, p, rtol=1e-10)


def test_the_cut_is_exact_where_the_rough_total_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = np.random.default_rng(1).standard_normal(V).astype(np.float32) * 3
    p = np.sort(np.exp(logits.astype(np.float64) - logits.max()))[::-1]
    cumulated = p.cumsum() / p.sum()
    asked = []
    weigh = truncate._weights
    monkeypatch.setattr(truncate, "_weights", lambda z, **rest: asked.append(len(z)) or weigh(z, **rest))
    for kept in (3, 40, 700):
        for offset, expected in ((-1e-11, kept), (1e-11, kept + 1)):
            asked.clear()
            assert truncated_law(logits, LawParameters(top_p=float(cumulated[kept - 1]) + offset)).size == expected
            assert max(asked) == V, "the exact total was not taken"
    asked.clear()
    assert truncated_law(logits, LawParameters(top_p=float(cumulated[2] + cumulated[3]) / 2)).size == 4
    assert max(asked) < V / 2, "the exact total was taken without need"


def test_a_whole_row_is_never_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    sorted_sizes = []
    original = np.sort
    monkeypatch.setattr(np, "sort", lambda values: sorted_sizes.append(len(values)) or original(values))
    peaked = ROWS["peaked"](np.random.default_rng(0)).astype(np.float32)
    for parameters in PARAMETERS[:2]:
        truncated_law(peaked, parameters)
    assert max(sorted_sizes) <= 2048


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_top_until_doubles_as_far_as_needed(count: int) -> None:
    values = np.random.default_rng(2).random(5000)
    largest = np.sort(values)[::-1]
    top, cumulated = nucleus.top_until(values, float(largest[:count].sum()) * (1 - 1e-12), weigh=np.asarray)
    assert len(top) >= count
    assert np.array_equal(top, largest[: len(top)])
    assert nucleus.reaching(cumulated, float(cumulated[count - 1])) == count
    limited, _ = nucleus.top_until(values, math.inf, weigh=np.asarray, limit=count)
    assert np.array_equal(limited, largest[:count])


def test_pick_takes_the_lowest_of_equal_indices() -> None:
    values = np.array([1.0, 3.0, 2.0, 2.0, 3.0, 2.0])
    assert nucleus.pick(values, 3, 2.0).tolist() == [1, 2, 4]
    assert nucleus.pick(values, 5, 2.0).tolist() == [1, 2, 3, 4, 5]
    assert nucleus.pick(values, 1, 3.0).tolist() == [1]
