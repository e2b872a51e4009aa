"""How seldom a draft is told of leased tokens: that takes time, and matters only where blocks may pay."""

from __future__ import annotations

from itertools import pairwise

import pytest

from foreword.protocol.messages import Advance
from orchestrator.control.adaptive import Choice, Why
from orchestrator.policy import LONGEST_STRETCH, SHORT_STRETCH, STRETCH, stretch
from tests.unit.orchestrator.world import World, text_after


@pytest.mark.parametrize(
    ("rates", "tokens"),
    [
        ((), STRETCH),  # nothing is known
        ((1.0, 0.97, 0.9), STRETCH),
        ((1.0, 0.7, 0.88), 2 * STRETCH),
        ((1.0, 0.5, 0.4), LONGEST_STRETCH),
        ((1.0, -0.1, -0.2), LONGEST_STRETCH),  # rows cost more than they bring
    ],
)
def test_the_further_blocks_are_from_paying_the_longer_it_is(rates: tuple[float, ...], tokens: int) -> None:
    assert stretch(Choice(0, Why.BEST, rates=rates), 1000.0) == tokens


def test_while_little_is_known_a_draft_follows_closely() -> None:
    assert stretch(Choice(0, Why.BEST, rates=(1.0, 0.5)), 40.0) == SHORT_STRETCH


def test_a_suspect_draft_is_told_of_its_lease_in_stretches() -> None:
    world = World()
    _, recorder = world.drive(world.session(max_output=400))
    world.clock.run_for(100_000)
    draft = world.fake_drafts[0]
    draft.silent_to_target = True
    world.clock.run_for(3_000_000)
    bases = [c.base for c in draft.sent if isinstance(c, Advance) and c.gamma == 0]
    gaps = [after - before for before, after in pairwise(bases)]
    assert max(gaps) == STRETCH
    world.clock.run()
    assert tuple(recorder.tokens) == text_after((1, 2, 3), 400)
