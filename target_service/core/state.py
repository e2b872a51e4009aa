"""State of one session at a target, as a value (docs/protocol.md, table "Target")."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import (
    Block,
    BlockLaw,
    Commit,
    Recall,
    Receipt,
    TargetEvent,
    TargetKeys,
    Tokens,
    VerdictNotice,
)
from foreword.protocol.sequence import Sequence
from foreword.protocol.words import Drafter


class Phase(Enum):
    """Where a session stands between two steps."""

    PREFILL = auto()
    IDLE = auto()
    WAIT = auto()
    """A Commit asked for a block that is not here yet; the step may be held for it."""
    READY = auto()
    """A block is here, or the wait is over: part of the next step."""
    LEASE = auto()
    """Steps one after another, plain ones or with guesses of the target's own drafter."""
    RUN = auto()
    """In the running step."""
    GONE = auto()


@dataclass(frozen=True, slots=True)
class MailboxLimits:
    """Bounds of blocks that wait for their Commit, per session."""

    blocks: int = 32
    tokens: int = 4096
    """Candidates and support entries of all waiting blocks."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What blocks and outputs of one session must respect."""

    vocabulary_size: int
    longest_length: int
    """Largest number of tokens, prompt and output together."""
    max_output: int
    gamma_max: int
    mailbox: MailboxLimits = MailboxLimits()


@dataclass(frozen=True, slots=True)
class Guess:
    """Candidates for the next step of a lease, written inside the target."""

    ids: Tokens
    """At least one."""
    law: BlockLaw | None
    """What they were drawn from; ignored under `match`."""
    drafter: Drafter


@dataclass(frozen=True, slots=True)
class Session:
    """One session at a target.

    `cached` counts the tokens of `sequence.tokens + assumed` that the cache holds; truncation is the only rollback.
    `assumed` are tokens after the committed ones that a step put into the cache: candidates, or leased tokens.
    """

    sid: int
    sequence: Sequence
    law: LawParameters
    keys: TargetKeys
    bounds: Bounds
    phase: Phase = Phase.PREFILL
    assumed: Tokens = ()
    cached: int = 0
    round: int = 0
    """Round of the last Commit."""
    commit: Commit | None = None
    """The Commit that is not finally answered yet."""
    block: Block | None = None
    """The block that the next or running step verifies; None is a plain step."""
    guess: Guess | None = None
    """What the next or running step of a lease verifies; None is a plain step."""
    told: int = 0
    """How much of the context the target's own drafter has been told and still is right."""
    leased: int = 0
    """Tokens of the current lease that are out."""
    recalled: bool = False
    closing: bool = False
    tickets: tuple[bytes, ...] = ()
    """Known draft assignments, newest last: the newest, and the one that Commits still use."""
    mailbox: tuple[Block, ...] = ()
    remembered: tuple[Commit | Recall, ...] = ()
    """What came during the prefill."""
    top_logprobs: int | None = None
    prompt_logprobs: int | None = None
    """Alternatives with the log-probabilities of the prompt's tokens; None tells none."""
    scored: int = 1
    """Tokens of the prompt whose log-probabilities are told, and the first, which has none."""

    @property
    def output(self) -> int:
        """Output position of the next token: committed and leased tokens."""
        return self.sequence.base + self.leased

    @property
    def length(self) -> int:
        """Number of tokens that stand before the next one."""
        return len(self.sequence.tokens) + self.leased

    @property
    def context(self) -> Tokens:
        """All tokens that stand before the next one: committed and leased."""
        return self.sequence.tokens + self.assumed[: self.leased]

    @property
    def proposal(self) -> Block | Guess | None:
        """What the next or running step verifies, whoever wrote it; None is a plain step."""
        return self.guess if self.block is None else self.block


# What a transition asks its surroundings to do, in order.


@dataclass(frozen=True, slots=True)
class Tell:
    """Send an event to the session's orchestrator."""

    event: TargetEvent


@dataclass(frozen=True, slots=True)
class Answer:
    """Send a receipt or a verdict to the draft that holds the ticket."""

    message: Receipt | VerdictNotice


@dataclass(frozen=True, slots=True)
class HoldStep:
    """Hold the step for this session's block up to `wait_us` after the Commit arrived."""

    sid: int
    wait_us: int


@dataclass(frozen=True, slots=True)
class Free:
    """Free the session's cache; the first `committed` tokens may enter the prefix index."""

    sid: int
    committed: int


@dataclass(frozen=True, slots=True)
class Count:
    """Count something that went wrong or was ignored, under this name."""

    name: str


Action = Tell | Answer | HoldStep | Free | Count
Outcome = tuple[Session, tuple[Action, ...]]
