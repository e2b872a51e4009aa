"""Keeps links to all targets and drafts of the settings, and looks their names up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from foreword.clock import Clock
from foreword.rpc.dialler import Dialler
from orchestrator.links import Reach, draft_dialler, target_dialler
from orchestrator.pools.drafts import DraftPeer, DraftPool
from orchestrator.pools.names import LookUp, Name, NameWatch
from orchestrator.pools.peer import Peer
from orchestrator.pools.roster import Roster, Stop
from orchestrator.pools.targets import TargetPeer, TargetPool
from orchestrator.pools.tickets import Tickets

FAREWELL_S = 1.0
"""Time in which links end in good order at shutdown."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """How names are looked up, and how often."""

    look_up: LookUp
    every_us: int


@dataclass(frozen=True, slots=True)
class Pools:
    """What the links are kept for."""

    targets: TargetPool
    drafts: DraftPool
    tickets: Tickets
    count: Callable[[str], None]


class Keeper:
    """One dialler for each address, one watch for each name.

    `targets_changed` is called when a target has come up or gone down.
    """

    def __init__(
        self, pools: Pools, reach: Reach, lookups: Lookups, *, clock: Clock, targets_changed: Callable[[], None]
    ) -> None:
        self._pools = pools
        self._reach = reach
        self._lookups = lookups
        self._clock = clock
        self._targets_changed = targets_changed
        self._watches: dict[tuple[str, Name], NameWatch] = {}
        self._diallers: dict[Dialler[Any, Any], asyncio.Task[None]] = {}
        self._targets = Roster(pools.targets, self._new_target, self._dial_target)
        self._drafts = Roster(pools.drafts, self._new_draft, self._dial_draft)

    def start(self, *, targets: Iterable[str], drafts: Iterable[str]) -> None:
        """Reach everybody that the settings name."""
        self._open("target", self._targets, targets)
        self._open("draft", self._drafts, drafts)

    async def close(self) -> None:
        """End the links in good order, so that what was sent last arrives; not for ever."""
        for watch in self._watches.values():
            watch.stop()
        for dialler in self._diallers:
            dialler.stop()
        tasks = list(self._diallers.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=FAREWELL_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _open(self, kind: str, roster: Roster[Any, Any], entries: Iterable[str]) -> None:
        for entry in entries:
            name = Name.parse(entry)
            if name is None:
                roster.add(entry)
                continue
            look_up, every_us = self._lookups.look_up, self._lookups.every_us
            watch = NameWatch(name, look_up, roster.found, clock=self._clock, every_us=every_us)
            self._watches[kind, name] = watch
            watch.start()

    def _new_target(self, address: str, name: Name | None) -> TargetPeer:
        return TargetPeer(address, self._pools.tickets, self._pools.count, name=name)

    def _new_draft(self, address: str, name: Name | None) -> DraftPeer:
        return DraftPeer(address, self._pools.tickets, self._pools.count, name=name)

    def _dial_target(self, peer: TargetPeer) -> Stop:
        changed, lost = self._targets_changed, partial(self._lost, "target", peer)
        dialler = target_dialler(peer, self._pools.targets, self._reach, self._clock.now_us, changed=changed, lost=lost)
        stop = self._keep(dialler)

        def leave() -> None:
            stop()
            self._pools.drafts.forget(peer.address)

        return leave

    def _dial_draft(self, peer: DraftPeer) -> Stop:
        pools, lost = self._pools, partial(self._lost, "draft", peer)
        return self._keep(draft_dialler(peer, pools.drafts, pools.targets, self._reach, self._clock.now_us, lost=lost))

    def _lost(self, kind: str, peer: Peer[Any, Any]) -> None:
        """A link that was up is down: if it went by a name, see who is there now."""
        watch = self._watches.get((kind, peer.name)) if peer.name is not None else None
        if watch is not None:
            watch.hurry()

    def _keep(self, dialler: Dialler[Any, Any]) -> Stop:
        """Dial until stopped; whoever is stopped is not reached in the middle of an attempt either."""
        task = self._diallers[dialler] = asyncio.get_running_loop().create_task(dialler.run())

        def stop() -> None:
            del self._diallers[dialler]
            dialler.stop()
            task.cancel()

        return stop
