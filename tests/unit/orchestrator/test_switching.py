"""Going from plain decoding to blocks and back costs at most one round: nothing is rebuilt, nothing is read again."""

from __future__ import annotations

import pytest

from foreword.protocol.messages import BlockOrder, Commit, DraftOpened, TargetOpen
from orchestrator.sessions.driver import SessionDriver
from tests.unit.orchestrator.world import Recorder, World, text_after

PROMPT = (1, 2, 3)
COUNT = 200
STEP_US = 20_000


def driven(world: World) -> tuple[SessionDriver, Recorder]:
    return world.drive(world.session(max_output=COUNT))


def results_until_blocks(driver: SessionDriver, recorder: Recorder, world: World) -> list[int]:
    """Return, for every draft that opens from now on, how many Results came between that and a block."""
    counts: list[int] = []
    honest = driver.draft_opened

    def opened(message: DraftOpened) -> None:
        before = len(recorder.gammas)
        honest(message)

        def look() -> None:
            later = recorder.gammas[before:]
            counts.append(next(i for i, gamma in enumerate(later) if gamma))

        world.clock.call_later(20 * STEP_US, look)

    driver.draft_opened = opened  # type: ignore[method-assign]
    return counts


@pytest.mark.parametrize("offset_us", range(0, STEP_US, 2_300))
def test_blocks_begin_with_the_round_after_the_draft_is_ready(offset_us: int) -> None:
    """Whenever in a plain step the draft comes: the step that runs is the last of its lease."""
    world = World()
    driver, recorder = driven(world)
    counts = results_until_blocks(driver, recorder, world)
    for _ in range(3):
        world.clock.run_for(300_000 + offset_us)
        world.fake_drafts[0].kill()
        world.clock.run_for(5 * STEP_US + offset_us)
        world.fake_drafts[0].start()
    world.clock.run()
    assert tuple(recorder.tokens) == text_after(PROMPT, COUNT)
    assert len(counts) == 4
    assert max(counts) <= 1, "the step that runs is the last plain one"


def test_plain_decoding_begins_with_the_round_that_the_draft_missed() -> None:
    """A draft that is gone is not waited for: the block that will not come ends its wait at once."""
    world = World()
    driver, recorder = driven(world)
    world.clock.run_for(400_000)
    world.fake_drafts[0].kill()
    before, at_us = len(recorder.tokens), world.clock.now_us()
    world.clock.run_for(10 * STEP_US)
    assert len(recorder.tokens) - before >= (world.clock.now_us() - at_us) // STEP_US - 1
    world.clock.run()
    opens = [c for c in world.fake_targets[0].sent if isinstance(c, TargetOpen)]
    assert len(opens) == 1, "the session stays where it is"
    commits = [c for c in world.fake_targets[0].sent if isinstance(c, Commit)]
    assert not isinstance(commits[-1].order, BlockOrder)
    assert driver.session.request.max_output == len(recorder.tokens)
