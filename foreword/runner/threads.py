"""How many threads a pass is worth: all of them, unless it is over before another one has woken up."""

from __future__ import annotations

from dataclasses import dataclass

from numba import get_num_threads, set_num_threads

FEW_ROWS = 32
"""Rows of a pass that is over before waking another thread for each of its products has paid."""
SMALL_BYTES = 32 << 20
"""Weights that one thread reads in two or three milliseconds."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads for passes of one model.

    Beside other processes a thread that has slept comes late: with two for a draft of 12 MB a candidate took 2 ms in
    the median and 5 in the worst tenth, with one 1.6 and 2.
    """

    most: int
    small: bool

    @classmethod
    def now(cls, weight_bytes: int) -> Threads:
        """Return those for a model that reads so much in a pass, up to what this thread may use now."""
        return cls(int(get_num_threads()), weight_bytes <= SMALL_BYTES)

    def use(self, rows: int) -> None:
        """Have what follows in this thread run on as many as a pass of so many rows is worth."""
        set_num_threads(1 if self.small and rows <= FEW_ROWS else self.most)
