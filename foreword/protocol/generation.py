"""Values of the public API: what a client asks for and what it is told.

Token ids are tuples of ids of the target's vocabulary. Durations end in `_us` and are microseconds of the
orchestrator's monotonic clock. `foreword.wire.generation` turns these values into messages and back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from foreword.laws.parameters import LawParameters
from foreword.protocol.info import ModelInfo, ServerInfo
from foreword.protocol.messages import LogProbabilities, Tokens, Trace
from foreword.protocol.words import Drafter, FinishReason, Rule, TokenSource


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat; `role` is system, user, assistant, tool, or one that the model's template names."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Chat:
    """A prompt that the model's chat template makes from turns, oldest first."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """A prompt in token ids."""

    ids: Tokens


Prompt = str | Chat | TokenPrompt
"""A text is taken as it is, without a chat template."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """How drafts may be used for one request; None and the empty text leave a choice to the server."""

    gamma: int | None = None
    """Fixes the candidates per block; 0 turns drafts off."""
    gamma_min: int | None = None
    """Floor of an adaptive choice."""
    gamma_max: int | None = None
    """Ceiling of an adaptive choice."""
    rule: Rule | None = None
    """Fixes the acceptance rule; None is auto."""
    drafter: Drafter | None = None
    """A kind of draft."""
    draft: str = ""
    """One draft service, by its model name."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Asks for one or more continuations of a prompt."""

    prompt: Prompt
    request_id: str = ""
    """Names the request in logs and for abort; empty lets the server choose."""
    model: str = ""
    """Empty takes the one that is served."""
    law: LawParameters | None = None
    """How tokens are chosen; None takes the model's defaults."""
    max_tokens: int | None = None
    """Most output tokens; None takes what the context allows, up to the server's default. 0 only reads the prompt, for
    its echo or its log-probabilities."""
    stop: tuple[str, ...] = ()
    """Texts before which the output ends."""
    include_stop: bool = False
    ignore_eos: bool = False
    seed: int | None = None
    """Makes the text a function of seed, prompt and target; None lets the server draw one."""
    n: int = 1
    """How many continuations."""
    top_logprobs: int | None = None
    """Log-probabilities of the output and of that many other tokens; None asks for none."""
    echo: bool = False
    """Puts the prompt in front of the output."""
    speculation: Speculation = Speculation()
    resume: Tokens = ()
    """Output that was already received; output positions go on after it."""
    one_token_per_event: bool = False
    trace: Trace | None = None
    cache_salt: bytes = b""
    """Separates prefix caches; empty shares."""
    skip_special_tokens: bool = True
    prompt_logprobs: int | None = None
    """Log-probabilities of the prompt, in Started, and of that many other tokens; None asks for none."""


@dataclass(frozen=True, slots=True)
class Started:
    """The request was taken; first event of a stream."""

    request_id: str
    model: str
    prompt_tokens: int
    prompt_ids: Tokens = ()
    """Ids of the prompt, if echo was asked for."""
    prompt_logprobs: LogProbabilities | None = None
    """If asked for: those of each token of the prompt behind the first, at temperature 1 and with nothing cut."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A stretch of committed output of one choice."""

    choice: int
    text: str
    """What these tokens add to the text; never splits a character."""
    ids: Tokens = ()
    sources: tuple[TokenSource, ...] = ()
    """Who wrote each of `ids`."""
    logprobs: LogProbabilities | None = None
    text_ends: tuple[int, ...] = ()
    """For each of `ids`, how many characters of this delta's `text` came up to and with it."""

    def pieces(self) -> tuple[tuple[str, TokenSource], ...]:
        """Return `text` in pieces with who wrote each; joined they are `text`, and neighbours differ in source.

        A character that several tokens make belongs to the last of them. Without sources everything is the target's.
        """
        pieces: list[tuple[str, TokenSource]] = []
        begin = 0
        for end, source in zip(self.text_ends, self.sources, strict=False):
            _append(pieces, self.text[begin:end], source)
            begin = max(begin, end)
        _append(pieces, self.text[begin:], pieces[-1][1] if pieces else TokenSource.TARGET)
        return tuple(pieces)


def _append(pieces: list[tuple[str, TokenSource]], text: str, source: TokenSource) -> None:
    if text and pieces and pieces[-1][1] is source:
        pieces[-1] = (pieces[-1][0] + text, source)
    elif text:
        pieces.append((text, source))


@dataclass(frozen=True, slots=True)
class RoundPart:
    """One of the seven parts of a round over the rounds of a request."""

    name: str
    """draft_queue, draft_compute, network, block_lag, verify_queue, verify_compute or host."""
    p50_us: float
    sum_us: float


