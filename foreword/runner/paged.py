"""The runner of real models: slots on a page pool, and a model that runs one packed pass after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from foreword.errors import EngineFailure, ForewordError, InvalidField
from foreword.runner.checks import check_batch
from foreword.runner.pages.pool import PagePool
from foreword.runner.pages.pooled_slots import PooledSlots
from foreword.runner.plan import Span, StepModel, StepPlan
from foreword.runner.port import Logits, Rows


@dataclass(frozen=True, slots=True)
class _Part:
    """Tokens of one entry of the batch in one pass; the last `need` of them want logits."""

    index: int
    slot: int
    start: int
    tokens: tuple[int, ...]
    need: int


class PagedRunner(PooledSlots):
    """A `Runner` on a `StepModel`; logits beyond `vocabulary_size` (padding rows of the embedding) are cut off."""

    def __init__(self, model: StepModel, *, vocabulary_size: int, longest_context: int, chunk: int = 512) -> None:
        """Take over `model`; `chunk` bounds the rows of one pass, so that a long prompt does not need more memory."""
        if chunk < 1:
            raise InvalidField("chunk", chunk, "a whole number from 1")
        super().__init__(PagePool(model.pages, model.page_size))
        self._model = model
        self._vocabulary_size = vocabulary_size
        self._longest_context = min(longest_context, model.pages * model.page_size)
        self._chunk = chunk

    @property
    def vocabulary_size(self) -> int:
        """V: columns of the logits."""
        return self._vocabulary_size

    @property
    def longest_context(self) -> int:
        """Most tokens that a slot can hold."""
        return self._longest_context

    @property
    def spent_ns(self) -> tuple[int, ...]:
        """Where the time of passes went, added up: products, attention, the rest; of a model that does not say, 0."""
        spent: Sequence[int] = getattr(self._model, "spent_ns", (0, 0, 0))
        return tuple(int(part) for part in spent)

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        """Append all rows, in one pass where they are no more than `chunk`; return logits in the order of the batch."""
        check_batch(batch, self.length, vocabulary_size=self._vocabulary_size, longest_context=self._longest_context)
        starts = [self.length(rows.slot) for rows in batch]
        pieces: list[list[Logits]] = [[] for _ in batch]
        with self._pool.reserve([(rows.slot, rows.tokens) for rows in batch]) as reserved:
            copies = tuple(reserved.copies)
            try:
                for parts in _passes(batch, starts, self._chunk):
                    logits = self._model.run(self._plan(parts, copies))[:, : self._vocabulary_size]
                    copies = ()
                    for part, rows in zip(parts, np.split(logits, np.cumsum([p.need for p in parts])), strict=False):
                        pieces[part.index].append(rows)
            except Exception as error:
                if isinstance(error, ForewordError):
                    raise
                raise EngineFailure(f"forward pass of {sum(len(r.tokens) for r in batch)} rows: {error}") from error
        return [piece[0] if len(piece) == 1 else np.concatenate(piece) for piece in pieces]

    def _plan(self, parts: Sequence[_Part], copies: tuple[tuple[int, int], ...]) -> StepPlan:
        size = self._pool.page_size
        tokens: list[int] = []
        wanted: list[int] = []
        spans: list[Span] = []
        for part in parts:
            first = len(tokens)
            tokens += part.tokens
            last = len(tokens)
            wanted += range(last - part.need, last)
            pages = self._pool.table(part.slot)[: -(-(part.start + len(part.tokens)) // size)]
            spans.append(Span(first, last, part.start, tuple(pages)))
        return StepPlan.of(tokens, wanted, spans, copies)


def _passes(batch: Sequence[Rows], starts: Sequence[int], chunk: int) -> Iterator[list[_Part]]:
    """Cut a batch into passes of at most `chunk` rows; what is cut goes on in the next pass."""
    parts: list[_Part] = []
    room = chunk
    for index, (rows, start) in enumerate(zip(batch, starts, strict=True)):
        done, count = 0, len(rows.tokens)
        while done < count:
            end = min(count, done + room)
            need = max(0, end - max(done, count - rows.need))
            parts.append(_Part(index, rows.slot, start + done, rows.tokens[done:end], need))
            room -= end - done
            done = end
            if room == 0:
                yield parts
                parts, room = [], chunk
    if parts:
        yield parts
