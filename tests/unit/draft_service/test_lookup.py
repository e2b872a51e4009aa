"""Prompt lookup as a drafter: certain laws, empty blocks, settings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draft_service.core.writing import Drawn
from draft_service.drafters.lookup import Lookup, LookupDrafter, LookupStyle, shared_rates
from draft_service.drafters.pen import Pen
from draft_service.engine.engine import Policy
from foreword.errors import InvalidField
from foreword.lookup.automaton import SuffixAutomaton
from foreword.protocol.messages import OneHot, Tokens
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
        (drawn,) = drafter.step([Pen(0, ordered(text, gamma=8, stop_threshold=0.9, lookup_threshold=0.4))], [])
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


class Eager(Lookup):
    """Indexes whatever it reads at once."""

    def take(self, cached: int, rows: Tokens) -> None:
        super().take(cached, rows)
        self._read_up_to(len(self._end))


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.integers(0, 2), max_size=4).map(tuple), st.booleans()), max_size=12
    )
)
def test_what_is_indexed_late_is_found_as_if_it_had_been_at_once(
    steps: list[tuple[int, Tokens, bool]],
) -> None:
    late, eager = Lookup(LookupStyle(), shared_rates()), Eager(LookupStyle(), shared_rates())
    for back, rows, asked in steps:
        cached = max(0, len(eager) - back)
        for lookup in (late, eager):
            lookup.take(cached, rows)
        assert [late.since(i) for i in range(len(eager) + 1)] == [eager.since(i) for i in range(len(eager) + 1)]
        if asked:
            assert late.guess(4) == eager.guess(4)


def test_candidates_that_are_taken_back_are_not_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a text of one token each of them would cost a walk over all of it."""
    indexed: list[int] = []
    extend = SuffixAutomaton.extend
    monkeypatch.setattr(
        SuffixAutomaton, "extend", lambda index, tokens: (indexed.extend(tokens), extend(index, tokens))[1]
    )
    lookup = Lookup(LookupStyle(), shared_rates())
    lookup.take(0, (7,) * 1_000)
    lookup.guess(4)
    for length in range(1_000, 1_050):
        for place in range(16):
            lookup.take(length + place, (100 + place,))
        lookup.take(length, (7,))
        lookup.guess(4)
    assert indexed == [7] * 1_050


def test_a_long_text_is_indexed_while_it_is_read() -> None:
    """Not all of it when the first guess is due."""
    lookup = Lookup(LookupStyle(), shared_rates())
    lookup.take(0, (7,) * 1_000)
    assert len(lookup._index) == 1_000 - 256
