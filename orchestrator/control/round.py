"""What a session tells of a round."""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.measure.rounds import RoundParts


class Round(NamedTuple):
    """One answered round or plain step; microseconds of the orchestrator's clock, and durations of its peers."""

    at_us: int
    took_us: int
    """Since the Result before it."""
    ordered: int
    """Candidates that its Commit allowed a draft; 0 under a lease."""
    offered: int
    kept: int
    parts: RoundParts
    first: bool = False
    """Whether it is the first Result of its Commit; that of a lease came in the middle of another step."""
    opens: bool = False
    """Whether it is the first round after a lease: its order goes to the draft before it drafts, which has to read what
    came meanwhile. Later ones begin with a verdict."""
    looked_up: bool = False
    """Whether the block was copied, which takes next to nothing, where a model might have drafted it."""
    own_us: float = 0.0
    """What the rows of its candidates took in its step."""
    all_us: float = 0.0
    """What the rows of everybody's candidates took in its step."""
    others_us: float = 0.0
    """What its step waited for blocks of others, as it had done without its own."""
    round_trip_us: int | None = None
    """Of the draft's link, newest."""

    @property
    def drafting_us(self) -> int:
        """What drafting took; no draft is believed more than the round took."""
        return min(self.parts.draft_compute or 0, self.took_us)

    @property
    def beside_us(self) -> float:
        """What the round took beside drafting and the rows of its candidates."""
        return self.took_us - self.drafting_us - self.own_us
