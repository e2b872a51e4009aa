"""The targets of a deployment, and which one a session opens on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from foreword.protocol.info import ModelInfo, ServerInfo
from foreword.protocol.messages import TargetCommand, TargetEvent
from orchestrator.pools.identity import target_misfit
from orchestrator.pools.peer import Line, Peer, preference
from orchestrator.pools.waiting import Waiting

TargetPeer = Peer[TargetCommand, TargetEvent]


class Pace:
    """Lets a number of re-opens be unanswered at once; when a stream ends, all its sessions come at the same time."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._running = 0
        self._queue: deque[Callable[[], None]] = deque()
        self._starting = False

    def enter(self, start: Callable[[], None]) -> None:
        """Call `start` when there is room, perhaps at once; every start needs one `leave`."""
        self._queue.append(start)
        self._next()

    def leave(self) -> None:
        """Give the room to the next."""
        self._running -= 1
        self._next()

    def _next(self) -> None:
        if self._starting:
            return  # a start that gave its room back at once: the loop below goes on, however many do so
        self._starting = True
        try:
            while self._queue and self._running < self._at_once:
                self._running += 1
                self._queue.popleft()()
        finally:
            self._starting = False


class TargetPool:
    """All targets serve one model; the first that is reached says which, unless it is known from elsewhere."""

    def __init__(self, peers: Sequence[TargetPeer], *, reopens_at_once: int = 16) -> None:
        self.peers = tuple(peers)
        self.model: ModelInfo | None = None
        self.pace = Pace(reopens_at_once)
        self.waiting = Waiting()

    def came_up(self, peer: TargetPeer, line: Line[TargetCommand], info: ServerInfo, instance: str) -> None:
        """Take note of a link to a target that fits, and tell those who wait for one."""
        if self.model is None:
            self.model = info.model
        peer.came_up(line, info, instance)
        self.waiting.wake()

    def misfit(self, info: ServerInfo) -> str:
        """Return why a target does not fit the others, or an empty text."""
        if self.model is None:
            return "" if info.model is not None else "model: the target names none, wanted one that it runs"
        return target_misfit(self.model, info)

    def choose(self, avoid: frozenset[str]) -> TargetPeer | None:
        """Return the least busy target that is up, the nearest of those; None if there is none."""
        able = [peer for peer in self.peers if peer.up and peer.address not in avoid]
        return min(able, key=preference, default=None)
