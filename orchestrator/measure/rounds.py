"""The seven parts of a round (docs/architecture.md), each a duration on one machine's clock."""

from __future__ import annotations

import statistics
from collections import deque
from typing import NamedTuple

from foreword.protocol.generation import RoundPart
from foreword.protocol.messages import Result
from foreword.protocol.words import ResultKind

_NEWEST = 4096
"""Rounds of a choice that medians are of."""


class RoundParts(NamedTuple):
    """One round's parts in microseconds; None where a part did not occur or cannot be told."""

    draft_queue: int | None
    draft_compute: int | None
    network: int | None
    """What is left of the round when the other parts are taken off."""
    block_lag: int | None
    """Block arrival minus Commit arrival at the target; overlaps the others and is no part of the sum."""
    verify_queue: int
    verify_compute: int
    """The step, evidence included."""
    host: int
    """Work at the orchestrator from a Result to the next Commit."""


class RoundClock:
    """Measures the rounds of one session at the orchestrator.

    A round lasts from the Result before it, from which on the draft knows the verdict, to its own Result; the first
    block after plain steps lasts from its Commit. A block that was begun earlier than that leaves less than nothing for
    the network, and the network of such a round is not estimated.
    """

    def __init__(self) -> None:
        self._result_us: int | None = None
        """Arrival of the Result before, if it was evidence about a draft's block."""
        self._commit_us = 0

    def committed(self, now_us: int) -> None:
        """A Commit goes out now."""
        self._commit_us = now_us

    def answered(self, result: Result, arrived_us: int) -> RoundParts:
        """Return the parts of the round or plain step that this Result ends."""
        timing = result.timing
        begun_us = self._commit_us if self._result_us is None else self._result_us
        host = max(0, self._commit_us - begun_us)
        network = None
        draft_us = timing.draft_compute_us if result.kind is ResultKind.EVIDENCE else None
        if draft_us is not None:
            known = draft_us + (timing.draft_queue_us or 0) + host
            left = arrived_us - begun_us - known - timing.verify_queue_us - timing.verify_compute_us
            network = left if left >= 0 else None
        # No draft knows the verdict on what the target wrote itself, which takes no draft's time.
        self._result_us = arrived_us if draft_us is not None else None
        return RoundParts(
            draft_queue=timing.draft_queue_us,
            draft_compute=timing.draft_compute_us,
            network=network,
            block_lag=timing.block_lag_us,
            verify_queue=timing.verify_queue_us,
            verify_compute=timing.verify_compute_us,
            host=host,
        )


class PartsOfRequest:
    """Collects the parts of a choice's rounds: medians of the newest, sums of all."""

    def __init__(self) -> None:
        self._newest: deque[RoundParts] = deque(maxlen=_NEWEST)
        self._sums = [0] * len(RoundParts._fields)

    def add(self, parts: RoundParts) -> None:
        """Take the parts of one round."""
        self._newest.append(parts)
        for index, value in enumerate(parts):
            self._sums[index] += value or 0

    def summary(self) -> tuple[RoundPart, ...]:
        """Return the median and sum of every part that occurred."""
        summary = []
        for index, name in enumerate(RoundParts._fields):
            values = [parts[index] for parts in self._newest]
            known = [float(value) for value in values if value is not None]
            if known:
                summary.append(RoundPart(name, p50_us=statistics.median(known), sum_us=float(self._sums[index])))
        return tuple(summary)
