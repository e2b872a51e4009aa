"""Which draft's stream each ticket's blocks come over."""

from __future__ import annotations


class Links:
    """Tickets by link and links by ticket; only tickets of open sessions are remembered."""

    def __init__(self) -> None:
        self._link_of: dict[bytes, int] = {}
        self._tickets_of: dict[int, set[bytes]] = {}

    def of(self, ticket: bytes) -> int | None:
        """Return the link over which the ticket's last block came, None if there is none or it ended."""
        return self._link_of.get(ticket)

    def used(self, ticket: bytes, link: int) -> bool:
        """Note that a block of this ticket came over this link; return whether the ticket was not on it before."""
        before = self._link_of.get(ticket)
        if before == link:
            return False
        if before is not None:
            self._tickets_of[before].discard(ticket)
        self._link_of[ticket] = link
        self._tickets_of.setdefault(link, set()).add(ticket)
        return True

    def forget(self, ticket: bytes) -> None:
        """Forget a ticket that ended."""
        link = self._link_of.pop(ticket, None)
        if link is not None:
            self._tickets_of[link].discard(ticket)

    def ended(self, link: int) -> list[bytes]:
        """Forget a link; return the tickets that were on it."""
        tickets = sorted(self._tickets_of.pop(link, set()))
        for ticket in tickets:
            del self._link_of[ticket]
        return tickets
