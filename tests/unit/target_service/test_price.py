"""What a verified token costs, and that it is what the best step says."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.models.synthetic import SyntheticModel
from target_service.core.estimates import Acceptance
from target_service.core.price import Rest, SmoothPrice, Steps, price
from target_service.engine.messages import Status
from tests.unit.target_service.kit import Bench, Peer, open_session

RATES = st.lists(st.floats(0.05, 0.95), min_size=1, max_size=3)


def flat(rows: int) -> float:
    return 20_000.0


def kneed(rows: int) -> float:
    return 20_000.0 + 1_000.0 * max(0, rows - 16)


def test_where_steps_are_flat_every_candidate_pays() -> None:
    assert price([0.75] * 4, 0, most=4, steps=Steps(flat)) == 0.0
    assert price([], 8, most=4, steps=Steps(flat)) == 0.0


def test_where_a_row_costs_as_much_as_a_step_none_does() -> None:
    assert price([0.75] * 4, 0, most=4, steps=Steps(lambda rows: 1_000.0 * rows)) > 0.75
    assert price([], 8, most=4, steps=Steps(lambda rows: 1_000.0 * rows)) == 1.0


def test_without_drafts_it_is_what_a_candidate_of_each_session_would_cost() -> None:
    """Sixteen that decode plainly fill the rows that cost nothing: the next ones do, and whoever begins should know."""
    assert price([], 16, most=4, steps=Steps(kneed)) == pytest.approx(16 / 20)
    assert price([], 12, most=4, steps=Steps(kneed)) == pytest.approx(8 / 12 * 12 / 20)
    assert price([], 8, most=4, steps=Steps(kneed)) == 0.0


def test_a_price_that_jumps_is_taken_at_once_and_looked_at_again_soon() -> None:
    smooth = SmoothPrice()
    for _ in range(10):
        smooth.add(0.05)
    assert smooth.settled
    smooth.add(0.75)
    assert smooth.value == 0.75
    assert not smooth.settled
    smooth.add(0.5)  # what follows soon is a mean again, so that one that was off does little harm
    assert smooth.value == pytest.approx(0.75 - 0.3 * 0.25)


def test_a_price_that_oscillates_does_not_jump() -> None:
    smooth = SmoothPrice()
    for number in range(40):
        smooth.add(0.6 + 0.05 * (-1) ** number)
    assert abs(smooth.value - 0.6) < 0.02
    assert smooth.settled


def test_before_anything_is_measured_there_is_no_price() -> None:
    assert price([0.75], 0, most=4, steps=Steps(lambda rows: 0.0)) is None
    assert price([], 0, most=4, steps=Steps(flat)) is None
    smooth = SmoothPrice()
    smooth.add(None)
    assert smooth.value == 0.0


def test_the_price_rises_with_the_load() -> None:
    """Behind the knee a row costs 1 of 20 ms, hence a token of every 20 that the step yields."""
    prices = [price([0.75] * sessions, 0, most=8, steps=Steps(kneed)) or 0.0 for sessions in (2, 4, 8, 16, 32)]
    assert prices == sorted(prices)
    assert prices[0] < 0.15
    assert prices[-1] > 0.75  # more than the first candidate's survival


@given(rates=RATES, plain=st.integers(0, 3), base=st.integers(1_000, 30_000), slope=st.integers(0, 3_000))
def test_it_is_the_last_candidate_of_the_best_of_all_allocations(
    rates: list[float], plain: int, base: int, slope: int
) -> None:
    def step_us(rows: int) -> float:
        return float(base + slope * rows)

    most = 3

    def pace(gammas: tuple[int, ...]) -> float:
        tokens = plain + sum(sum(rate**j for j in range(gamma + 1)) for rate, gamma in zip(rates, gammas, strict=True))
        return tokens / step_us(plain + len(rates) + sum(gammas))

    best = max(pace(gammas) for gammas in product(range(most + 1), repeat=len(rates)))
    found = price(rates, plain, most=most, steps=Steps(step_us))
    assert found is not None
    by_price = tuple(sum(rate**j >= max(found, 0.01) for j in range(1, most + 1)) for rate in rates)
    assert pace(by_price) == pytest.approx(best, rel=0.02)


def test_with_many_sessions_it_is_looked_for_in_strides_and_found_all_the_same(monkeypatch) -> None:
    """A stride skips candidates whose survivals lie close together."""
    rates = [0.5 + 0.4 * number / 256 for number in range(256)]
    steps = Steps(lambda rows: 20_000.0 + 20.0 * rows)
    asked: list[int] = []

    def counted(rows: int) -> float:
        asked.append(rows)
        return steps.step_us(rows)

    found = price(rates, 0, most=16, steps=Steps(counted))
    assert len(asked) < 600
    monkeypatch.setattr("target_service.core.price._LOOKED_AT", 1 << 20)
    assert found == pytest.approx(price(rates, 0, most=16, steps=steps), abs=0.01)


def test_a_price_is_smoothed_and_starts_where_it_is() -> None:
    smooth = SmoothPrice()
    smooth.add(0.5)
    assert smooth.value == 0.5
    smooth.add(1.0)
    assert 0.5 < smooth.value < 0.8


def test_acceptance_counts_up_to_the_first_refusal() -> None:
    acceptance = Acceptance(keep=1.0)
    acceptance.add(2, 4)  # three were decided: two kept, one refused
    acceptance.add(3, 3)
    acceptance.add(0, 0)
    assert acceptance.rate == pytest.approx((0.7 * 4 + 2 + 3) / (4 + 3 + 3))


def test_each_second_the_price_is_reported() -> None:
    model = SyntheticModel(step_ms=20.0, slope_ms=4.0, knee=1)
    bench, peers = Bench(model=model), [Peer(sid) for sid in range(1, 9)]
    for peer in peers:  # one by one, so that the engine gets to know steps of 1 to 8 rows
        bench.command(open_session(peer.sid, first=peer.plain(64), with_ticket=False), ms=150 * peer.sid)
    bench.run(2500)
    reported = [m.load.price for _, batch in bench.channel.batches for m in batch if isinstance(m, Status)]
    assert reported[0] == 0.0
    assert 0.0 < reported[-1] < 1.0


def test_drafting_time_is_told_from_other_rest() -> None:
    rest = Rest(keep=0.0)
    rest.add(9_000, longest=4, drafting_us=8_000)
    assert (rest.idle_us, rest.candidate_us) == (1_000, 2_000)
    rest.add(0, longest=4, drafting_us=8_000)  # others' steps hide it
    assert (rest.idle_us, rest.candidate_us) == (0, 0)
    rest.add(0, longest=0, drafting_us=0)
    assert rest.candidate_us == 0


def test_a_target_that_rests_anyway_asks_less() -> None:
    busy, resting = (price([0.75] * 16, 0, most=8, steps=Steps(kneed, idle_us=idle)) for idle in (0.0, 100_000.0))
    assert busy is not None
    assert resting is not None
    assert resting < 0.5 * busy


def test_at_the_last_row_that_costs_nothing_sessions_draw_the_same_line() -> None:
    """Four sessions: with three candidates each a step has sixteen rows, the last that are free."""
    found = price([0.8] * 4, 0, most=16, steps=Steps(kneed, candidate_us=2_000.0))
    assert found is not None
    left_us = (1 + 0.8 + 0.64 + 0.512 - 3 * found) / (20_000 + 3 * 2_000)  # of a session's tokens, its rows paid for
    assert left_us * 2_000 + found == pytest.approx((0.8**3 + 0.8**4) / 2)


def test_sessions_lean_on_what_all_of_them_have_shown() -> None:
    every = Acceptance(keep=0.999)
    sessions = [Acceptance(every) for _ in range(4)]
    for number in range(200):
        for session in sessions:
            session.add(number % 5, 4)  # four of five are kept, for all alike
    fresh = Acceptance(every)
    assert fresh.rate == every.rate
    fresh.add(0, 4)
    assert fresh.rate == pytest.approx(every.rate, abs=0.02)
