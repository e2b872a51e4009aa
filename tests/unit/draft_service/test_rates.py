"""Acceptance rates learned from what came, and the pace of rounds."""

from __future__ import annotations

import pytest

from draft_service.drafters.pace import Pace
from draft_service.drafters.rates import Guess, Rates


def test_beforehand_a_kind_has_the_rate_that_was_given() -> None:
    rates = Rates((0.25, 0.75), span=32.0)
    assert (rates.of(0), rates.of(1)) == (0.25, 0.75)


def test_what_was_kept_outweighs_it_and_what_is_recent_outweighs_what_is_old() -> None:
    rates = Rates((0.5, 0.5), span=32.0)
    for _ in range(200):
        rates.note(0, kept=True)
    assert rates.of(0) > 0.9
    assert rates.of(1) == 0.5
    for _ in range(32):
        rates.note(0, kept=False)
    assert rates.of(0) < 0.5


def test_sessions_have_memories_of_their_own_and_start_from_what_all_saw() -> None:
    shared = Rates((0.5,), span=1024.0)
    one, other = Rates(shared, span=32.0), Rates(shared, span=32.0)
    for _ in range(50):
        one.note(0, kept=False)
    assert one.of(0) < other.of(0) < 0.5
    assert Rates(shared, span=32.0).of(0) == shared.of(0)


@pytest.mark.parametrize(
    ("came", "wanted"),
    [
        ((), {}),
        ((5,), {0: True}),  # nothing is known of those behind: perhaps no block was taken
        ((5, 6, 7, 9), {0: True, 1: True, 2: True}),
        ((5, 6), {0: True, 1: True}),
        ((5, 9), {0: True, 1: False}),
        ((5, 9, 7), {0: True, 1: False}),  # behind the first that differs the text is another
        ((9, 6, 7), {0: False}),
    ],
)
def test_what_came_tells_as_much_as_it_was_compared_with(came: tuple[int, ...], wanted: dict[int, bool]) -> None:
    rates = Rates((0.5, 0.5, 0.5), span=32.0)
    rates.hear(Guess(0, (5, 6, 7), (0, 1, 2)), came)
    assert {kind: rates.of(kind) > 0.5 for kind in range(3) if rates.of(kind) != 0.5} == wanted


def test_survivals_end_with_the_first_under_the_threshold() -> None:
    rates = Rates((0.5, 0.9), span=32.0)
    assert rates.survivals((1, 0, 0, 1)) == pytest.approx((0.9, 0.45, 0.225, 0.2025))
    assert rates.survivals((1, 0, 0, 1), 0.45) == pytest.approx((0.9, 0.45, 0.225))
    assert rates.survivals(()) == ()


def test_a_pace_is_the_median_of_what_was_measured_lately() -> None:
    pace = Pace()
    assert (pace.step_ns, pace.wait_ns) == (0.0, 0.0)
    for took_ns in (100, 10, 20):
        pace.stepped(took_ns)
        pace.waited(2 * took_ns)
    assert (pace.step_ns, pace.wait_ns) == (20, 40)
