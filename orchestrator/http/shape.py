"""What chats and completions have in common: which choice an event is of, and what of it was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from foreword.protocol.generation import Delta, Finish, Started
from foreword.protocol.messages import Tokens
from foreword.protocol.words import FinishReason
from orchestrator.http.answers import CompletionLogprobs, FinishWord
from orchestrator.http.fields import ChatRequest, CompletionRequest, Generating
from orchestrator.http.logprobs import TokenBytes, echo_logprobs

TextEnds = Callable[[Tokens], Sequence[int]]
"""For each of some ids, how many characters of their text come up to and with it."""
_WORDS: dict[FinishReason, FinishWord] = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.ABORT: "abort",
}


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every answer and chunk of a request begins with."""

    id: str
    created: int
    model: str
    fingerprint: str

    @property
    def fields(self) -> dict[str, Any]:
        """It as fields of an Answer."""
        return {
            "id": self.id,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a body asks its answer to tell."""

    choices: int = 1
    prompts: int = 1
    logprobs: bool = False
    ids: bool = False
    sources: bool = False
    usage: bool = False
    running_usage: bool = False
    echo: bool = False
    stop: frozenset[str] = frozenset()
    stop_ids: frozenset[int] = frozenset()
    bytes_of: TokenBytes = lambda token: b""
    ends_of: TextEnds = lambda ids: ()

    def index(self, prompt: int, choice: int) -> int:
        """Return the number that a choice of a prompt has in the answer."""
        return prompt * self.choices + choice

    def reason(self, finish: Finish) -> dict[str, Any]:
        """Return how a choice ended, as fields: the word, and the text or id of the request that ended it."""
        cause: str | int | None = None
        if finish.stop is not None:
            if finish.stop in self.stop:
                cause = finish.stop
            elif finish.stop.isdigit() and int(finish.stop) in self.stop_ids:
                cause = int(finish.stop)
        return {"finish_reason": _WORDS[finish.reason], "stop_reason": cause}

    def told(self, delta: Delta) -> dict[str, Any]:
        """Return ids and sources of a delta, as fields, as far as they were asked for."""
        found: dict[str, Any] = {}
        if self.ids:
            found["token_ids"] = list(delta.ids)
        if self.sources:
            found["token_sources"] = [source.name.lower() for source in delta.sources]
        return found

    def prompt_ids(self, started: Started | None) -> dict[str, Any]:
        """Return the ids of the prompt, as fields, if they were asked for."""
        return {"prompt_token_ids": list(started.prompt_ids)} if self.ids and started is not None else {}

    def of_echo(self, started: Started) -> CompletionLogprobs:
        """Return the log-probabilities of the prompt."""
        return echo_logprobs(started, self.bytes_of, self.ends_of(started.prompt_ids))

    @property
    def hides_echo(self) -> bool:
        """Whether the front echoes the prompt for the sake of its ids alone."""
        return self.ids and not self.echo


def wanted_of(body: Generating, *, prompts: int, bytes_of: TokenBytes, ends_of: TextEnds = lambda ids: ()) -> Wanted:
    """Return what a body asks for."""
    options = body.stream_options
    if isinstance(body, ChatRequest):
        logprobs, echo = bool(body.logprobs), False
    else:
        assert isinstance(body, CompletionRequest)
        logprobs, echo = body.logprobs is not None, bool(body.echo)
    return Wanted(
        choices=1 if body.n is None else body.n,
        prompts=prompts,
        logprobs=logprobs,
        ids=bool(body.return_token_ids),
        sources=bool(body.return_token_sources),
        usage=options is not None and bool(options.include_usage),
        running_usage=options is not None and bool(options.continuous_usage_stats),
        echo=echo,
        stop=frozenset((body.stop,) if isinstance(body.stop, str) else body.stop or ()),
        stop_ids=frozenset(body.stop_token_ids or ()),
        bytes_of=bytes_of,
        ends_of=ends_of,
    )
