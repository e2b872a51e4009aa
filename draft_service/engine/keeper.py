"""Keeps sessions and carries out what their transitions ask for."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from draft_service.core import session as transitions
from draft_service.core import writing
from draft_service.core.state import Action, Count, Free, Outcome, Phase, Push, PushLater, Session, Shipped, Tell
from draft_service.drafters.port import Drafter
from draft_service.engine.ahead import Ahead
from draft_service.engine.offers import Offers
from draft_service.engine.outgoing import Outgoing
from draft_service.engine.table import Entry, Table
from foreword.protocol.words import LossCode
from foreword.values import replace

WARN_EVERY_NS = 10_000_000_000
"""Least time between two warnings of the same kind."""

_log = structlog.stdlib.get_logger(__name__)


class Keeper:
    """The table of sessions, what is to be said, and what is to be repeated."""

    def __init__(self, drafter: Drafter, now_ns: Callable[[], int], *, chunk: int) -> None:
        self.table = Table(chunk)
        self.outgoing = Outgoing()
        self.offers = Offers()
        self.now_ns = now_ns
        self.ahead: Ahead | None = None
        """Branches of sessions whose block is out; None where nothing is drafted ahead."""
        self._drafter = drafter
        self._warned_ns: int | None = None

    def add(self, stream: int, session: Session, *, salt: bytes = b"") -> Entry:
        """Take a session in, with a slot that begins with what is cached of its tokens under its salt."""
        entry = self.table.add(stream, session, self.now_ns(), salt=salt)
        self._drafter.open(entry.slot, salt=salt)
        adopted = self._drafter.adopt(entry.slot, session.sequence.tokens)
        if adopted:
            entry.session = replace(session, cached=adopted)
            self.outgoing.count("cache_hit")
        return entry

    def apply(self, entry: Entry, outcome: Outcome, cause_ns: int | None = None) -> None:
        """Make the outcome of a transition the session's state and do what it asks for.

        `cause_ns` is when the message arrived that caused it; None if it was none.
        """
        session, actions = outcome
        if cause_ns is not None:
            entry.touched_ns = cause_ns
        if session is entry.session and not actions:
            return
        if self.ahead is not None:
            session, actions = self.ahead.carried_on(entry, outcome, cause_ns)
        now_ns = self.now_ns()
        if _another_block(entry.session, session):
            entry.restart(entry.ordered_ns if cause_ns is None else cause_ns)
        entry.session = session
        self._bind(entry)
        for action in actions:
            self._do(entry, action, now_ns)
        self.table.settle(entry, now_ns)

    def current(self, entry: Entry) -> Session:
        """Return the session's state with everything that was drawn; `apply` has to follow."""
        pen = entry.pen
        if pen is not None and pen.ids:
            entry.pen = None
            entry.session, actions = writing.drawn(entry.session, *pen.gathered(complete=False))
            assert not actions
        return entry.session

    def complete(self, entry: Entry) -> None:
        """Send the block that the session's pen has written."""
        pen = entry.pen
        assert pen is not None
        self.apply(entry, writing.drawn(entry.session, *pen.gathered(complete=True)))

    def lose(self, entry: Entry, code: LossCode, message: str) -> None:
        """Give a session up and say why."""
        self.apply(entry, transitions.lost(entry.session, code, message))
        self.outgoing.count(f"lost_{code.name.lower()}")

    def _bind(self, entry: Entry) -> None:
        wanted = None if entry.session.phase is Phase.GONE else entry.session.target
        known = entry.bound
        if wanted is known or wanted == known:
            return
        self.table.bind(entry, wanted)
        if wanted is not None:
            self.outgoing.bind(entry.stream, wanted)
        if known is not None:
            self.outgoing.release(known.ticket)

    def _do(self, entry: Entry, action: Action, now_ns: int) -> None:
        match action:
            case Push(block):
                queue_us, compute_us = entry.durations(now_ns)
                block = replace(block, draft_queue_us=queue_us, draft_compute_us=compute_us)
                entry.pushed_ns = now_ns
                self.outgoing.push(entry.session.target.address, block)
            case Shipped(at_ns):
                entry.took_us, entry.pushed_ns = (0, 0), at_ns  # nothing was left to do when its round began
            case Tell(event):
                self.outgoing.tell(entry.stream, event)
            case PushLater():
                self.offers.add(entry, now_ns)
            case Free():
                self._drafter.close(entry.slot)
                if entry.session.phase is not Phase.GONE:
                    self._drafter.open(entry.slot, salt=entry.salt)
            case Count(name):
                self.outgoing.count(name)
                if name == transitions.VERDICT_DIFFERS:
                    self._warn_of_verdict(entry.session, now_ns)

    def _warn_of_verdict(self, session: Session, now_ns: int) -> None:
        """Say that drafting ahead is in vain: the texts are right, because only the orchestrator's verdict counts."""
        if self._warned_ns is not None and now_ns - self._warned_ns < WARN_EVERY_NS:
            return
        self._warned_ns = now_ns
        target, order = session.target, session.order
        _log.warning(
            "the target's verdict differs from the orchestrator's: what was drafted ahead is lost",
            target=target.address,
            instance=target.instance,
            round=None if order is None else order.round,
        )


def _another_block(before: Session, after: Session) -> bool:
    old, new = before.writing, after.writing
    if new is None or new is old:
        return False
    return old is None or (old.round, old.digest, old.rule) != (new.round, new.digest, new.rule)
