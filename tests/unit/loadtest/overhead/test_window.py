"""The steady window: exact for rounds of equal length, whatever their phase."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.errors import InvalidField
from loadtest.overhead.window import SteadyWindow


def play(window: SteadyWindow, sessions: list[tuple[float, float, list[int]]]) -> None:
    """Feed sessions that begin at an offset and emit some tokens at the end of every round of one length."""
    arrivals = []
    for number, (offset, period, emitted) in enumerate(sessions):
        arrivals += [(offset + (i + 1) * period, number, tokens) for i, tokens in enumerate(emitted)]
    for at_s, number, tokens in sorted(arrivals):
        window.add(number, at_s, tokens=tokens, rounds=1)


@given(st.floats(0.0, 0.03), st.floats(0.02, 0.05), st.integers(1, 5))
def test_equal_rounds_give_their_rate_exactly(offset: float, period: float, emitted: int) -> None:
    window = SteadyWindow(2, first=10, last=100)
    play(window, [(0.0, period, [emitted] * 120), (offset, period, [emitted] * 120)])
    steady = window.steady()
    assert steady.tokens_per_s == pytest.approx(2 * emitted / period)
    assert steady.round_s == pytest.approx(period)
    assert steady.tokens == emitted * steady.rounds


def test_a_slow_start_and_a_slow_end_do_not_count() -> None:
    window = SteadyWindow(1, first=10, last=100)
    arrivals = [0.5 * i for i in range(1, 10)]  # a lease, then rounds
    arrivals += [5.0 + 0.03 * i for i in range(100)]
    arrivals += [20.0, 40.0]
    for at_s in arrivals:
        window.add(0, at_s, tokens=1, rounds=1)
    assert window.steady().tokens_per_s == pytest.approx(1 / 0.03)
    assert window.opened_s == 5.0


def test_the_window_is_where_all_are_in_their_middle() -> None:
    window = SteadyWindow(2, first=4, last=40)
    play(window, [(0.0, 0.1, [2] * 30), (1.0, 0.1, [2] * 30)])
    assert (window.opened_s, window.closed_s) == (pytest.approx(1.2), pytest.approx(2.0))


def test_rates_hold_for_random_acceptance() -> None:
    chance = random.Random(3)
    sessions = [(chance.uniform(0, 0.03), 0.03, [chance.randint(1, 5) for _ in range(400)]) for _ in range(32)]
    window = SteadyWindow(32, first=64, last=900)
    play(window, sessions)
    steady = window.steady()
    # Tokens over rounds and over time are from the same rounds: their ratio has no noise at all.
    assert steady.tokens_per_s * steady.round_s / 32 == pytest.approx(steady.tokens / steady.rounds, rel=0.01)


def test_sessions_that_never_run_together_are_refused() -> None:
    window = SteadyWindow(2, first=4, last=40)
    play(window, [(0.0, 0.1, [2] * 30), (10.0, 0.1, [2] * 30)])
    with pytest.raises(InvalidField, match="all sessions are in their middle"):
        window.steady()


def test_a_session_without_rounds_in_the_window_is_refused() -> None:
    window = SteadyWindow(2, first=4, last=40)
    play(window, [(0.0, 0.1, [2] * 30), (0.0, 1.5, [4] * 10)])
    with pytest.raises(InvalidField, match="every session has some rounds"):
        window.steady()