@dataclass(frozen=True, slots=True)
class GammaChoice:
    """A number of candidates per block, and all that it was chosen by."""

    gamma: int
    """0 is plain decoding."""
    why: str
    """fixed, start (nothing was measured), unused (no block was asked for: there was no draft, or nothing left to
    write), best, kept (another is not clearly better) or probe (to look again)."""
    fixed_us: float | None = None
    """What a round takes beside drafting; None while nothing is measured."""
    candidate_us: float = 0.0
    """What drafting a candidate takes."""
    plain_us: float = 0.0
    """What a token takes without a draft."""
    price: float = 0.0
    """How many tokens a row of the target's step takes from all sessions."""
    threshold: float = 0.0
    """Survival under which a draft is told to end a block."""
    survival: tuple[float, ...] = ()
    """For each place of a block the probability that its candidate and all before it are kept."""
    tokens_per_s: tuple[float, ...] = ()
    """For each γ from 0 on what it would bring, less what its rows take from others: where many work, under 0."""
    lookup_threshold: float = 0.0
    """The same as `threshold` for candidates that are looked up."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Where the time of a choice went."""

    queue_us: int = 0
    """From the call to the first Open."""
    first_token_us: int = 0
    """From the call to the first token."""
    total_us: int = 0
    """From the call to the end."""
    parts: tuple[RoundPart, ...] = ()
    gamma: GammaChoice | None = None
    """The last choice of candidates per block."""
    results_by_gamma: tuple[int, ...] = ()
    """How many Results came under each γ from 0 on; 0 are leases: plain steps, and the target's own drafts."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a choice took."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that came from the prefix cache."""
    drafted_tokens: int = 0
    """Candidates that were verified."""
    accepted_tokens: int = 0
    """Candidates that were kept and output."""
    verifications: int = 0
    """Blocks that were verified."""
    plain_steps: int = 0
    late_blocks: int = 0
    """Rounds that went without their block."""
    drafts_used: int = 0
    targets_used: int = 0
    """More than one after a loss."""
    accepted_per_position: Tokens = ()
    """How often candidate i was kept."""
    offered_per_position: Tokens = ()
    """How often candidate i was verified."""

    @property
    def acceptance_length(self) -> float | None:
        """Tokens emitted per verification, the target's own token included; None without a verification.

        It is 1 + accepted / verifications, the convention of vLLM. Of a request's last verification, an end of the
        output may have cut the target's own token.
        """
        return 1.0 + self.accepted_tokens / self.verifications if self.verifications else None

    @property
    def acceptance_rate(self) -> float | None:
        """Candidates kept over candidates verified; None if none was verified."""
        return self.accepted_tokens / self.drafted_tokens if self.drafted_tokens else None


@dataclass(frozen=True, slots=True)
class Finish:
    """Ends one choice."""

    choice: int
    reason: FinishReason
    stop: str | None = None
    """The stop text, or the stop id in decimal, that ended it."""
    usage: Usage = Usage()
    timings: Timings = Timings()
    rule: Rule | None = None
    """The acceptance rule that was used last."""
    seed: int = 0
    """The seed that was used, given or drawn."""


Event = Started | Delta | Finish
"""What a stream brings: one Started, Deltas, one Finish for every choice."""


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """One target or draft as the orchestrator sees it."""

    address: str
    up: bool
    info: ServerInfo | None = None
    """What it said of itself; None if it was never reached."""
    round_trip_us: int | None = None
    """Recent median round-trip time of the link."""
    trusted: bool = False
    """Whether `token` and `block` may be used with this draft."""
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class DeploymentInfo:
    """What an orchestrator serves, and with what."""

    version: str
    model: ModelInfo | None
    targets: tuple[PeerInfo, ...] = ()
    drafts: tuple[PeerInfo, ...] = ()
    gamma: int = 0
    """Default candidates per block."""
    gamma_max: int = 0
    """Most that a request may ask for."""
    adaptive: bool = False
    """Whether `gamma` is only the first choice, until rounds are measured."""
    protocol_min: int = 0
    protocol_max: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One finished continuation."""

    index: int
    text: str
    ids: Tokens
    sources: tuple[TokenSource, ...]
    logprobs: LogProbabilities | None
    finish: Finish

    @property
    def usage(self) -> Usage:
        """What it took."""
        return self.finish.usage

    @property
    def timings(self) -> Timings:
        """Where its time went."""
        return self.finish.timings

    @property
    def decode_rate(self) -> float | None:
        """Tokens per second after the first token, by the server's clock; None for fewer than two tokens."""
        decode_us, tokens = self.timings.total_us - self.timings.first_token_us, self.usage.output_tokens
        return 1e6 * (tokens - 1) / decode_us if tokens > 1 and decode_us > 0 else None


@dataclass(frozen=True, slots=True)
class Completion:
    """The collected events of one request."""

    started: Started
    choices: tuple[Choice, ...] = field(default=())

    @property
    def text(self) -> str:
        """Text of the first choice."""
        return self.choices[0].text

    @property
    def ids(self) -> Tokens:
        """Output ids of the first choice."""
        return self.choices[0].ids

    @property
    def usage(self) -> Usage:
        """What the first choice took."""
        return self.choices[0].usage

    @property
    def timings(self) -> Timings:
        """Where the time of the first choice went."""
        return self.choices[0].timings

    @property
    def finish(self) -> Finish:
        """How the first choice ended."""
        return self.choices[0].finish
