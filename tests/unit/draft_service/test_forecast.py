"""Which outcomes are prepared for, and when a pass ahead is worth its time."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from draft_service.ahead.forecast import BLIND, RANKS, Curve, Forecast, Outlook
from draft_service.ahead.times import PassTimes
from draft_service.ahead.worth import Stake, affordable, expected_left_ns, gain_ns, worth_a_pass
from draft_service.core.outcomes import Ending
from draft_service.drafters.ranking import rank_logits, without
from foreword.laws.law import Law
from foreword.laws.sampling import match_led, match_ranking, sample_match
from foreword.protocol.info import CostPoint

IDS = (5, 6, 7)
OUTLOOK = Outlook(((10, 11, 12), (20, 21, 22), (30, 31, 32), (40, 41, 42)), (2.0, 2.0, 2.0))


def learned(agreement: float, hits: dict[Ending, tuple[float, ...]], *, rounds: int = 6000) -> Forecast:
    """Return a forecast after outcomes of set probabilities."""
    forecast, random = Forecast(), Random(3)
    for _ in range(rounds):
        kept = next((n for n in range(len(IDS)) if random.random() >= agreement), len(IDS))
        ending = Ending.BONUS if kept == len(IDS) else Ending.CORRECTION
        place = random.choices(range(4), (*hits[ending], 1.0 - sum(hits[ending])))[0]
        token = OUTLOOK.rankings[kept][place] if place < 3 else 99
        assert forecast.learn(IDS, OUTLOOK, kept, token) is ending
    return forecast


def test_guesses_are_the_likeliest_outcomes_by_what_was_learned() -> None:
    curves = {Ending.CORRECTION: (0.5, 0.2, 0.1), Ending.BONUS: (0.8, 0.1, 0.05)}
    forecast = learned(0.8, curves)
    guesses = forecast.guesses(IDS, OUTLOOK, most=5)
    exact = sorted(
        (
            (0.8**kept * (0.2 if kept < 3 else 1.0)) * curves[Ending.BONUS if kept == 3 else Ending.CORRECTION][rank]
            for kept in range(4)
            for rank in range(3)
        ),
        reverse=True,
    )
    assert [guess.probability for guess in guesses] == pytest.approx(exact[:5], abs=0.05)
    assert guesses[0].token == 40
    assert (guesses[0].kept, guesses[0].ending, guesses[0].rank) == (3, Ending.BONUS, 0)
    assert sum(guess.probability for guess in forecast.guesses(IDS, OUTLOOK, most=100)) < 1.0


def test_all_outcomes_are_about_as_likely_as_they_come() -> None:
    forecast = learned(0.6, {Ending.CORRECTION: (0.5, 0.2, 0.1), Ending.BONUS: (0.7, 0.1, 0.1)})
    found = {(g.kept, g.rank): g.probability for g in forecast.guesses(IDS, OUTLOOK, most=100)}
    assert found[0, 0] == pytest.approx(0.4 * 0.5, rel=0.2)
    assert found[1, 0] == pytest.approx(0.6 * 0.4 * 0.5, rel=0.2)
    assert found[3, 0] == pytest.approx(0.6**3 * 0.7, rel=0.2)


def test_a_lead_moves_what_is_likely() -> None:
    forecast = Forecast()
    sure = forecast.guesses(IDS, Outlook(OUTLOOK.rankings, (9.0, 9.0, 9.0)), most=1)[0]
    unsure = forecast.guesses(IDS, Outlook(OUTLOOK.rankings, (-3.0, 9.0, 9.0)), most=1)[0]
    assert (sure.kept, unsure.kept) == (3, 0)


def test_nothing_is_guessed_or_learned_blindly() -> None:
    forecast = Forecast()
    before = forecast.guesses(IDS, OUTLOOK, most=20)
    assert forecast.guesses(IDS, BLIND, most=20) == []
    assert forecast.learn(IDS, BLIND, 1, 20) is Ending.CORRECTION
    assert forecast.guesses(IDS, OUTLOOK, most=20) == before


def test_an_empty_block_has_the_bonus_alone() -> None:
    guesses = Forecast().guesses((), Outlook(((3, 4),), ()), most=9)
    assert [(guess.kept, guess.token, guess.ending) for guess in guesses] == [
        (0, 3, Ending.BONUS),
        (0, 4, Ending.BONUS),
    ]


def test_a_curve_follows_what_comes() -> None:
    curve = Curve((0.5,) + (0.01,) * (RANKS - 1))
    for _ in range(200):
        curve.note(2)
    assert curve.of(2) > 0.9 > 0.1 > curve.of(0)
    for _ in range(3000):
        curve.note(None)
    assert curve.of(2) < 0.05


MS = 1e6


@pytest.mark.parametrize(
    ("left", "gains", "gain"),
    [(20, 0.5, 5 * 0.5), (5, 0.5, 5 * 0.5), (1, 0.9, 0.9 - 0.1 * 4), (1, 0.1, 0.1 - 0.9 * 4), (0, 1.0, 0.0)],
)
def test_a_pass_gains_what_is_used_and_loses_what_waits(left: float, gains: float, gain: float) -> None:
    assert gain_ns(Stake(left * MS, gains), 5 * MS) == pytest.approx(gain * MS)


def test_looking_is_worth_only_what_time_is_left_after_it() -> None:
    assert gain_ns(Stake(12 * MS, 1.0, later=True), 5 * MS) == pytest.approx(5 * MS)
    assert gain_ns(Stake(7 * MS, 1.0, later=True), 5 * MS) == pytest.approx(2 * MS)
    assert gain_ns(Stake(4 * MS, 1.0, later=True), 5 * MS) == pytest.approx(-1 * MS)


def test_sessions_that_have_no_part_in_a_pass_lose_by_it() -> None:
    busy, idle = Stake(20 * MS, 0.5), Stake(1 * MS, 0.0)
    assert worth_a_pass([busy], 5 * MS)
    assert not worth_a_pass([busy, idle], 5 * MS)
    assert not worth_a_pass([idle], 0.0)
    assert worth_a_pass([Stake(math.inf, 0.2)], 5 * MS)


def test_a_block_that_is_overdue_may_be_out_for_longer() -> None:
    assert expected_left_ns(20.0, 5.0) == 15.0
    assert expected_left_ns(20.0, 80.0) == 10.0
    assert expected_left_ns(None, 80.0) == math.inf


def test_branches_are_as_many_as_pay() -> None:
    likely = [0.4, 0.2, 0.1, 0.05, 0.01]
    flat, linear = (lambda rows: 5 * MS), (lambda rows: rows * 5 * MS)
    assert affordable(likely, window_ns=20 * MS, gamma=4, others=0, pass_ns=flat) == 5
    assert affordable(likely, window_ns=20 * MS, gamma=4, others=0, pass_ns=linear) == 1
    assert affordable(likely, window_ns=20 * MS, gamma=1, others=0, pass_ns=linear) == 4
    assert affordable(likely, window_ns=math.inf, gamma=4, others=0, pass_ns=linear) == 5
    assert affordable(likely, window_ns=20 * MS, gamma=4, others=0, pass_ns=lambda rows: 0.0) == 5
    assert affordable([], window_ns=20 * MS, gamma=4, others=0, pass_ns=flat) == 0


def test_passes_are_timed_by_their_rows() -> None:
    times = PassTimes([CostPoint(1, 32, 1000), CostPoint(4, 32, 1000), CostPoint(8, 32, 3000)])
    assert [times.of(rows) for rows in (1, 4, 6, 8, 16)] == [1 * MS, 1 * MS, 2 * MS, 3 * MS, 7 * MS]
    for _ in range(60):
        times.note(16, round(4 * MS))
    assert times.of(16) == pytest.approx(4 * MS)
    assert times.of(32) == pytest.approx(6 * MS)
    assert PassTimes().of(9) == 0.0


def test_the_ranking_of_a_race_begins_with_its_winner() -> None:
    rng = np.random.default_rng(2)
    for position in range(50):
        weights = rng.random(12) ** 3 * (rng.random(12) < 0.8)
        weights[0] = 0.1
        law = Law(np.arange(5, 17, dtype=np.int32), weights / weights.sum())
        ranking, lead = match_ranking(law, b"k" * 16, position, most=4)
        assert ranking[0] == sample_match(law, b"k" * 16, position)
        assert lead == pytest.approx(match_led(law, b"k" * 16, position)[1])
        # Without the winner the second wins: the race goes on among the others.
        rest = np.where(law.support == ranking[0], 0.0, law.probabilities)
        if rest.sum() > 0.0:
            assert ranking[1] == sample_match(Law(law.ids, rest / rest.sum()), b"k" * 16, position)
    assert match_ranking(Law.one_hot(3), b"k" * 16, 0, most=4) == ((3,), math.inf)


def test_logits_are_ranked_with_ties_to_the_lowest_id() -> None:
    row = np.array([1.0, 3.0, 2.0, 3.0, -np.inf], np.float32)
    ids = np.array([2, 4, 6, 8, 10], np.int32)
    assert rank_logits(row, ids, most=5) == ((4, 8, 6, 2), 0.0)
    assert rank_logits(row, ids, most=1) == ((4,), 0.0)
    assert rank_logits(np.array([np.nan, 1.0], np.float32), ids[:2], most=2) is None
    assert rank_logits(np.full(2, -np.inf, np.float32), ids[:2], most=2) is None
    assert without((4, 8, 6), 8, most=1) == (4,)
