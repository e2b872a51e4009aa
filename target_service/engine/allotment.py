"""Who gets the pages of a step: the oldest first; where they run out, the youngest session gives up its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foreword.runner.port import Runner
from foreword.values import replace
from target_service.engine.line import Line
from target_service.engine.outbox import Outbox
from target_service.engine.record import Place, Record


@dataclass(frozen=True, slots=True)
class Ask:
    """What a session wants to append in a step."""

    record: Record
    rows: int
    reads: bool = False
    """Whether it reads its text, of which a part will do as well."""


class Allotment:
    """Gives out pages and takes them back."""

    def __init__(self, runner: Runner, line: Line, outbox: Outbox) -> None:
        self._runner = runner
        self._line = line
        self._outbox = outbox

    def allot(self, asks: Sequence[Ask]) -> tuple[list[Ask], list[Record]]:
        """Return what can be granted of `asks`, which come oldest first, and the sessions that never will fit.

        Slots are cut to what is usable of them. Sessions that lost their pages are back in line, in whatever phase they
        are; a session never fits if it has all pages to itself and still lacks some.
        """
        granted: list[Ask] = []
        lacking: list[Record] = []
        taken = 0
        for ask in asks:
            record = ask.record
            if self._runner.length(record.slot) > record.session.cached:
                self._runner.truncate(record.slot, record.session.cached)
        for ask in asks:
            while ask.record.place is Place.CACHED:
                part, wanted = self._fitting(ask, self._runner.memory.free - taken)
                if part is not None:
                    granted.append(part)
                    taken += wanted
                    break
                holders = self._line.holders()
                if not granted and holders in ([], [ask.record]):
                    lacking.append(ask.record)
                    break
                self._preempt(max(ask.record, *holders, key=_age))
        return granted, lacking

    def _preempt(self, record: Record) -> None:
        self._line.preempt(record)
        self._outbox.count("preempted")

    def _fitting(self, ask: Ask, free: int) -> tuple[Ask | None, int]:
        """Return as much of what is asked for as `free` pages hold, and how many pages it takes."""
        record = ask.record
        cached = record.session.cached
        wanted = self._runner.pages_wanted(record.slot, cached + ask.rows)
        if wanted <= free:
            return ask, wanted
        if not ask.reads:
            return None, 0
        size = self._runner.memory.page_size
        rows = (-(-cached // size) + free) * size - cached
        wanted = self._runner.pages_wanted(record.slot, cached + rows) if rows else 0
        return (replace(ask, rows=rows), wanted) if rows and wanted <= free else (None, 0)


def _age(record: Record) -> int:
    return record.slot
