"""Warm-up: a few steps of growing size, so that the first request is not slow and the cost curve is known."""

from __future__ import annotations

from foreword.runner.port import Rows, Runner
from target_service.core.estimates import StepTimes
from target_service.ports import Now

ROWS = (1, 2, 4, 8, 16)
"""Rows of the measured steps."""
REPEATS = 5
_CONTEXT = 32
"""Tokens that stand before the measured rows."""


def warm_up(runner: Runner, *, now: Now) -> StepTimes:
    """Measure steps of one slot and return their times; the runner is left without slots."""
    times = StepTimes()
    slot = 0
    runner.open(slot)
    context = min(_CONTEXT, runner.longest_context - max(ROWS))
    if context >= 1:
        runner.forward([Rows(slot, (0,) * context, 0)])
    for rows in ROWS:
        if max(context, 0) + rows > runner.longest_context:
            break
        for repeat in range(REPEATS + 1):
            started_us = now()
            runner.forward([Rows(slot, (0,) * rows, rows)])
            if repeat:  # the first one may pay for kernels and memory
                times.add(rows, max(context, 0), step_us=now() - started_us)
            runner.truncate(slot, max(context, 0))
    runner.close(slot)
    return times
