"""The targets of a deployment, and which one a session opens on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from foreword.protocol.generation import PeerInfo
from foreword.protocol.info import ModelInfo, ServerInfo
from foreword.protocol.messages import TargetCommand, TargetEvent
from orchestrator.pools.identity import target_misfit
from orchestrator.pools.pace import Pace
from orchestrator.pools.peer import Line, Peer, preference
from orchestrator.pools.pool import Pool
from orchestrator.pools.prefixes import Beginning, PrefixMemory

TargetPeer = Peer[TargetCommand, TargetEvent]

TOKENS_PER_SESSION = 256
"""Tokens of a known beginning that outweigh one session more.

A session more costs the one that joins it a row in each of its steps, T rows for T tokens of output; a beginning of L
tokens that is not there costs L rows. Where a step's time is linear in its rows, going to the beginning pays while
L > T for every session more; T is what an answer usually has. Where a step's time is flat, decoding beside others
costs less, so this errs on the side of load.
"""
MOST_SESSIONS = 16
"""What any beginning outweighs at most: beyond it targets run out of room, which no saved prefill makes good."""

_TOLD = 4
"""Targets of which an error tells why they are of no use."""


class TargetPool(Pool[TargetCommand, TargetEvent]):
    """All targets serve one model; the first that is reached says which, unless it is known from elsewhere."""

    def __init__(
        self,
        peers: Iterable[TargetPeer] = (),
        *,
        reopens_at_once: int = 16,
        by_prefix: bool = True,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(peers)
        self.model: ModelInfo | None = None
        self.pace = Pace(reopens_at_once)
        self._by_prefix = by_prefix
        self._prefixes = PrefixMemory()
        self._count = count

    @property
    def by_prefix(self) -> bool:
        """Whether beginnings matter: there is a choice, and it is to be made by them."""
        return self._by_prefix and len(self._peers) > 1

    def came_up(self, peer: TargetPeer, line: Line[TargetCommand], info: ServerInfo, instance: str) -> None:
        """Take note of a link to a target that fits, and tell those who wait for one."""
        if self.model is None:
            self.model = info.model
        if peer.instance != instance:
            self._prefixes.forget(peer.instance)  # the process that had them cached has been replaced
        peer.came_up(line, info, instance)
        self.waiting.wake()

    def remove(self, peer: TargetPeer) -> None:
        """Forget a target whose link is down, and what it was sent."""
        super().remove(peer)
        self._prefixes.forget(peer.instance)

    def describe(self) -> tuple[PeerInfo, ...]:
        """Return what clients may know of the targets."""
        return (*(peer.describe(trusted=True) for peer in self.peers), *self.without_instance())

    @property
    def troubles(self) -> str:
        """Why targets cannot be used, in brackets after a blank; nothing where none is known."""
        known = [f"{peer.address}: {peer.last_error}" for peer in self.describe() if peer.last_error][:_TOLD]
        return f" ({'; '.join(known)})" if known else ""

    def misfit(self, info: ServerInfo) -> str:
        """Return why a target does not fit the others, or an empty text."""
        if self.model is None:
            return "" if info.model is not None else "model: the target names none, wanted one that it runs"
        return target_misfit(self.model, info)

    def choose(self, avoid: frozenset[str], beginnings: Sequence[Beginning] = ()) -> TargetPeer | None:
        """Return the target that is up and costs a session least; None if there is none.

        Of those that stay, it is the least busy and then the nearest; a target that was sent the beginning of the
        session's text counts as less busy by one session for each TOKENS_PER_SESSION of it.
        """
        able = [peer for peer in self.peers if peer.up and peer.address not in avoid]
        if not beginnings or len(able) < 2:
            return min(able, key=preference, default=None)
        matched = {peer.address: self._prefixes.matched(peer.instance, beginnings) for peer in able}

        def cost(peer: TargetPeer) -> tuple[bool, int, int]:
            leaving, busy, distance = preference(peer)
            saved = min(matched[peer.address], MOST_SESSIONS * TOKENS_PER_SESSION)
            return leaving, busy * TOKENS_PER_SESSION - saved, distance

        chosen = min(able, key=cost)
        self._tell(matched, chosen, least_busy=min(able, key=preference))
        return chosen

    def sent(self, peer: TargetPeer, beginnings: Sequence[Beginning]) -> None:
        """Take note of what a session has a target read, or left there."""
        if beginnings:
            self._prefixes.sent(peer.instance, beginnings)

    def _tell(self, matched: dict[str, int], chosen: TargetPeer, *, least_busy: TargetPeer) -> None:
        """Count what became of a beginning that some target was sent."""
        longest = max(matched.values())
        if not longest:
            return
        if matched[chosen.address] < longest:
            self._count("route_load_over_prefix")
        else:
            self._count("route_prefix" if chosen is not least_busy else "route_prefix_and_load")
