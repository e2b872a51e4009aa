"""What an engine has to say: collected over a step, then handed over as one batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import Enum

from draft_service.core.outcomes import Ending
from draft_service.engine_messages import Blocks, Bound, Drained, Events, FromEngine, Gauges, Released, Tallies
from foreword.protocol.messages import Block, DraftEvent, TargetAddress


class Fate(Enum):
    """What became of the preparation for an outcome."""

    PREPARED = "prepared"
    SHIPPED = "shipped"
    HIT = "hit"
    """The outcome came, and something was drawn for it."""
    MISS = "miss"
    """What came was not among what was prepared."""


class Outgoing:
    """Messages by receiver; blocks leave before anything that can wait."""

    def __init__(self) -> None:
        self._bound: list[Bound] = []
        self._blocks: defaultdict[str, list[Block]] = defaultdict(list)
        self._events: defaultdict[int, list[DraftEvent]] = defaultdict(list)
        self._released: list[Released] = []
        self._counts: Counter[str] = Counter()
        self._ahead: Counter[tuple[Fate, Ending]] = Counter()
        self._gauges: list[Gauges] = []
        self._last: list[Drained] = []

    def bind(self, stream: int, target: TargetAddress) -> None:
        """Say that a ticket came into use."""
        self._bound.append(Bound(stream, target))

    def release(self, ticket: bytes) -> None:
        """Say that a ticket is no longer in use."""
        self._released.append(Released(ticket))

    def push(self, target: str, block: Block) -> None:
        """Send a block to a target."""
        self._blocks[target].append(block)

    def tell(self, stream: int, event: DraftEvent) -> None:
        """Send an event to an orchestrator."""
        self._events[stream].append(event)

    def count(self, name: str) -> None:
        """Count something."""
        self._counts[name] += 1

    def foresaw(self, fate: Fate, ending: Ending) -> None:
        """Count what became of the preparation for an outcome, or of an outcome."""
        self._ahead[fate, ending] += 1

    def gauge(self, gauges: Gauges) -> None:
        """Report how busy the engine is, and what was counted meanwhile."""
        self._gauges.append(gauges)

    def drained(self) -> None:
        """Say that every session has been told to move; comes after what tells them."""
        self._last.append(Drained())

    def take(self) -> list[FromEngine]:
        """Return everything that was collected; counts wait for the next gauges."""
        batch: list[FromEngine] = [*self._bound]
        batch += [Blocks(target, tuple(blocks)) for target, blocks in self._blocks.items()]
        batch += [Events(stream, tuple(events)) for stream, events in self._events.items()]
        batch += self._released
        if self._gauges:
            ahead = tuple((fate.value, ending.value, times) for (fate, ending), times in self._ahead.items())
            batch += [Tallies(tuple(self._counts.items()), ahead), *self._gauges]
            self._counts.clear()
            self._ahead.clear()
        batch += self._last
        for pile in (self._bound, self._blocks, self._events, self._released, self._gauges, self._last):
            pile.clear()
        return batch
