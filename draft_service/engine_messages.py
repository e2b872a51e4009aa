"""What the gRPC process and the engine process tell each other; each transfer is a list of these values.

Both run on one machine and share its monotonic clock, so that arrival times stamped in one mean the same in the other.
`stream` numbers an orchestrator's Attach stream; numbers are never used again while the process lives.
"""

from __future__ import annotations

from dataclasses import dataclass

from draft_service.drafters.port import Abilities
from foreword.protocol.info import CostPoint
from foreword.protocol.messages import Block, DraftCommand, DraftEvent, Receipt, TargetAddress, VerdictNotice
from foreword.wire.blocks import BlockBody

# gRPC process → engine


@dataclass(frozen=True, slots=True)
class BadCommand:
    """A command that could not be read; it costs its session and no other."""

    sid: int
    message: str


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands of one frame of an orchestrator, in order; when they arrived in ns of the monotonic clock."""

    stream: int
    arrived_ns: int
    commands: tuple[DraftCommand | BadCommand, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """Receipts and verdict notices of one frame of a target; when they arrived in ns of the monotonic clock."""

    arrived_ns: int
    answers: tuple[Receipt | VerdictNotice, ...]


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """An orchestrator's stream is over, and with it every session that was opened on it."""

    stream: int


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A link to a target works since `up_ns` of the monotonic clock; blocks from before are offered again."""

    address: str
    instance: str
    up_ns: int


@dataclass(frozen=True, slots=True)
class Drain:
    """The service shuts down: open sessions move elsewhere, and no new ones are taken."""


ToEngine = Commands | Answers | StreamEnded | LinkUp | Drain

# engine → gRPC process


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of one step for one target."""

    target: str
    """The target's address."""
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class EncodedBlocks:
    """Blocks as bytes: the gRPC process, for which a target waits, only passes them on; the rest is for metrics."""

    target: str
    blocks: tuple[BlockBody, ...]
    candidates: tuple[int, ...]
    queue_us: tuple[int, ...]
    compute_us: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Events:
    """Events for the orchestrator of one stream."""

    stream: int
    events: tuple[DraftEvent, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """A ticket came into use: its blocks go to this target, and the stream wants to know how the link is."""

    stream: int
    target: TargetAddress


@dataclass(frozen=True, slots=True)
class Released:
    """A ticket is no longer in use."""

    ticket: bytes


@dataclass(frozen=True, slots=True)
class Tallies:
    """What was counted since the last time, by name."""

    counts: tuple[tuple[str, int], ...]
    ahead: tuple[tuple[str, str, int], ...] = ()
    """Of outcomes that were prepared: what became of them, how they ended, and how many."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """How busy the engine is."""

    sessions: int
    waiting: int
    """Sessions whose tokens are still being read."""
    resident_tokens: int
    free_tokens: int | None
    step_us: int
    """Median of recent drafting steps."""


@dataclass(frozen=True, slots=True)
class Drained:
    """Every session has been told to move."""


FromEngine = Blocks | Events | Bound | Released | Tallies | Gauges | Drained
"""What the engine says."""
ToService = EncodedBlocks | Events | Bound | Released | Tallies | Gauges | Drained
"""What the gRPC process gets."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine is warm."""

    abilities: Abilities
    cost_curve: tuple[CostPoint, ...]
