"""Blocks whose ticket the target did not know: offered again after a short while, while they are the newest."""

from __future__ import annotations

import heapq

from draft_service.engine.table import Entry

FIRST_NS = 2_000_000
"""Wait before the first repetition; doubles each time, up to the next constant."""
LONGEST_NS = 256_000_000

_Named = tuple[int, int]


class Offers:
    """A queue of repetitions by time."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, Entry, _Named | None]] = []
        self._sequence = 0

    def add(self, entry: Entry, now_ns: int) -> None:
        """Plan the next repetition of the block that is out."""
        wait_ns = min(LONGEST_NS, FIRST_NS << min(entry.offered, 16))
        entry.offered += 1
        self._sequence += 1
        heapq.heappush(self._queue, (now_ns + wait_ns, self._sequence, entry, _named(entry)))

    def next_ns(self) -> int | None:
        """Return when the next repetition is due; None without one."""
        return self._queue[0][0] if self._queue else None

    def due(self, now_ns: int) -> list[Entry]:
        """Return the sessions whose block is to be offered again now."""
        entries = []
        while self._queue and self._queue[0][0] <= now_ns:
            _, _, entry, named = heapq.heappop(self._queue)
            if named is not None and named == _named(entry):
                entries.append(entry)
        return entries


def _named(entry: Entry) -> _Named | None:
    writing = entry.session.writing
    return None if writing is None else (writing.round, writing.digest)
