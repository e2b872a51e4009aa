"""How candidates are drawn: manners, the draft's law, and that what is sent is what was drawn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chisquare

from draft_service.drafters.choosing import (
    Chosen,
    Manner,
    MatchDraw,
    Style,
    choose,
    draft_parameters,
    fitted_scale,
    manner,
    margin,
)
from draft_service.drafters.plan import LIKELIEST, among_likeliest, argmax, plan_of
from foreword.addresses.keys import draft_address
from foreword.addresses.philox import first_integers
from foreword.laws.counts import counts_law, to_counts
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.laws.sampling import match_margin, sample_match, sample_uniform
from foreword.protocol.messages import DraftKeys, SparseCounts
from foreword.protocol.words import Rule
from foreword.values import replace

GREEDY, WARM = LawParameters(temperature=0.0), LawParameters(temperature=0.7)
OWN, BOTH = DraftKeys(b"d" * 16), DraftKeys(b"d" * 16, b"m" * 16)
LAW = Law(None, np.random.default_rng(1).dirichlet([0.4] * 12))
STYLE = Style(total_bits=6, support_max=8)
GATE = 1e-4


@pytest.mark.parametrize(
    ("rule", "law", "keys", "match_draw", "wanted"),
    [
        (Rule.MATCH, GREEDY, BOTH, MatchDraw.COUPLED, Manner.LIKELIEST),
        (Rule.BLOCK, GREEDY, BOTH, MatchDraw.COUPLED, Manner.LIKELIEST),
        (Rule.MATCH, WARM, BOTH, MatchDraw.COUPLED, Manner.COUPLED),
        (Rule.MATCH, WARM, OWN, MatchDraw.COUPLED, Manner.LIKELIEST),
        (Rule.MATCH, WARM, BOTH, MatchDraw.SAMPLED, Manner.SAMPLED),
        (Rule.MATCH, WARM, BOTH, MatchDraw.ARGMAX, Manner.LIKELIEST),
        (Rule.TOKEN, WARM, BOTH, MatchDraw.COUPLED, Manner.COUNTED),
        (Rule.BLOCK, WARM, BOTH, MatchDraw.ARGMAX, Manner.COUNTED),
    ],
)
def test_manners(rule: Rule, law: LawParameters, keys: DraftKeys, match_draw: MatchDraw, wanted: Manner) -> None:
    assert manner(rule, law, keys, Style(match_draw=match_draw)) is wanted


def test_the_draft_has_a_temperature_of_its_own() -> None:
    style = Style(temperature_scale=0.5)
    assert draft_parameters(Manner.COUNTED, WARM, style).temperature == 0.35
    assert draft_parameters(Manner.LIKELIEST, WARM, style).temperature == 0.0
    assert draft_parameters(Manner.COUPLED, WARM, Style()) is WARM
    assert draft_parameters(Manner.LIKELIEST, GREEDY, style) is GREEDY


def test_fitted_temperatures_are_for_laws_that_are_drawn_from_apart() -> None:
    style = Style(temperature_scale=2.0, fitted_scales=((0.5, 0.8), (0.7, 1.0), (0.9, 0.6)))
    assert draft_parameters(Manner.COUNTED, WARM, style).temperature == 2.0 * 0.7
    assert draft_parameters(Manner.COUPLED, WARM, style).temperature == 2.0 * 0.7
    found = [fitted_scale(style.fitted_scales, t) for t in (0.1, 0.5, 0.8, 2.0)]
    assert found == pytest.approx([0.8, 0.8, 0.8, 0.6])
    colder = Style(fitted_scales=((0.7, 0.5),))
    assert draft_parameters(Manner.SAMPLED, WARM, colder).temperature == 0.35
    assert draft_parameters(Manner.COUPLED, WARM, colder) is WARM


def test_coupled_draws_are_the_targets_own_where_the_laws_agree() -> None:
    for position in range(50):
        chosen = choose(Manner.COUPLED, LAW, BOTH, position=position, number=0, style=STYLE)
        assert chosen.token == sample_match(LAW, b"m" * 16, position)


Draw = Callable[[Law, int], Chosen]


def honest(law: Law, number: int) -> Chosen:
    return choose(Manner.COUNTED, law, OWN, position=0, number=number, style=STYLE)


def rounded_after_sampling(law: Law, number: int) -> Chosen:
    """The planted bug: the draw is from the law, and the counts that go along are rounded afterwards."""
    counts = to_counts(law, bits=STYLE.total_bits, mass=STYLE.support_mass, cap=STYLE.support_max)
    token = sample_uniform(law, (number >> 11) * 2.0**-53)
    return Chosen(token if token in counts.ids else counts.ids[0], counts)


def one_number_for_all(law: Law, number: int) -> Chosen:
    """The planted bug: numbers that do not depend on the round repeat themselves."""
    return honest(law, int(first_integers(b"d" * 16, [draft_address(0, 0, number % 50)])[0]))


def p_value(draw: Draw, draws: int = 4_000) -> float:
    """Return how likely draws are that differ this much from the counts that were sent."""
    numbers = first_integers(b"d" * 16, [draft_address(7, r, 3) for r in range(draws)]).tolist()
    chosen = [draw(LAW, number) for number in numbers]
    counts = chosen[0].counts
    assert counts is not None
    seen = Counter(c.token for c in chosen)
    assert set(seen) <= set(counts.ids)
    expected = np.array(counts.counts) * (draws / 2**counts.total_bits)
    return float(chisquare([seen[token] for token in counts.ids], expected).pvalue)


def test_candidates_follow_the_counts_that_are_sent() -> None:
    assert p_value(honest) > GATE


@pytest.mark.parametrize("planted", [rounded_after_sampling, one_number_for_all])
def test_a_dishonest_draw_is_caught(planted: Draw) -> None:
    assert p_value(planted) < GATE


def test_counts_are_those_of_the_truncated_law() -> None:
    counts = honest(LAW, 1 << 60).counts
    assert counts == to_counts(LAW, bits=6, mass=STYLE.support_mass, cap=8)
    assert sum(counts.counts) == 64  # type: ignore[union-attr]


def test_sampled_draws_follow_the_law() -> None:
    numbers = first_integers(b"d" * 16, [draft_address(7, r, 3) for r in range(4_000)]).tolist()
    seen = Counter(choose(Manner.SAMPLED, LAW, OWN, position=0, number=n, style=STYLE).token for n in numbers)
    assert chisquare([seen[v] for v in range(12)], LAW.probabilities * 4_000).pvalue > GATE


def test_the_margin_is_that_of_the_law_that_goes_along() -> None:
    chosen = honest(LAW, 1 << 40)
    assert isinstance(chosen.counts, SparseCounts)
    assert margin(Manner.COUNTED, LAW, chosen) == counts_law(chosen.counts).margin
    assert margin(Manner.SAMPLED, LAW, Chosen(0, None)) == LAW.margin
    raced = choose(Manner.COUPLED, LAW, BOTH, position=0, number=0, style=STYLE)
    assert margin(Manner.COUPLED, LAW, raced) == match_margin(LAW, b"m" * 16, 0) > 0.0


def test_the_argmax_is_taken_only_where_the_law_has_nothing_to_add() -> None:
    def unedited_from(law: LawParameters) -> int | None:
        return plan_of(Rule.MATCH, law, OWN, Style()).unedited_from

    assert unedited_from(GREEDY) == 0
    assert unedited_from(WARM) == 0
    assert unedited_from(replace(GREEDY, stop_ids=(1,), min_tokens=3)) == 3
    assert unedited_from(replace(GREEDY, bias=((1, 2.0),))) is None
    assert unedited_from(replace(GREEDY, banned_ids=(1,))) is None
    assert unedited_from(replace(GREEDY, repetition_penalty=1.1)) is None


def test_a_row_without_a_finite_largest_logit_has_no_argmax() -> None:
    assert argmax(np.array([0.0, 2.0, 2.0], np.float32)) == 1
    for bad in (np.nan, np.inf):
        assert argmax(np.array([0.0, bad, 2.0], np.float32)) is None
    assert argmax(np.full(3, -np.inf, np.float32)) is None


def test_a_law_over_many_ids_is_cut_to_the_likeliest() -> None:
    warm = plan_of(Rule.MATCH, WARM, BOTH, STYLE)
    assert among_likeliest(warm, 2 * LIKELIEST) is warm
    assert among_likeliest(warm, 8192).parameters == replace(WARM, top_k=LIKELIEST)
    narrow = plan_of(Rule.MATCH, replace(WARM, top_k=5), BOTH, STYLE)
    assert among_likeliest(narrow, 8192) is narrow
    plain = plan_of(Rule.MATCH, WARM, OWN, STYLE)
    assert among_likeliest(plain, 8192) is plain, "the likeliest token takes no law"
