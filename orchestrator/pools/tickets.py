"""Draft assignments that are in use, by ticket."""

from __future__ import annotations

from collections.abc import Callable

from foreword.protocol.messages import LinkState

TICKET_BYTES = 16

Listener = Callable[[LinkState], None]


class Tickets:
    """Mints tickets, and brings what either end of a draft–target link reports to the session that it is about."""

    def __init__(self, entropy: Callable[[int], bytes]) -> None:
        self._entropy = entropy
        self._listeners: dict[bytes, Listener] = {}

    def mint(self, listener: Listener) -> bytes:
        """Return a new ticket; reports that name it go to `listener` until it is dropped."""
        ticket = self._entropy(TICKET_BYTES)
        self._listeners[ticket] = listener
        return ticket

    def drop(self, ticket: bytes) -> None:
        """Forget a ticket; without effect if it is not known."""
        self._listeners.pop(ticket, None)

    def tell(self, report: LinkState) -> bool:
        """Bring a report to whom it is about; returns False if its ticket is not in use."""
        listener = self._listeners.get(report.ticket)
        if listener is None:
            return False
        listener(report)
        return True
