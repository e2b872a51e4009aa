"""How long a session waits for its peers before it gives one up."""

from __future__ import annotations

from dataclasses import dataclass

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Durations in microseconds; generous, because links notice dead peers, and these catch stuck ones."""

    open_us: int = 300 * SECOND_US
    """From an Open to its answer; a long prompt in a full queue takes its time."""
    round_us: int = 30 * SECOND_US
    """For a round or a token of a lease, on top of its wait and of `steps` times the longest recent step."""
    steps: int = 20
    target_us: int = 20 * SECOND_US
    """Without a target before the request fails, counted from its last token."""
    draft_open_us: int = 60 * SECOND_US
    """From an Open at a draft to its answer."""
    first_retry_us: int = 20_000
    """Before the same peer is asked again; doubled each time, up to `last_retry_us`."""
    last_retry_us: int = 5 * SECOND_US

    def retry_us(self, failures: int) -> int:
        """Return the wait after this many failures in a row, from 1."""
        return min(self.last_retry_us, self.first_retry_us << min(failures - 1, 20))
