"""Agreement of synthetic pairs, exactly and by counting; planted bugs are caught."""

from __future__ import annotations

import numpy as np
import pytest

from foreword.models.synthetic import SyntheticModel
from foreword.protocol.digest import EMPTY, extend
from foreword.testing.synthetic_laws import SyntheticLaws


def contexts(count: int, *, salt: int = 0) -> np.ndarray:
    """Return digests of different contexts."""
    return np.array([extend(EMPTY, (salt, i)) for i in range(count)], dtype=np.uint64)


def softmax(logits: np.ndarray, temperature: float) -> np.ndarray:
    scaled = logits.astype(np.float64) / temperature
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def overlap(laws: SyntheticLaws, digests: np.ndarray, temperature: float) -> np.ndarray:
    """Return Σ min(p, q) of each context."""
    p = softmax(laws.target(digests), temperature)
    q = softmax(laws.draft(digests, np.full(len(digests), temperature)), temperature)
    return np.minimum(p, q).sum(axis=1)


def check_overlap(laws: SyntheticLaws, agreement: float, temperature: float) -> None:
    np.testing.assert_allclose(overlap(laws, contexts(300), temperature), agreement, atol=2e-5)


@pytest.mark.parametrize("agreement", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("temperature", [0.05, 0.7, 1.0, 3.0])
@pytest.mark.parametrize(("vocabulary", "eos"), [(8, 0.0), (9, 0.5), (64, 0.0), (65, 0.1)])
def test_overlap_is_the_agreement_in_every_context(agreement, temperature, vocabulary, eos):
    laws = SyntheticLaws(SyntheticModel(vocabulary=vocabulary, agreement=agreement, eos=eos))
    check_overlap(laws, agreement, temperature)


def test_the_hint_of_another_temperature_is_caught():
    laws = SyntheticLaws(SyntheticModel(agreement=0.8))
    digests = contexts(300)
    p = softmax(laws.target(digests), 0.7)
    q = softmax(laws.draft(digests, np.full(len(digests), 1.0)), 0.7)
    assert np.abs(np.minimum(p, q).sum(axis=1) - 0.8).max() > 0.01


@pytest.mark.parametrize(
    ("target_seed", "target_salt"),
    [(2, 0), (1, 1)],
    ids=["another seed", "another context"],
)
def test_sides_that_are_no_pair_are_caught(target_seed, target_salt):
    draft = SyntheticLaws(SyntheticModel(agreement=0.8))
    target = SyntheticLaws(SyntheticModel(agreement=0.8, seed=target_seed))
    p = softmax(target.target(contexts(300, salt=target_salt)), 1.0)
    q = softmax(draft.draft(contexts(300), np.ones(300)), 1.0)
    assert np.minimum(p, q).sum(axis=1).mean() < 0.7


def ranks(laws: SyntheticLaws, digests: np.ndarray) -> np.ndarray:
    """Return where the target's token stands among the draft's first four choices at temperature 0; 4 is nowhere."""
    wanted = laws.target(digests).argmax(axis=1)
    logits = laws.draft(digests, np.zeros(len(digests)))
    order = np.argsort(-logits, axis=1, kind="stable")[:, :4]
    found = order == wanted[:, None]
    return np.where(found.any(axis=1), found.argmax(axis=1), 4)


@pytest.mark.parametrize("agreement", [0.2, 0.8])
@pytest.mark.parametrize(("vocabulary", "eos"), [(8, 0.0), (64, 0.0), (64, 0.3)])
def test_ranks_at_temperature_0(agreement, vocabulary, eos):
    laws = SyntheticLaws(SyntheticModel(vocabulary=vocabulary, agreement=agreement, eos=eos))
    count = 20_000
    seen = np.bincount(ranks(laws, contexts(count)), minlength=5)
    miss = 1.0 - agreement
    law = np.array([agreement, 0.5 * miss, 0.2 * miss, 0.1 * miss, 0.2 * miss])
    off = (seen - count * law) / np.sqrt(count * law * (1.0 - law))
    assert np.abs(off).max() < 4.5


def test_hits_of_neighbouring_positions_are_independent():
    laws = SyntheticLaws(SyntheticModel(agreement=0.7))
    digest, digests = EMPTY, []
    for i in range(20_001):
        digest = extend(digest, (i % 64,))
        digests.append(digest)
    hit = ranks(laws, np.array(digests, dtype=np.uint64)) == 0
    both = float((hit[1:] & hit[:-1]).mean())
    assert abs(both - 0.7**2) < 0.015


def test_the_drafts_confidence_at_temperature_0_is_honest():
    model = SyntheticModel(agreement=0.8)
    laws = SyntheticLaws(model)
    q = softmax(laws.draft(contexts(50), np.zeros(50)), 1.0)
    np.testing.assert_allclose(np.sort(q, axis=1)[:, -4:], [[0.02, 0.04, 0.1, 0.8]] * 50, atol=1e-6)
    np.testing.assert_allclose(q.sum(axis=1), 1.0)


def test_temperatures_mix_in_a_batch():
    laws = SyntheticLaws(SyntheticModel())
    digests, temperatures = contexts(6), np.array([0.0, 1.0, 0.0, 0.5, 1.0, 0.0])
    mixed = laws.draft(digests, temperatures)
    for i, temperature in enumerate(temperatures):
        alone = laws.draft(digests[i : i + 1], np.array([temperature]))
        np.testing.assert_array_equal(mixed[i : i + 1], alone)


def test_the_text_ends_as_often_as_set():
    model = SyntheticModel(eos=0.05, agreement=0.6)
    laws = SyntheticLaws(model)
    assert model.eos_id == 63
    digests = contexts(20_000)
    ends = laws.target(digests).argmax(axis=1) == 63
    assert abs(ends.mean() - 0.05) < 0.007
    # Where an end is forbidden, by a minimum of tokens, something else is left to say.
    assert np.isfinite(np.delete(laws.target(digests), 63, axis=1)).any(axis=1).all()


def test_without_an_end_every_id_is_used():
    logits = SyntheticLaws(SyntheticModel()).target(contexts(2_000))
    assert np.isfinite(logits).any(axis=0).all()
    assert (np.isfinite(logits).sum(axis=1) == 32).all()
