"""What a step would carry if it started now, and who is expected: the step policy's view of the sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from foreword.protocol.messages import BlockOrder
from target_service.core.budget import Budget
from target_service.core.estimates import Replies
from target_service.core.policy import Arrival, Part
from target_service.core.price import Steps, price
from target_service.core.state import Phase
from target_service.core.step import behind, buildable, leases_locally, unread
from target_service.engine.record import Place, Record


class Watched(Protocol):
    """The sessions of an engine, as far as they matter here."""

    replies: Replies
    """Reply times of all sessions, for those that have none yet."""

    def __iter__(self) -> Iterator[Record]:
        """Yield the records, oldest first."""


class Outlook:
    """Looks at sessions; changes nothing."""

    def __init__(self, sessions: Watched, budget: Budget) -> None:
        self._sessions = sessions
        self._budget = budget

    def ready(self) -> Part:
        """Return what is ready, as far as a step goes; what is read counts as one token, however much it is."""
        rows, tokens, leased, unread_rows = 0, 0.0, 0.0, 0
        for record in self._sessions:
            session = record.session
            if record.place is not Place.CACHED:
                continue
            if behind(session):
                unread_rows += unread(session)
            elif buildable(session):
                if session.phase is Phase.LEASE:
                    guesses = leases_locally(session)  # written when the step is built: the last ones stand for them
                    rows += record.rows if guesses else 1
                    leased += record.guessed.mean if guesses else 1.0
                else:
                    rows += 1 + (len(session.block.ids) if session.block else 0)
                    tokens += record.emitted.mean if session.block else 1.0
        tokens += leased
        if unread_rows:
            rows, tokens = rows + min(unread_rows, self._budget.prompt_rows), tokens + 1.0
        return Part(min(rows, self._budget.step_rows), tokens, leased)

    def arrivals(self, now_us: int) -> list[Arrival]:
        """Return the sessions whose block is expected: by the end of their wait, or as soon as they usually reply.

        A session that has just been answered counts although its Commit is not here yet: a draft that worked ahead
        comes with it, a moment after the step that this decision would start.
        """
        arrivals = []
        for record in self._sessions:
            session = record.session
            if record.place is not Place.CACHED or behind(session):
                continue
            if session.phase is Phase.WAIT and session.commit is not None:
                due_us = self._due(record, now_us)
                due_us = record.hold_us if due_us is None else min(due_us, record.hold_us)
                order, most = session.commit.order, session.bounds.gamma_max
                rows = min(order.gamma, most) + 1 if isinstance(order, BlockOrder) else 1
                arrivals.append(_arrival(record, rows, due_us, limit_us=record.hold_us))
            elif session.phase is Phase.IDLE:
                due_us = self._due(record, now_us)
                if due_us is not None:
                    arrivals.append(_arrival(record, record.rows, due_us, limit_us=None))
        return arrivals

    def price(self, steps: Steps) -> float | None:
        """Return the price of a verified token, with every session that decodes in one step; None without any."""
        decoding = [r for r in self._sessions if r.place is Place.CACHED and r.session.phase is not Phase.PREFILL]
        rates = [record.acceptance.rate for record in decoding if record.session.tickets]
        most = max((record.session.bounds.gamma_max for record in decoding), default=0)
        return price(rates, len(decoding) - len(rates), most=most, steps=steps)

    def _due(self, record: Record, now_us: int) -> int | None:
        """Return when the session's block is expected: by its own replies, before it has any by everybody's."""
        if record.result_us is None:
            return None
        elapsed_us = now_us - record.result_us
        replies = record.replies if record.replies.known else self._sessions.replies
        reply_us = replies.due(elapsed_us)
        return None if reply_us is None else record.result_us + reply_us


def _arrival(record: Record, rows: int, due_us: int, *, limit_us: int | None) -> Arrival:
    reply_us = None if record.result_us is None else due_us - record.result_us
    return Arrival(Part(rows, record.emitted.mean), due_us, limit_us, reply_us)
