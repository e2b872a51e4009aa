"""State of one session at a draft, as a value (docs/protocol.md, table "Draft")."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import (
    Advance,
    Block,
    DraftEvent,
    DraftKeys,
    SparseCounts,
    TargetAddress,
    Tokens,
)
from foreword.protocol.sequence import Sequence
from foreword.protocol.words import Drafter, Rule


class Phase(Enum):
    """Where a session stands."""

    PREFILL = auto()
    IDLE = auto()
    """Nothing to draft; under an order with γ = 0 it follows."""
    DRAFT = auto()
    SENT = auto()
    GONE = auto()


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a draft can do for one session."""

    longest_length: int
    """Largest number of tokens, prompt and output together."""
    gamma_max: int
    drafter: Drafter
    stop_threshold: float = 0.0
    """A block ends when its estimated survival falls under this, whatever orders say; 0 never does."""


@dataclass(frozen=True, slots=True)
class Writing:
    """A block in progress or sent: what it is for, what it assumes, and what was drawn."""

    round: int
    base: int
    digest: int
    rule: Rule
    ids: Tokens = ()
    laws: tuple[SparseCounts, ...] | None = ()
    """One law for each candidate; None when all were one-hot."""
    survival: float = 1.0
    """Estimated probability that all candidates so far are kept."""
    drafter: Drafter | None = None
    """What drew the candidates; None for the drafter of the session's bounds."""


@dataclass(frozen=True, slots=True)
class Session:
    """One session at a draft.

    The context is `sequence.tokens + assumed + writing.ids`; `cached` counts how much of it the drafter's cache holds,
    and truncation is the only rollback.
    """

    sid: int
    sequence: Sequence
    law: LawParameters
    keys: DraftKeys
    bounds: Bounds
    target: TargetAddress
    gamma_max: int
    phase: Phase = Phase.PREFILL
    order: Advance | None = None
    """The newest Advance; of its orders only the newest count."""
    assumed: Tokens = ()
    """Tokens after the committed ones that a verdict named and no Advance has confirmed yet."""
    writing: Writing | None = None
    cached: int = 0
    unfollowed: int = 0
    """Committed tokens that came since the last Follow and were not compared yet."""

    @property
    def context(self) -> Tokens:
        """All tokens that stand before the next candidate."""
        return self.sequence.tokens + self._ahead

    @property
    def length(self) -> int:
        """Length of the context."""
        return len(self.sequence.tokens) + len(self._ahead)

    def context_from(self, start: int) -> Tokens:
        """Return the context from index `start` on, without copying what stands before it."""
        committed = self.sequence.tokens
        if start >= len(committed):
            return self._ahead[start - len(committed) :]
        return committed[start:] + self._ahead

    @property
    def _ahead(self) -> Tokens:
        return self.assumed + self.writing.ids if self.writing else self.assumed

    @property
    def gamma(self) -> int:
        """The largest block that the newest order allows here."""
        return min(self.order.gamma, self.gamma_max, self.bounds.gamma_max) if self.order else 0

    @property
    def stop_threshold(self) -> float:
        """Estimated survival under which a block ends; 0 never does."""
        ordered = self.order.stop_threshold if self.order else 0.0
        return max(ordered, self.bounds.stop_threshold)

    @property
    def lookup_threshold(self) -> float:
        """The same for a block that is looked up."""
        ordered = self.order.lookup_threshold if self.order else 0.0
        return max(ordered, self.bounds.stop_threshold)


# What a transition asks its surroundings to do, in order.


@dataclass(frozen=True, slots=True)
class Tell:
    """Send an event to the session's orchestrator."""

    event: DraftEvent


@dataclass(frozen=True, slots=True)
class Push:
    """Send a block to the session's target."""

    block: Block


@dataclass(frozen=True, slots=True)
class Shipped:
    """The session's block has been at its target since then, in ns of the engine's clock: nothing needs to be sent."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class PushLater:
    """Offer the block that is out again after a short while, by `again`."""

    sid: int


@dataclass(frozen=True, slots=True)
class Free:
    """Free the session's cache."""

    sid: int


@dataclass(frozen=True, slots=True)
class Count:
    """Count something that went wrong or was ignored, under this name."""

    name: str


Action = Tell | Push | Shipped | PushLater | Free | Count
Outcome = tuple[Session, tuple[Action, ...]]
