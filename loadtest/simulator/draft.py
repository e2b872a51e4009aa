"""A modelled draft: one pass a candidate for all sessions that draft; starts on verdicts, as the real one does.

It knows nothing of a single candidate, as real ones do by the lead of the first choice, so its blocks never end early.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from foreword.protocol.messages import (
    Advance,
    Block,
    DraftClose,
    DraftCommand,
    DraftOpen,
    DraftOpened,
    Follow,
    VerdictNotice,
)
from foreword.protocol.words import Drafter
from foreword.testing.virtual_clock import VirtualClock
from loadtest.simulator.scene import Schedule
from loadtest.simulator.text import RIGHT, WRONG, Text
from loadtest.simulator.wires import Wire
from orchestrator.pools.drafts import DraftPeer

_FOLLOW_EVERY = 8
_LONGEST = 1 << 30


@dataclass(slots=True)
class _Writing:
    round: int
    base: int
    began_us: int
    ids: tuple[int, ...] = ()
    drafted_from_us: int | None = None
    correct: bool = True


@dataclass(slots=True)
class _Session:
    sid: int
    text: Text
    ticket: bytes
    order: Advance | None = None
    writing: _Writing | None = None
    sent: int = 0
    """Round of the last block that was sent or begun."""
    base: int = 0
    followed: int = 0
    agreed: int = 0


class SimDraft:
    """The other end of the orchestrator's link to a draft."""

    def __init__(
        self,
        clock: VirtualClock,
        peer: DraftPeer,
        *,
        draft_us: int,
        agreement: Schedule,
        text_of: Callable[[DraftOpen], Text],
        to_orchestrator: Wire,
        to_target: Wire,
        push: Callable[[Block], None],
    ) -> None:
        self._clock = clock
        self._peer = peer
        self._draft_us = draft_us
        self._agreement = agreement
        self._text_of = text_of
        self._to_orchestrator = to_orchestrator
        self._to_target = to_target
        self._push = push
        self._sessions: dict[int, _Session] = {}
        self._by_ticket: dict[bytes, _Session] = {}
        self._stepping = False
        self.busy_us = 0
        """Time in passes."""

    def take(self, command: DraftCommand) -> None:
        """Take a command that has arrived."""
        match command:
            case DraftOpen():
                session = _Session(command.sid, self._text_of(command), command.target.ticket)
                self._sessions[command.sid] = session
                self._by_ticket[session.ticket] = session
                self._tell(DraftOpened(command.sid, _LONGEST))
            case Advance():
                self._advanced(command)
            case DraftClose():
                gone = self._sessions.pop(command.sid, None)
                if gone is not None:
                    self._by_ticket.pop(gone.ticket, None)

    def verdict(self, notice: VerdictNotice) -> None:
        """Start the next block at once, under the last order; the Advance that confirms it may change γ."""
        session = self._by_ticket.get(notice.ticket)
        if session is None or session.order is None or session.order.gamma == 0 or notice.round != session.sent:
            return
        if session.order.round <= notice.round:
            self._begin(session, notice.round + 1, session.base + notice.kept + 1)

    def _advanced(self, order: Advance) -> None:
        session = self._sessions.get(order.sid)
        if session is None:
            return
        session.order = order
        if order.target is not None and order.target.ticket != session.ticket:
            self._by_ticket.pop(session.ticket, None)
            session.ticket = order.target.ticket
            self._by_ticket[session.ticket] = session
        if order.gamma == 0:
            session.writing = None
            self._follow(session, order)
            return
        session.base, session.followed, session.agreed = order.base, 0, 0
        if order.send_by_us is not None:
            self._clock.call_later(order.send_by_us, lambda: self._send_by(session, order.round))
        if session.sent < order.round:
            self._begin(session, order.round, order.base)
        elif session.writing is not None and len(session.writing.ids) >= order.gamma:
            self._send(session)

    def _begin(self, session: _Session, round: int, base: int) -> None:
        session.sent, session.base = round, base
        session.writing = _Writing(round, base, self._clock.now_us())
        self._step()

    def _follow(self, session: _Session, order: Advance) -> None:
        agreement = self._agreement.at(self._clock.now_us())
        for position in range(session.base, order.base):
            session.followed += 1
            session.agreed += session.text.right(position, agreement)
        session.base = order.base
        if session.followed >= _FOLLOW_EVERY:
            self._tell(Follow(session.sid, order.base, session.followed, session.agreed))
            session.followed = session.agreed = 0

    def _step(self) -> None:
        drafting = [s for s in self._sessions.values() if s.writing is not None]
        if self._stepping or not drafting:
            return
        self._stepping = True
        now_us = self._clock.now_us()
        for session in drafting:
            if session.writing is not None and session.writing.drafted_from_us is None:
                session.writing.drafted_from_us = now_us
        self.busy_us += self._draft_us
        works = [(session, session.writing) for session in drafting]
        self._clock.call_later(self._draft_us, lambda: self._stepped(works))

    def _stepped(self, works: list[tuple[_Session, _Writing | None]]) -> None:
        self._stepping = False
        agreement = self._agreement.at(self._clock.now_us())
        for session, writing in works:
            order = session.order
            if writing is None or writing is not session.writing or order is None:
                continue
            writing.correct &= session.text.right(writing.base + len(writing.ids), agreement)
            writing.ids += (RIGHT if writing.correct else WRONG,)
            if len(writing.ids) >= order.gamma:
                self._send(session)
        self._step()

    def _send_by(self, session: _Session, round: int) -> None:
        if session.writing is not None and session.writing.round == round:
            self._send(session)

    def _send(self, session: _Session) -> None:
        writing, session.writing = session.writing, None
        if writing is None:
            return
        now_us = self._clock.now_us()
        began_us = now_us if writing.drafted_from_us is None else writing.drafted_from_us
        block = Block(
            ticket=session.ticket,
            round=writing.round,
            base=writing.base,
            digest=0,
            ids=writing.ids,
            drafter=Drafter.SYNTHETIC,
            draft_queue_us=began_us - writing.began_us,
            draft_compute_us=now_us - began_us,
        )
        self._to_target.send(lambda: self._push(block))

    def _tell(self, event: DraftOpened | Follow) -> None:
        self._to_orchestrator.send(lambda: self._peer.received([(event.sid, event)], self._clock.now_us()))
