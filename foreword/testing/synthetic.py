"""Synthetic runner: the port of real models with laws from a hash and step times from settings; numpy only."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from foreword.models.synthetic import SyntheticModel
from foreword.protocol.digest import EMPTY, extend
from foreword.runner.checks import check_batch
from foreword.runner.pages.pool import PagePool
from foreword.runner.pages.pooled_slots import PooledSlots
from foreword.runner.port import Logits, Rows
from foreword.testing.synthetic_laws import SyntheticLaws

_TIMER_SLACK_S = 0.0003
"""Most that a sleep is late on a machine with a core to spare."""

PAGE_SIZE = 16
PAGES = 1 << 17
"""Two million tokens: more than any test or load test holds unless it means to run out of them."""


class Side(Enum):
    """Which law of a pair a synthetic runner gives."""

    TARGET = "target"
    DRAFT = "draft"


@dataclass(frozen=True, slots=True)
class Pace:
    """Where a synthetic runner's time passes; seconds."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


class SyntheticRunner(PooledSlots):
    """A `Runner` whose logits are functions of (model, context) and whose passes take the model's step time.

    Its pages hold digests where those of real models hold keys and values, so that a page in the wrong place gives
    wrong logits here too.
    """

    def __init__(
        self,
        model: SyntheticModel,
        *,
        side: Side,
        pace: Pace | None = None,
        pages: int = PAGES,
        page_size: int = PAGE_SIZE,
    ) -> None:
        super().__init__(PagePool(pages, page_size))
        self._model = model.validate()
        self._side = side
        self._pace = pace or Pace()
        self._laws = SyntheticLaws(model)
        self._cells: dict[int, list[int]] = {}  # page → digest of the text up to each of its tokens
        self._overslept = 0.0

    @property
    def vocabulary_size(self) -> int:
        """V: columns of the logits."""
        return self._model.vocabulary

    @property
    def longest_context(self) -> int:
        """Most tokens that a slot can hold."""
        return self._model.context

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        """Append all rows; return when the model's step time has passed since the call."""
        started = self._pace.now()
        check_batch(batch, self.length, vocabulary_size=self.vocabulary_size, longest_context=self.longest_context)
        with self._pool.reserve([(rows.slot, rows.tokens) for rows in batch]) as reserved:
            for source, copy in reserved.copies:
                self._cells[copy] = list(self._cells[source])
            wanted = [digest for rows in batch for digest in self._append(rows)]
            temperatures = [rows.temperature for rows in batch for _ in range(rows.need)]
            logits = self._logits(np.array(wanted, dtype=np.uint64), np.array(temperatures))
        ends = np.cumsum([rows.need for rows in batch])
        self._wait(started + self._step_seconds(sum(len(rows.tokens) for rows in batch)))
        return [logits[end - rows.need : end] for end, rows in zip(ends, batch, strict=True)]

    def _append(self, rows: Rows) -> list[int]:
        """Write the digests of a slot's rows into its pages; return those of the last `need`."""
        table, size = self._pool.table(rows.slot), self._pool.page_size
        start = self._pool.length(rows.slot) - len(rows.tokens)
        digest = self._cells[table[(start - 1) // size]][(start - 1) % size] if start else EMPTY
        digests = []
        for token in rows.tokens:
            digest = extend(digest, (token,))
            digests.append(digest)
        written, offset = 0, start % size
        for page in table[start // size :]:
            end = written + size - offset
            self._cells.setdefault(page, [])[offset:] = digests[written:end]
            written, offset = end, 0
        return digests[len(digests) - rows.need :]

    def _logits(self, digests: np.ndarray, temperatures: np.ndarray) -> Logits:
        if self._side is Side.TARGET:
            return self._laws.target(digests)
        return self._laws.draft(digests, temperatures)

    def _step_seconds(self, rows: int) -> float:
        model = self._model
        return (model.step_ms + model.slope_ms * max(0, rows - model.knee)) / 1000.0 if rows else 0.0

    def _wait(self, until: float) -> None:
        until -= self._overslept
        while (left := until - self._pace.now()) > 0.0:
            self._pace.sleep(left)
        # What the timer overslept is taken off the next pass, so that the mean is right; a stall of the machine is not.
        self._overslept = min(max(0.0, self._pace.now() - until), _TIMER_SLACK_S)
