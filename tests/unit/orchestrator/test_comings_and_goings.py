"""A whole deployment in virtual time whose targets come and go by a name: sessions move at their pace, texts stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from foreword.protocol.messages import TargetOpen
from orchestrator.core.state import Phase
from orchestrator.pools.names import Name, NameWatch
from orchestrator.pools.pace import Pace
from orchestrator.pools.prefixes import BLOCK
from orchestrator.pools.roster import Roster
from orchestrator.sessions.driver import SessionDriver
from tests.unit.orchestrator.test_names import Dns
from tests.unit.orchestrator.world import FakeTarget, Recorder, World, text_after

PROMPT = (1, 2, 3)
LENGTH = 40


class Site(World):
    """Targets are known by a name alone; one is dialled as soon as the name resolves to it, and answers if it runs."""

    def __init__(self, *, targets: int, drafts: int = 1, named: int = 2) -> None:
        super().__init__(targets=targets, drafts=drafts)
        for target in self.fake_targets:
            self.targets.remove(target.peer)
            target.alive = False
        self.dns = Dns(self.clock, *(target.address for target in self.fake_targets[:named]))
        self.roster = Roster(self.targets, lambda address, _: self.target(address).peer, self._dial)
        name = Name("targets", 1)
        for target in self.fake_targets:
            target.peer.went_down("not reached yet")
            target.peer.name = name
        self.watch = NameWatch(name, self.dns, self.roster.found, clock=self.clock, every_us=200_000)
        self.watch.start()
        self.clock.run_for(self.dns.takes_us)

    def target(self, address: str) -> FakeTarget:
        return next(target for target in self.fake_targets if target.address == address)

    def _dial(self, peer: object) -> Callable[[], None]:
        target = next(each for each in self.fake_targets if each.peer is peer)
        target.start()
        return lambda: None

    def run(self, sessions: int) -> list[tuple[SessionDriver, Recorder]]:
        return [self.drive(self.session(PROMPT, max_output=LENGTH)) for _ in range(sessions)]

    def finish(self) -> None:
        """Run until every session has had the time to end; a watch never ends by itself."""
        self.clock.run_for(20_000_000)
        self.watch.stop()


def check(running: list[tuple[SessionDriver, Recorder]]) -> None:
    for _, recorder in running:
        assert recorder.error is None
        assert tuple(recorder.tokens) == text_after(PROMPT, LENGTH)
        assert recorder.bases == sorted(set(recorder.bases))


@pytest.mark.parametrize("moment_us", [1_000, 5_400, 26_000, 47_500, 111_000])
def test_sessions_of_a_killed_target_go_on_elsewhere_and_nothing_is_lost_or_repeated(moment_us: int) -> None:
    site = Site(targets=2)
    running = site.run(8)
    assert [site.fake_targets[0].peer.busy, site.fake_targets[1].peer.busy] == [4, 4]
    site.clock.run_for(moment_us)
    site.fake_targets[0].kill("killed")
    site.dns.answer = frozenset({"target1"})
    site.finish()
    check(running)
    assert [peer.address for peer in site.targets.peers] == ["target1"]


@pytest.mark.parametrize(("at_once", "most"), [(2, 2), (4, 4), (100, 6)])
def test_a_lost_stream_is_no_burst_of_prefills(at_once: int, most: int) -> None:
    site = Site(targets=2, drafts=0)
    site.targets.pace = Pace(at_once)
    running = site.run(12)
    site.clock.run_for(60_000)
    site.fake_targets[0].kill("killed")
    opening = []
    for _ in range(200):
        site.clock.run_for(500)
        opening.append(sum(is_opening(driver) for driver, _ in running))
    assert max(opening) == most  # a pace that bounds nothing would let all six in
    site.finish()
    check(running)


def is_opening(driver: SessionDriver) -> bool:
    return driver.session.phase is Phase.OPENING and driver._target.peer is not None


def test_one_that_appears_takes_its_share_and_one_that_leaves_gets_no_more() -> None:
    site = Site(targets=3)
    first = site.run(4)
    site.dns.answer = frozenset({"target1", "target2"})
    site.clock.run_for(250_000)
    leaving, staying, new = site.fake_targets
    assert leaving.peer.up
    before = opens(leaving)
    second = site.run(6)
    site.clock.run_for(20_000)
    assert opens(leaving) == before
    assert len(new.sessions) >= len(staying.sessions) > 0
    site.finish()
    check(first + second)


def opens(target: FakeTarget) -> int:
    return sum(isinstance(message, TargetOpen) for message in target.sent)


def test_a_request_that_comes_while_the_name_does_not_resolve_is_served_when_it_does() -> None:
    site = Site(targets=1, named=0)
    (running,) = site.run(1)
    site.clock.run_for(1_000_000)
    assert running[1].tokens == []
    site.dns.answer = frozenset({"target0"})
    site.finish()
    check([running])


def test_a_conversation_goes_on_where_its_last_answer_was_written() -> None:
    world = World(targets=3, drafts=0)
    prompts = [(n,) * (BLOCK - 20) for n in (1, 2, 3)]  # shorter than any beginning; with the answer they are not
    first = [world.drive(world.session(prompt, max_output=LENGTH))[0] for prompt in prompts]
    places = [place_of(driver) for driver in first]
    assert len(set(places)) == 3
    world.clock.run()
    for prompt, place in reversed(list(zip(prompts, places, strict=True))):
        again = prompt + text_after(prompt, LENGTH) + (7, 7, 7)
        driver, _ = world.drive(world.session(again, max_output=4))
        assert place_of(driver) == place
        world.clock.run()
    assert world.counts["route_prefix"] == 2  # the third is on the target that is taken when nothing matters


def place_of(driver: SessionDriver) -> str:
    assert driver._target.peer is not None
    return driver._target.peer.address
