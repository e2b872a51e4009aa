"""What the next round of a session should be: γ by measurement or as it was asked for, and how long to wait for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from foreword.protocol.words import Drafter
from orchestrator.control.adaptive import AdaptiveGamma, Bounds, Choice, Now
from orchestrator.control.memory import Learned, Link, Memory
from orchestrator.control.round import Round
from orchestrator.core.state import RoundPlan

MOST_THRESHOLD = 0.9
FAR = 0.1
"""Share of the network in a round from which on a draft may send blocks before it knows the verdict."""
SHORT_STRETCH, _FEW_KNOWN = 8, 256
"""Leased tokens that a draft follows at once while fewer candidates than that are known."""
STRETCH, FARTHER, LONGEST_STRETCH = 32, 0.1, 128
"""Leased tokens that a draft is told of, and follows, at once; for each tenth by which plain decoding is better than
blocks twice as many, up to the last: the text has to change more until they pay. One by one they took a seventh of the
time of a target on the same machine."""
START_GAMMA = 4
"""Candidates of the first blocks, while nothing is measured yet."""


@dataclass(frozen=True, slots=True)
class RoundView:
    """What a plan may depend on beside the rounds that were; microseconds."""

    now_us: int
    block_lag_us: int | None = None
    """The 95th percentile of the block lags between this draft and this target; None before the first."""
    block_lags: int = 0
    """How many lags that is from."""
    draft_round_trip_us: int | None = None
    """Recent median of the draft's link."""
    newest_round_trip_us: int | None = None
    price: float = 0.0
    """Tokens that a row in the target's step takes from all sessions, by the target's own account."""
    local: Drafter | None = None
    """What the session's target can draft with itself."""


@dataclass(frozen=True, slots=True)
class Gamma:
    """What a request wants: a fixed number of candidates, or the best one within bounds."""

    fixed: int | None = None
    least: int = 0
    most: int = 16
    start: int = START_GAMMA
    """The first choice where nothing is measured yet."""

    @property
    def speculates(self) -> bool:
        """Whether a draft may be of use."""
        return self.fixed != 0 and self.most > 0


class SessionPolicy(Protocol):
    """Plans the rounds of one session."""

    @property
    def choice(self) -> Choice:
        """The newest γ, and why."""

    def moved(self, link: Link) -> None:
        """The session has this draft and target from now on."""

    def answered(self, seen: Round) -> None:
        """Learn from a round or plain step."""

    def followed(self, agreed: int, compared: int) -> None:
        """Learn from a draft's guesses against leased tokens."""

    def plan(self, view: RoundView) -> RoundPlan:
        """Return the next round's plan; must be cheap."""


class Policy(Protocol):
    """One object for the whole orchestrator."""

    def session(self, gamma: Gamma) -> SessionPolicy:
        """Return what plans a new session."""


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """Bounds of how long a target holds a step for a session's block, in microseconds."""

    least_us: int = 5_000
    most_us: int = 1_000_000
    """Also the wait while too few block lags are known."""
    known_after: int = 8
    """Block lags from which the wait follows them."""

    def wait_us(self, view: RoundView) -> int:
        """Return how long a target shall wait: three times the 95th percentile, plus the least.

        A block that is missed costs a round of drafting, while a wait costs something only when a block does not come
        at all, of which broken links tell at once.
        """
        if view.block_lag_us is None or view.block_lags < self.known_after:
            return self.most_us
        return min(self.most_us, 3 * max(0, view.block_lag_us) + self.least_us)


class MeasuringPolicy:
    """Learns what rounds cost and bring, from all sessions, and plans with it."""

    def __init__(self, waits: WaitLimits, *, local: bool = True, stops: bool = True, alternatives: int = 0) -> None:
        """Take leases with the targets' own drafters where there are some, if `local`; end blocks early, if `stops`.

        Drafts that are far may send so many `alternatives` for a round before the verdict on the one before.
        """
        self._waits = waits
        self._ways = _Ways(local, stops, alternatives)
        self._memory = Memory()

    def session(self, gamma: Gamma) -> SessionPolicy:
        """Return what plans a new session."""
        return _SessionPlans(gamma, self._waits, self._ways, self._memory)


@dataclass(frozen=True, slots=True)
class _Ways:
    local: bool
    stops: bool
    alternatives: int


class _SessionPlans:
    def __init__(self, gamma: Gamma, waits: WaitLimits, ways: _Ways, memory: Memory) -> None:
        self._gamma = gamma
        self._waits = waits
        self._memory = memory
        self._ways = ways
        least = gamma.least if gamma.fixed is None else gamma.fixed
        self._most = most = gamma.most if gamma.fixed is None else gamma.fixed
        bounds = Bounds(least, most, max(least, min(most, gamma.start)), stops=ways.stops)
        self._control = AdaptiveGamma(bounds, *Learned.new())

    @property
    def choice(self) -> Choice:
        return self._control.choice

    def moved(self, link: Link) -> None:
        self._control.moved(*self._memory.learned(link))

    def answered(self, seen: Round) -> None:
        self._control.answered(seen)

    def followed(self, agreed: int, compared: int) -> None:
        self._control.followed(agreed, compared)

    def plan(self, view: RoundView) -> RoundPlan:
        """Return a block of γ candidates, or a lease for γ = 0; `send_by` sends a block before the wait is over."""
        choice = self._control.choose(Now(view.now_us, view.price, view.newest_round_trip_us))
        ways = self._ways
        local = view.local if ways.local and self._gamma.speculates else None
        if choice.gamma == 0:
            return RoundPlan(
                gamma=0, wait_us=0, stretch=stretch(choice, self._control.known), local=local, local_most=self._most
            )
        wait_us = self._waits.wait_us(view)
        return RoundPlan(
            gamma=choice.gamma,
            wait_us=wait_us,
            stop_threshold=min(MOST_THRESHOLD, choice.threshold) if ways.stops else 0.0,
            lookup_threshold=min(MOST_THRESHOLD, choice.lookup_threshold) if ways.stops else 0.0,
            send_by_us=max(self._waits.least_us, wait_us - (view.draft_round_trip_us or 0)),
            alternatives=ways.alternatives if self._control.network_share >= FAR else 0,
            stretch=STRETCH,
            local=local,
            local_most=self._most,
        )


def stretch(choice: Choice, known: float) -> int:
    """Return how many tokens of a lease are brought to the draft at once; `known` counts candidates that tell of it."""
    if known < _FEW_KNOWN:
        return SHORT_STRETCH
    plain, *blocks = choice.rates or (0.0,)
    best = max(blocks, default=0.0)
    if best <= 0.0:
        return LONGEST_STRETCH if blocks else STRETCH
    return min(LONGEST_STRETCH, STRETCH << min(8, int(max(0.0, plain / best - 1.0) / FARTHER)))
