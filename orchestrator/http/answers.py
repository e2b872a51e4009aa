"""The shapes of answers, as OpenAI documents them, and what Foreword adds to them.

What is not asked for is left out: answers are written without the fields that were never set.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

FinishWord = Literal["stop", "length", "abort"]
"""OpenAI has no word for an output that somebody else ended; `abort` is the one that other servers use."""
Source = Literal["target", "draft", "lookup"]


class Part(BaseModel):
    """An object in an answer."""

    model_config = ConfigDict(frozen=True)

    def json_bytes(self) -> bytes:
        """Return it as JSON, without what was never set."""
        return self.model_dump_json(exclude_unset=True).encode()


class ErrorDetail(Part):
    """What was wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(Part):
    """An error, as a body and as an event of a stream."""

    error: ErrorDetail


class PromptDetails(Part):
    """Of the prompt."""

    cached_tokens: int


class CompletionDetails(Part):
    """Of the output: candidates that were output, and those that were verified and were not."""

    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


class Usage(Part):
    """What a request took; rejected candidates are not among `completion_tokens`."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class RoundPartTime(Part):
    """One part of a choice's rounds."""

    name: str
    p50_ms: float
    sum_ms: float


class GammaTold(Part):
    """The last choice of candidates per block, and why."""

    gamma: int
    why: str
    price: float
    threshold: float
    survival: list[float]
    tokens_per_s: list[float]


class ChoiceTimings(Part):
    """Where the time of a choice went, and what drafts brought."""

    index: int
    queue_ms: float
    first_token_ms: float
    total_ms: float
    predicted_n: int
    draft_n: int
    draft_n_accepted: int
    acceptance_length: float | None
    acceptance_rate: float | None
    verifications: int
    plain_steps: int
    late_blocks: int
    drafts_used: int
    targets_used: int
    rule: str | None
    seed: int
    parts: list[RoundPartTime]
    gamma: GammaTold | None
    results_by_gamma: list[int]


class Timings(Part):
    """Sums over choices, the earliest first token and the latest end; then each choice."""

    prompt_n: int
    predicted_n: int
    predicted_ms: float
    predicted_per_second: float | None
    draft_n: int
    draft_n_accepted: int
    first_token_ms: float
    total_ms: float
    choices: list[ChoiceTimings]


class TopLogprob(Part):
    """A token that might have come."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(Part):
    """A token that came."""

    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[TopLogprob]


class ChatLogprobs(Part):
    """Log-probabilities as chats have them."""

    content: list[TokenLogprob] | None
    refusal: list[TokenLogprob] | None = None


class CompletionLogprobs(Part):
    """Log-probabilities as completions have them."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class Extras(Part):
    """What a choice tells beside OpenAI's fields."""

    stop_reason: str | int | None = None
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    token_sources: list[Source] | None = None


class ChatMessage(Part):
    """The answer of the model."""

    role: Literal["assistant"]
    content: str
    refusal: str | None = None


class ChatChoice(Extras):
    """One answer."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishWord


class ChatDelta(Part):
    """What a chunk adds to an answer."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChunkChoice(Extras):
    """What a chunk tells of one answer."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishWord | None


class CompletionChoice(Extras):
    """One continuation."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: FinishWord | None


class Answer(Part):
    """What all answers and chunks have."""

    id: str
    created: int
    model: str
    system_fingerprint: str


class ChatCompletion(Answer):
    """Answers to a conversation."""

    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: Usage
    timings: Timings


class ChatCompletionChunk(Answer):
    """A piece of a stream of answers."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
    timings: Timings | None = None


class Completion(Answer):
    """Continuations, or a piece of a stream of them."""

    object: Literal["text_completion"]
    choices: list[CompletionChoice]
    usage: Usage | None = None
    timings: Timings | None = None


class ModelCard(Part):
    """A model that is served."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    max_model_len: int


class ModelList(Part):
    """All names that are served."""

    object: Literal["list"]
    data: list[ModelCard]


class Tokenized(Part):
    """Ids of a text."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class Detokenized(Part):
    """Text of ids."""

    prompt: str


class Health(Part):
    """Requests are taken."""

    status: Literal["ok"]


class Version(Part):
    """The release that runs."""

    version: str


class Info(Part):
    """What is served and with what, as `foreword doctor` reads it."""

    version: str
    model: dict[str, Any] | None
    targets: list[dict[str, Any]]
    drafts: list[dict[str, Any]]
    gamma: int
    gamma_max: int
    adaptive: bool
    protocol_min: int
    protocol_max: int
