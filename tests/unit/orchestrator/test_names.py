"""Names that stand for instances: when they are looked up, who is dialled, who is dropped, what is said of them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import structlog
from structlog.testing import capture_logs

from foreword.errors import Unavailable
from foreword.testing.virtual_clock import VirtualClock
from orchestrator.pools import roster as roster_module
from orchestrator.pools.drafts import Trust
from orchestrator.pools.names import LEAST_US, Answer, Name, NameWatch
from orchestrator.pools.peer import Peer
from orchestrator.pools.roster import Roster
from orchestrator.pools.targets import TargetPeer, TargetPool
from orchestrator.resolver import SystemResolver
from tests.unit.orchestrator.test_pools import NOBODY, Line, info, tickets

NAME = Name("targets", 5)
EVERY_US = 5_000_000
A, B, C = "10.0.0.1:5", "10.0.0.2:5", "10.0.0.3:5"


class Dns:
    """A resolver whose answers take their time."""

    def __init__(self, clock: VirtualClock, *addresses: str, takes_us: int = 1_000) -> None:
        self.answer: Answer = frozenset(addresses)
        self.asked_us: list[int] = []
        self.takes_us = takes_us
        self._clock = clock

    def __call__(self, name: Name, answered: Callable[[Answer], None]) -> None:
        self.asked_us.append(self._clock.now_us())
        self._clock.call_later(self.takes_us, lambda: answered(self.answer))


class Site:
    """A pool of targets behind one name; whoever is dialled comes up when `up` says so."""

    def __init__(self, *addresses: str, takes_us: int = 1_000) -> None:
        self.clock = VirtualClock()
        self.dns = Dns(self.clock, *addresses, takes_us=takes_us)
        self.pool = TargetPool()
        self.dialled: list[str] = []
        self.stopped: list[str] = []
        self.roster = Roster(self.pool, self._make, self._dial)
        self.watch = NameWatch(NAME, self.dns, self.roster.found, clock=self.clock, every_us=EVERY_US)
        self.watch.start()

    def _make(self, address: str, name: Name | None) -> TargetPeer:
        return Peer(address, tickets(), lambda _: None, name=name)

    def _dial(self, peer: TargetPeer) -> Callable[[], None]:
        self.dialled.append(peer.address)
        return lambda: self.stopped.append(peer.address)

    def resolves_to(self, *addresses: str) -> None:
        self.dns.answer = frozenset(addresses)

    def look_again(self) -> None:
        self.clock.run_for(EVERY_US + self.dns.takes_us)

    def peer(self, address: str) -> TargetPeer:
        return next(peer for peer in self.pool.peers if peer.address == address)

    def up(self, *addresses: str) -> None:
        for address in addresses:
            self.pool.came_up(self.peer(address), Line(), info(), f"instance of {address}")

    @property
    def known(self) -> list[str]:
        return sorted(peer.address for peer in self.pool.peers)


def test_names_are_told_from_addresses() -> None:
    assert Name.parse("dns:///targets.svc:5") == Name("targets.svc", 5)
    assert Name.parse("targets.svc:5") is None
    assert str(NAME) == "dns:///targets:5"
    assert NAME.authority == "targets:5"


def test_every_address_of_a_name_is_an_instance() -> None:
    site = Site(A, B)
    assert site.known == []
    site.clock.run_for(1_000)
    assert site.known == site.dialled == [A, B]
    assert [peer.source for peer in site.pool.peers] == ["dns:///targets:5"] * 2
    site.look_again()
    assert site.dialled == [A, B]


def test_one_that_appears_is_dialled_and_one_that_vanishes_is_dropped_once_its_link_is_down() -> None:
    site = Site(A, B)
    site.clock.run_for(1_000)
    site.up(A, B)
    site.resolves_to(B, C)
    site.look_again()
    assert site.dialled == [A, B, C]
    assert site.known == [A, B, C]
    assert site.stopped == []
    site.peer(A).went_down("ended")
    site.look_again()
    assert site.known == [B, C]
    assert site.stopped == [A]


def test_one_that_was_never_reached_is_dropped_at_once_and_may_come_back() -> None:
    site = Site(A, B)
    site.clock.run_for(1_000)
    site.resolves_to(B)
    site.look_again()
    assert (site.known, site.stopped) == ([B], [A])
    site.resolves_to(A, B)
    site.look_again()
    assert (site.known, site.dialled) == ([A, B], [A, B, A])


def test_one_that_is_down_but_still_listed_stays() -> None:
    site = Site(A)
    site.clock.run_for(1_000)
    site.up(A)
    site.peer(A).went_down("restarts")
    site.look_again()
    assert (site.known, site.stopped) == ([A], [])


def test_new_sessions_keep_away_from_one_that_the_name_has_lost() -> None:
    site = Site(A, B)
    site.clock.run_for(1_000)
    site.up(A, B)
    for _ in range(9):
        site.peer(B).join(object())  # type: ignore[arg-type]
    site.resolves_to(B)
    site.look_again()
    chosen = site.pool.choose(NOBODY)
    assert chosen is not None
    assert chosen.address == B
    assert [told.last_error for told in site.pool.describe()] == ["its name no longer resolves to it", ""]
    site.resolves_to(A, B)
    site.look_again()
    assert site.pool.choose(NOBODY) is site.peer(A)


def test_while_a_name_does_not_resolve_everybody_stays_and_it_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster_module, "_log", structlog.get_logger())
    site = Site(A, B)
    site.clock.run_for(1_000)
    site.up(A)
    with capture_logs() as logs:
        site.dns.answer = Unavailable("no server answers")
        for _ in range(3):
            site.look_again()
        assert (site.known, site.stopped) == ([A, B], [])
        site.resolves_to(A)
        site.look_again()
    assert site.known == [A]
    assert [line["event"] for line in logs] == ["name does not resolve", "name resolves again", "instance gone"]
    assert logs[0]["kept"] == [A, B]


def test_a_name_without_an_instance_is_told_to_clients() -> None:
    site = Site()
    site.dns.answer = Unavailable("name targets: cannot be resolved")
    site.clock.run_for(1_000)
    (told,) = site.pool.describe()
    assert (told.address, told.up) == ("dns:///targets:5", False)
    assert "cannot be resolved" in told.last_error
    site.resolves_to(A, B)
    site.look_again()
    assert [told.address for told in site.pool.describe()] == [A, B]
    site.dns.answer = Unavailable("again")
    site.look_again()
    assert [told.address for told in site.pool.describe()] == [A, B]


def test_a_lost_link_hurries_the_look_up_and_a_hundred_hurry_it_once() -> None:
    site = Site(A, B)
    site.clock.run_for(1_000_000)
    for _ in range(100):
        site.watch.hurry()
    site.clock.run_for(1_000)
    assert site.dns.asked_us == [0, 1_000_000]
    site.watch.hurry()
    site.clock.run_for(LEAST_US - 1_001)
    assert len(site.dns.asked_us) == 2
    site.clock.run_for(EVERY_US)
    assert site.dns.asked_us[2:] == [1_000_000 + LEAST_US]
    site.clock.run_for(LEAST_US)
    assert site.dns.asked_us[3:] == [1_000_000 + LEAST_US + EVERY_US]


def test_a_slow_look_up_is_waited_for() -> None:
    site = Site(A, takes_us=2 * EVERY_US)
    site.watch.hurry()
    site.clock.run_for(2 * EVERY_US - 1)
    assert site.dns.asked_us == [0]
    site.clock.run_for(1)
    assert site.dns.asked_us == [0, 2 * EVERY_US]


def test_a_watch_that_is_stopped_asks_nothing_and_hears_nothing() -> None:
    site = Site(A)
    site.watch.stop()
    site.watch.hurry()
    site.clock.run_for(3 * EVERY_US)
    assert (site.dns.asked_us, site.known) == ([0], [])


def test_an_address_of_two_entries_is_dialled_once() -> None:
    site = Site(A, B)
    site.roster.add(A)
    site.clock.run_for(1_000)
    assert site.dialled == [A, B]
    site.resolves_to(B)
    site.look_again()
    assert site.known == [A, B]  # the settings list it, whatever the name says


def test_trust_in_a_name_is_trust_in_its_instances() -> None:
    site = Site(A)
    site.clock.run_for(1_000)
    assert Trust(sources=frozenset({"dns:///targets:5"})).of(site.peer(A).source)
    assert not Trust(sources=frozenset({A})).of(site.peer(A).source)


async def answer_of(name: Name) -> Answer:
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    SystemResolver()(name, future.set_result)
    return await asyncio.wait_for(future, 30)


async def test_the_machine_resolves_addresses_as_they_are() -> None:
    assert await answer_of(Name("127.0.0.1", 7)) == {"127.0.0.1:7"}
    assert await answer_of(Name("::1", 7)) == {"[::1]:7"}


@pytest.mark.parametrize("error", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")])
async def test_what_the_machine_cannot_resolve_is_an_answer_too(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> object:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    answer = await answer_of(Name("nowhere", 7))
    assert isinstance(answer, Unavailable)
    assert "name nowhere: cannot be resolved" in answer.message
