"""The drafts of a deployment, which of them are trusted, and which one writes for a session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from foreword.protocol.generation import PeerInfo
from foreword.protocol.info import ModelInfo, ServerInfo
from foreword.protocol.messages import DraftCommand, DraftEvent
from foreword.protocol.words import Drafter
from orchestrator.measure.window import Window
from orchestrator.pools.identity import draft_misfit
from orchestrator.pools.peer import Line, Peer, preference
from orchestrator.pools.pool import Pool

LAG_WINDOW = 64
"""Block lags remembered for each draft and target."""

DraftPeer = Peer[DraftCommand, DraftEvent]


@dataclass(frozen=True, slots=True)
class Trust:
    """Which drafts are believed when they say what they drew from: by what the settings say of whom this end dials."""

    everyone: bool = False
    sources: frozenset[str] = frozenset()
    """Addresses, and names with all their instances."""

    def of(self, source: str) -> bool:
        """Whether the drafts that this entry of the settings stands for are trusted."""
        return self.everyone or source in self.sources


@dataclass(frozen=True, slots=True)
class Wish:
    """Which drafts may write for a session."""

    drafter: Drafter | None = None
    """A kind of draft; None takes any."""
    name: str = ""
    """A draft service by its name, which is its model's where it has one; empty takes any."""
    trusted: bool = False
    """Only trusted ones, because the rule believes what the draft says."""


class DraftPool(Pool[DraftCommand, DraftEvent]):
    """Drafts come and go; a session asks for one, and again when there is none."""

    def __init__(self, trust: Trust, peers: Iterable[DraftPeer] = ()) -> None:
        super().__init__(peers)
        self._trust = trust
        self._lags: dict[tuple[str, str], Window] = {}

    def trusts(self, peer: DraftPeer) -> bool:
        """Whether a draft is trusted."""
        return self._trust.of(peer.source)

    def has(self, wish: Wish) -> bool:
        """Whether a draft that is configured could fulfil the wish, up or not, as far as is known."""
        return any(self._fulfils(peer, wish) for peer in self.peers)

    def came_up(self, peer: DraftPeer, line: Line[DraftCommand], info: ServerInfo, instance: str) -> None:
        """Take note of a link to a draft, and tell those who wait for one."""
        peer.came_up(line, info, instance)
        self.waiting.wake()

    def describe(self, model: ModelInfo | None) -> tuple[PeerInfo, ...]:
        """Return what clients may know of the drafts of `model`."""
        drafts = (peer.describe(trusted=self.trusts(peer), fault=self.misfit(peer, model)) for peer in self.peers)
        return (*drafts, *self.without_instance())

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

    def remove(self, peer: DraftPeer) -> None:
        """Forget a draft whose link is down, and its block lags."""
        super().remove(peer)
        self.forget(peer.address)

    def forget(self, address: str) -> None:
        """Forget the block lags of a draft or target that is gone."""
        self._lags = {pair: lags for pair, lags in self._lags.items() if address not in pair}

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
        return not wish.name or peer.info.called == wish.name
