"""Messages of the protocol as frozen values; `foreword.wire` turns them into frames and back.

Tokens are tuples of ids. Rounds, bases and lengths are counts of output tokens unless a name says otherwise.
Durations end in `_us` (microseconds of one machine's monotonic clock).
"""

from __future__ import annotations

from dataclasses import dataclass

from foreword.laws.parameters import LawParameters
from foreword.protocol.words import Drafter, LossCode, ReceiptCode, RefusalCode, ResultKind, Rule

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """W3C trace context of the request that a session serves."""

    parent: str = ""
    state: str = ""


# Orchestrator → target


@dataclass(frozen=True, slots=True)
class TargetKeys:
    """16-byte keys: `match` without salt, `emit` and `coin` with the attempt's salt."""

    match: bytes
    emit: bytes
    coin: bytes


@dataclass(frozen=True, slots=True)
class BlockOrder:
    """Verify a block of up to `gamma` candidates under `ticket`, holding the step for it up to `wait_us`."""

    wait_us: int
    gamma: int
    ticket: bytes


@dataclass(frozen=True, slots=True)
class PlainOrder:
    """A lease: plain steps until `limit` tokens are out, a stop id came, or it is recalled."""

    limit: int


@dataclass(frozen=True, slots=True)
class LocalOrder:
    """A lease with a drafter inside the target."""

    drafter: Drafter
    gamma: int
    limit: int


Order = BlockOrder | PlainOrder | LocalOrder


@dataclass(frozen=True, slots=True)
class Commit:
    """Decides tokens and orders one round; exactly one final Result answers it."""

    sid: int
    round: int
    base: int
    tokens: Tokens
    """Tokens since the base last sent to this peer, ending at `base`."""
    digest: int
    rule: Rule
    order: Order


@dataclass(frozen=True, slots=True)
class TargetOpen:
    """Starts a session at a target from committed tokens."""

    sid: int
    tokens: Tokens
    prompt_len: int
    law: LawParameters
    keys: TargetKeys
    max_output: int
    top_logprobs: int | None = None
    cache_salt: bytes = b""
    trace: Trace = Trace()
    ticket: bytes | None = None
    first: Commit | None = None
    prompt_logprobs: int | None = None
    """Alternatives with the log-probabilities of the prompt's tokens; None asks for none."""


@dataclass(frozen=True, slots=True)
class TargetTicket:
    """Makes a draft assignment known to the target."""

    sid: int
    ticket: bytes


@dataclass(frozen=True, slots=True)
class Recall:
    """Ends a wait or a lease early; the round is still answered once."""

    sid: int
    round: int


@dataclass(frozen=True, slots=True)
class TargetClose:
    """Ends a session; `tokens` are those since the base last sent, ending at `final_length`."""

    sid: int
    final_length: int
    tokens: Tokens = ()


TargetCommand = TargetOpen | TargetTicket | Commit | Recall | TargetClose

# Target → orchestrator


@dataclass(frozen=True, slots=True)
class TargetOpened:
    """The prompt is in the cache."""

    sid: int
    cached_tokens: int
    longest_length: int
    prefill_us: int = 0


