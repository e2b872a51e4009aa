"""Short names for tickets within one PushBlocks stream: the first block names the ticket, others the handle."""

from __future__ import annotations

from foreword.errors import ProtocolFault
from foreword.wire.common import read_key


class HandleEncoder:
    """Gives every ticket a handle; a ticket that was forgotten is named anew.

    It forgets in the order of naming and remembers at most half of what the peer does, so that the peer knows every
    handle that it uses without the ticket.
    """

    def __init__(self, peer_remembers: int) -> None:
        self._known: dict[bytes, int] = {}
        self._tickets: dict[int, bytes] = {}
        self._most = max(1, peer_remembers // 2)
        self._remembers = peer_remembers
        self._next = 1

    def name(self, ticket: bytes) -> tuple[int, bool]:
        """Return the ticket's handle and whether the ticket must go with it."""
        handle = self._known.get(ticket)
        if handle is not None:
            return handle, False
        read_key("block.ticket", ticket)
        handle, self._next = self._next, self._next + 1
        self._known[ticket], self._tickets[handle] = handle, ticket
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        if len(self._tickets) > self._remembers:
            del self._tickets[next(iter(self._tickets))]
        return handle, True

    def ticket(self, handle: int) -> bytes | None:
        """Return the ticket that a receipt's handle means; None if it was never named or is long forgotten."""
        return self._tickets.get(handle)


class HandleDecoder:
    """Resolves the handles of one stream; memory is bounded, the oldest names go first."""

    def __init__(self, remembers: int) -> None:
        self._tickets: dict[int, bytes] = {}
        self._handles: dict[bytes, int] = {}
        self._remembers = remembers

    def resolve(self, handle: int, ticket: bytes | None) -> bytes:
        """Return the handle's ticket; raises ProtocolFault or InvalidField."""
        known = self._tickets.get(handle)
        if ticket is None:
            if known is None:
                raise ProtocolFault(f"block.handle: got {handle}, wanted one that an earlier block named")
            return known
        if known is not None and known != ticket:
            raise ProtocolFault(f"block.handle: got {handle} for a second ticket, wanted each handle for one")
        self._remember(handle, read_key("block.ticket", ticket))
        return ticket

    def handle(self, ticket: bytes) -> int:
        """Return the newest handle of a ticket; raises ProtocolFault if this stream never named it."""
        handle = self._handles.get(ticket)
        if handle is None:
            raise ProtocolFault("receipt.ticket: got one that this stream has not named, wanted the ticket of a block")
        return handle

    def _remember(self, handle: int, ticket: bytes) -> None:
        self._tickets[handle] = ticket
        self._handles[ticket] = handle
        if len(self._tickets) > self._remembers:
            oldest = next(iter(self._tickets))
            forgotten = self._tickets.pop(oldest)
            if self._handles.get(forgotten) == oldest:
                del self._handles[forgotten]
