"""`block`: against the formulas written out, and the paper's example."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.acceptance import Evidence, Verdict, decide, gather
from foreword.laws.law import Law
from foreword.protocol.messages import OneHot, SparseCounts
from foreword.protocol.words import Rule
from tests.unit.acceptance.blocks import KEYS, counts, dense
from tests.unit.acceptance.test_token import Coins

parts = st.lists(st.integers(1, 20), min_size=3, max_size=3)


@settings(derandomize=True, deadline=None)
@given(st.data())
def test_h_is_that_of_the_paper(data: st.DataObject) -> None:
    gamma = data.draw(st.integers(1, 4))
    p = [np.array(w) / sum(w) for w in data.draw(st.lists(parts, min_size=gamma + 1, max_size=gamma + 1))]
    q = [_counts(w) for w in data.draw(st.lists(parts, min_size=gamma, max_size=gamma))]
    ids = data.draw(st.lists(st.integers(0, 2), min_size=gamma, max_size=gamma))
    evidence = gather(Rule.BLOCK, [Law(None, x) for x in p], ids, tuple(q), keys=KEYS, round=1, base=0)
    joint = 1.0
    for i in range(1, gamma + 1):
        law = np.array(q[i - 1].counts) / 64
        joint = min(1.0, joint * p[i - 1][ids[i - 1]] / law[ids[i - 1]])
        expected = joint
        if i < gamma:
            following = np.array(q[i].counts) / 64
            up = np.maximum(joint * p[i] - following, 0).sum()
            down = np.maximum(following - joint * p[i], 0).sum()
            # The form with both sums, an identity to the one in the code.
            expected = 1.0 if down < 1e-15 else up / down
        assert evidence.acceptance[i - 1] == pytest.approx(expected, abs=1e-12)
        assert evidence.ratios is not None
        assert evidence.ratios[i - 1] == pytest.approx(p[i - 1][ids[i - 1]] / law[ids[i - 1]])


def _counts(weights: list[int]) -> SparseCounts:
    first = [w * 64 // (2 * sum(weights)) + 1 for w in weights]
    return counts(64 - sum(first[1:]), *first[1:])


def kept_on_average(rule: Rule) -> float:
    """Return the mean number kept in the paper's example, by summing over blocks and coins."""
    p, q = dense(1 / 3, 2 / 3), dense(2 / 3, 1 / 3)
    blocks = itertools.product((0, 1), repeat=2)
    return sum(q.probability_of(a) * q.probability_of(b) * _expected(rule, p, q, (a, b)) for a, b in blocks)


def _expected(rule: Rule, p: Law, q: Law, ids: tuple[int, int]) -> float:
    # Counts cannot say 2/3; the rule's own code runs on the law itself.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"foreword.acceptance.{rule.name.lower()}.draft_laws", lambda _law, drafted: [q] * len(drafted))
        h = gather(rule, [p, p, p], ids, OneHot(), keys=KEYS, round=1, base=0).acceptance
    if rule is Rule.TOKEN:
        return h[0] * (1 - h[1]) + 2 * h[0] * h[1]
    return 2 * h[1] + (1 - h[1]) * h[0]


def test_the_papers_example() -> None:
    # Sun et al., section 2: p = (1/3, 2/3), q = (2/3, 1/3), two candidates: 10/9 tokens kept, 11/9 by block.
    assert kept_on_average(Rule.TOKEN) == pytest.approx(10 / 9, abs=1e-12)
    assert kept_on_average(Rule.BLOCK) == pytest.approx(11 / 9, abs=1e-12)


@pytest.mark.parametrize(
    ("coins", "kept"),
    [((0.6, 0.6, 0.4), 3), ((0.6, 0.4, 0.6), 2), ((0.4, 0.6, 0.5), 1), ((0.6, 0.5, 0.6), 0)],
)
def test_the_last_success_counts(coins: tuple[float, ...], kept: int) -> None:
    evidence = Evidence((0.5, 0.5, 0.5), (10, 11, 12, 13))
    verdict = decide(Rule.BLOCK, evidence, coin_key=KEYS.coin, round=1, base=0, source=Coins(*coins))
    assert verdict == Verdict(kept, 10 + kept)


def test_equal_laws_keep_everything() -> None:
    p, q = dense(0.5, 0.25, 0.25), counts(2, 1, 1)
    evidence = gather(Rule.BLOCK, [p] * 4, (0, 1, 2), (q,) * 3, keys=KEYS, round=1, base=0)
    assert evidence.acceptance == (1.0, 1.0, 1.0)
    assert evidence.emit[:3] == (None, None, None)


def test_nothing_behind_an_impossible_candidate_is_kept() -> None:
    p, q = dense(0.5, 0.5, 0.0), counts(2, 1, 1)
    evidence = gather(Rule.BLOCK, [p] * 4, (0, 2, 0), (q,) * 3, keys=KEYS, round=1, base=0)
    assert evidence.acceptance[0] == 1.0
    assert evidence.acceptance[1:] == (0.0, 0.0)
    assert evidence.emit[0] is None
    assert evidence.emit[1] is not None
    assert evidence.emit[2:] == (None, None)


def test_with_one_hot_drafts_it_keeps_as_much_as_token_does() -> None:
    p = [dense(0.5, 0.3, 0.2), dense(0.1, 0.6, 0.3), dense(0.2, 0.2, 0.6)]
    block = gather(Rule.BLOCK, p, (0, 1), OneHot(), keys=KEYS, round=1, base=0).acceptance
    # P(n ≥ 2) = P₂ and P(n ≥ 1) = P₁, as for `token`.
    assert block[1] == pytest.approx(0.5 * 0.6)
    assert block[1] + (1 - block[1]) * block[0] == pytest.approx(0.5)
