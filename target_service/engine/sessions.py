"""Sessions of one engine: found by stream and sid or by ticket, changed by the outcomes of the core's transitions."""

from __future__ import annotations

from collections.abc import Iterator

from foreword.protocol.messages import Block, LinkState, Receipt, Result, TargetOpen, VerdictNotice
from foreword.runner.port import Runner
from foreword.values import replace
from target_service.core.estimates import EVERY_KEEP, Acceptance, Replies
from target_service.core.session import opened
from target_service.core.state import Answer, Bounds, Count, Free, HoldStep, Outcome, Phase, Tell
from target_service.engine.guessing import Guessing
from target_service.engine.line import Line
from target_service.engine.links import Links
from target_service.engine.outbox import Outbox
from target_service.engine.record import Record, name_of


class Sessions:
    """Owns the records; the order of iteration is the order of opening."""

    def __init__(self, runner: Runner, line: Line, outbox: Outbox, guessing: Guessing, *, instance: str) -> None:
        self.replies = Replies(window=128)
        """Reply times of all sessions, for those that have none yet."""
        self._runner = runner
        self._line = line
        self._page_size = runner.memory.page_size
        self._outbox = outbox
        self._guessing = guessing
        self._instance = instance
        self._links = Links()
        self._records: dict[tuple[int, int], Record] = {}
        self._by_ticket: dict[bytes, Record] = {}
        self._next_slot = 0
        self._acceptance = Acceptance(keep=EVERY_KEEP)
        """Of all sessions."""

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

    def open(self, stream: int, message: TargetOpen, bounds: Bounds, *, now_us: int) -> Record:
        """Start a session with an empty slot, at the end of the line."""
        slot, self._next_slot = self._next_slot, self._next_slot + 1
        record = Record(stream, slot, opened(message, bounds), opened_us=now_us, salt=message.cache_salt)
        record.acceptance = Acceptance(self._acceptance)
        self._runner.open(slot, salt=record.salt)
        self._line.enter(record)
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
                case Free(_, committed):
                    self._free(record, committed, at_us=at_us)
        if after.block is not before.block:
            self._note_block(record, after.block, at_us=at_us)
        if after.sequence is not before.sequence and after.phase is not Phase.GONE:
            self.share(record)
        if after.phase is not before.phase and after.phase in (Phase.READY, Phase.LEASE):
            record.ready_us = at_us
        if after.tickets is not before.tickets and after.phase is not Phase.GONE:
            self._index_tickets(record, before.tickets)

    def read(self, record: Record, tokens: int) -> None:
        """Note that so many more tokens of the session's text are in the cache."""
        record.session = replace(record.session, cached=record.session.cached + tokens)
        self.share(record)

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

    def share(self, record: Record) -> None:
        """Let others begin with what is committed and cached."""
        session = record.session
        held = min(session.cached, len(session.sequence.tokens))
        if held // self._page_size > record.shared_pages:
            self._runner.commit(record.slot, session.sequence.tokens[:held])
            record.shared_pages = held // self._page_size

    def _free(self, record: Record, committed: int, *, at_us: int) -> None:
        for ticket in record.session.tickets:
            self._by_ticket.pop(ticket, None)
            self._links.forget(ticket)
        del self._records[record.stream, record.session.sid]
        self._runner.commit(record.slot, record.session.sequence.tokens[:committed])
        self._runner.close(record.slot)
        self._guessing.forget(record.slot)
        self._line.leave(record, at_us=at_us)
