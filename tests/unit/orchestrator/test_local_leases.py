"""Between two drafts a session lets its target draft with itself, as long as that earns something."""

from __future__ import annotations

import pytest

from foreword.protocol.messages import BlockOrder, Commit, LocalOrder, PlainOrder, Recall, TargetOpen
from foreword.protocol.words import Drafter, LossCode
from orchestrator.core.local import FIRST, FIRST_PAUSE, LAST_PAUSE, LEAST, MOST, LocalRecord
from orchestrator.policy import Gamma, MeasuringPolicy, RoundView, WaitLimits
from tests.unit.orchestrator.world import World, guess, next_token, text_after

PROMPT = (1, 2, 3)
COUNT = 240


def wrong(tokens: tuple[int, ...]) -> int:
    return (next_token(tokens) + 1) % 49


def nothing(_: tuple[int, ...]) -> None:
    return None


def orders(world: World) -> list[BlockOrder | PlainOrder | LocalOrder]:
    sent = world.fake_targets[0].sent
    first = [message.first.order for message in sent if isinstance(message, TargetOpen) and message.first is not None]
    return first + [message.order for message in sent if isinstance(message, Commit)]


def steps(local: object, *, gamma: int = 16, drafts: int = 0) -> tuple[World, int]:
    world = World(drafts=drafts, local=local)  # type: ignore[arg-type]
    _, recorder = world.drive(world.session(max_output=COUNT), gamma=gamma)
    world.clock.run()
    assert tuple(recorder.tokens) == text_after(PROMPT, COUNT)
    assert world.counts.get("protocol_fault", 0) == 0
    return world, len(recorder.bases)


def test_without_a_draft_the_target_drafts_with_itself() -> None:
    world, count = steps(next_token)
    assert count < COUNT / 8
    assert {type(order) for order in orders(world)} == {LocalOrder}
    assert [order.gamma for order in orders(world)] == [FIRST, 2 * FIRST, MOST], "more, as all are kept"


def test_the_bounds_of_a_request_hold_for_the_target_s_own_candidates_too() -> None:
    world, _ = steps(next_token, gamma=3)
    assert {order.gamma for order in orders(world) if isinstance(order, LocalOrder)} == {3}


def test_a_target_without_a_drafter_is_asked_for_plain_steps() -> None:
    world, count = steps(None)
    assert count == COUNT
    assert orders(world) == [PlainOrder(COUNT)]


def test_gamma_zero_is_plain_whatever_the_target_has() -> None:
    world, count = steps(next_token, gamma=0)
    assert count == COUNT
    assert orders(world) == [PlainOrder(COUNT)]


def test_a_drafter_that_finds_nothing_costs_nothing() -> None:
    world, count = steps(nothing)
    assert count == COUNT
    assert orders(world) == [LocalOrder(Drafter.LOOKUP, FIRST, COUNT)], "one lease to the end, without a hop"


def test_a_drafter_that_is_wrong_is_left_alone_for_longer_and_longer() -> None:
    world, count = steps(wrong)
    assert count == COUNT
    given = orders(world)
    assert [order.gamma for order in given[:2] if isinstance(order, LocalOrder)] == [FIRST, LEAST]
    pauses = [order.limit for order in given if isinstance(order, PlainOrder)]
    assert pauses[:2] == [FIRST_PAUSE - 1, 2 * FIRST_PAUSE - 1], "a step was under way when the lease was recalled"
    offered = sum(isinstance(order, LocalOrder) for order in given)
    assert offered <= 5


@pytest.mark.parametrize("local", [next_token, guess, wrong, nothing])
def test_the_draft_dies_and_comes_back(local: object) -> None:
    world = World(local=local)  # type: ignore[arg-type]
    driver, recorder = world.drive(world.session(max_output=COUNT))
    for _ in range(2):
        world.clock.run_for(120_000)
        assert driver.session.commit is not None
        assert isinstance(driver.session.commit.order, BlockOrder)
        world.fake_drafts[0].kill()
        world.clock.run_for(70_000)
        assert not isinstance(driver.session.commit.order, BlockOrder)
        world.fake_drafts[0].start()
    world.clock.run()
    assert tuple(recorder.tokens) == text_after(PROMPT, COUNT)
    assert len([m for m in world.fake_targets[0].sent if isinstance(m, TargetOpen)]) == 1
    assert any(isinstance(m, Recall) for m in world.fake_targets[0].sent)
    assert {type(order) for order in orders(world)} >= {BlockOrder, LocalOrder}
    if local is next_token:
        assert max(recorder.local) >= FIRST


def test_a_suspect_draft_is_made_good_for_by_the_target() -> None:
    world = World(local=next_token)
    world.fake_drafts[0].slow = True
    _, recorder = world.drive(world.session(max_output=COUNT), gamma=16)
    world.clock.run()
    assert tuple(recorder.tokens) == text_after(PROMPT, COUNT)
    assert recorder.late
    assert len(recorder.bases) < COUNT / 5


def test_the_session_moves_to_another_target_in_a_local_lease() -> None:
    world = World(targets=2, drafts=0, local=next_token)
    _, recorder = world.drive(world.session(max_output=COUNT))
    world.clock.run_for(130_000)
    assert 0 < len(recorder.tokens) < COUNT
    next(t for t in world.fake_targets if t.sessions).lose(LossCode.EVICTED)
    world.clock.run()
    assert tuple(recorder.tokens) == text_after(PROMPT, COUNT)
    assert recorder.places is not None
    assert recorder.places.targets == 2


def test_the_setting_switches_it_off() -> None:
    view = RoundView(0, local=Drafter.LOOKUP)
    assert MeasuringPolicy(WaitLimits()).session(Gamma()).plan(view).local is Drafter.LOOKUP
    assert MeasuringPolicy(WaitLimits(), local=False).session(Gamma()).plan(view).local is None


def test_a_record_grows_with_what_is_kept_and_pauses_when_nothing_is() -> None:
    record, base = LocalRecord(), 0
    for _ in range(20):
        record = record.verified(record.size, record.size, base=base)
    assert record.gamma(0) == MOST
    pauses = []
    for _ in range(200):
        gamma = record.gamma(base)
        base += 1
        if gamma:
            before = record.pause_ends
            record = record.verified(0, gamma, base=base)
            pauses += [record.pause_ends - base] if record.pause_ends != before else []
            base = max(base, record.pause_ends)
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LAST_PAUSE
    for _ in range(8):
        record = record.verified(record.size, record.size, base=base)
    assert record.gamma(base) > LEAST
    assert record.pauses == 0


def test_a_share_between_changes_nothing() -> None:
    record = LocalRecord()
    for _ in range(50):
        record = record.verified(2, 4, base=0)
    assert record.gamma(0) == FIRST
