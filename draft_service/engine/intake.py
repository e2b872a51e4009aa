"""What comes to an engine: each message finds its session and causes one transition."""

from __future__ import annotations

from draft_service.core import reading
from draft_service.core import session as transitions
from draft_service.core.state import Bounds
from draft_service.drafters.port import Abilities
from draft_service.engine.admission import Room, Taken, refusal
from draft_service.engine.keeper import Keeper
from draft_service.engine.table import Entry
from draft_service.engine_messages import Answers, BadCommand, Commands, Drain, LinkUp, StreamEnded, ToEngine
from foreword.protocol.messages import Advance, DraftClose, DraftCommand, DraftOpen, Receipt, Refused, VerdictNotice
from foreword.protocol.words import LossCode, RefusalCode

_LEAVING = "this draft is shutting down"


class Intake:
    """Applies messages to the sessions of a keeper."""

    def __init__(self, keeper: Keeper, abilities: Abilities, *, bounds: Bounds, room: Room) -> None:
        self._keeper = keeper
        self._abilities = abilities
        self._bounds = bounds
        self._room = room
        self._draining = False

    def take(self, message: ToEngine) -> None:
        """Apply one message."""
        match message:
            case Answers():
                for answer in message.answers:
                    self._answered(answer, message.arrived_ns)
            case Commands():
                for command in message.commands:
                    self._commanded(message.stream, command, message.arrived_ns)
            case StreamEnded():
                for entry in self._keeper.table:
                    if entry.stream == message.stream:
                        self._keeper.apply(entry, transitions.closed(entry.session))
            case LinkUp():
                if self._keeper.ahead is not None:
                    self._keeper.ahead.came_up(message)
                for entry in self._keeper.table:
                    if entry.went_before(message):
                        self._keeper.apply(entry, transitions.again(entry.session))
            case Drain():
                self._draining = True
                for entry in self._keeper.table:
                    self._keeper.lose(entry, LossCode.DRAINING, _LEAVING)
                self._keeper.outgoing.drained()

    def _answered(self, answer: Receipt | VerdictNotice, arrived_ns: int) -> None:
        entry = self._keeper.table.by_ticket(answer.ticket)
        if entry is None:
            self._keeper.outgoing.count("answer_for_nobody")
        elif isinstance(answer, VerdictNotice):
            self._keeper.apply(entry, transitions.verdict_came(entry.session, answer), arrived_ns)
        else:
            self._keeper.apply(entry, transitions.receipt_came(entry.session, answer), arrived_ns)
            if self._keeper.ahead is not None:
                self._keeper.ahead.received(entry, answer)

    def _commanded(self, stream: int, command: DraftCommand | BadCommand, arrived_ns: int) -> None:
        entry = self._keeper.table.get(stream, command.sid)
        if entry is None:
            self._commanded_new(stream, command)
            return
        match command:
            case Advance():
                self._advance(entry, command, arrived_ns)
            case DraftClose():
                self._keeper.apply(entry, transitions.closed(entry.session))
            case DraftOpen():
                text = f"sid: got {command.sid} again, wanted each once in a stream"
                self._keeper.lose(entry, LossCode.PROTOCOL, text)
            case BadCommand():
                self._keeper.lose(entry, LossCode.PROTOCOL, command.message)

    def _commanded_new(self, stream: int, command: DraftCommand | BadCommand) -> None:
        match command:
            case DraftOpen():
                self._open(stream, command)
            case BadCommand():
                self._refuse(stream, Refused(command.sid, RefusalCode.BAD, command.message))
            case _:  # a session that was lost here a moment ago
                self._keeper.outgoing.count("command_for_nobody")

    def _open(self, stream: int, message: DraftOpen) -> None:
        table = self._keeper.table
        taken = Taken(len(table), table.committed)
        refused = refusal(message, self._abilities, room=self._room, taken=taken, draining=self._draining)
        if refused is not None:
            self._refuse(stream, refused)
            return
        entry = self._keeper.add(stream, transitions.opened(message, self._bounds), salt=message.cache_salt)
        # Nothing is read yet; but of a single token there is nothing to read ahead, and the session is open.
        self._keeper.apply(entry, reading.read(entry.session, reading.Read(entry.session.cached, ())))

    def _refuse(self, stream: int, refused: Refused) -> None:
        self._keeper.outgoing.tell(stream, refused)
        self._keeper.outgoing.count(f"refused_{refused.code.name.lower()}")

    def _advance(self, entry: Entry, message: Advance, arrived_ns: int) -> None:
        self._keeper.apply(entry, transitions.advanced(self._keeper.current(entry), message), arrived_ns)
        if entry.session.order is message:
            entry.ordered_ns = arrived_ns
            entry.due_ns = None if message.send_by_us is None else arrived_ns + 1000 * message.send_by_us
