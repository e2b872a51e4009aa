"""Random faults in virtual time: whatever is killed, lost, refused, slow or paused, the text stays right."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from foreword.protocol.sequence import Sequence
from foreword.protocol.words import LossCode, RefusalCode
from foreword.testing.virtual_clock import Ties
from orchestrator.core import session as core
from orchestrator.core.state import Phase
from orchestrator.sessions.driver import SessionDriver
from orchestrator.sessions.limits import SECOND_US, SessionLimits
from tests.unit.orchestrator.world import Recorder, World, refusal, text_after

PROMPTS = ((1, 2, 3), (4, 5), (6, 7, 8, 9))
OUTPUT = 60
LIMITS = SessionLimits(target_us=3600 * SECOND_US, round_us=SECOND_US)


def faults(world: World, chance: random.Random, drivers: list[SessionDriver]) -> list[Callable[[], None]]:
    target, draft = chance.choice(world.fake_targets), chance.choice(world.fake_drafts)

    def toggle(server) -> Callable[[], None]:  # type: ignore[no-untyped-def]
        return lambda: server.kill() if server.alive else server.start()

    def refuse() -> None:
        codes = (RefusalCode.FULL, RefusalCode.DRAINING)
        target.refuse = refusal(chance.choice(codes), 20) if target.refuse is None else None

    def stick() -> None:
        target.stuck = not target.stuck
        target.step()

    def pause() -> None:
        driver = chance.choice(drivers)
        driver.client_drained() if driver.session.client_full else driver.client_full()

    def slow() -> None:
        draft.slow = not draft.slow

    def mute() -> None:
        draft.silent_to_target = not draft.silent_to_target

    ends = (LossCode.LAW, LossCode.DEAD_END)  # the request itself: the second time, or the first
    codes = [code for code in LossCode if code not in ends]
    lose = lambda: target.lose(chance.choice(codes)) if target.alive else None  # noqa: E731
    return [toggle(target), toggle(draft), toggle(draft), refuse, stick, pause, pause, slow, mute, lose, lose]


def calm(world: World, drivers: list[SessionDriver]) -> None:
    """End all faults."""
    for server in (*world.fake_targets, *world.fake_drafts):
        if not server.alive:
            server.start()
    for target in world.fake_targets:
        target.refuse, target.stuck = None, False
        target.step()
    for draft in world.fake_drafts:
        draft.slow = draft.silent_to_target = False
    for driver in drivers:
        driver.client_drained()


def run_with_faults(seed: int) -> None:
    chance = random.Random(seed)
    world = World(targets=2, drafts=2, limits=LIMITS, ties=Ties.SHUFFLED, seed=seed)
    recorders = [Recorder() for _ in PROMPTS]
    drivers = [
        world.drive(world.session(prompt, max_output=OUTPUT), gamma=chance.randrange(6), recorder=recorder)[0]
        for prompt, recorder in zip(PROMPTS, recorders, strict=True)
    ]
    for _ in range(25):
        world.clock.run_for(chance.randrange(60_000))
        chance.choice(faults(world, chance, drivers))()
    calm(world, drivers)
    world.clock.run()
    for prompt, recorder, driver in zip(PROMPTS, recorders, drivers, strict=True):
        assert recorder.error is None
        assert recorder.end is not None
        assert tuple(recorder.tokens) == text_after(prompt, OUTPUT)
        assert driver.session.phase is Phase.DONE
    assert world.clock.waiting == 0
    assert not world.tickets._listeners
    assert world.targets.pace._running == 0
    for server in (*world.fake_targets, *world.fake_drafts):
        assert not server.peer._members
        assert not server.sessions
    assert "failed_event" not in world.counts
    assert "protocol_fault" not in world.counts


@pytest.mark.parametrize("seed", range(60))
def test_random_faults(seed: int) -> None:
    run_with_faults(seed)


def test_planted_bug_a_session_that_moves_without_its_last_token_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = core.open_target

    def forgetful(session, *rest, **named):  # type: ignore[no-untyped-def]
        base = session.sequence.base
        if base:
            tokens = session.sequence.tokens[:-1]
            session = replace(session, sequence=Sequence.of(tokens, session.sequence.prompt_len))
        return opened(session, *rest, **named)

    monkeypatch.setattr(core, "open_target", forgetful)
    with pytest.raises(AssertionError):
        list(map(run_with_faults, range(20)))


@pytest.mark.parametrize("seed", range(20))
def test_cancelling_at_random_leaks_nothing(seed: int) -> None:
    chance = random.Random(seed)
    world = World(targets=2, drafts=2, limits=LIMITS, ties=Ties.SHUFFLED, seed=seed)
    drivers = [world.drive(world.session(prompt, max_output=OUTPUT))[0] for prompt in PROMPTS]
    for _ in range(8):
        world.clock.run_for(chance.randrange(50_000))
        chance.choice(faults(world, chance, drivers))()
    for driver in drivers:
        driver.abort()
    calm(world, drivers)
    world.clock.run()
    assert world.clock.waiting == 0
    assert not world.tickets._listeners
    assert world.targets.pace._running == 0
    for server in (*world.fake_targets, *world.fake_drafts):
        assert not server.peer._members
        assert not server.sessions
