"""Times of something that is done over and over."""

from __future__ import annotations

import time
from collections.abc import Callable

FEWEST = 5


def timed(
    once: Callable[[], object], undo: Callable[[], object], *, seconds: float, fewest: int = FEWEST
) -> list[float]:
    """Return the seconds of each call of `once`, for about that long and at least `fewest` times.

    `undo` is called after each and not timed; the first call is not counted.
    """
    once()
    undo()
    taken: list[float] = []
    while len(taken) < fewest or sum(taken) < seconds:
        began = time.perf_counter()
        once()
        taken.append(time.perf_counter() - began)
        undo()
    return taken
