"""How much all sessions tell of one: all where they differ by chance alone, little where they differ."""

from __future__ import annotations

import random

import pytest

from foreword.likeness import SAMPLE, Likeness
from orchestrator.control.survival import Survival


def compared(rates: list[float], *, rounds: int = 400, seed: int = 3) -> Likeness:
    chance, likeness = random.Random(seed), Likeness()
    mean = sum(rates) / len(rates)
    for number in range(rounds):
        rate = rates[number % len(rates)]
        likeness.add(sum(chance.random() < rate for _ in range(SAMPLE)), SAMPLE, mean)
    return likeness


def test_before_anything_is_compared_all_count_for_some_rounds_of_one() -> None:
    assert Likeness().weight(0.7) == pytest.approx(48.0)


def test_sessions_that_are_alike_share_what_they_see() -> None:
    assert compared([0.8] * 8).weight(0.8) > 150


def test_sessions_that_differ_do_not() -> None:
    assert compared([0.4, 0.9]).weight(0.65) == 16.0
    assert compared([0.6, 0.7, 0.8, 0.9]).weight(0.75) < 40


def test_where_nobody_differs_the_weight_has_an_end() -> None:
    likeness = Likeness()
    for _ in range(1000):
        likeness.add(SAMPLE // 2, SAMPLE, 0.5)
    assert likeness.weight(0.5) == 1000.0


def test_a_session_among_its_like_follows_chance_less_than_one_alone() -> None:
    chance, link = random.Random(5), Survival(fade=0.998)
    sessions = [Survival(link) for _ in range(16)]
    for _ in range(200):
        for session in sessions:
            kept = next((n for n in range(4) if chance.random() >= 0.8), 4)
            session.verified(kept, 4, 4)
    spread = max(session.rate for session in sessions) - min(session.rate for session in sessions)
    alone = max(session._all_kept / session._all_tried for session in sessions)
    alone -= min(session._all_kept / session._all_tried for session in sessions)
    assert spread < 0.5 * alone
