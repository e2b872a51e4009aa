"""`token`: tables of h, residuals and which tokens can be emitted."""

import numpy as np
import pytest

from foreword.acceptance import Evidence, Verdict, decide, gather
from foreword.acceptance.drafted import residual
from foreword.addresses import Address
from foreword.addresses.philox import first_integers, uniforms
from foreword.errors import InvalidField
from foreword.laws.sampling import sample_uniform
from foreword.protocol.messages import OneHot
from foreword.protocol.words import Rule
from tests.unit.acceptance.blocks import KEYS, counts, dense, sparse

P = dense(0.5, 0.25, 0.25)


def test_h_is_the_ratio_up_to_1() -> None:
    evidence = gather(Rule.TOKEN, [P, P, P], (0, 2), (counts(2, 1, 1), counts(1, 1, 2)), keys=KEYS, round=1, base=0)
    assert evidence.acceptance == (1.0, 0.5)
    assert evidence.ratios == (1.0, 0.5)
    # The first candidate is kept surely, so nothing is emitted in its place.
    assert evidence.emit[0] is None
    assert evidence.emit[1] == 0, "the only token that p favours over q"
    assert evidence.emit[2] is not None


def test_nothing_behind_an_impossible_candidate_can_be_emitted() -> None:
    laws = [P, sparse({0: 1.0}), P]
    evidence = gather(Rule.TOKEN, laws, (1, 2), (counts(3, 1), counts(2, 1, 1)), keys=KEYS, round=1, base=0)
    assert evidence.acceptance == (1.0, 0.0)
    assert evidence.emit == (None, 0, None)


def test_one_hot_drafts_are_kept_with_the_probability_of_their_token() -> None:
    evidence = gather(Rule.TOKEN, [P, P], (1,), OneHot(), keys=KEYS, round=1, base=0)
    assert evidence.acceptance == (0.25,)
    law, mass = residual(P, sparse({1: 1.0}), 1.0)
    assert law.probabilities.tolist() == [2 / 3, 0.0, 1 / 3]
    assert mass == 0.75


@pytest.mark.parametrize("p", [dense(0.5, 0.3, 0.2, 0.0), sparse({0: 0.5, 1: 0.3, 2: 0.2})])
@pytest.mark.parametrize("scale", [1.0, 0.6])
def test_residuals_of_dense_and_sparse_laws(p, scale: float) -> None:  # type: ignore[no-untyped-def]
    q = sparse({1: 0.25, 2: 0.5, 3: 0.25})
    law, mass = residual(p, q, scale)
    expected = np.maximum(scale * np.array([0.5, 0.3, 0.2, 0.0]) - [0, 0.25, 0.5, 0.25], 0.0)
    assert mass == pytest.approx(expected.sum())
    assert law.probabilities_of(np.arange(4, dtype=np.int32)) == pytest.approx(expected / expected.sum())


def test_a_residual_of_nothing_is_the_target_law() -> None:
    law, mass = residual(P, P, 1.0)
    assert mass == 0.0
    assert law is P


def test_residual_samples_and_coins_come_from_their_addresses() -> None:
    q = (counts(1, 1, 2), counts(1, 1, 2))
    evidence = gather(Rule.TOKEN, [P, P, P], (2, 2), q, keys=KEYS, round=7, base=4)
    u = uniforms(first_integers(KEYS.emit, [Address(4 + n, 7, 4) for n in range(3)]))
    residuals = [residual(P, sparse({0: 0.25, 1: 0.25, 2: 0.5}), 1.0)[0]] * 2
    expected = [sample_uniform(law, x) for law, x in zip([*residuals, P], u.tolist(), strict=True)]
    assert list(evidence.emit) == expected
    coins = uniforms(first_integers(KEYS.coin, [Address(4, 7, 4), Address(5, 7, 4)]))
    kept = next((i for i, (x, h) in enumerate(zip(coins, evidence.acceptance, strict=True)) if not x < h), 2)
    assert decide(Rule.TOKEN, evidence, coin_key=KEYS.coin, round=7, base=4) == Verdict(kept, expected[kept])


class Coins:
    """Tosses given coins."""

    def __init__(self, *values: float) -> None:
        self.values = values

    def race(self, key, draws):  # type: ignore[no-untyped-def]
        raise AssertionError

    choose = race

    def below(self, key, coins):  # type: ignore[no-untyped-def]
        assert key == KEYS.coin
        assert [address for address, _ in coins] == [Address(i, 1, 0) for i in range(len(coins))]
        return (u < h for u, (_, h) in zip(self.values, coins, strict=True))


@pytest.mark.parametrize(
    ("coins", "kept"),
    [((0.4, 0.4, 0.4), 3), ((0.5, 0.4, 0.4), 0), ((0.4, 0.6, 0.4), 1), ((0.4, 0.4, 0.5), 2)],
)
def test_the_first_failure_ends_it_and_equality_is_failure(coins: tuple[float, ...], kept: int) -> None:
    evidence = Evidence((0.5, 0.5, 0.5), (10, 11, 12, 13))
    verdict = decide(Rule.TOKEN, evidence, coin_key=KEYS.coin, round=1, base=0, source=Coins(*coins))
    assert verdict == Verdict(kept, 10 + kept)


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_blocks_without_lawful_laws_are_refused(rule: Rule) -> None:
    with pytest.raises(InvalidField, match="law: got 'none', wanted one for each of 1 candidates"):
        gather(rule, [P, P], (1,), None, keys=KEYS, round=1, base=0)
    with pytest.raises(InvalidField, match="law: got '2 laws'"):
        gather(rule, [P, P], (1,), (counts(1, 1), counts(1, 1)), keys=KEYS, round=1, base=0)
    with pytest.raises(InvalidField, match="candidate: got 2, wanted a token on the support of its own law"):
        gather(rule, [P, P], (2,), (counts(1, 1),), keys=KEYS, round=1, base=0)
