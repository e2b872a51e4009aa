"""What the gRPC process and the engine process of a target say to each other, in batches.

Streams and links are numbers that the gRPC process gives to its Attach and PushBlocks streams. Times are microseconds
of the machine's monotonic clock, which both processes read; arrival is when the gRPC process had decoded a frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foreword.protocol.info import CostPoint, ModelInfo
from foreword.protocol.messages import Block, LoadReport, Receipt, TargetCommand, TargetEvent, VerdictNotice
from foreword.protocol.words import Drafter
from foreword.runner.port import Memory
from foreword.wire.frames import Encoded


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands of one frame of an orchestrator, in order."""

    stream: int
    at_us: int
    commands: tuple[TargetCommand, ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message of this session could not be decoded, or one to it not encoded; it costs the session alone."""

    stream: int
    sid: int
    reason: str


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of one frame of a draft."""

    link: int
    at_us: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """An orchestrator's stream is over: all its sessions are released."""

    stream: int


@dataclass(frozen=True, slots=True)
class LinkEnded:
    """A draft's stream is over."""

    link: int


@dataclass(frozen=True, slots=True)
class StopOpening:
    """The service drains: refuse Opens from now on, go on with the rest."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The service ends: tell every session that it is lost, so that it moves to another target."""


ToEngine = Commands | Unreadable | Blocks | StreamEnded | LinkEnded | StopOpening | GiveUp


@dataclass(frozen=True, slots=True)
class Described:
    """First message of a warm engine: what it serves."""

    model: ModelInfo
    longest_length: int
    memory: Memory
    cost_curve: tuple[CostPoint, ...]
    local_drafter: Drafter | None = None
    """What the target drafts with itself where a Commit asks for that."""


@dataclass(frozen=True, slots=True)
class Events:
    """Events for one orchestrator, in order."""

    stream: int
    events: tuple[TargetEvent, ...]


@dataclass(frozen=True, slots=True)
class EncodedEvents:
    """Events for one orchestrator as the bytes of its frame: the gRPC process has no more to do with them."""

    stream: int
    entries: tuple[Encoded, ...]
    over: tuple[int, ...]
    """Sessions that these events end."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Receipts and verdicts for one draft, in order."""

    link: int
    answers: tuple[Receipt | VerdictNotice, ...]


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step, for metrics."""

    rows: int
    prompt_rows: int
    verified: int
    """Sessions whose block was verified."""
    plain: int
    step_us: int
    evidence_us: int
    guessed: int = 0
    """Sessions that verified candidates of the target's own drafter."""


@dataclass(frozen=True, slots=True)
class PrefixHits:
    """Tokens of sessions that began, and how many of them they found in the cache."""

    queried: int = 0
    hit: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """What the engine is like now, each second; `counts` are events since the last one."""

    load: LoadReport
    cost_curve: tuple[CostPoint, ...]
    resident_tokens: int
    memory: Memory
    prefixes: PrefixHits = PrefixHits()
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Consumed:
    """How many commands and blocks of each stream or link the engine has taken since the last one.

    Peers that send faster than that are cut off before what they sent fills memory.
    """

    taken: tuple[tuple[int, int], ...]


FromEngine = Events | Answers | StepReport | Status | Consumed
"""What the engine's loop says."""
ToService = EncodedEvents | Answers | StepReport | Status | Consumed
"""What the gRPC process gets."""
