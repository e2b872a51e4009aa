"""What a model takes to draft a block: what the first candidate takes more than others, and what each takes.

Between two blocks a target reads its weights through the same caches, and a draft reads what was committed: the first
candidate of a block waits for memory. Taken as the same for all, a candidate would look dearer the shorter blocks are,
and blocks would stay short for it.
"""

from __future__ import annotations

from collections import defaultdict

from orchestrator.control.fading import Fading

_ENOUGH = 4
"""Blocks of one length whose median tells."""
_LEAST_SHARE = 0.3
"""Of the mean over a long block's candidates, what a further one takes at least."""
_LONGEST = 16
_OLD = 128
"""Blocks after which what a length took tells of another time."""


class Drafting:
    """Takes blocks; medians of two lengths give both numbers, one of a single length gives their sum for each."""

    def __init__(self) -> None:
        self._ratio = Fading()
        self._by_length: defaultdict[int, Fading] = defaultdict(lambda: Fading(size=8))
        self._blocks = 0
        self._last: dict[int, int] = {}
        """Which block was the last of a length."""

    def add(self, offered: int, took_us: float) -> None:
        """Take a block of so many candidates, at least one."""
        self._ratio.add(took_us / offered)
        length = min(offered, _LONGEST)
        self._blocks += 1
        if self._blocks - self._last.get(length, self._blocks) > _OLD:
            self._by_length[length].clear()
        self._by_length[length].add(took_us)
        self._last[length] = self._blocks

    @property
    def each_us(self) -> float | None:
        """What a candidate takes; None before the first block."""
        line = self._line()
        return self._ratio.median if line is None else line[1]

    @property
    def begin_us(self) -> float:
        """What the first takes more; 0 where blocks were all of one length, or there were none."""
        line = self._line()
        return 0.0 if line is None else line[0]

    @property
    def known(self) -> bool:
        """Whether there were blocks of two lengths."""
        return self._line() is not None

    def _line(self) -> tuple[float, float] | None:
        """Return the line through the medians of the shortest and the longest length that are known."""
        known = sorted(
            length
            for length, seen in self._by_length.items()
            if len(seen) >= _ENOUGH and self._blocks - self._last[length] <= _OLD
        )
        if len(known) < 2:
            return None
        short, long = known[0], known[-1]
        of_short, of_long = self._by_length[short].median or 0.0, self._by_length[long].median or 0.0
        mean_us = of_long / long
        each_us = min(max((of_long - of_short) / (long - short), _LEAST_SHARE * mean_us), mean_us)
        return max(0.0, of_long - each_us * long), each_us
