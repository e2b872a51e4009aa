"""Rules that believe a draft need lateness that is blind to content; a session that is late too often leaves them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foreword.protocol.messages import Advance, BlockOrder, Commit
from foreword.protocol.words import Rule
from orchestrator.core.session import TOLERATED_FALLBACKS
from tests.unit.orchestrator.world import World, text_after

PROMPT = (1, 2, 3)
COUNT = 150


def rules_of(world: World) -> list[Rule]:
    """Return the rule of each block round, in order."""
    commits = [c for c in world.fake_targets[0].sent if isinstance(c, Commit)]
    return [c.rule for c in commits if isinstance(c.order, BlockOrder)]


@pytest.mark.parametrize("rule", [Rule.TOKEN, Rule.BLOCK])
def test_more_than_one_late_round_in_a_hundred_ends_the_belief(rule: Rule) -> None:
    """Fallbacks of a fraction f bias a rule by up to 2f(1−f) a round; over 1 % of 200 rounds it gives way to match."""
    world = World()
    driver, recorder = world.drive(replace(world.session(max_output=COUNT), rule=rule))
    world.clock.run_for(150_000)
    world.fake_drafts[0].silent_to_target = True
    while driver.session.fallbacks.bit_count() <= TOLERATED_FALLBACKS:
        assert driver.session.rule is rule
        world.clock.step()
    world.fake_drafts[0].silent_to_target = False
    assert driver.session.rule is Rule.MATCH
    world.clock.run()
    assert tuple(recorder.tokens) == text_after(PROMPT, COUNT)
    assert recorder.places is not None
    assert recorder.places.rule is Rule.MATCH
    rules = rules_of(world)
    changed = rules.index(Rule.MATCH)
    assert set(rules[:changed]) == {rule}
    assert set(rules[changed:]) == {Rule.MATCH}, "the rule is not taken back"
    assert [a.rule for a in world.fake_drafts[0].sent if isinstance(a, Advance)][-1] is Rule.MATCH


def test_few_late_rounds_change_nothing() -> None:
    """Two of them may be chance."""
    world = World()
    driver, recorder = world.drive(replace(world.session(max_output=COUNT), rule=Rule.BLOCK))
    world.clock.run_for(150_000)
    world.fake_drafts[0].silent_to_target = True
    while driver.session.fallbacks.bit_count() < TOLERATED_FALLBACKS:
        world.clock.step()
    world.fake_drafts[0].silent_to_target = False
    world.clock.run()
    assert recorder.places is not None
    assert recorder.places.rule is Rule.BLOCK
    assert recorder.late == TOLERATED_FALLBACKS
    assert set(rules_of(world)) == {Rule.BLOCK}
