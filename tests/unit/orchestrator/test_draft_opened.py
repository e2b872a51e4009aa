"""A draft that is ready ends the lease that runs only where its blocks are wanted."""

from __future__ import annotations

import pytest

from foreword.protocol.messages import Recall
from foreword.values import replace
from orchestrator.policy import SessionPolicy
from tests.unit.orchestrator.world import World, text_after


@pytest.mark.parametrize(("gamma", "recalls"), [(4, 1), (0, 0)])
def test_a_lease_is_recalled_for_blocks_alone(gamma: int, recalls: int) -> None:
    world = World()
    driver, recorder = world.drive(gamma=4)
    honest: SessionPolicy = driver._policy
    wanted = honest.plan
    honest.plan = lambda view: replace(wanted(view), gamma=gamma)  # type: ignore[method-assign]
    world.clock.run()
    assert sum(isinstance(command, Recall) for command in world.fake_targets[0].sent) == recalls
    assert tuple(recorder.tokens) == text_after((1, 2, 3), 40)
