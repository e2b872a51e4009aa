"""Where the time of a pass goes, by Python's own profiler: it costs a microsecond a call, and a pass has hundreds.

What compiled code takes counts for the Python function that calls it, so names are those of the runner's functions.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Final

from loadtest.engine.clock import timed

PASS, LINEAR, ATTENTION, REST, AROUND = "pass", "linear layers", "attention", "rest of the model", "around the model"
NAMES: Final[Mapping[tuple[str, str], str]] = {
    ("runner/paged.py", "forward"): PASS,
    ("fused/model.py", "run"): "model",
    ("runner/module_model.py", "run"): "model",
    ("runner/product.py", "__call__"): LINEAR,
    ("modules/linear.py", "forward"): LINEAR,
    ("runner/tiles.py", "attend_packed"): ATTENTION,
    ("runner/key_values.py", "attend"): ATTENTION,
}
"""The last two parts of a file's path and the function, and what its time counts as; none is called by another's."""


def profiled(once: Callable[[], object], undo: Callable[[], object], *, seconds: float) -> dict[str, float]:
    """Return the mean seconds of a call of `once` by part; those behind the first add up to it."""
    profiler = cProfile.Profile()
    calls = timed(lambda: profiler.runcall(once), undo, seconds=seconds)
    stats: Any = pstats.Stats(profiler)
    return parts_of(stats.stats, len(calls) + 1)


def parts_of(stats: Mapping[tuple[str, int, str], tuple[Any, ...]], calls: int) -> dict[str, float]:
    """Return the parts of a call; `stats` are those of pstats, in seconds over all calls."""
    total = dict.fromkeys((PASS, "model", LINEAR, ATTENTION), 0.0)
    for (file, _, function), (_, _, _, cumulative, *_) in stats.items():
        name = NAMES.get(("/".join(PurePath(file).parts[-2:]), function))
        if name is not None:
            total[name] += cumulative / calls
    rest = total["model"] - total[LINEAR] - total[ATTENTION]
    return {
        PASS: total[PASS],
        LINEAR: total[LINEAR],
        ATTENTION: total[ATTENTION],
        REST: rest,
        AROUND: total[PASS] - total["model"],
    }
