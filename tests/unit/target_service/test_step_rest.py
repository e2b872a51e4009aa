"""What a target rests for before a step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from target_service.core.rest import StepRest

MOMENTS = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("blocks", "ready", "rested"),
    [
        ([], 90, 0),  # a lease alone
        ([140], 140, 0),  # a block alone: nobody else would have been waited for
        ([140], 90, 40),  # a lease beside it
        ([120, 140], 140, 20),
        ([120, 140], 120, 40),
        ([140, 140], 140, 40),
        ([60, 80], 80, 0),  # both came while the step before ran
    ],
)
def test_the_others_are_waited_for_without_ones_own_block(blocks: list[int], ready: int, rested: int) -> None:
    assert StepRest.of(100, blocks).without(ready) == rested


def test_before_the_first_step_nobody_was_waited_for() -> None:
    assert StepRest.of(None, [140, 150]).without(140) == 0


@given(MOMENTS, st.lists(MOMENTS, min_size=1))
def test_it_is_the_rest_of_a_step_that_lacks_the_block(since: int, blocks: list[int]) -> None:
    rest = StepRest.of(since, blocks)
    for place, own in enumerate(blocks):
        others = [*blocks[:place], *blocks[place + 1 :]]
        assert rest.without(own) == max([since, *others]) - since
