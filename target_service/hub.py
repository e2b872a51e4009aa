"""The gRPC process's switchboard between the links of peers and the engine; nothing here knows what messages mean."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import structlog

from foreword.errors import ForewordError, Full
from foreword.protocol.messages import (
    Block,
    Lost,
    Receipt,
    Refused,
    TargetClose,
    TargetCommand,
    TargetEvent,
    TargetOpen,
    TargetTicket,
    VerdictNotice,
)
from foreword.protocol.words import LossCode, ReceiptCode, RefusalCode
from foreword.rpc.link import Link
from foreword.telemetry.seldom import Seldom
from foreword.wire.blocks import BadBlock
from foreword.wire.common import Attributed
from target_service.engine.messages import (
    Answers,
    Blocks,
    Commands,
    Consumed,
    EncodedEvents,
    LinkEnded,
    Status,
    StepReport,
    StreamEnded,
    ToEngine,
    ToService,
    Unreadable,
)
from target_service.metrics import TargetMetrics
from target_service.tickets import OpenTickets

_log = structlog.stdlib.get_logger(__name__)

AttachLink = Link[TargetEvent, Attributed[TargetCommand]]
BlocksLink = Link[Receipt | VerdictNotice | BadBlock, Block | BadBlock]
RETRY_AFTER_MS = 1_000
"""When to ask again while the engine is being restarted."""
MOST_WAITING = 8_192
"""Messages of one stream that may wait for the engine; credit keeps honest peers far below."""
MOST_UNKNOWN = 8_192
UNKNOWN_WINDOW_US = 10_000_000
"""Blocks without a session that one draft may send in such a time: it may have lost all its sessions at once."""


@dataclass(slots=True)
class _Stream:
    link: AttachLink
    sids: set[int] = field(default_factory=set)
    """Sessions that were asked for and not told to be over."""
    waiting: int = 0
    """Commands that the engine has not taken yet."""


@dataclass(slots=True)
class _Blocks:
    link: BlocksLink
    waiting: int = 0
    """Blocks that the engine has not taken yet."""
    unknown: int = 0
    """Blocks without a session that came since `since_us`."""
    since_us: int = 0


class Hub:
    """Numbers streams and links, stamps arrivals, and passes messages on in the batches they came in."""

    def __init__(self, metrics: TargetMetrics) -> None:
        self.status: Status | None = None
        """The engine's last word about itself."""
        self._metrics = metrics
        self._to_engine: Callable[[Sequence[ToEngine]], None] | None = None
        self._numbers = count(1)
        self._streams: dict[int, _Stream] = {}
        self._links: dict[int, _Blocks] = {}
        self._tickets = OpenTickets()
        self._unreadable = Seldom()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def sessions(self) -> int:
        """Sessions that were asked for and not told to be over."""
        return sum(len(stream.sids) for stream in self._streams.values())

    def knows(self, ticket: bytes) -> bool:
        """Whether a session that was asked for and not told to be over has this ticket."""
        return ticket in self._tickets

    async def wait_idle(self, limit_s: float) -> None:
        """Return when no session is left, or after the limit."""
        if self.sessions:
            self._idle.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), limit_s)

    def close(self) -> None:
        """End all streams in good order: what is queued goes out first."""
        for stream in self._streams.values():
            stream.link.close()
        for source in self._links.values():
            source.link.close()

    def engine_up(self, send: Callable[[Sequence[ToEngine]], None]) -> None:
        """Take a warm engine into use."""
        self._to_engine = send

    def engine_down(self, reason: str) -> None:
        """Tell every session that it is lost; until the next engine is warm, Opens are refused."""
        self._to_engine = None
        for source in self._links.values():
            source.waiting = 0
        for number, stream in self._streams.items():
            stream.waiting = 0
            for sid in sorted(stream.sids):
                stream.link.send(Lost(sid, LossCode.RUNNER, reason))
                self._tickets.over(number, sid)
            stream.sids.clear()
        self._note_idle()

    def send(self, batch: Sequence[ToEngine]) -> None:
        """Send to the engine; while there is none, nothing is waiting there either."""
        if self._to_engine is not None:
            self._to_engine(batch)

    def take(self, batch: Sequence[ToService]) -> None:
        """Pass a batch of the engine on."""
        for message in batch:
            match message:
                case Answers(number, answers):
                    self._answer(number, answers)
                case EncodedEvents():
                    self._tell(message)
                case Consumed(taken):
                    self._consumed(taken)
                case StepReport():
                    self._metrics.stepped(message)
                case Status():
                    self._report(message)

    def stream_up(self, link: AttachLink) -> int:
        """Give a number to an orchestrator's stream."""
        number = next(self._numbers)
        self._streams[number] = _Stream(link)
        return number

    def commands_came(self, number: int, entries: Sequence[Attributed[TargetCommand]]) -> None:
        """Pass the messages of one frame on, in order; what could not be read costs its session only."""
        at_us = time.monotonic_ns() // 1000
        stream = self._streams[number]
        if self._to_engine is None:
            self._refuse(stream, entries)
            return
        batch: list[ToEngine] = []
        commands: list[TargetCommand] = []
        for sid, entry in entries:
            if isinstance(entry, ForewordError):
                batch += [Commands(number, at_us, tuple(commands))] if commands else []
                batch += [Unreadable(number, sid, entry.message)] if sid is not None else []
                commands = []
                if (left_out := self._unreadable.due()) is not None:
                    _log.warning("unreadable message", sid=sid, reason=entry.message, left_out=left_out)
                continue
            self._keep_account(number, stream.sids, entry)
            commands.append(entry)
        batch += [Commands(number, at_us, tuple(commands))] if commands else []
        self.send(batch)
        self._note_idle()
        self._hold_to_credit(stream, sum(len(m.commands) for m in batch if isinstance(m, Commands)))

    def stream_down(self, number: int) -> None:
        """Release everything that was opened on a stream."""
        for sid in self._streams.pop(number).sids:
            self._tickets.over(number, sid)
        self.send([StreamEnded(number)])
        self._note_idle()

    def link_up(self, link: BlocksLink) -> int:
        """Give a number to a draft's stream."""
        number = next(self._numbers)
        self._links[number] = _Blocks(link)
        return number

    def blocks_came(self, number: int, entries: Sequence[Block | BadBlock]) -> None:
        """Pass the blocks of one frame on; what could not be read gets its receipt here."""
        at_us = time.monotonic_ns() // 1000
        source = self._links[number]
        link = source.link
        blocks: list[Block] = []
        for entry in entries:
            if isinstance(entry, BadBlock):
                self._metrics.count("unreadable_block" if entry.ticket is not None else "unknown_ticket")
                link.send(entry)
            elif self._to_engine is None:
                link.send(Receipt(entry.ticket, entry.round, entry.digest, ReceiptCode.UNKNOWN))
            else:
                blocks.append(entry)
        if blocks:
            self.send([Blocks(number, at_us, tuple(blocks))])
            self._hold_to_credit(source, len(blocks))
        self._hold_to_tickets(source, sum(_is_unknown(entry) for entry in entries), at_us=at_us)

    def link_down(self, number: int) -> None:
        """Forget a draft's stream."""
        del self._links[number]
        self.send([LinkEnded(number)])

    def _hold_to_credit(self, source: _Stream | _Blocks, messages: int) -> None:
        """Cut a peer off that sends faster than the engine takes."""
        source.waiting += messages
        if source.waiting > MOST_WAITING:
            self._metrics.count("flood")
            text = f"{source.waiting} messages wait for the engine, wanted at most {MOST_WAITING} from one peer"
            source.link.abort(Full(text))

    def _hold_to_tickets(self, source: _Blocks, unknown: int, *, at_us: int) -> None:
        """Cut a draft off that keeps sending what belongs to no session."""
        if at_us - source.since_us > UNKNOWN_WINDOW_US:
            source.unknown, source.since_us = 0, at_us
        source.unknown += unknown
        if source.unknown > MOST_UNKNOWN:
            self._metrics.count("flood")
            wanted = f"at most {MOST_UNKNOWN} in {UNKNOWN_WINDOW_US // 1_000_000} s"
            source.link.abort(Full(f"blocks without a session: got {source.unknown}, wanted {wanted}"))

    def _keep_account(self, number: int, sids: set[int], command: TargetCommand) -> None:
        """Note which sessions there are, and their tickets."""
        match command:
            case TargetOpen(sid=sid, ticket=ticket):
                sids.add(sid)
                if ticket is not None:
                    self._tickets.named(number, sid, ticket)
            case TargetTicket(sid=sid, ticket=ticket):
                if sid in sids:
                    self._tickets.named(number, sid, ticket)
            case TargetClose(sid=sid):
                sids.discard(sid)
                self._tickets.over(number, sid)

    def _consumed(self, taken: Sequence[tuple[int, int]]) -> None:
        for number, messages in taken:
            source = self._streams.get(number) or self._links.get(number)
            if source is not None:
                source.waiting -= messages

    def _note_idle(self) -> None:
        if not self._idle.is_set() and not self.sessions:
            self._idle.set()

    def _answer(self, number: int, answers: Sequence[Receipt | VerdictNotice]) -> None:
        source = self._links.get(number)
        if source is None:
            return  # it ended while the answers were on their way; its blocks will be offered again
        for answer in answers:
            try:
                source.link.send(answer)
            except ForewordError as error:  # a ticket so old that this stream has forgotten its handle
                self._metrics.count("unsendable_answer")
                _log.warning("answer not sent", reason=error.message)

    def _tell(self, events: EncodedEvents) -> None:
        stream = self._streams.get(events.stream)
        if stream is None:
            return  # its sessions are being released
        stream.sids.difference_update(events.over)
        for sid in events.over:
            self._tickets.over(events.stream, sid)
        for entry in events.entries:
            stream.link.send_encoded(entry)
        self._note_idle()

    def _report(self, status: Status) -> None:
        self.status = status
        self._metrics.status(status)
        for stream in self._streams.values():
            stream.link.send(status.load)

    def _refuse(self, stream: _Stream, entries: Sequence[Attributed[TargetCommand]]) -> None:
        text = "the engine is being restarted"
        for sid, entry in entries:
            if isinstance(entry, ForewordError) and sid is not None:  # perhaps an Open; if not, nobody minds
                stream.link.send(Refused(sid, RefusalCode.BAD, entry.message))
            elif isinstance(entry, TargetOpen):
                stream.link.send(Refused(entry.sid, RefusalCode.STARTING, text, retry_after_ms=RETRY_AFTER_MS))


def _is_unknown(entry: Block | BadBlock) -> bool:
    return isinstance(entry, BadBlock) and entry.ticket is None
