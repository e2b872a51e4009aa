"""The drafts of a deployment, which of them are trusted, and which one writes for a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foreword.protocol.info import ModelInfo, ServerInfo
from foreword.protocol.messages import DraftCommand, DraftEvent
from foreword.protocol.words import Drafter
from orchestrator.measure.window import Window
from orchestrator.pools.identity import draft_misfit
from orchestrator.pools.peer import Line, Peer, preference
from orchestrator.pools.waiting import Waiting

LAG_WINDOW = 64
"""Block lags remembered for each draft and target."""

DraftPeer = Peer[DraftCommand, DraftEvent]


@dataclass(frozen=True, slots=True)
class Trust:
    """Which drafts are believed when they say what they drew from; by the address that this end dials."""

    everyone: bool = False
    addresses: frozenset[str] = frozenset()

    def of(self, address: str) -> bool:
        """Whether the draft at this address is trusted."""
        return self.everyone or address in self.addresses


@dataclass(frozen=True, slots=True)
class Wish:
    """Which drafts may write for a session."""

    drafter: Drafter | None = None
    """A kind of draft; None takes any."""
    name: str = ""
    """A draft service by its model's name; empty takes any."""
    trusted: bool = False
    """Only trusted ones, because the rule believes what the draft says."""


class DraftPool:
    """Drafts come and go; a session asks for one, and again when there is none."""

    def __init__(self, peers: Sequence[DraftPeer], trust: Trust) -> None:
        self.peers = tuple(peers)
        self._trust = trust
        self.waiting = Waiting()
        self._lags: dict[tuple[str, str], Window] = {}

    def trusts(self, peer: DraftPeer) -> bool:
        """Whether a draft is trusted."""
        return self._trust.of(peer.address)

    def has(self, wish: Wish) -> bool:
        """Whether a draft that is configured could fulfil the wish, up or not, as far as is known."""
        return any(self._fulfils(peer, wish) for peer in self.peers)

    def came_up(self, peer: DraftPeer, line: Line[DraftCommand], info: ServerInfo, instance: str) -> None:
        """Take note of a link to a draft, and tell those who wait for one."""
        peer.came_up(line, info, instance)
        self.waiting.wake()

    def choose(self, wish: Wish, model: ModelInfo | None, avoid: frozenset[str]) -> DraftPeer | None:
        """Return the least busy draft that is up, fits the model and fulfils the wish; None if there is none."""
        able = [
            peer
            for peer in self.peers
            if peer.up and peer.address not in avoid and self._fulfils(peer, wish) and not self.misfit(peer, model)
        ]
        return min(able, key=preference, default=None)

    def misfit(self, peer: DraftPeer, model: ModelInfo | None) -> str:
        """Return why a draft cannot write for the model, or an empty text."""
        return draft_misfit(model, peer.info) if model is not None and peer.info is not None else ""

    def lags(self, draft: str, target: str) -> Window:
        """Return the block lags between these two addresses."""
        return self._lags.setdefault((draft, target), Window(LAG_WINDOW))

    def _fulfils(self, peer: DraftPeer, wish: Wish) -> bool:
        if wish.trusted and not self.trusts(peer):
            return False
        if peer.info is None:
            return True
        if wish.drafter is not None and peer.info.drafter is not wish.drafter:
            return False
        return not wish.name or (peer.info.model is not None and peer.info.model.name == wish.name)
