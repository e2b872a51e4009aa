"""Sessions of one engine: found by stream and sid or by ticket, changed by the outcomes of the core's transitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from foreword.protocol.messages import Block, LinkState, Receipt, Result, TargetOpen, VerdictNotice
from foreword.runner.port import Runner
from target_service.core.estimates import Emitted, Replies
from target_service.core.session import opened
from target_service.core.state import Answer, Bounds, Count, Free, HoldStep, Outcome, Phase, Session, Tell
from target_service.engine.links import Links
from target_service.engine.outbox import Outbox
from target_service.engine.room import Room

BlockName = tuple[bytes, int, int]
"""Ticket, round and digest of a block."""


@dataclass(slots=True)
class Record:
    """A session and what the engine knows of it beyond the protocol; times are microseconds."""

    stream: int
    slot: int
    session: Session
    opened_us: int
    commit_us: int = 0
    """When the Commit that is not answered arrived."""
    hold_us: int = 0
    """Until when the step may be held for its block; meaningful in WAIT."""
    ready_us: int = 0
    """When it became part of the next step."""
    lag_us: int | None = None
    """Block arrival minus Commit arrival of the block that is here."""
    result_us: int | None = None
    """When its last final Result was known; None before the first."""
    rows: int = 1
    """Rows of its last step."""
    arrivals: dict[BlockName, int] = field(default_factory=dict)
    replies: Replies = field(default_factory=Replies)
    emitted: Emitted = field(default_factory=Emitted)


def name_of(block: Block) -> BlockName:
    """Return what tells a block from all others."""
    return block.ticket, block.round, block.digest


class Sessions:
    """Owns the records; the order of iteration is the order of opening."""

    def __init__(self, runner: Runner, room: Room, outbox: Outbox, *, instance: str) -> None:
        self.replies = Replies(window=128)
        """Reply times of all sessions, for those that have none yet."""
        self._runner = runner
        self._room = room
        self._outbox = outbox
        self._instance = instance
        self._links = Links()
        self._records: dict[tuple[int, int], Record] = {}
        self._by_ticket: dict[bytes, Record] = {}
        self._next_slot = 0

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._records.values()))

    def get(self, stream: int, sid: int) -> Record | None:
        """Return a session of a stream."""
        return self._records.get((stream, sid))

    def holder(self, ticket: bytes) -> Record | None:
        """Return the session that a ticket belongs to."""
        return self._by_ticket.get(ticket)

    def youngest(self) -> Record:
        """Return the session that was opened last."""
        return next(reversed(self._records.values()))

    def open(self, stream: int, message: TargetOpen, bounds: Bounds, *, now_us: int) -> Record:
        """Start a session with an empty slot."""
        slot, self._next_slot = self._next_slot, self._next_slot + 1
        record = Record(stream, slot, opened(message, bounds), opened_us=now_us)
        self._runner.open(slot)
        self._room.set(slot, 0)
        self._records[stream, message.sid] = record
        self._index_tickets(record, ())
        return record

    def answer(self, message: Receipt | VerdictNotice) -> None:
        """Queue an answer for the draft that holds the ticket, if its link is there."""
        link = self._links.of(message.ticket)
        if link is not None:
            self._outbox.answer(link, message)

    def apply(self, record: Record, outcome: Outcome, *, at_us: int) -> None:
        """Put a transition's session in place and do what it asks for."""
        before, (record.session, actions) = record.session, outcome
        after = record.session
        for action in actions:
            match action:
                case Tell(event):
                    self._outbox.tell(record.stream, event)
                    if isinstance(event, Result) and event.final:
                        record.result_us = at_us
                case Answer(message):
                    self.answer(message)
                case HoldStep(_, wait_us):
                    record.hold_us = record.commit_us + wait_us
                case Count(name):
                    self._outbox.count(name)
                case Free():
                    self._free(record)
        if after.block is not before.block:
            self._note_block(record, after.block, at_us=at_us)
        if after.phase is not before.phase and after.phase in (Phase.READY, Phase.LEASE):
            record.ready_us = at_us
        if after.tickets is not before.tickets and after.phase is not Phase.GONE:
            self._index_tickets(record, before.tickets)

    def block_came(self, record: Record, block: Block, *, link: int, at_us: int) -> None:
        """Note when and over which link a block came, before its transition."""
        if len(record.arrivals) > 2 * record.session.bounds.mailbox.blocks:
            held = {name_of(b) for b in (*record.session.mailbox, record.session.block) if b is not None}
            record.arrivals = {n: us for n, us in record.arrivals.items() if n in held}
        record.arrivals.setdefault(name_of(block), at_us)
        if self._links.used(block.ticket, link):
            self._outbox.tell(record.stream, LinkState(block.ticket, self._instance, up=True))

    def link_ended(self, link: int) -> None:
        """Tell the orchestrators whose drafts used this link."""
        for ticket in self._links.ended(link):
            record = self._by_ticket.get(ticket)
            if record is not None:
                self._outbox.tell(record.stream, LinkState(ticket, self._instance, up=False))

    def of_stream(self, stream: int) -> list[Record]:
        """Return the sessions that were opened on a stream."""
        return [record for record in self._records.values() if record.stream == stream]

    def _note_block(self, record: Record, block: Block | None, *, at_us: int) -> None:
        record.lag_us = None
        if block is None:
            return
        record.lag_us = record.arrivals[name_of(block)] - record.commit_us
        if record.result_us is not None:
            record.replies.add(at_us - record.result_us)
            self.replies.add(at_us - record.result_us)

    def _index_tickets(self, record: Record, before: tuple[bytes, ...]) -> None:
        for ticket in before:
            if ticket not in record.session.tickets:
                self._by_ticket.pop(ticket, None)
                self._links.forget(ticket)
        for ticket in record.session.tickets:
            self._by_ticket[ticket] = record

    def _free(self, record: Record) -> None:
        for ticket in record.session.tickets:
            self._by_ticket.pop(ticket, None)
            self._links.forget(ticket)
        del self._records[record.stream, record.session.sid]
        self._runner.close(record.slot)
        self._room.release(record.slot)
