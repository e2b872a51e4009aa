"""The sessions of an engine, and the ways to find them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from draft_service.core.reading import followable, unread
from draft_service.core.state import Phase, Session
from draft_service.drafters.pen import Pen
from draft_service.engine_messages import LinkUp
from foreword.protocol.messages import TargetAddress


@dataclass(slots=True, eq=False)
class Entry:
    """One session and what the engine remembers beside its state; times are ns of the monotonic clock."""

    slot: int
    stream: int
    session: Session
    cause_ns: int
    """When the order or verdict arrived that the current block answers."""
    touched_ns: int
    """When a message about the session came last."""
    ordered_ns: int
    """When its newest order came."""
    pen: Pen | None = None
    """The block in the making, from its first step on."""
    began_ns: int | None = None
    """When drafting of the current block began; None before."""
    took_us: tuple[int, int] | None = None
    """Draft queue and draft compute of the current block, once it went out."""
    pushed_ns: int | None = None
    """When the current block went out last."""
    due_ns: int | None = None
    """When the block of the newest order must go; None is when it is complete."""
    offered: int = 0
    """How often the target did not know the ticket of the current block."""
    followable_ns: int | None = None
    """Since when there is something to follow."""
    bound: TargetAddress | None = None
    """The target that the table has it filed under."""
    committed: int = 0
    """Tokens that the table counts for it."""
    salt: bytes = b""
    """Sessions share cached beginnings under the same salt only."""

    def restart(self, cause_ns: int) -> None:
        """Begin the account of another block."""
        self.cause_ns = cause_ns
        self.began_ns = self.took_us = self.pushed_ns = None
        self.offered = 0

    def went_before(self, link: LinkUp) -> bool:
        """Whether the current block went out to this target instance before the link came up, hence to nobody."""
        target, went_ns = self.session.target, self.pushed_ns
        meant = target.address == link.address and target.instance in ("", link.instance)
        return meant and went_ns is not None and went_ns < link.up_ns

    def is_due(self, until_ns: int) -> bool:
        """Whether the block in the making must go before `until_ns`; one that runs ahead of its order need not."""
        writing, order = self.session.writing, self.session.order
        if self.due_ns is None or writing is None or order is None:
            return False
        return writing.round == order.round and self.due_ns <= until_ns

    def durations(self, now_ns: int) -> tuple[int, int]:
        """Return draft queue and draft compute of the current block in microseconds; the first call measures them."""
        if self.took_us is None:
            began_ns = now_ns if self.began_ns is None else self.began_ns
            self.took_us = (max(0, began_ns - self.cause_ns) // 1000, (now_ns - began_ns) // 1000)
        return self.took_us


class Table:
    """Entries by stream and sid, by ticket, and by what they wait for; `settle` follows every change of a session."""

    def __init__(self, chunk: int) -> None:
        self._chunk = chunk
        self._entries: dict[tuple[int, int], Entry] = {}
        self._tickets: dict[bytes, Entry] = {}
        self._next_slot = 0
        self.committed = 0
        """Tokens of all sessions that are committed, or will be by a verdict."""
        self.drafting: dict[int, Entry] = {}
        """Sessions whose next candidate can be drawn, by slot."""
        self.reading: dict[int, Entry] = {}
        """Sessions with more to read than a drafting step takes beside the draw, oldest first."""
        self.following: dict[int, Entry] = {}
        """Sessions with tokens to compare guesses with."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def add(self, stream: int, session: Session, now_ns: int, *, salt: bytes = b"") -> Entry:
        """Add a session under a slot of its own."""
        entry = Entry(
            self.new_slot(), stream, session, cause_ns=now_ns, touched_ns=now_ns, ordered_ns=now_ns, salt=salt
        )
        self._entries[stream, session.sid] = entry
        return entry

    def new_slot(self) -> int:
        """Return the number of a slot that was never used."""
        self._next_slot += 1
        return self._next_slot - 1

    def get(self, stream: int, sid: int) -> Entry | None:
        """Return the session that a stream calls `sid`."""
        return self._entries.get((stream, sid))

    def by_ticket(self, ticket: bytes) -> Entry | None:
        """Return the session that uses a ticket now."""
        return self._tickets.get(ticket)

    def youngest(self) -> Entry:
        """Return the session that was opened last."""
        return next(reversed(self._entries.values()))

    def resting(self) -> list[Entry]:
        """Return the sessions that no step has anything to do for."""
        shelves = (self.drafting, self.reading, self.following)
        return [entry for entry in self._entries.values() if not any(entry.slot in shelf for shelf in shelves)]

    def settle(self, entry: Entry, now_ns: int) -> None:
        """File an entry by its state; one that is gone leaves the table."""
        session, phase = entry.session, entry.session.phase
        drafting, follow = phase is Phase.DRAFT, phase is Phase.IDLE and followable(session)
        behind = (drafting or follow) and unread(session) >= self._chunk
        _file(self.reading, entry, phase is Phase.PREFILL or behind)
        _file(self.drafting, entry, drafting and not behind)
        _file(self.following, entry, follow and not behind)
        entry.pen = None
        entry.followable_ns = (entry.followable_ns or now_ns) if follow else None
        committed = 0 if phase is Phase.GONE else len(session.sequence.tokens) + len(session.assumed)
        self.committed += committed - entry.committed
        entry.committed = committed
        if phase is Phase.GONE:
            self._entries.pop((entry.stream, session.sid), None)

    def bind(self, entry: Entry, target: TargetAddress | None) -> None:
        """File an entry under the ticket that it uses from now on; None for none."""
        if entry.bound is not None and self._tickets.get(entry.bound.ticket) is entry:
            del self._tickets[entry.bound.ticket]
        entry.bound = target
        if target is not None:
            self._tickets[target.ticket] = entry


def _file(shelf: dict[int, Entry], entry: Entry, belongs: bool, /) -> None:
    if belongs:
        shelf.setdefault(entry.slot, entry)
    else:
        shelf.pop(entry.slot, None)
