"""A network that becomes slow, or well again, between a draft and a target; the draft's own link stays as it is."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from foreword.protocol.words import Rule
from orchestrator.control.costs import Costs
from orchestrator.control.memory import Link
from orchestrator.control.round import Round
from orchestrator.measure.rounds import RoundParts
from orchestrator.measure.window import Window
from orchestrator.policy import Gamma, MeasuringPolicy, RoundView, WaitLimits

STEP_US, CANDIDATE_US, AGREEMENT = 20_000, 1_000, 0.9
PLAIN = 1e6 / STEP_US
"""Tokens a second without drafts."""


def play(network_us: Callable[[float], int], *, until_s: int, seed: int) -> list[float]:
    """Return the tokens of each second of one session whose draft and target are so far apart at each time."""
    chances, policy = random.Random(seed), MeasuringPolicy(WaitLimits()).session(Gamma())
    policy.moved(Link("draft", "target", Rule.MATCH, 0.0))
    now_us, lags, seconds, first = 0, Window(64), Counter[int](), True
    while now_us < until_s * 1_000_000:
        away_us = network_us(now_us / 1e6)
        plan = policy.plan(RoundView(now_us, lags.quantile(0.95), len(lags), 400, 400, price=0.005))
        drafting_us, kept = CANDIDATE_US * plan.gamma, 0
        parts, took_us, offered = RoundParts(None, None, None, None, 300, STEP_US, 300), STEP_US, 0
        if plan.gamma and away_us // 2 + drafting_us > plan.wait_us:
            took_us, parts = plan.wait_us + STEP_US, RoundParts(0, None, None, None, 300, STEP_US, 300)
            lags.add(2 * plan.wait_us)
        elif plan.gamma:
            took_us, offered = away_us + drafting_us + STEP_US, plan.gamma
            parts = RoundParts(0, drafting_us, away_us, away_us // 2 + drafting_us, 300, STEP_US, 300)
            lags.add(away_us // 2 + drafting_us)
            while kept < offered and chances.random() < AGREEMENT:
                kept += 1
        now_us += took_us
        policy.answered(
            Round(now_us, took_us, plan.gamma, offered, kept, parts, first or plan.gamma > 0, round_trip_us=400)
        )
        first = plan.gamma > 0
        seconds[now_us // 1_000_000] += 1 + kept
        if not plan.gamma and chances.random() < 1 / 32:
            policy.followed(round(32 * AGREEMENT), 32)
    return [seconds[second] for second in range(until_s)]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("slow_us", [150_000, 405_000])
def test_a_network_that_became_slow_is_left_in_seconds_and_not_taken_for_well_again(seed: int, slow_us: int) -> None:
    tokens = play(lambda s: 30_000 if s < 8 else slow_us, until_s=28, seed=seed)
    assert sum(tokens[4:8]) > 1.8 * 4 * PLAIN
    assert sum(tokens[12:28]) > 0.95 * 16 * PLAIN


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("back_s", "found_s"), [(12, 16), (40, 40)])
def test_a_network_that_is_well_again_is_found_out(seed: int, back_s: int, found_s: int) -> None:
    """A look costs a round as slow as it was, 0.4 s, and the later ones may take a hundredth of the time."""
    tokens = play(lambda s: 405_000 if 8 <= s < back_s else 30_000, until_s=back_s + found_s + 8, seed=seed)
    assert sum(tokens[back_s + found_s :]) > 1.8 * 8 * PLAIN


def round_of(at_us: int, beside_us: int, *, offered: int = 4) -> Round:
    parts = RoundParts(0, 4_000 if offered else None, beside_us - STEP_US, None, 0, STEP_US, 0)
    return Round(at_us, beside_us + (4_000 if offered else 0), 4, offered, 0, parts, first=True, round_trip_us=400)


def test_three_rounds_in_a_row_that_take_twice_as_long_are_believed_and_two_are_not() -> None:
    costs, at_us = Costs(), 0
    for beside_us in [50_000] * 16 + [400_000, 400_000, 50_000, 400_000, 400_000]:
        at_us += beside_us
        costs.add(round_of(at_us, beside_us))
    assert costs.fixed_us(at_us, 400) == 50_000
    costs.add(round_of(at_us + 400_000, 400_000))
    assert costs.fixed_us(at_us + 400_000, 400) == 400_000
    for number in range(1, 4):
        costs.add(round_of(at_us + 400_000 + number * 50_000, 50_000))
    assert costs.fixed_us(at_us + 550_000, 400) == 50_000


def test_many_sessions_in_one_slow_step_tell_of_no_change() -> None:
    link = Costs()
    for step in range(12):
        for _ in range(16):
            link.add(round_of(50_000 * (step + 1), 50_000))
    for _ in range(16):
        link.add(round_of(1_000_000, 400_000))
    for _ in range(16):
        link.add(round_of(1_050_000, 50_000))
    assert link.fixed_us(1_050_000, 400) == 50_000


def test_after_a_block_that_was_waited_for_in_vain_costs_are_in_doubt() -> None:
    costs = Costs()
    costs.add(round_of(50_000, 50_000))
    assert not costs.late
    costs.add(round_of(1_050_000, 1_000_000, offered=0))
    assert costs.late
