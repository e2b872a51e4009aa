"""What `foreword bench overhead` divides: tokens per second in the middle of a run, and the formula for step times."""

from __future__ import annotations

import pytest

from foreword.errors import InvalidField
from loadtest.overhead.formula import RoundCost, expected_emitted, ideal_tokens_per_s
from loadtest.overhead.plan import Plan, read_sessions
from loadtest.overhead.window import SteadyWindow

ROUND_S = 0.03


def run(counts: list[int], *, tokens: int, first: int, last: int) -> SteadyWindow:
    """Feed sessions that emit so many tokens a round, after a slow beginning, until all have `tokens`."""
    window = SteadyWindow(len(counts), first=first, last=last)
    for step in range(1, 200):
        at_s = step * ROUND_S + (10.0 if step > 2 else 0.0)  # opening is slow
        for session, count in enumerate(counts):
            if (step - 1) * count < tokens:
                window.add(session, at_s + session * 1e-3, tokens=count, rounds=1)
    return window


def test_emitted_tokens_are_the_partial_sums_of_the_agreement() -> None:
    assert expected_emitted(0.8, 4) == pytest.approx((1 - 0.8**5) / (1 - 0.8))
    assert expected_emitted(1.0, 4) == 5
    assert expected_emitted(0.0, 4) == 1
    assert expected_emitted(0.8, 0) == 1


def test_the_formula_is_tokens_over_what_a_round_cannot_do_without() -> None:
    cost = RoundCost(draft_ms=4 * 2.0, target_ms=20.0, rtt_ms=2.0)
    assert ideal_tokens_per_s(32, 3.0, cost) == pytest.approx(32 * 3.0 / 0.030)


def test_only_the_middle_counts() -> None:
    steady = run([4, 2], tokens=100, first=20, last=80).steady()
    assert steady.round_s == pytest.approx(ROUND_S)
    assert steady.tokens_per_s == pytest.approx(6 / ROUND_S)
    # From the tenth arrival of the slower session to the twentieth of the faster one: nine whole rounds of each.
    assert (steady.tokens, steady.rounds) == (9 * (4 + 2), 2 * 9)


@pytest.mark.parametrize(("first", "last"), [(20, 101), (79, 80)])
def test_a_run_that_was_never_in_its_middle_says_so(first: int, last: int) -> None:
    with pytest.raises(InvalidField, match="tokens"):
        run([4, 2], tokens=100, first=first, last=last).steady()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"sessions": ()}, "sessions"),
        ({"sessions": (0,)}, "sessions"),
        ({"sessions": (4, 4)}, "sessions"),
        ({"tokens": 10}, "tokens"),
        ({"gamma": 0}, "gamma"),
        ({"draft_ms": float("nan")}, "draft_ms"),
        ({"target_ms": 0.0}, "target_ms"),
        ({"agreement": 1.5}, "agreement"),
    ],
)
def test_plans_that_cannot_be_are_refused_by_name(fields: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidField) as caught:
        Plan(**fields)  # type: ignore[arg-type]
    assert caught.value.field == named


def test_numbers_of_sessions_are_read() -> None:
    assert read_sessions("1,32") == (1, 32)
    with pytest.raises(InvalidField, match="sessions"):
        read_sessions("1;2")
