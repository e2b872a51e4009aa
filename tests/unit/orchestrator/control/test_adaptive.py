"""Choosing γ round by round: start, hysteresis, leaving for 0, probing, bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from foreword.protocol.words import Rule
from orchestrator.control.adaptive import AdaptiveGamma, Bounds, Now, Why
from orchestrator.control.costs import Costs
from orchestrator.control.memory import Learned, Link, Memory
from orchestrator.control.round import Round
from orchestrator.control.survival import Survival
from orchestrator.measure.rounds import RoundParts

STEP, DRAFT = 20_000, 2_000


@dataclass
class Deployment:
    """Rounds of known cost and outcome; a candidate is kept by turns so that `rate` of them are."""

    control: AdaptiveGamma
    rtt_us: int = 0
    rate: float = 0.8
    now_us: int = 0
    price: float = 0.0
    ordered: list[int] = field(default_factory=list)
    tokens: int = 0
    _debt: float = 0.0

    def round(self) -> int:
        gamma = self.control.choose(Now(self.now_us, self.price, self.rtt_us)).gamma
        took = STEP if gamma == 0 else STEP + gamma * DRAFT + self.rtt_us
        kept = self._kept(gamma)
        self.now_us += took
        self.tokens += kept + 1
        parts = RoundParts(
            draft_queue=0 if gamma else None,
            draft_compute=gamma * DRAFT if gamma else None,
            network=self.rtt_us if gamma else None,
            block_lag=None,
            verify_queue=0,
            verify_compute=STEP,
            host=0,
        )
        self.control.answered(Round(self.now_us, took, gamma, gamma, kept, parts, round_trip_us=self.rtt_us))
        self.ordered.append(gamma)
        return gamma

    def rounds(self, count: int) -> list[int]:
        return [self.round() for _ in range(count)]

    def _kept(self, gamma: int) -> int:
        kept = 0
        while kept < gamma:
            self._debt += self.rate
            if self._debt < 1.0:
                break
            self._debt -= 1.0
            kept += 1
        return kept


def deployment(*, least: int = 0, most: int = 16, **facts: float) -> Deployment:
    control = AdaptiveGamma(Bounds(least, most, max(least, min(most, 4))), *Learned.new())
    return Deployment(control, **facts)  # type: ignore[arg-type]


def test_the_first_blocks_have_the_first_size_and_the_reason_says_so() -> None:
    made = deployment()
    assert made.control.choose(Now(0)).why is Why.START
    assert made.rounds(1) == [4]


def test_near_drafts_get_blocks_and_far_ones_none() -> None:
    near, far = deployment(rtt_us=2_000), deployment(rtt_us=100_000)
    assert near.rounds(60)[-1] >= 4
    assert far.rounds(60)[-1] == 0
    assert far.control.choice.why is Why.BEST
    assert far.control.choice.rates[0] == max(far.control.choice.rates)


def test_better_drafts_get_longer_blocks() -> None:
    poor, good = deployment(rate=0.5), deployment(rate=0.95)
    assert poor.rounds(120)[-1] < good.rounds(120)[-1]


def test_a_choice_stays_until_another_is_clearly_better() -> None:
    made = deployment(rate=0.8, rtt_us=2_000)
    made.rounds(80)
    changes = sum(a != b for a, b in zip(made.ordered[40:], made.ordered[41:], strict=False))
    assert changes <= 2


def test_bounds_are_kept() -> None:
    floor, ceiling = deployment(least=2, rtt_us=100_000), deployment(most=3, rate=0.95)
    assert min(floor.rounds(60)) >= 2
    assert max(ceiling.rounds(60)) == 3


def test_a_fixed_number_is_explained_as_such() -> None:
    made = deployment(least=5, most=5)
    assert set(made.rounds(20)) == {5}
    assert made.control.choice.why is Why.FIXED
    assert deployment(least=0, most=0).control.choose(Now(0)).why is Why.FIXED


def test_probing_costs_at_most_a_hundredth() -> None:
    made = deployment(rtt_us=100_000, rate=0.6)
    made.rounds(20)
    made.tokens, begun = 0, made.now_us
    while made.now_us < begun + 200_000_000:
        made.round()
    assert made.tokens / ((made.now_us - begun) / STEP) >= 0.985
    assert any(gamma > 0 for gamma in made.ordered[20:])


def test_it_comes_back_as_soon_as_the_network_is_near_again() -> None:
    made = deployment(rtt_us=100_000)
    made.rounds(400)
    made.rtt_us = 2_000
    assert made.rounds(50)[-1] > 0


def test_it_comes_back_when_the_draft_that_follows_guesses_well_again() -> None:
    made = deployment(rate=0.05, rtt_us=40_000)
    assert made.rounds(60)[-1] == 0
    made.rate = 0.95
    for _ in range(40):
        made.control.followed(8, 8)
    assert made.rounds(30)[-1] > 0


def test_a_price_stops_what_would_pay_alone() -> None:
    made = deployment(rate=0.8)
    made.rounds(40)
    made.price = 0.97
    assert made.rounds(20)[-1] == 0


def test_a_threshold_is_what_the_next_candidate_has_to_be_worth() -> None:
    made = deployment(rate=0.8, rtt_us=2_000)
    made.price = 0.1
    made.rounds(40)
    choice = made.control.choice
    assert choice.cost is not None
    worth = choice.rates[choice.gamma] * DRAFT + 0.1
    assert choice.threshold == pytest.approx(worth / 0.8, rel=0.05)


def test_a_new_session_starts_with_what_the_link_is_known_to_cost() -> None:
    memory, link = Memory(), Link("draft", "target", Rule.MATCH, 0.0)
    first = AdaptiveGamma(Bounds(0, 16, 4), *memory.learned(link))
    Deployment(first, rtt_us=100_000).rounds(60)
    second = AdaptiveGamma(Bounds(0, 16, 4), *memory.learned(link))
    assert second.choose(Now(3_000_000, 0.0, 100_000)).gamma == 0
    other = AdaptiveGamma(Bounds(0, 16, 4), *memory.learned(Link("other", "target", Rule.MATCH, 0.0)))
    assert other.choose(Now(3_000_000, 0.0, 100_000)).why is Why.START


def test_temperatures_share_rates_by_band() -> None:
    bands = [Link("d", "t", Rule.MATCH, temperature).band for temperature in (0.0, 0.2, 0.7, 0.8, 1.0, 1.5)]
    assert bands == sorted(bands)
    assert bands[2] == bands[3]
    assert len(set(bands)) == 5


def test_the_network_of_long_ago_is_replaced_by_the_round_trip_of_now() -> None:
    costs = Costs()
    parts = RoundParts(0, 8_000, 3_000, None, 0, STEP, 0)
    for number in range(8):
        costs.add(Round(number * 30_000, 31_000, 4, 4, 2, parts, round_trip_us=2_500))
    assert costs.fixed_us(300_000, 60_000) == 23_000.0
    assert costs.fixed_us(30_000_000, 60_000) == pytest.approx(20_000.0 + 500.0 + 60_000.0)


def test_rows_of_its_own_are_taken_off_the_round() -> None:
    costs = Costs()
    parts = RoundParts(0, 8_000, None, None, 0, STEP, 0)
    costs.add(Round(0, 32_000, 4, 4, 2, parts, own_us=2_000.0))
    assert costs.fixed_us(0, None) == 22_000.0
    assert costs.plain_us == STEP - 2_000.0


def test_survival_of_a_session_and_its_link_agree_on_the_first_look() -> None:
    shared = Survival()
    assert Survival(shared).kept(4) == pytest.approx(shared.kept(4))


def test_results_that_come_at_once_make_nothing_infinite() -> None:
    """Steps of next to no time, and two Results in one frame: durations of 0 are measured."""
    made = deployment()
    parts = RoundParts(0, 0, 0, None, 0, 0, 0)
    for number in range(40):
        ordered = 4 * (number % 2)
        made.control.answered(Round(0, 0, ordered, ordered, ordered, parts, own_us=1_000.0 * ordered))
        choice = made.control.choose(Now(0))
        assert 0 <= choice.gamma <= 16
        assert all(math.isfinite(rate) for rate in choice.rates)


EMPTY = RoundParts(0, 0, None, None, 0, STEP, 0)


def test_rounds_whose_blocks_are_late_or_empty_count_as_long_as_they_took() -> None:
    """A draft that is slower than the wait for it would else be waited for, round after round."""
    made = deployment()
    made.control.choose(Now(0))
    for number in range(1, 4):
        made.control.answered(Round(number * 1_000_000, 1_000_000, 4, 0, 0, EMPTY))
    choice = made.control.choose(Now(3_000_000))
    assert (choice.gamma, choice.why) == (0, Why.BEST)
    assert choice.plain_us == STEP
    good = deployment()
    good.rounds(100)
    for number in range(1, 20):
        good.control.answered(Round(good.now_us + number * 1_000_000, 1_000_000, 4, 0, 0, EMPTY))
        if good.control.choose(Now(good.now_us + number * 1_000_000)).gamma == 0:
            break
    assert number <= 8


def test_one_slow_pass_of_a_draft_decides_nothing() -> None:
    made = deployment()
    made.rounds(40)
    slow = RoundParts(0, 900_000, 0, None, 0, STEP, 0)
    made.control.answered(Round(made.now_us + 920_000, 920_000, 4, 4, 4, slow, round_trip_us=0))
    made.now_us += 920_000
    assert min(made.rounds(20)) > 0


def test_a_first_pass_that_is_slow_is_looked_at_again_soon() -> None:
    made = deployment()
    slow = RoundParts(0, 800_000, 0, None, 0, STEP, 0)
    made.control.answered(Round(820_000, 820_000, 4, 4, 2, slow, round_trip_us=0))
    made.now_us = 820_000
    made.rounds(40)
    assert made.now_us < 3_000_000
    assert min(made.rounds(20)) > 0


def test_no_draft_is_believed_that_it_drafted_for_longer_than_the_round() -> None:
    costs = Costs()
    boast = RoundParts(0, 60_000_000, None, None, 0, STEP, 0)
    costs.add(Round(0, 30_000, 4, 4, 2, boast))
    assert costs.candidate_us == 7_500.0


def test_candidates_cost_what_model_and_lookup_cost_as_they_take_turns() -> None:
    costs = Costs()
    for number in range(40):
        looked_up = number % 2 == 1
        parts = RoundParts(0, 0 if looked_up else 4 * DRAFT, None, None, 0, STEP, 0)
        costs.add(Round(number, 30_000, 4, 4, 2, parts, looked_up=looked_up))
    assert costs.candidate_us == pytest.approx(DRAFT / 2, rel=0.1)
    assert costs.modelled_us == DRAFT


def test_plain_decoding_is_thought_over_now_and_then_and_not_at_every_token() -> None:
    made = deployment(rtt_us=100_000)
    made.rounds(20)
    assert made.rounds(1) == [0]
    thought = []
    for _ in range(50):
        before = made.control.choice
        made.round()
        thought.append(made.control.choice is not before)
    assert 10 <= sum(thought) <= 20  # a step takes 20 ms


def test_guesses_beyond_what_a_draft_tells_at_once_are_not_believed() -> None:
    many, some = Survival(), Survival()
    many.followed(1 << 20, 1 << 20)
    some.followed(64, 64)
    assert many.rate == pytest.approx(some.rate)
