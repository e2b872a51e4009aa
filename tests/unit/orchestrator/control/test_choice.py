"""The best γ: the scan against the closed form, and what the price and short blocks do to it."""

from __future__ import annotations

import math

import pytest

from orchestrator.control.choice import RoundCost, best, rates

MOST = 64


def survivals(rate: float, most: int = MOST) -> list[float]:
    return [rate**k for k in range(1, most + 1)]


def lambert_lower(x: float) -> float:
    """W₋₁(x) for -1/e < x < 0, by Newton's method on w + log(-w) = log(-x), which has no overflow."""
    w = math.log(-x) - math.log(-math.log(-x))
    for _ in range(100):
        w -= (w + math.log(-w) - math.log(-x)) / (1.0 + 1.0 / w)
    return w


def closed_form(rate: float, fixed_over_candidate: float) -> float:
    """γ* of maximising E(γ)/(C + γ·d) over real γ (docs/decisions/0017-gamma.md)."""
    slope = -math.log(rate)
    a = 1.0 + slope * (fixed_over_candidate - 1.0)
    return (-lambert_lower(-math.exp(-a)) - a) / slope - 1.0


@pytest.mark.parametrize("rate", [0.6, 0.8, 0.9])
@pytest.mark.parametrize("ratio", [5.0, 20.0, 100.0, 500.0])
def test_the_scan_finds_what_the_closed_form_says(rate: float, ratio: float) -> None:
    values = rates(survivals(rate), [1.0] * MOST, RoundCost(ratio, 1.0), plain_us=1e12)
    real = closed_form(rate, ratio)
    largest = max(range(MOST + 1), key=values.__getitem__)
    assert largest in (math.floor(real), math.ceil(real))
    found = best(values, least=1, most=MOST)
    assert found <= largest
    assert values[found] >= 0.997 * values[largest]


def test_the_closed_form_catches_a_scan_that_forgets_the_token_of_the_target() -> None:
    wrong = [sum(0.8**k for k in range(1, g + 1)) / (20.0 + g) for g in range(MOST + 1)]
    expected = (math.floor(closed_form(0.8, 20.0)), math.ceil(closed_form(0.8, 20.0)))
    assert best(wrong, least=1, most=MOST) not in expected


def test_plain_decoding_is_a_choice_like_any_other() -> None:
    kept, written = survivals(0.8, 8), [1.0] * 8
    far = rates(kept, written, RoundCost(120_000.0, 2_000.0), plain_us=20_000.0)
    near = rates(kept, written, RoundCost(22_000.0, 2_000.0), plain_us=20_000.0)
    assert best(far, least=0, most=8) == 0
    assert best(far, least=1, most=8) == 8
    assert best(near, least=0, most=8) in (5, 6)
    assert far[0] == near[0] == 1.0 / 20_000.0


def test_a_price_makes_blocks_shorter_and_ends_them() -> None:
    kept, written = survivals(0.8, 16), [1.0] * 16
    chosen = [
        best(rates(kept, written, RoundCost(20_000.0, 500.0, price), plain_us=20_000.0), least=0, most=16)
        for price in (0.0, 0.2, 0.5, 0.79, 0.95)
    ]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] > 8
    assert chosen[-1] == 0


def test_candidates_that_are_seldom_drafted_cost_as_seldom() -> None:
    full = rates([0.5, 0.25], [1.0, 1.0], RoundCost(10.0, 5.0), plain_us=10.0)
    short = rates([0.5, 0.25], [1.0, 0.5], RoundCost(10.0, 5.0), plain_us=10.0)
    assert short[:2] == full[:2]
    assert full[2] == pytest.approx(1.75 / 20.0)
    assert short[2] == pytest.approx(1.75 / 17.5)


def test_the_fewest_of_equal_candidates_are_taken() -> None:
    assert best([1.0, 2.0, 2.0], least=0, most=2) == 1
    assert best([3.0, 2.0, 2.5], least=1, most=9) == 2
