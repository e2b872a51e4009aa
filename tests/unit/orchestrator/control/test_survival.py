"""What becomes of candidates: censoring, blocks that end early, what is known beforehand, and change."""

from __future__ import annotations

import random

import pytest

from orchestrator.control.survival import START_RATE, Survival


def drive(survival: Survival, rates: list[float], rounds: int, *, seed: int = 1, written: int | None = None) -> None:
    chance = random.Random(seed)
    for _ in range(rounds):
        offered = len(rates) if written is None else written
        kept = 0
        while kept < offered and chance.random() < rates[kept]:
            kept += 1
        survival.verified(kept, offered, len(rates))


def test_nothing_is_known_at_first() -> None:
    assert Survival().kept(3) == pytest.approx([START_RATE, START_RATE**2, START_RATE**3])
    assert Survival().written(2) == [1.0, 1.0]


def test_places_behind_a_refusal_do_not_count() -> None:
    survival = Survival(fade=1.0)
    drive(survival, [0.9, 0.5, 0.9, 0.9], 4000)
    assert survival.kept(4) == pytest.approx([0.9, 0.45, 0.405, 0.3645], abs=0.03)


def test_counting_all_places_would_be_caught() -> None:
    """The planted fault: what stands behind a refusal counts as refused."""
    chance, kept_at = random.Random(1), [0, 0, 0, 0]
    for _ in range(4000):
        for place, rate in enumerate([0.9, 0.5, 0.9, 0.9]):
            if chance.random() >= rate:
                break
            kept_at[place] += 1
    conditional = [count / 4000 for count in kept_at]  # not of those that got there
    assert conditional[3] != pytest.approx(0.9, abs=0.03)


def test_a_block_that_ends_early_has_an_empty_place() -> None:
    survival = Survival(fade=1.0)
    drive(survival, [0.8, 0.8, 0.8, 0.8], 2000, written=2)
    kept, written = survival.kept(4), survival.written(4)
    assert kept[:2] == pytest.approx([0.8, 0.64], abs=0.03)
    assert kept[2] < 0.03  # with γ of 3 no third candidate would be kept, because none would be drafted
    assert written[:2] == pytest.approx([1.0, 1.0], abs=0.01)
    assert written[2] < 0.01


def test_deep_places_follow_what_is_known_of_all() -> None:
    survival = Survival()
    drive(survival, [0.9, 0.9], 300)
    assert survival.kept(8)[7] == pytest.approx(0.9**8, abs=0.1)


def test_a_session_begins_with_what_others_have_seen_and_teaches_them() -> None:
    shared = Survival(fade=0.998)
    drive(Survival(shared), [0.95, 0.4], 500)
    fresh = Survival(shared)
    assert fresh.rate == pytest.approx(shared.rate)
    assert fresh.kept(2) == pytest.approx([0.95, 0.38], abs=0.06)
    drive(fresh, [0.2, 0.2], 60, seed=2)
    assert fresh.rate < 0.4 < shared.rate


@pytest.mark.parametrize("after", [0.3, 0.9])
def test_change_is_noticed_within_a_hundred_rounds(after: float) -> None:
    survival = Survival()
    drive(survival, [1.2 - after] * 4, 400)
    drive(survival, [after] * 4, 120, seed=3)
    assert survival.rate == pytest.approx(after, abs=0.12)


def test_guesses_of_a_draft_that_follows_count_too() -> None:
    survival = Survival()
    drive(survival, [0.2] * 4, 200)
    for _ in range(20):
        survival.followed(7, 8)
    assert survival.rate == pytest.approx(7 / 8, abs=0.08)
    assert survival.kept(2)[0] > 0.5
