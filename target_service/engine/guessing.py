"""Asks the target's own drafter for candidates, for all sessions whose lease wants some."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from foreword.laws.edits import TokenMask
from foreword.protocol.messages import LocalOrder
from foreword.values import replace
from target_service.core.state import Session
from target_service.core.step import context_from, guessed, wanted_guess
from target_service.engine.outbox import Outbox
from target_service.engine.record import Record
from target_service.local.port import LocalDrafter, Wish

_log = structlog.stdlib.get_logger(__name__)

FAILURES = 3
"""Times in a row that the drafter may raise before it is left alone."""


class Guessing:
    """Tells the drafter how texts go on, and sessions what it guesses; without a drafter all leases are plain."""

    def __init__(self, drafter: LocalDrafter | None, outbox: Outbox) -> None:
        self._drafter = drafter
        self._outbox = outbox
        self._failures = 0

    def guess(self, records: Sequence[Record]) -> None:
        """Write candidates for the next step of those who want some, just before the step is built."""
        if self._drafter is None:
            return
        asking, wishes = _wishes(self._drafter, records)
        if not wishes:
            return
        try:
            guesses = self._drafter.guess(wishes)
        except Exception as error:  # candidates are never needed: these sessions take a plain step
            self._failed(error)
            return
        self._failures = 0
        for record, wish, guess in zip(asking, wishes, guesses, strict=True):
            session = replace(record.session, told=wish.stands + len(wish.new))
            record.session = guessed(session, guess)

    def forget(self, slot: int) -> None:
        """Free what the drafter holds of a session that is over."""
        if self._drafter is not None:
            self._drafter.close(slot)

    def _failed(self, error: Exception) -> None:
        self._outbox.count("failed_guess")
        self._failures += 1
        _log.warning("guessing failed", reason=str(error), in_a_row=self._failures)
        if self._failures >= FAILURES:
            self._drafter = None


def _wishes(drafter: LocalDrafter, records: Sequence[Record]) -> tuple[list[Record], list[Wish]]:
    """Return who tells and asks something, the oldest first as far as telling goes."""
    asking: list[Record] = []
    wishes: list[Wish] = []
    left = drafter.at_once
    for record in records:
        most = wanted_guess(record.session)
        if not most or not _serves(drafter, record.session):
            continue
        wish = _wish(record, most, at_once=left)
        left -= len(wish.new)
        if wish.new or wish.most:
            asking.append(record)
            wishes.append(wish)
    return asking, wishes


def _serves(drafter: LocalDrafter, session: Session) -> bool:
    """Whether the session asks for this drafter, and is not too long for it."""
    order = session.commit.order if session.commit else None
    asked = isinstance(order, LocalOrder) and order.drafter is drafter.kind
    return asked and session.length < drafter.longest_context


def _wish(record: Record, most: int, *, at_once: int) -> Wish:
    session = record.session
    new = context_from(session, session.told)
    if len(new) > at_once:
        return Wish(record.slot, session, session.told, new[:at_once], most=0)
    return Wish(record.slot, session, session.told, new, most, _mask(record))


def _mask(record: Record) -> TokenMask | None:
    """Return what the session's grammar lets come next, if that is known; a session without its mask will be lost."""
    known = record.mask is not None and record.mask.done() and record.mask.exception() is None
    return record.mask.result() if record.mask is not None and known else None
