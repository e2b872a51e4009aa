"""State of one generation at the orchestrator, as a value (docs/protocol.md, table "Orchestrator")."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from foreword.acceptance import Verdict
from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import (
    Commit,
    DraftCommand,
    DraftKeys,
    Result,
    TargetAddress,
    TargetCommand,
    TargetKeys,
    Tokens,
    Trace,
)
from foreword.protocol.sequence import Sequence
from foreword.protocol.words import Drafter, FinishReason, Rule
from orchestrator.core.local import LocalRecord


class Phase(Enum):
    """Where a session stands."""

    OPENING = auto()
    WAIT = auto()
    """A Commit is out and not finally answered."""
    HELD = auto()
    """The client is slow: the next Commit is not sent."""
    DONE = auto()


class DraftPhase(Enum):
    """Where a session's draft part stands."""

    NONE = auto()
    OPENING = auto()
    LIVE = auto()
    SUSPECT = auto()
    """Two rounds late, or its link is down: leases only, while it follows."""


@dataclass(frozen=True, slots=True)
class DraftPart:
    """A draft assignment."""

    phase: DraftPhase = DraftPhase.NONE
    sid: int = 0
    target: TargetAddress | None = None
    """Where its blocks go; its ticket is the assignment."""
    moved: bool = False
    """Whether the draft has to be told `target` in the next Advance."""
    base: int = 0
    """Base last sent to the draft."""
    longest_length: int = 0
    late: int = 0
    """Rounds in a row without its block."""
    suspected: int = 0
    """How often it went to SUSPECT; doubles the stretch before it is tried again."""
    retry_base: int = 0
    """Base from which a suspect may be tried again."""
    link_down: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What does not change during a generation."""

    law: LawParameters
    target_keys: TargetKeys
    draft_keys: DraftKeys
    max_output: int
    """0 only reads the prompt."""
    gamma_max: int
    top_logprobs: int | None = None
    prompt_logprobs: int | None = None
    cache_salt: bytes = b""
    trace: Trace = field(default_factory=Trace)
    wide_ids: bool = False
    vocabulary_size: int = 2**32


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What the next round should be, if the draft part allows it; γ = 0 is a lease."""

    gamma: int
    wait_us: int
    stop_threshold: float = 0.0
    lookup_threshold: float = 0.0
    send_by_us: int | None = None
    alternatives: int = 0
    lease: int | None = None
    """Longest lease; None is the rest of the budget."""
    stretch: int = 1
    """Leased tokens that are brought to the draft at once; fewer only when a block is wanted."""
    local: Drafter | None = None
    """What the target may draft with itself under a lease; None is plain steps."""
    local_most: int = 256
    """Most candidates of such a step."""


@dataclass(frozen=True, slots=True)
class Session:
    """One generation at the orchestrator, the only committer."""

    request: Request
    sequence: Sequence
    rule: Rule
    phase: Phase = Phase.OPENING
    round: int = 0
    target_sid: int | None = None
    """None while no target has been asked."""
    target_base: int = 0
    """Base last sent to the target."""
    longest_length: int = 0
    """Most tokens of a session at its target, prompt and output together; 0 before the target has opened."""
    target_gamma: int | None = None
    """Longest block that its target verifies; None where it does not say."""
    commit: Commit | None = None
    """The Commit that is out."""
    recalled: bool = False
    draft: DraftPart = DraftPart()
    local: LocalRecord = field(default_factory=LocalRecord)
    """How candidates of targets' own drafters have fared."""
    client_full: bool = False
    fallbacks: int = 0
    """Bit i tells whether the i-th last block round went without its block; 200 bits."""

    @property
    def gamma_max(self) -> int:
        """Longest block that may be ordered."""
        return self.request.gamma_max if self.target_gamma is None else min(self.request.gamma_max, self.target_gamma)


@dataclass(frozen=True, slots=True)
class ToTarget:
    """Send a command to the session's target."""

    command: TargetCommand


@dataclass(frozen=True, slots=True)
class ToDraft:
    """Send a command to the session's draft."""

    command: DraftCommand


@dataclass(frozen=True, slots=True)
class Emit:
    """Committed tokens for the sink, one result's worth: the first `verdict.kept` are the draft's."""

    tokens: Tokens
    verdict: Verdict
    result: Result


@dataclass(frozen=True, slots=True)
class Watch:
    """A round is out: watch its hard limit."""

    round: int


@dataclass(frozen=True, slots=True)
class NeedTarget:
    """The session needs a target."""

    reason: str


@dataclass(frozen=True, slots=True)
class NeedDraft:
    """The session may get another draft."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The generation is over."""

    reason: FinishReason
    stop_id: int | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """Count something under this name."""

    name: str


Action = ToTarget | ToDraft | Emit | Watch | NeedTarget | NeedDraft | Ended | Count
Outcome = tuple[Session, tuple[Action, ...]]
