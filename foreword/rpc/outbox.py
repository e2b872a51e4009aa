"""What one end of a stream has to send: bounded, in order, with long prompts behind everything urgent."""

from __future__ import annotations

from collections import Counter, deque

from foreword.wire.frames import Encoded

MOST_ENTRIES = 1_000
"""Messages in one frame, under what is taken from drafts."""


class Outbox:
    """Entries that wait for the transport.

    Messages leave in the order in which they came, but for prompts that need several entries: those go to a second
    queue, of which one entry rides in each frame, so that a long prompt never stands in front of other sessions'
    commits. A session's later messages queue up behind its own prompt.
    """

    def __init__(self) -> None:
        self._urgent: deque[bytes] = deque()
        self._bulk: deque[tuple[int | None, bytes]] = deque()
        self._bulk_sids: Counter[int | None] = Counter()
        self.queued_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._urgent or self._bulk)

    def put(self, message: Encoded) -> None:
        """Queue the entries of one message."""
        self.queued_bytes += sum(map(len, message.entries))
        if len(message.entries) == 1 and message.sid not in self._bulk_sids:
            self._urgent.extend(message.entries)
            return
        self._bulk.extend((message.sid, entry) for entry in message.entries)
        self._bulk_sids[message.sid] += len(message.entries)

    def take(self, budget: int, *, most: int = MOST_ENTRIES) -> list[bytes]:
        """Return the entries of the next frame: up to `budget` bytes or one entry, and one entry of a long prompt.

        There are at most `most` of them, the last one left out.
        """
        entries: list[bytes] = []
        size = 0
        while self._urgent and len(entries) < most and (not entries or size + len(self._urgent[0]) <= budget):
            entry = self._urgent.popleft()
            entries.append(entry)
            size += len(entry)
        if self._bulk:  # whatever the size, so that urgent messages never starve it
            sid, entry = self._bulk.popleft()
            entries.append(entry)
            size += len(entry)
            self._bulk_sids[sid] -= 1
            if not self._bulk_sids[sid]:
                del self._bulk_sids[sid]
        self.queued_bytes -= size
        return entries

    def clear(self) -> None:
        """Drop everything."""
        self._urgent.clear()
        self._bulk.clear()
        self._bulk_sids.clear()
        self.queued_bytes = 0
