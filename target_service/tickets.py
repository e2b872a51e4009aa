"""Tickets of sessions that are open, as the gRPC process knows them: at least those that the engine knows."""

from __future__ import annotations

from collections import Counter, deque

MOST_OF_A_SESSION = 8
"""The engine knows two: the newest, and the one that the last Commit used."""


class OpenTickets:
    """Tickets by session; a session is a stream and its sid."""

    def __init__(self) -> None:
        self._of_session: dict[tuple[int, int], deque[bytes]] = {}
        self._known: Counter[bytes] = Counter()

    def __contains__(self, ticket: bytes) -> bool:
        return ticket in self._known

    def named(self, stream: int, sid: int, ticket: bytes) -> None:
        """Note a ticket of a session; the oldest one goes when there are too many."""
        tickets = self._of_session.setdefault((stream, sid), deque())
        tickets.append(ticket)
        self._known[ticket] += 1
        if len(tickets) > MOST_OF_A_SESSION:
            self._forget(tickets.popleft())

    def over(self, stream: int, sid: int) -> None:
        """Forget a session."""
        for ticket in self._of_session.pop((stream, sid), ()):
            self._forget(ticket)

    def _forget(self, ticket: bytes) -> None:
        self._known[ticket] -= 1
        if not self._known[ticket]:
            del self._known[ticket]
