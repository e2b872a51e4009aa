"""Where a session begins to read: behind what others have left of its text in the cache.

Equal prompts that come together are read once: a session does not begin while an older one is about to read the next
page of the same text, and finds that page when it does.
"""

from __future__ import annotations

from collections.abc import Iterable

from foreword.protocol.sequence import common
from foreword.runner.port import Runner
from foreword.values import replace
from target_service.core.state import Phase
from target_service.core.step import behind, findable
from target_service.engine.intake import Intake
from target_service.engine.line import Line
from target_service.engine.masks import Masks
from target_service.engine.outbox import Outbox
from target_service.engine.record import Place, Record


class Beginnings:
    """Lets sessions with room begin, oldest first."""

    def __init__(self, runner: Runner, line: Line, intake: Intake, outbox: Outbox, *, masks: Masks) -> None:
        self._runner = runner
        self._page_size = runner.memory.page_size
        self._line = line
        self._intake = intake
        self._outbox = outbox
        self._masks = masks
        self._leads: dict[int, tuple[Record, int]] = {}
        """By the slot of a session that has not begun: an older one, and how much of its text is the same."""

    def begin(self, now_us: int) -> bool:
        """Let all begin that nobody reads ahead of; return whether some wait for their grammar to be understood."""
        admitted = self._line.beginning
        beginning = [record for record in admitted if self._masks.ready(record)]
        if not beginning:
            return bool(admitted)
        waiting = {record.slot for record in beginning}
        self._leads = {slot: lead for slot, lead in self._leads.items() if slot in waiting}
        readers = [record for record in self._line.cached if behind(record.session)]
        for record in beginning:
            if not self._follows(record, readers):
                self._leads.pop(record.slot, None)
                self._begin(record, now_us)
                if behind(record.session):
                    readers.append(record)
        return len(beginning) < len(admitted)

    def _begin(self, record: Record, now_us: int) -> None:
        if self._runner.length(record.slot):  # taken when it was admitted; by now there may be more
            self._runner.truncate(record.slot, 0)
        context = record.session.context
        cached = self._runner.adopt(record.slot, findable(record.session))
        record.session = replace(record.session, cached=cached)
        record.shared_pages = cached // self._page_size
        self._line.begun(record)
        if record.hit_tokens is None:
            record.hit_tokens = cached
            self._outbox.looked_up(len(context), hit=cached)
        else:
            self._outbox.count("recomputed_tokens", len(context) - cached)
        if record.session.phase is Phase.PREFILL and not behind(record.session):
            self._intake.prefill_done(record, now_us=now_us)

    def _follows(self, record: Record, readers: Iterable[Record]) -> bool:
        """Whether somebody is about to read a page that this session can begin with."""
        lead = self._leads.get(record.slot)
        if lead is not None and self._leads_on(*lead):
            return True
        for reader in readers:
            if reader.salt != record.salt:
                continue
            mine, theirs = findable(record.session), reader.session.sequence.tokens
            ends = self._next_page(reader)
            if ends > min(len(mine) - 1, len(theirs)) or mine[ends - 1] != theirs[ends - 1]:
                continue
            lead = reader, min(common(mine, theirs, 0), len(mine) - 1)
            if self._leads_on(*lead):
                self._leads[record.slot] = lead
                return True
        return False

    def _leads_on(self, reader: Record, same: int) -> bool:
        here = reader.place is Place.CACHED and reader.session.phase is not Phase.GONE
        return here and behind(reader.session) and self._next_page(reader) <= same

    def _next_page(self, reader: Record) -> int:
        """Return where the page ends that a session reads next."""
        return (reader.session.cached // self._page_size + 1) * self._page_size
