"""Prompt lookup as a drafter: certain laws, empty blocks, settings."""

from __future__ import annotations

import pytest

from draft_service.core.writing import Drawn
from draft_service.drafters.lookup import LookupDrafter, LookupStyle
from draft_service.drafters.pen import Pen
from draft_service.engine.engine import Policy
from foreword.errors import InvalidField
from foreword.protocol.messages import OneHot
from foreword.protocol.words import Drafter, Rule
from tests.unit.draft_service.kit import Bench, opening
from tests.unit.draft_service.models import ordered

REPEATING = (1, 2, 3, 4, 5, 1, 2, 3)


def bench() -> Bench:
    return Bench(LookupDrafter(LookupStyle()), Policy())


def test_a_block_comes_whole_in_one_step_with_one_hot_laws() -> None:
    ours = bench()
    ours.open(opening(1, REPEATING))
    ours.settle()
    ours.order(1, 1, rule=Rule.BLOCK, gamma=4)
    ours.work()
    (block,) = ours.blocks()
    assert (block.ids, block.law, block.drafter) == ((4, 5, 1, 2), OneHot(), Drafter.LOOKUP)


def test_without_a_match_the_block_is_empty_and_goes_at_once() -> None:
    ours = bench()
    ours.open(opening(1, (1, 2, 3, 4)))
    ours.settle()
    ours.order(1, 1, rule=Rule.TOKEN)
    ours.work()
    (block,) = ours.blocks()
    assert block.ids == ()


def test_the_output_is_searched_too_and_rejected_candidates_are_not() -> None:
    ours = bench()
    ours.open(opening(1, REPEATING))
    ours.settle()
    ours.order(1, 1, gamma=4)
    ours.settle()
    (first,) = ours.blocks()
    ours.verdict(first, 1, 9)
    ours.settle()
    (second,) = ours.blocks()
    assert second.ids == ()  # 4, 9 never came before
    ours.order(1, 2, (4, 9), gamma=4)
    ours.settle()
    ours.order(1, 3, (7, 4, 9), gamma=4)
    ours.settle()
    assert ours.blocks()[-1].ids == (7, 4, 9, 7)  # and 5 of the rejected block is not there


def test_a_block_is_no_longer_than_what_is_left() -> None:
    drafter = LookupDrafter(LookupStyle())
    drafter.open(0)
    (drawn,) = drafter.step([Pen(0, ordered(REPEATING, gamma=2))], [])
    assert drawn.ids == (4, 5)  # type: ignore[union-attr]


def test_a_match_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidField, match="lookup_min: got 0, wanted a whole number from 1"):
        LookupDrafter(LookupStyle(shortest=0))


def test_short_matches_are_less_certain_than_long_ones() -> None:
    """The last three tokens came before, and all that follows is reached through longer and longer matches."""
    short, long = LookupDrafter(LookupStyle()), LookupDrafter(LookupStyle())
    lengths = []
    for drafter, text in ((short, (1, 2, 3, 4, 9, 1, 2)), (long, (*range(40), 50, *range(30)))):
        drafter.open(0)
        (drawn,) = drafter.step([Pen(0, ordered(text, gamma=8, stop_threshold=0.4))], [])
        assert isinstance(drawn, Drawn)
        lengths.append(len(drawn.ids))
        assert (drawn.confidence < 0.4) is (drafter is short)
    assert lengths == [2, 8]  # a candidate under the threshold is the last one, and is sent


def test_a_session_learns_what_its_matches_are_worth() -> None:
    ours = Bench(LookupDrafter(LookupStyle()), Policy(stop_threshold=0.2))
    ours.open(opening(1, REPEATING))
    ours.settle()
    ours.order(1, 1, gamma=8)
    ours.settle()
    lengths = []
    for round in range(2, 30):
        (block,) = ours.blocks()
        lengths.append(len(block.ids))
        ours.order(1, round, (100 + round, 1, 2), gamma=8)  # 1, 2 came before, and what comes next is always new
        ours.settle()
    assert lengths[1] > 1
    assert lengths[-1] == 1
