"""Pages reserved for one forward pass: kept when the pass succeeds, given back when it raises."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple

from foreword.runner.pages.slot import SlotPages
from foreword.runner.pages.stock import PageStock

Copy = tuple[int, int]
"""The page to copy from and the page to copy to."""


class Grown(NamedTuple):
    """A slot before it grew."""

    slot: SlotPages
    length: int
    shared: int | None
    """The page that its last tokens lay in, if that has been replaced by a copy."""


@dataclass(slots=True)
class Reservation:
    """A context: leaving it keeps what the slots have grown by, leaving it by an exception takes that back.

    Nothing else may be asked of the pool inside. The pages copied from stay held until the end, so that none of them is
    written to or taken by the pass that copies it.
    """

    stock: PageStock
    page_size: int
    copies: list[Copy] = field(default_factory=list)
    """What the device has to copy before the pass writes anything; whole pages, in any order."""
    grown: list[Grown] = field(default_factory=list)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            for source, _ in self.copies:
                self.stock.release(source)
        else:
            self._undo()

    def _undo(self) -> None:
        for grown in reversed(self.grown):
            slot = grown.slot
            cut(slot, grown.length, stock=self.stock, page_size=self.page_size)
            if grown.shared is not None:
                self.stock.release(slot.table[-1])
                slot.table[-1] = grown.shared


def cut(slot: SlotPages, length: int, *, stock: PageStock, page_size: int) -> None:
    """Forget a slot's tokens from `length` on; O(pages let go of)."""
    table = slot.table
    for _ in range(len(table) - -(-length // page_size)):
        stock.release(table.pop())  # the last page of the text first: see PrefixIndex
    del slot.tokens[length:]
    del slot.chain[1 + length // page_size :]
