"""What comes from the gRPC process, turned into transitions of sessions."""

from __future__ import annotations

from foreword.protocol.messages import (
    Block,
    Commit,
    Recall,
    Receipt,
    Refused,
    TargetClose,
    TargetCommand,
    TargetOpen,
    TargetTicket,
)
from foreword.protocol.words import LossCode, ReceiptCode, RefusalCode
from target_service.core.mailbox import received
from target_service.core.session import (
    assigned,
    closed,
    committed,
    lost,
    opened_notice,
    prefilled,
    recalled,
    stream_ended,
    waited,
)
from target_service.core.state import Bounds, Outcome, Phase
from target_service.engine.admission import Bars, refusal
from target_service.engine.line import Line
from target_service.engine.messages import (
    Blocks,
    Commands,
    GiveUp,
    LinkEnded,
    StopOpening,
    StreamEnded,
    ToEngine,
    Unreadable,
)
from target_service.engine.outbox import Outbox
from target_service.engine.record import Place, Record
from target_service.engine.sessions import Sessions


class Intake:
    """Applies messages to sessions; never raises for what a peer sent."""

    def __init__(self, sessions: Sessions, line: Line, outbox: Outbox, *, bars: Bars) -> None:
        self._sessions = sessions
        self._line = line
        self._outbox = outbox
        self._bars = bars
        self._draining = False

    def take(self, message: ToEngine, *, now_us: int) -> None:
        """Apply one message."""
        match message:
            case Commands(stream, at_us, commands):
                self._outbox.consumed(stream, len(commands))
                for command in commands:
                    self.command(stream, command, at_us=at_us, now_us=now_us)
            case Blocks(link, at_us, blocks):
                self._outbox.consumed(link, len(blocks))
                for block in blocks:
                    self._block(link, block, at_us=at_us)
            case Unreadable(stream, sid, reason):
                self._unreadable(stream, sid, reason, now_us=now_us)
            case StreamEnded(stream):
                for record in self._sessions.of_stream(stream):
                    self._sessions.apply(record, stream_ended(record.session), at_us=now_us)
            case LinkEnded(link):
                self._sessions.link_ended(link)
            case StopOpening():
                self._draining = True
            case GiveUp():
                self._draining = True
                for record in self._sessions:
                    outcome = lost(record.session, LossCode.DRAINING, "the target is shutting down")
                    self._sessions.apply(record, outcome, at_us=now_us)

    def expire(self, now_us: int) -> int | None:
        """End the waits that are over; return when the next one ends."""
        ends: int | None = None
        for record in self._sessions:
            if record.session.phase is not Phase.WAIT:
                continue
            if record.hold_us <= now_us:
                self._sessions.apply(record, waited(record.session), at_us=now_us)
            elif ends is None or record.hold_us < ends:
                ends = record.hold_us
        return ends

    def command(self, stream: int, command: TargetCommand, *, at_us: int, now_us: int) -> None:
        """Apply one command of an orchestrator; a session that is gone is ignored."""
        if isinstance(command, TargetOpen):
            self._open(stream, command, at_us=at_us, now_us=now_us)
            return
        record = self._sessions.get(stream, command.sid)
        if record is None:
            self._outbox.count("gone_session")
            return
        session = record.session
        match command:
            case Commit():
                if session.phase is Phase.IDLE:
                    record.commit_us = at_us
                outcome = committed(session, command)
            case Recall():
                outcome = recalled(session, command)
            case TargetTicket(_, ticket):
                outcome = self._assign(record, ticket)
            case TargetClose():
                outcome = closed(session, command)
        self._sessions.apply(record, outcome, at_us=at_us)

    def prefill_done(self, record: Record, *, now_us: int) -> None:
        """The prompt is in the cache but for its last token, which is the first row of the first step."""
        record.commit_us = now_us
        cached = record.hit_tokens or 0
        outcome = prefilled(record.session, cached, prefill_us=now_us - record.opened_us)
        self._sessions.apply(record, outcome, at_us=now_us)

    def opened(self, record: Record, *, now_us: int) -> None:
        """Say that the prompt is in the cache of a session that has taken its first plain step with the end of it."""
        told = opened_notice(record.session, record.hit_tokens or 0, prefill_us=now_us - record.opened_us)
        self._sessions.apply(record, (record.session, (told,)), at_us=now_us)

    def _assign(self, record: Record, ticket: bytes) -> Outcome:
        holder = self._sessions.holder(ticket)
        if holder is not None and holder is not record:
            return lost(record.session, LossCode.PROTOCOL, "ticket: got one of another session, wanted a new one")
        return assigned(record.session, ticket)

    def _open(self, stream: int, message: TargetOpen, *, at_us: int, now_us: int) -> None:
        record = self._sessions.get(stream, message.sid)
        if record is not None:
            outcome = lost(record.session, LossCode.PROTOCOL, f"sid: got {message.sid} again, wanted each once")
            self._sessions.apply(record, outcome, at_us=now_us)
            return
        refused = self._never(message)
        if refused is not None:
            self._refuse(stream, refused)
            return
        bounds = Bounds(
            vocabulary_size=self._bars.vocabulary_size,
            longest_length=self._bars.longest_length,
            max_output=message.max_output,
            gamma_max=self._bars.gamma_max,
        )
        record = self._sessions.open(stream, message, bounds, now_us=at_us)
        self._line.admit()
        if record.place is Place.QUEUED and self._line.queued > self._bars.max_waiting:
            self._sessions.apply(record, stream_ended(record.session), at_us=now_us)
            count = "1 session waits" if self._line.queued == 1 else f"{self._line.queued} sessions wait"
            text = f"full: {count} in line for room, as many as may (max_waiting)"
            again_ms = self._line.retry_after_ms(now_us)
            self._refuse(stream, Refused(message.sid, RefusalCode.FULL, text, retry_after_ms=again_ms))

    def _never(self, message: TargetOpen) -> Refused | None:
        if self._draining:
            return Refused(message.sid, RefusalCode.DRAINING, "the target is shutting down")
        if message.ticket is not None and self._sessions.holder(message.ticket) is not None:
            return Refused(message.sid, RefusalCode.BAD, "ticket: got one of another session, wanted a new one")
        return refusal(message, self._bars)

    def _refuse(self, stream: int, refused: Refused) -> None:
        self._outbox.tell(stream, refused)
        self._outbox.count(f"refused_{refused.code.name.lower()}")

    def _block(self, link: int, block: Block, *, at_us: int) -> None:
        record = self._sessions.holder(block.ticket)
        if record is None:
            self._outbox.answer(link, Receipt(block.ticket, block.round, block.digest, ReceiptCode.UNKNOWN))
            self._outbox.count("unknown_ticket")
            return
        self._sessions.block_came(record, block, link=link, at_us=at_us)
        self._sessions.apply(record, received(record.session, block), at_us=at_us)

    def _unreadable(self, stream: int, sid: int, reason: str, *, now_us: int) -> None:
        self._outbox.count("unreadable_message")
        record = self._sessions.get(stream, sid)
        if record is None:  # an Open that could not be read; for a session that is gone, the peer ignores it
            self._outbox.tell(stream, Refused(sid, RefusalCode.BAD, reason))
            return
        self._sessions.apply(record, lost(record.session, LossCode.PROTOCOL, reason), at_us=now_us)
