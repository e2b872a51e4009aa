"""Warm-up: a few steps of growing size, so that the first request is not slow and the cost curve is known."""

from __future__ import annotations

from foreword.runner.port import Rows, Runner
from target_service.core.estimates import StepTimes
from target_service.ports import Now

SHORT, LONG = 32, 512
"""Tokens that stand before the measured rows."""
ROWS, LONG_ROWS = (1, 2, 4, 8, 16, 64), (1, 8)
"""Rows of the measured steps, behind a short context and behind a long one."""
REPEATS = 5
"""Steps that count of each size: more than it takes for a size to count, since others start beside it."""


def warm_up(runner: Runner, *, now: Now) -> StepTimes:
    """Measure steps of one slot, as far as they fit, and return their times; the runner is left without slots."""
    times = StepTimes()
    memory = runner.memory
    room = min(runner.longest_context, memory.pages * memory.page_size)
    runner.open(0)
    _measure(runner, times, max(0, min(SHORT, room - 16)), ROWS, room=room, now=now)
    _measure(runner, times, LONG, LONG_ROWS, room=room, now=now)
    runner.close(0)
    return times


def _measure(runner: Runner, times: StepTimes, context: int, sizes: tuple[int, ...], *, room: int, now: Now) -> None:
    """Measure steps behind so many tokens, of each size that there is room for."""
    held = runner.length(0)
    if context + sizes[0] > room:
        return
    if context > held:
        runner.forward([Rows(0, (0,) * (context - held), 0)])
    for repeat in range(REPEATS + 1):  # size after size: a machine that is slow for a while is so for all of them
        for rows in (size for size in sizes if context + size <= room):
            started_us = now()
            runner.forward([Rows(0, (0,) * rows, rows)])
            if repeat:  # the first one may pay for kernels and memory
                times.add(rows, context, step_us=now() - started_us)
            runner.truncate(0, context)