@dataclass(frozen=True, slots=True)
class LogProbabilities:
    """Log-probabilities of the target law; `top` holds (id, value) pairs for each token."""

    chosen: tuple[float, ...]
    top: tuple[tuple[tuple[int, float], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class TargetScored:
    """Log-probabilities of a stretch of the prompt that begins at `position`, from 1 on; comes before TargetOpened."""

    sid: int
    position: int
    logprobs: LogProbabilities


@dataclass(frozen=True, slots=True)
class Refused:
    """Answers an Open that was not taken."""

    sid: int
    code: RefusalCode
    message: str
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """A session is over at this peer."""

    sid: int
    code: LossCode
    message: str


@dataclass(frozen=True, slots=True)
class RoundTiming:
    """Durations of one round as the target knows them; None where there was no block."""

    verify_queue_us: int = 0
    verify_compute_us: int = 0
    block_lag_us: int | None = None
    draft_queue_us: int | None = None
    draft_compute_us: int | None = None
    step_rows: int = 0
    evidence_us: int = 0
    others_us: int = 0
    """How long the target would have rested before the step without this session: while blocks of others came."""


@dataclass(frozen=True, slots=True)
class Result:
    """Evidence of one step for one session.

    `emit[n]` is the token to emit when n candidates are kept, None where there is none. A plain step has no candidates
    and one emit.
    """

    sid: int
    round: int
    base: int
    final: bool
    kind: ResultKind
    emit: tuple[int | None, ...]
    ids: Tokens = ()
    acceptance: tuple[float, ...] = ()
    parents: tuple[int, ...] | None = None
    drafter: Drafter | None = None
    ratios: tuple[float, ...] | None = None
    candidate_logprobs: LogProbabilities | None = None
    emit_logprobs: LogProbabilities | None = None
    timing: RoundTiming = RoundTiming()


@dataclass(frozen=True, slots=True)
class LinkState:
    """State of one draft–target link, as one of its ends sees it."""

    ticket: bytes
    target_instance: str
    up: bool


@dataclass(frozen=True, slots=True)
class LoadReport:
    """How busy a service is."""

    sessions: int
    waiting: int = 0
    free_tokens: int | None = None
    step_us: int = 0
    price: float = 0.0


TargetEvent = TargetOpened | TargetScored | Refused | Result | Lost | LinkState | LoadReport

# Draft ↔ target


@dataclass(frozen=True, slots=True)
class OneHot:
    """Each candidate was certain under the draft."""


@dataclass(frozen=True, slots=True)
class SparseCounts:
    """Draft law of one candidate: q(ids[i]) = counts[i] / 2**total_bits."""

    ids: tuple[int, ...]
    counts: tuple[int, ...]
    total_bits: int


BlockLaw = OneHot | tuple[SparseCounts, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Candidates for one round; may be empty. `law` is None under `match`. `ticket` is resolved from the handle."""

    ticket: bytes
    round: int
    base: int
    digest: int
    ids: Tokens
    drafter: Drafter
    law: BlockLaw | None = None
    parents: tuple[int, ...] | None = None
    draft_queue_us: int = 0
    draft_compute_us: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a block; every block gets exactly one."""

    ticket: bytes
    round: int
    digest: int
    code: ReceiptCode
    message: str = ""


@dataclass(frozen=True, slots=True)
class VerdictNotice:
    """The target's own copy of the orchestrator's decision about a block that was taken."""

    ticket: bytes
    round: int
    digest: int
    kept: int
    emitted: int


# Orchestrator → draft


@dataclass(frozen=True, slots=True)
class DraftKeys:
    """16-byte keys: `draft` with the attempt's salt; `match` only where coupling is allowed."""

    draft: bytes
    match: bytes | None = None


@dataclass(frozen=True, slots=True)
class TargetAddress:
    """Where a session's blocks go: an instance of a target and the ticket that it knows."""

    address: str
    instance: str
    ticket: bytes


@dataclass(frozen=True, slots=True)
class DraftOpen:
    """Starts a session at a draft from committed tokens."""

    sid: int
    tokens: Tokens
    prompt_len: int
    law: LawParameters
    keys: DraftKeys
    target: TargetAddress
    gamma_max: int
    vocabulary_map_digest: str = ""
    wide_ids: bool = False
    trace: Trace = Trace()
    cache_salt: bytes = b""


@dataclass(frozen=True, slots=True)
class Advance:
    """Brings committed tokens and the order for the next round; gamma 0 means to follow only."""

    sid: int
    round: int
    base: int
    tokens: Tokens
    digest: int
    rule: Rule
    gamma: int
    stop_threshold: float = 0.0
    """Estimated survival under which a block of a model's ends; 0 never does."""
    lookup_threshold: float = 0.0
    """The same for a block that is looked up, whose candidates take a row of the target's step and no drafting."""
    send_by_us: int | None = None
    alternatives: int = 0
    target: TargetAddress | None = None


@dataclass(frozen=True, slots=True)
class DraftClose:
    """Ends a session at a draft."""

    sid: int


DraftCommand = DraftOpen | Advance | DraftClose

# Draft → orchestrator


@dataclass(frozen=True, slots=True)
class DraftOpened:
    """The draft has read the committed tokens."""

    sid: int
    longest_length: int


@dataclass(frozen=True, slots=True)
class Follow:
    """How guesses against leased tokens went since the last Follow."""

    sid: int
    base: int
    compared: int
    agreed: int


DraftEvent = DraftOpened | Refused | Lost | Follow | LinkState | LoadReport
