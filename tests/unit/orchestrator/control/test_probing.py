"""When blocks are looked at again: as often as a share of the time allows, sooner where there is doubt."""

from __future__ import annotations

import pytest

from orchestrator.control.probing import Doubt, Probing

LOST, ROUND = 30_000.0, 40_000.0


def looks(doubt: Doubt, *, seconds: int) -> list[float]:
    """Return when looks began, in seconds; they are asked for every ten milliseconds."""
    probing, found = Probing(), []
    for now_us in range(0, seconds * 1_000_000, 10_000):
        was_open = probing.open(now_us)
        if probing.due(now_us, lost_us=LOST, round_us=ROUND, doubt=doubt) and not was_open:
            found.append(now_us / 1e6)
    return found


def test_a_look_of_three_rounds_costs_a_hundredth_of_the_time() -> None:
    found = looks(Doubt.NONE, seconds=60)
    assert found[0] == pytest.approx(9.0, abs=0.1)
    assert found[1] - found[0] == pytest.approx(9.0 + 3 * ROUND / 1e6, abs=0.1)


@pytest.mark.parametrize(("doubt", "first"), [(Doubt.PASSING, 1.8), (Doubt.TOGETHER, 0.45)])
def test_in_doubt_the_first_looks_come_sooner_and_the_others_ever_later(doubt: Doubt, first: float) -> None:
    found = looks(doubt, seconds=120)
    gaps = [after - before for before, after in zip([0.0, *found], found, strict=False)]
    assert gaps[0] == pytest.approx(first, abs=0.05)
    assert gaps[1] == pytest.approx(2 * first, abs=0.2)
    assert gaps[-1] == pytest.approx(9.0, abs=0.2), "in the end they are as seldom as any"


def test_where_next_to_nothing_is_known_one_round_is_tried() -> None:
    found = looks(Doubt.FEW, seconds=1)
    assert found[0] == pytest.approx(0.2)
    assert found[1] == pytest.approx(0.2 + 0.2 + ROUND / 1e6, abs=0.05)


def test_all_sessions_on_a_link_look_at_the_same_time_and_for_three_rounds() -> None:
    probing = Probing()
    assert not probing.due(0, lost_us=10_000, round_us=40_000)
    assert not probing.due(2_900_000, lost_us=10_000, round_us=40_000)
    assert probing.due(3_100_000, lost_us=10_000, round_us=40_000)
    assert probing.due(3_200_000, lost_us=90_000, round_us=90_000)  # another session, in the same window
    assert not probing.due(3_221_000, lost_us=10_000, round_us=40_000)
    assert probing.due(6_300_000, lost_us=10_000, round_us=40_000)
