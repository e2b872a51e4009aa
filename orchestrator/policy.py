"""What the next round of a session should be: the port, and the policy with a fixed γ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from foreword.protocol.words import Drafter
from orchestrator.core.state import RoundPlan


@dataclass(frozen=True, slots=True)
class RoundView:
    """What a policy may look at before a round."""

    gamma: int
    """What the request asks for, or the server's default."""
    block_lag_us: int | None
    """The 95th percentile of the block lags between this draft and this target; None before the first."""
    block_lags: int
    """How many lags that is from."""
    draft_round_trip_us: int | None
    local: Drafter | None = None
    """What the session's target can draft with itself."""
    tokens_per_us: float | None = None
    """How fast tokens have come lately; None before that is known."""
    candidate_us: float | None = None
    """What a further candidate takes, to draft and to verify; None before that is known."""


class RoundPolicy(Protocol):
    """Plans rounds; one object for the whole orchestrator."""

    def plan(self, view: RoundView) -> RoundPlan:
        """Return the next round's plan; must be cheap."""


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """Bounds of how long a target holds a step for a session's block, in microseconds."""

    least_us: int = 5_000
    most_us: int = 1_000_000
    """Also the wait while too few block lags are known."""
    known_after: int = 8
    """Block lags from which the wait follows them."""


class FixedPolicy:
    """Blocks of a fixed size; the wait follows the block lags that were measured.

    It is three times the 95th percentile, plus the least: a block that is missed costs a round of drafting, while a
    wait costs something only when a block does not come at all, of which broken links tell at once. `send_by` makes
    a draft send what it has before the wait is over.
    """

    def __init__(self, waits: WaitLimits, *, local: bool = True, stops: bool = True) -> None:
        """Take leases with the targets' own drafters where there are some, if `local`; end blocks early, if `stops`."""
        self._waits = waits
        self._local = local
        self._stops = stops

    def plan(self, view: RoundView) -> RoundPlan:
        """Return a block of γ candidates, or a plain lease for γ = 0: then nothing speculates."""
        if view.gamma == 0:
            return RoundPlan(gamma=0, wait_us=0)
        waits = self._waits
        wait_us = waits.most_us
        if view.block_lag_us is not None and view.block_lags >= waits.known_after:
            wait_us = min(waits.most_us, 3 * max(0, view.block_lag_us) + waits.least_us)
        send_by_us = max(waits.least_us, wait_us - (view.draft_round_trip_us or 0))
        local = view.local if self._local else None
        threshold = stop_threshold(view) if self._stops else 0.0
        return RoundPlan(
            gamma=view.gamma, wait_us=wait_us, stop_threshold=threshold, send_by_us=send_by_us, local=local
        )


MOST_THRESHOLD = 0.9


def stop_threshold(view: RoundView) -> float:
    """Return the survival under which a further candidate costs more than it brings; 0 while that is not known.

    A candidate brings a token with the probability that it and all before it are kept, and takes d; in that time the
    session earns d times its rate R otherwise. So a block goes on while the survival is over R·d (the ratio form of
    maximising tokens over time, after Dinkelbach 1967). Long round trips make R small and blocks long.
    """
    if view.tokens_per_us is None or view.candidate_us is None:
        return 0.0
    return min(MOST_THRESHOLD, view.tokens_per_us * view.candidate_us)
