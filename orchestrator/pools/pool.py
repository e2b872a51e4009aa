"""What the pools of targets and of drafts have in common: peers come and go, by address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

from foreword.protocol.generation import PeerInfo
from orchestrator.pools.names import Name
from orchestrator.pools.peer import Command, Event, Peer
from orchestrator.pools.waiting import Waiting


class Pool(Generic[Command, Event]):
    """Peers in the order in which they came, and the names that stand for some."""

    def __init__(self, peers: Iterable[Peer[Command, Event]] = ()) -> None:
        self._peers = {peer.address: peer for peer in peers}
        self._failures: dict[Name, str] = {}
        self.waiting = Waiting()

    @property
    def peers(self) -> tuple[Peer[Command, Event], ...]:
        """All peers that are known now, up or not."""
        return tuple(self._peers.values())

    def has_address(self, address: str) -> bool:
        """Whether a peer at this address is known."""
        return address in self._peers

    def add(self, peer: Peer[Command, Event]) -> None:
        """Take a peer in; it is used once its link is up."""
        self._peers[peer.address] = peer

    def remove(self, peer: Peer[Command, Event]) -> None:
        """Forget a peer whose link is down."""
        self._peers.pop(peer.address, None)

    def resolved(self, name: Name, failure: str = "") -> None:
        """Take note that a name resolves, or why it does not."""
        if failure:
            self._failures[name] = failure
        else:
            self._failures.pop(name, None)

    def without_instance(self) -> tuple[PeerInfo, ...]:
        """Return what clients may know of names that do not resolve and have no instance from before."""
        alive = {peer.name for peer in self._peers.values()}
        failures = ((name, why) for name, why in self._failures.items() if name not in alive)
        return tuple(PeerInfo(address=str(name), up=False, last_error=why) for name, why in failures)
