"""What rounds cost a session: its own measurements, those of others, and what a plain step would take meanwhile."""

from __future__ import annotations

import pytest

from orchestrator.control.costs import Costs
from orchestrator.control.round import Round
from orchestrator.measure.rounds import RoundParts

STEP = 20_000


def block(
    at_us: int, took_us: int, *, kept: int = 1, others_us: int = 0, own_us: float = 0.0, queue_us: int = 0
) -> Round:
    parts = RoundParts(0, 2_000, 0, None, queue_us, STEP, 0)
    return Round(at_us, took_us, 1, 1, kept, parts, own_us=own_us, others_us=others_us)


def plain(at_us: int, took_us: int) -> Round:
    return Round(at_us, took_us, 0, 0, 0, RoundParts(None, None, None, None, 0, STEP, 0))


def test_a_plain_step_would_wait_for_the_blocks_of_others_too() -> None:
    alone, beside = Costs(), Costs()
    for number in range(8):
        alone.add(block(30_000 * number, 22_000))
        beside.add(block(30_000 * number, 26_000, others_us=6_000, own_us=1_000.0))
    assert alone.plain_us == STEP
    assert beside.plain_us == STEP + 6_000 - 1_000


@pytest.mark.parametrize(
    ("kept", "others_us"),
    [
        (0, 6_000),  # all of them would be better off without any
        (1, 20_000),  # leases would have had a step meanwhile
    ],
)
def test_no_plain_step_waits_for_what_nobody_needs(kept: int, others_us: int) -> None:
    costs = Costs()
    for number in range(8):
        costs.add(block(60_000 * number, 26_000, kept=kept, others_us=others_us))
    assert costs.plain_us == STEP


def test_under_a_lease_it_is_what_tokens_take() -> None:
    costs = Costs()
    costs.add(block(30_000, 22_000, others_us=6_000))
    costs.add(plain(60_000, 21_000))
    assert costs.plain_us == 21_000


def test_a_session_without_rounds_of_late_goes_by_those_of_others() -> None:
    """Its own were out of step: each waited for a step that was not its own."""
    link = Costs()
    left, others = Costs(link), Costs(link)
    for number in range(3):
        left.add(block(50_000 * number, 52_000, queue_us=18_000))
    assert left.fixed_us(150_000, None) == pytest.approx(50_000)
    for number in range(40):
        others.add(block(150_000 + 22_000 * number, 22_000))
    now_us = 150_000 + 22_000 * 40
    assert left.fixed_us(now_us, None) == pytest.approx(20_000)
    assert left.queue_us == 0
    left.add(block(now_us, 30_000, queue_us=5_000))
    assert left.fixed_us(now_us, None) != pytest.approx(20_000), "it has newer ones of its own"


def test_a_token_that_is_slow_for_once_is_no_reason_to_begin_with_blocks() -> None:
    costs, now_us = Costs(Costs()), 0
    for took_us in (20_000,) * 60 + (35_000,) * 10:
        now_us += took_us
        costs.add(plain(now_us, took_us))
    assert costs.plain_us == 35_000
    assert costs.steady_plain_us == 20_000
    for _ in range(40):
        now_us += 35_000
        costs.add(plain(now_us, 35_000))
    assert costs.steady_plain_us == 35_000, "that is how busy the target is now"


def test_what_a_target_does_between_two_plain_steps_is_part_of_them() -> None:
    link = Costs()
    costs = Costs(link)
    for number in range(20):
        costs.add(plain(23_000 * number, 23_000 if number % 2 else 29_000))  # every other one waits for somebody
    costs.add(block(500_000, 26_000))
    assert costs.plain_us == STEP + 3_000


def old() -> Costs:
    """Return costs of a link that was plain for a while."""
    costs = Costs()
    for number in range(64):
        costs.add(plain(-10_000_000 + 20_000 * number, 20_000))
    return costs


def test_the_first_round_after_a_lease_tells_only_where_nothing_else_does() -> None:
    costs = old()
    costs.add(block(30_000, 32_000)._replace(opens=True))
    assert costs.fixed_us(30_000, None) == 30_000, "better than nothing"
    costs.add(block(60_000, 24_000))
    assert costs.fixed_us(60_000, None) == 22_000, "and forgotten as soon as there is another"
    costs.add(block(90_000, 32_000)._replace(opens=True))
    assert costs.fixed_us(90_000, None) == 22_000
    assert costs.opening_us == 8_000, "what a look reckons with"


def test_in_the_beginning_it_counts_like_any_other() -> None:
    """Sessions that come into step all open."""
    costs = Costs()
    costs.add(block(30_000, 24_000))
    for number in range(3):
        costs.add(block(60_000 + 30_000 * number, 32_000)._replace(opens=True))
    assert costs.fixed_us(150_000, None) == 30_000


def test_a_candidate_is_not_what_reading_took_before_it() -> None:
    costs = old()
    parts = RoundParts(0, 9_000, 0, None, 0, STEP, 0)
    costs.add(block(30_000, 24_000))
    costs.add(block(60_000, 31_000)._replace(opens=True, parts=parts))
    assert costs.candidate_us == 2_000


def test_plain_steps_of_which_some_are_slow_take_what_they_take_in_the_mean() -> None:
    costs, even = Costs(), Costs()
    for number in range(64):
        for some in (costs, even):
            some.add(block(60_000 * number, 24_000))
        costs.add(plain(60_000 * number + 30_000, 40_000 if number % 4 == 3 else 20_000))
        even.add(plain(60_000 * number + 30_000, 20_000))
    assert even.plain_us == 20_000
    assert costs.plain_us == pytest.approx(1.25 * 20_000, rel=0.03)


def test_a_level_is_no_unevenness() -> None:
    costs = Costs()
    for number in range(60):
        costs.add(block(60_000 * number, 24_000))
        costs.add(plain(60_000 * number + 30_000, 20_000 if number < 40 else 30_000))
    assert costs.plain_us == pytest.approx(30_000, rel=0.07)


def test_what_plain_steps_always_take_longer_is_held_against_neither() -> None:
    """On shared cores a token that is delivered takes them from the next step; rounds have time for that."""
    link, now_us = Costs(), 0
    costs = Costs(link)

    def step(took_us: int) -> Round:
        return Round(now_us, took_us, 0, 0, 0, RoundParts(None, None, None, None, 0, took_us, 0))

    for _ in range(3):
        for _ in range(6):
            now_us += 24_000
            costs.add(block(now_us, 24_000))
        for _ in range(8):
            now_us += 22_000
            costs.add(step(22_000))
    assert costs.fixed_us(now_us, None) == pytest.approx(22_000), "rounds have not become slower with them"
    for _ in range(6):
        now_us += 24_000
        costs.add(block(now_us, 24_000))
    assert costs.plain_us == pytest.approx(22_000, rel=0.02)
    for _ in range(6):
        now_us += 33_000
        costs.add(step(33_000))
    assert costs.fixed_us(now_us, None) == pytest.approx(32_000, rel=0.02), "half as long again is a slower machine"
