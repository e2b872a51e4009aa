"""Virtual time is exact, ordered and repeatable."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.clock import Clock, MonotonicClock
from foreword.testing.virtual_clock import Ties, VirtualClock

FIXED = settings(deadline=None, derandomize=True)


def test_ties_run_in_order_of_insertion() -> None:
    clock, seen = VirtualClock(), list[str]()
    for name in "abc":
        clock.call_later(5, lambda name=name: seen.append(name))
    clock.call_later(4, lambda: seen.append("first"))
    assert clock.run() == 4
    assert seen == ["first", "a", "b", "c"]
    assert clock.now_us() == 5


def test_time_stands_still_in_a_callback_and_nested_events_run_after_equal_ones() -> None:
    clock, seen = VirtualClock(start_us=100), list[tuple[str, int]]()

    def outer() -> None:
        clock.call_later(0, lambda: seen.append(("inner", clock.now_us())))
        seen.append(("outer", clock.now_us()))

    clock.call_later(10, outer)
    clock.call_later(10, lambda: seen.append(("equal", clock.now_us())))
    clock.run()
    assert seen == [("outer", 110), ("equal", 110), ("inner", 110)]


def test_cancelled_events_do_not_run_and_do_not_count() -> None:
    clock, seen = VirtualClock(), list[int]()
    timers = [clock.call_later(i, lambda i=i: seen.append(i)) for i in range(4)]
    timers[1].cancel()
    timers[1].cancel()
    assert clock.waiting == 3
    clock.run()
    timers[0].cancel()
    assert (seen, clock.waiting) == ([0, 2, 3], 0)


def test_run_until_includes_its_moment_and_goes_there() -> None:
    clock, seen = VirtualClock(), list[int]()
    for moment in (1, 5, 6):
        clock.call_at(moment, lambda moment=moment: seen.append(moment))
    assert clock.run_until(5) == 2
    assert (seen, clock.now_us(), clock.next_us()) == ([1, 5], 5, 6)
    assert clock.run_for(10) == 1
    assert clock.now_us() == 15


def test_an_error_comes_out_and_the_event_is_done() -> None:
    clock = VirtualClock()

    def fail() -> None:
        raise ValueError("planted")

    clock.call_later(1, fail)
    with pytest.raises(ValueError, match="planted"):
        clock.run()
    assert clock.run() == 0


def test_a_run_without_end_is_named() -> None:
    clock = VirtualClock()

    def again() -> None:
        clock.call_later(1, again)

    again()
    with pytest.raises(RuntimeError, match="10 events ran and 1 still wait"):
        clock.run(limit=10)


def _order(seed: int, ties: Ties) -> list[int]:
    clock, seen = VirtualClock(seed=seed, ties=ties), list[int]()
    for i in range(8):
        clock.call_later(1, lambda i=i: seen.append(i))
    clock.run()
    return seen


def test_shuffled_ties_are_a_function_of_the_seed() -> None:
    assert _order(1, Ties.SHUFFLED) == _order(1, Ties.SHUFFLED)
    assert len({tuple(_order(seed, Ties.SHUFFLED)) for seed in range(5)}) > 1
    assert _order(1, Ties.INSERTION) == list(range(8))


@FIXED
@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 60))
def test_events_run_in_order_of_time(delays: list[int], stop: int) -> None:
    clock, seen = VirtualClock(), list[int]()
    for delay in delays:
        clock.call_later(delay, lambda: seen.append(clock.now_us()))
    clock.run_until(stop)
    assert seen == sorted(delay for delay in delays if delay <= stop)


async def test_the_monotonic_adapter_fits_the_port() -> None:
    clock: Clock = MonotonicClock(asyncio.get_running_loop())
    before, rang = clock.now_us(), asyncio.Event()
    clock.call_later(1000, rang.set)
    clock.call_later(0, lambda: None).cancel()
    await rang.wait()
    assert clock.now_us() >= before
    assert isinstance(VirtualClock(), object)
    virtual: Clock = VirtualClock()
    assert virtual.now_us() == 0
