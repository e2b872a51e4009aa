"""Round-trip time of a link, from the echoes in its liveness frames."""

from __future__ import annotations

import statistics
from collections import deque

from foreword.protocol.info import Liveness

WINDOW = 16
"""Newest samples that count."""


class RoundTrip:
    """Writes and reads liveness frames; all times are microseconds of this process's monotonic clock.

    A sample is the time since the echoed frame was built, less the time it lay at the peer; clocks are never compared.
    """

    def __init__(self) -> None:
        self._sequence = 0
        self._sent_at: dict[int, int] = {}
        self._peer_sequence: int | None = None
        self._peer_heard_at = 0
        self._samples: deque[int] = deque(maxlen=WINDOW)

    def next_liveness(self, now_us: int) -> Liveness:
        """Return the liveness frame that is sent now."""
        self._sequence += 1
        self._sent_at[self._sequence] = now_us
        if len(self._sent_at) > WINDOW:
            del self._sent_at[next(iter(self._sent_at))]
        held = now_us - self._peer_heard_at if self._peer_sequence is not None else 0
        return Liveness(self._sequence, self._peer_sequence, held)

    def heard(self, liveness: Liveness, now_us: int) -> None:
        """Take the peer's liveness frame."""
        self._peer_sequence, self._peer_heard_at = liveness.sequence, now_us
        if liveness.echo_sequence is None:
            return
        sent_at = self._sent_at.pop(liveness.echo_sequence, None)
        if sent_at is not None:
            self._samples.append(max(0, now_us - sent_at - liveness.echo_held_us))

    @property
    def minimum_us(self) -> int | None:
        """Shortest of the newest samples; None before the first."""
        return min(self._samples, default=None)

    @property
    def newest_us(self) -> int | None:
        """The last sample; None before the first."""
        return self._samples[-1] if self._samples else None

    @property
    def median_us(self) -> int | None:
        """Median of the newest samples; None before the first."""
        return int(statistics.median(self._samples)) if self._samples else None
