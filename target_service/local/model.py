"""A draft model inside the target's engine: it writes between two steps, one pass after another.

What distributed speculation is compared with: the same draft without a network, on the target's own time.
"""

from __future__ import annotations

from collections.abc import Sequence

from foreword.errors import ForewordError
from foreword.laws.pipeline import LawRows, try_target_laws
from foreword.protocol.messages import OneHot, Tokens
from foreword.protocol.words import Drafter
from foreword.runner.port import Logits, Rows, Runner
from target_service.core.state import Guess
from target_service.core.step import context_from
from target_service.local.draw import Pen
from target_service.local.port import Wish

READ_AT_ONCE = 256
"""Most tokens that are read before a step; of a text whose pages were given up too, when it is read again."""


class LocalModel:
    """Drafts with a runner of its own, whose ids are the target's; a slot holds what it has read of one text."""

    def __init__(self, runner: Runner, kind: Drafter, *, vocabulary_size: int) -> None:
        """Ids from `vocabulary_size` on are padding and are never drawn."""
        self._runner = runner
        self._kind = kind
        self._width = vocabulary_size
        self._open: set[int] = set()

    @property
    def kind(self) -> Drafter:
        """A model, or a synthetic one."""
        return self._kind

    @property
    def longest_context(self) -> int:
        """Most tokens of one session."""
        return self._runner.longest_context

    @property
    def at_once(self) -> int:
        """As many as a target reads of a prompt beside those that decode."""
        return READ_AT_ONCE

    def guess(self, wishes: Sequence[Wish]) -> list[Guess]:
        """Read what is new of every text, and draw candidates for those that are read to their ends."""
        self._make_room(wishes)
        pens: dict[int, Pen] = {}
        batch: list[Rows] = []
        for wish in wishes:
            if wish.slot in self._open:
                rows, ends = self._unread(wish)
                batch.append(Rows(wish.slot, rows, int(ends), wish.session.law.temperature))
                if ends:
                    pens[wish.slot] = Pen(wish.session, self._left(wish), wish.mask)
        while batch:
            drawing = [rows.slot for rows in batch if rows.need]
            logits = [one for rows, one in zip(batch, self._runner.forward(batch), strict=True) if rows.need]
            batch = self._draw([pens[slot] for slot in drawing], drawing, logits)
        return [self._written(pens.get(wish.slot)) for wish in wishes]

    def close(self, slot: int) -> None:
        """Forget a text."""
        if slot in self._open:
            self._open.remove(slot)
            self._runner.close(slot)

    def _unread(self, wish: Wish) -> tuple[Tokens, bool]:
        """Return the rows that a slot reads next, and whether candidates follow them."""
        told = wish.stands + len(wish.new)
        held = min(self._runner.length(wish.slot), wish.stands, told - 1)
        self._runner.truncate(wish.slot, held)
        rows = context_from(wish.session, held)[: told - held]
        return rows[:READ_AT_ONCE], wish.most > 0 and len(rows) <= READ_AT_ONCE

    def _left(self, wish: Wish) -> int:
        return min(wish.most, self._runner.longest_context - wish.session.length)

    def _make_room(self, wishes: Sequence[Wish]) -> None:
        """Open slots as far as the pages go, giving up those of texts that do not draft now."""
        asking = {wish.slot for wish in wishes}
        for wish in wishes:
            if wish.slot not in self._open:
                self._runner.open(wish.slot)
                self._open.add(wish.slot)
        idle = sorted(self._open - asking)
        wanted = [(wish.slot, self._pages(wish)) for wish in wishes]
        while idle and sum(pages for _, pages in wanted) > self._runner.memory.free:
            self.close(idle.pop())
        free = self._runner.memory.free
        for slot, pages in wanted:
            free -= pages
            if free < 0:  # the last ones go without; their pages serve the others next time
                self.close(slot)

    def _pages(self, wish: Wish) -> int:
        most = min(wish.stands + len(wish.new) + wish.most, self._runner.longest_context)
        return self._runner.pages_wanted(wish.slot, max(most, self._runner.length(wish.slot)))

    def _draw(self, pens: list[Pen], slots: list[int], logits: list[Logits]) -> list[Rows]:
        """Draw a candidate with each pen; return what the next pass reads."""
        laws = try_target_laws([self._law_rows(pen, one) for pen, one in zip(pens, logits, strict=True)])
        batch: list[Rows] = []
        for pen, slot, found in zip(pens, slots, laws, strict=True):
            if isinstance(found, ForewordError):  # nothing may come behind what was drawn: the block ends here
                continue
            token = pen.draw(found[0])
            if pen.left:
                batch.append(Rows(slot, (token,), 1, pen.session.law.temperature))
        return batch

    def _law_rows(self, pen: Pen, logits: Logits) -> LawRows:
        session = pen.session
        prompt: Tokens = ()
        output: Tokens = ()
        if session.law.penalizes or pen.mask is not None:
            length = session.sequence.prompt_len
            text = session.context + pen.ids
            prompt, output = text[:length], text[length:]
        return LawRows(
            session.law,
            logits,
            prompt=prompt,
            output=output,
            candidates=(),
            first_position=pen.position,
            mask=pen.mask,
            vocabulary_size=self._width,
        )

    def _written(self, pen: Pen | None) -> Guess:
        return Guess((), OneHot(), self._kind) if pen is None else Guess(pen.ids, pen.law, self._kind)
