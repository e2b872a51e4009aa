"""Who is in a pool: what the settings list, and what their names resolve to now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

import structlog

from foreword.errors import ForewordError
from orchestrator.pools.names import Addresses, Answer, Name
from orchestrator.pools.peer import Command, Event, Peer
from orchestrator.pools.pool import Pool

_log = structlog.stdlib.get_logger(__name__)

Stop = Callable[[], None]


class Roster(Generic[Command, Event]):
    """Adds peers to a pool as they appear, and takes them out when their name has lost them and their link is down.

    A link that is up outlasts the name's entry: a pod that is being ended leaves DNS first and its sessions later.
    While a name does not resolve, whoever it stood for stays: a DNS server that is down is no reason to lose a target.
    """

    def __init__(
        self,
        pool: Pool[Command, Event],
        make: Callable[[str, Name | None], Peer[Command, Event]],
        dial: Callable[[Peer[Command, Event]], Stop],
    ) -> None:
        """Take the pool, what makes a peer of an address, and what keeps its link up until it is stopped."""
        self._pool = pool
        self._make = make
        self._dial = dial
        self._stops: dict[str, Stop] = {}
        self._failing: set[Name] = set()

    def add(self, address: str, name: Name | None = None) -> None:
        """Take in the peer at an address, unless it is there already, and begin to dial it."""
        if self._pool.has_address(address):
            return
        peer = self._make(address, name)
        self._pool.add(peer)
        self._stops[address] = self._dial(peer)

    def found(self, name: Name, answer: Answer) -> None:
        """Take what a name resolves to, or why it does not."""
        if isinstance(answer, ForewordError):
            self._failed(name, answer)
            return
        if name in self._failing:
            self._failing.remove(name)
            _log.info("name resolves again", name=str(name))
        self._pool.resolved(name)
        self._compare(name, answer)

    def _failed(self, name: Name, error: ForewordError) -> None:
        self._pool.resolved(name, error.message)
        if name not in self._failing:  # once, and not at every look-up
            self._failing.add(name)
            kept = [peer.address for peer in self._pool.peers if peer.name == name]
            _log.warning("name does not resolve", name=str(name), reason=error.message, kept=kept)

    def _compare(self, name: Name, addresses: Addresses) -> None:
        for peer in self._pool.peers:
            if peer.name != name:
                continue
            peer.listed = peer.address in addresses
            if not peer.listed and not peer.up:
                self._drop(peer)
        for address in sorted(addresses):
            if not self._pool.has_address(address):
                _log.info("instance found", name=str(name), peer=address)
                self.add(address, name)

    def _drop(self, peer: Peer[Command, Event]) -> None:
        _log.info("instance gone", name=str(peer.name), peer=peer.address, reason=peer.last_error)
        self._stops.pop(peer.address)()
        self._pool.remove(peer)
