"""The output of one choice: what a session decided becomes the events that its client gets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from foreword.clock import Clock
from foreword.errors import ForewordError
from foreword.protocol.activity import ChoiceActivity
from foreword.protocol.generation import Delta, Event, Finish, Timings
from foreword.protocol.messages import LogProbabilities
from foreword.protocol.words import Drafter, FinishReason, TokenSource
from orchestrator.core.state import Emit, Ended
from orchestrator.measure.rounds import PartsOfRequest
from orchestrator.sessions.output import Decided, Places
from orchestrator.sink.explanation import explained
from orchestrator.sink.tokens import OutputToken, TokenSink
from orchestrator.sink.usage import UsageCounter


class Events(Protocol):
    """Where events go on their way to the client."""

    def put(self, event: Event) -> None:
        """Take an event; never blocks."""

    def fail(self, error: ForewordError) -> None:
        """End the request with an error, after what is there."""


@dataclass(frozen=True, slots=True)
class ChoiceFacts:
    """What the account of a choice needs besides what was decided; times are of the orchestrator's clock."""

    choice: int
    prompt_tokens: int
    seed: int
    called_us: int
    """When the request came."""
    opened_us: int
    """When its first Open went out."""


class ChoiceOutput:
    """Implements `orchestrator.sessions.output.Output` for one choice."""

    def __init__(self, facts: ChoiceFacts, sink: TokenSink, events: Events, clock: Clock) -> None:
        self._facts = facts
        self._sink = sink
        self._events = events
        self._clock = clock
        self._usage = UsageCounter()
        self._parts = PartsOfRequest()
        self._first_token_us = 0
        self._by_gamma: list[int] = []
        self.prompt_logprobs: LogProbabilities | None = None
        """Of the prompt's tokens behind the first, once they have come."""
        self._echo: Delta | None = None

    @property
    def choice(self) -> int:
        """Which choice it is."""
        return self._facts.choice

    @property
    def _asked(self) -> bool:
        """Whether a draft was ever asked for a block."""
        return any(self._by_gamma[1:])

    def echo(self, text: str, *, scored: bool) -> None:
        """Put the prompt in front of the output, behind its log-probabilities where it is `scored`."""
        self._echo = Delta(self.choice, text)
        if not scored:
            self._put_echo()

    def scored(self, logprobs: LogProbabilities) -> None:
        """Take the log-probabilities of the prompt."""
        self.prompt_logprobs = logprobs
        self._put_echo()

    def _put_echo(self) -> None:
        if self._echo is not None:
            self._events.put(self._echo)

    def decided(self, decided: Decided) -> int | None:
        """Take tokens; returns the output length at which a stop text ends the output."""
        if not self._first_token_us:
            self._first_token_us = self._clock.now_us() - self._facts.called_us
        self._usage.decided(decided)
        self._parts.add(decided.parts)
        self._by_gamma += [0] * (decided.gamma + 1 - len(self._by_gamma))
        self._by_gamma[decided.gamma] += 1
        self._put(self._sink.take(output_tokens(decided.emit)))
        return None if self._sink.found is None else self._sink.released

    def ended(self, ended: Ended, places: Places) -> None:
        """Release what was held back, and tell how it ended."""
        self._put(self._sink.finish())
        found = self._sink.found
        stop = found.text if found is not None else None if ended.stop_id is None else str(ended.stop_id)
        finish = Finish(
            choice=self._facts.choice,
            reason=FinishReason.STOP if found is not None else ended.reason,
            stop=stop,
            usage=self._usage.usage(self._facts.prompt_tokens, places),
            timings=Timings(
                queue_us=self._facts.opened_us - self._facts.called_us,
                first_token_us=self._first_token_us,
                total_us=self._clock.now_us() - self._facts.called_us,
                parts=self._parts.summary(),
                gamma=None if places.choice is None else explained(places.choice, asked=self._asked),
                results_by_gamma=tuple(self._by_gamma),
            ),
            rule=places.rule,
            seed=self._facts.seed,
        )
        self._events.put(finish)

    def activity(self, request_id: str, places: Places, addresses: tuple[str, str]) -> ChoiceActivity:
        """Return how far it is; `addresses` are those of its target and its draft."""
        assert places.choice is not None
        return ChoiceActivity(
            request_id,
            self._facts.choice,
            self._clock.now_us() - self._facts.called_us,
            *addresses,
            rule=places.rule,
            usage=self._usage.usage(self._facts.prompt_tokens, places),
            gamma=explained(places.choice, asked=self._asked),
            results_by_gamma=tuple(self._by_gamma),
        )

    def failed(self, error: ForewordError) -> None:
        """End the request with an error; what was decided before has been handed over."""
        self._put(self._sink.finish())
        self._events.fail(error)

    def _put(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            self._usage.output(delta.sources)
            self._events.put(delta)


def output_tokens(emit: Emit) -> Iterator[OutputToken]:
    """Yield the tokens of one Result with who wrote them and their log-probabilities."""
    result, kept = emit.result, emit.verdict.kept
    drafted = TokenSource.LOOKUP if result.drafter is Drafter.LOOKUP else TokenSource.DRAFT
    for index, token in enumerate(emit.tokens):
        if index < kept:
            logprob, top = _logprob(result.candidate_logprobs, index)
            yield OutputToken(token, drafted, logprob, top)
        else:
            logprob, top = _logprob(result.emit_logprobs, kept)
            yield OutputToken(token, TokenSource.TARGET, logprob, top)


def _logprob(values: LogProbabilities | None, index: int) -> tuple[float | None, tuple[tuple[int, float], ...]]:
    if values is None:
        return None, ()
    return values.chosen[index], values.top[index] if values.top else ()
