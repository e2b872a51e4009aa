"""One packed forward pass as plain integers: what a device, or every rank of a group, has to be told.

Rows of many slots stand one after another. A span is the rows of one slot, which continue its cached sequence; its
pages are where the keys and values of that sequence lie, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Protocol

import numpy as np
import numpy.typing as npt

from foreword.errors import ProtocolFault
from foreword.runner.port import Logits

Integers = npt.NDArray[np.int32]

_HEAD = 4
"""Integers in front of a plan that is written down: how many rows, wanted rows, spans and copies follow."""
_SPAN = 4
"""Integers of a span without its pages."""


@dataclass(frozen=True, slots=True)
class Span:
    """The rows first … last - 1: tokens of one slot at the positions start, start + 1, …"""

    first: int
    last: int
    start: int
    pages: tuple[int, ...]
    """Pages of the slot's sequence up to the end of these rows."""

    @property
    def end(self) -> int:
        """Length of the slot's sequence after these rows."""
        return self.start + self.last - self.first


@dataclass(frozen=True)
class StepPlan:
    """Rows of one forward pass."""

    tokens: Integers
    """Int32 [N]."""
    wanted: Integers
    """Int32 [K]: rows whose logits are wanted, ascending."""
    spans: tuple[Span, ...]
    copies: tuple[tuple[int, int], ...] = ()
    """Pages (source, copy) to be copied before anything is written: whoever shares one writes into a copy."""

    @classmethod
    def of(
        cls, tokens: Sequence[int], wanted: Sequence[int], spans: Sequence[Span], copies: Sequence[tuple[int, int]] = ()
    ) -> StepPlan:
        """Return the plan of these rows."""
        return cls(np.array(tokens, np.int32), np.array(wanted, np.int32), tuple(spans), tuple(copies))

    @cached_property
    def positions(self) -> Integers:
        """Int32 [N]: place of every row in its slot's sequence."""
        return np.concatenate([np.arange(span.start, span.end, dtype=np.int32) for span in self.spans])

    @cached_property
    def owners(self) -> Integers:
        """Int32 [N]: span of every row."""
        counts = [span.last - span.first for span in self.spans]
        return np.repeat(np.arange(len(self.spans), dtype=np.int32), counts)

    @cached_property
    def tables(self) -> Integers:
        """Int32 [spans, most pages]: pages of every span; what lies behind its end is 0 and not looked at."""
        table = np.zeros((len(self.spans), max(len(span.pages) for span in self.spans)), np.int32)
        for row, span in zip(table, self.spans, strict=True):
            row[: len(span.pages)] = span.pages
        return table

    def write(self) -> Integers:
        """Return the plan as int32 [n], to be broadcast."""
        heads = [(span.first, span.last, span.start, len(span.pages)) for span in self.spans]
        numbers = [len(self.tokens), len(self.wanted), len(self.spans), len(self.copies)]
        numbers += chain.from_iterable(heads)
        for span in self.spans:
            numbers += span.pages
        numbers += chain.from_iterable(self.copies)
        return np.concatenate([np.array(numbers, np.int32), self.tokens, self.wanted])

    @classmethod
    def read(cls, numbers: Integers) -> StepPlan:
        """Return the plan that `write` wrote; raises ProtocolFault if it is not one."""
        try:
            return cls._read(numbers)
        except (IndexError, ValueError) as error:
            raise ProtocolFault(f"plan: got {len(numbers)} integers that are no plan") from error

    @classmethod
    def _read(cls, numbers: Integers) -> StepPlan:
        rows, wanted, spans, copies = (int(n) for n in numbers[:_HEAD])
        place = _HEAD + _SPAN * spans
        heads = numbers[_HEAD:place].reshape(spans, _SPAN).tolist()
        read: list[Span] = []
        for first, last, start, pages in heads:
            read.append(Span(first, last, start, tuple(numbers[place : place + pages].tolist())))
            place += pages
        pairs = numbers[place : place + 2 * copies].reshape(copies, 2).tolist()
        place += 2 * copies
        if len(numbers) != place + rows + wanted:
            raise ValueError("length")
        tokens, rest = numbers[place : place + rows], numbers[place + rows :]
        return cls(tokens, rest, tuple(read), tuple((source, copy) for source, copy in pairs))


class StepModel(Protocol):
    """A model with keys and values in pages, whose forward pass is told everything by a plan."""

    @property
    def vocabulary_size(self) -> int:
        """V: columns of the logits."""

    @property
    def page_size(self) -> int:
        """Tokens of a page."""

    @property
    def pages(self) -> int:
        """Pages that there is room for."""

    def run(self, plan: StepPlan) -> Logits:
        """Run the pass and return float32 [K, V], the logits of the wanted rows; raises whatever the device raises."""
