"""Rates of outputs, and ours against the better peer."""

from __future__ import annotations

import pytest

from foreword.errors import InvalidField
from loadtest.engine.clock import timed
from loadtest.engine.rates import Better, Output, against_best, common_start, steady_rate


def output(first: float, step: float, tokens: int) -> Output:
    arrivals = tuple(first + step * number for number in range(tokens))
    return Output(arrivals[-1] + 0.5, arrivals)


def test_the_prompt_counts_for_a_call_and_not_for_decoding() -> None:
    one = output(2.0, 0.1, 11)
    assert one.decode_rate == pytest.approx(10.0)
    assert one.call_rate == pytest.approx(11 / 3.5)


def test_the_steady_rate_is_that_of_all_sessions_while_all_are_in_their_middle() -> None:
    together = [output(1.0, 0.1, 20), output(1.05, 0.1, 20), output(1.0, 0.05, 40)]
    assert steady_rate(together) == pytest.approx(10 + 10 + 20)


def test_what_comes_before_the_last_one_writes_does_not_count() -> None:
    # The first session is quick until the second has begun, then as slow as that one.
    quick = tuple(0.01 * number for number in range(20))
    slow = tuple(1.0 + 0.2 * number for number in range(20))
    first = Output(9.0, quick + slow)
    assert steady_rate([first, output(1.0, 0.2, 30)]) == pytest.approx(10.0)


def test_outputs_that_never_run_side_by_side_have_no_steady_rate() -> None:
    with pytest.raises(InvalidField):
        steady_rate([output(0.0, 0.1, 12), output(60.0, 0.1, 12)])


def test_ours_is_held_against_the_better_peer_repeat_by_repeat() -> None:
    peers = {"a": [10.0, 11.0, 12.0], "b": [20.0, 5.0, 5.0]}
    faster = against_best([22.0, 22.0, 24.0], peers, Better.LARGER)
    assert (faster.peer, faster.ratio.median, faster.ratio.low, faster.ratio.high) == ("a", 2.0, 2.0, 2.2)
    assert against_best([10.0, 10.0, 10.0], peers, Better.SMALLER).peer == "b"


def test_texts_have_a_common_start() -> None:
    assert common_start((1, 2, 3), (1, 2, 4)) == 2
    assert common_start((1, 2), (1, 2, 4)) == 2
    assert common_start((), (1,)) == 0


def test_every_timed_call_is_undone_and_the_first_does_not_count() -> None:
    done: list[str] = []
    taken = timed(lambda: done.append("once"), lambda: done.append("undo"), seconds=0.0, fewest=3)
    assert len(taken) == 3
    assert done == ["once", "undo"] * 4
