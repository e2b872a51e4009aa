"""What bench delay compares: hits between two readings, and the synchronous round's formula."""

from __future__ import annotations

import pytest

from loadtest.delay.arms import World
from loadtest.delay.command import best_formula
from loadtest.delay.outcomes import between


def test_hits_are_counted_between_two_readings_and_by_ending() -> None:
    before = {("hit", "bonus"): 3.0, ("miss", "bonus"): 1.0, ("hit", "correction"): 5.0}
    after = {("hit", "bonus"): 7.0, ("miss", "bonus"): 2.0, ("hit", "correction"): 5.0, ("miss", "correction"): 2.0}
    assert between(before, after) == {"bonus": (4, 5), "correction": (0, 2)}
    assert between(after, after) == {}


def test_the_formula_is_that_of_the_best_block() -> None:
    """Without a network and with free drafting the longest block is best: all but everything that can be kept."""
    assert best_formula(World(0.0, 20.0, 0.5, 0.0)) == pytest.approx(1000 * 2.0 / 20.0, rel=1e-6)
    one = 1000 * 1.5 / 40.0  # γ 1: a candidate takes as long as a step
    assert best_formula(World(20.0, 20.0, 0.5, 0.0)) == pytest.approx(one)
