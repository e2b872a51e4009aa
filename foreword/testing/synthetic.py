"""Synthetic runner: the port of real models with laws from a hash and step times from settings; numpy only."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from foreword.models.synthetic import SyntheticModel
from foreword.protocol.digest import EMPTY, extend
from foreword.runner.checks import check_batch, check_truncation, taken_slot, unknown_slot
from foreword.runner.port import Logits, Rows
from foreword.testing.synthetic_laws import SyntheticLaws

_TIMER_SLACK_S = 0.0003
"""Most that a sleep is late on a machine with a core to spare."""


class Side(Enum):
    """Which law of a pair a synthetic runner gives."""

    TARGET = "target"
    DRAFT = "draft"


@dataclass(frozen=True, slots=True)
class Pace:
    """Where a synthetic runner's time passes; seconds."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


class SyntheticRunner:
    """A `Runner` whose logits are functions of (model, context) and whose passes take the model's step time."""

    def __init__(self, model: SyntheticModel, *, side: Side, pace: Pace | None = None) -> None:
        self._model = model.validate()
        self._side = side
        self._pace = pace or Pace()
        self._laws = SyntheticLaws(model)
        self._digests: dict[int, list[int]] = {}  # slot → digest of every prefix, the empty one first
        self._overslept = 0.0

    @property
    def vocabulary_size(self) -> int:
        """V: columns of the logits."""
        return self._model.vocabulary

    @property
    def longest_context(self) -> int:
        """Most tokens that a slot can hold."""
        return self._model.context

    @property
    def resident_tokens(self) -> int:
        """Tokens held over all slots."""
        return sum(len(digests) - 1 for digests in self._digests.values())

    def open(self, slot: int) -> None:
        """Start an empty slot."""
        if slot in self._digests:
            raise taken_slot(slot)
        self._digests[slot] = [EMPTY]

    def close(self, slot: int) -> None:
        """Free a slot."""
        del self._digests[self._known(slot)]

    def length(self, slot: int) -> int:
        """Return how many tokens the slot holds."""
        return len(self._digests[self._known(slot)]) - 1

    def truncate(self, slot: int, length: int) -> None:
        """Forget the tokens from position `length` on."""
        check_truncation(length, self.length(slot))
        del self._digests[slot][length + 1 :]

    def forward(self, batch: Sequence[Rows]) -> list[Logits]:
        """Append all rows; return when the model's step time has passed since the call."""
        started = self._pace.now()
        check_batch(batch, self.length, vocabulary_size=self.vocabulary_size, longest_context=self.longest_context)
        wanted: list[int] = []
        temperatures: list[float] = []
        for rows in batch:
            wanted += self._append(rows)
            temperatures += [rows.temperature] * rows.need
        logits = self._logits(np.array(wanted, dtype=np.uint64), np.array(temperatures))
        ends = np.cumsum([rows.need for rows in batch])
        self._wait(started + self._step_seconds(sum(len(rows.tokens) for rows in batch)))
        return [logits[end - rows.need : end] for end, rows in zip(ends, batch, strict=True)]

    def _append(self, rows: Rows) -> list[int]:
        digests = self._digests[rows.slot]
        digest = digests[-1]
        for token in rows.tokens:
            digest = extend(digest, (token,))
            digests.append(digest)
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

    def _known(self, slot: int) -> int:
        if slot not in self._digests:
            raise unknown_slot(slot)
        return slot
