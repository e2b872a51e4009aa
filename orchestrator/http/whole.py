"""From events to one answer: pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from foreword.errors import ProtocolFault
from foreword.protocol.generation import Delta, Event, Finish, Started
from orchestrator.http.answers import (
    ChatChoice,
    ChatCompletion,
    ChatMessage,
    Completion,
    CompletionChoice,
    Part,
)
from orchestrator.http.logprobs import chat_logprobs, completion_logprobs, join_chat, join_completion
from orchestrator.http.shape import Envelope, Wanted
from orchestrator.http.usage import timings_of, usage_of


@dataclass(slots=True)
class _Written:
    """What has come of a choice."""

    texts: list[str] = field(default_factory=list)
    characters: int = 0
    logprobs: list[Any] = field(default_factory=list)
    extras: dict[str, list[Any]] = field(default_factory=dict)
    hides: bool = False
    """Whether its next delta is an echo that nobody asked for."""
    echoes: bool = False
    """Whether its next delta is an echo whose log-probabilities are told."""


class Whole(ABC):
    """Takes the events of each prompt in order; `answer` puts them together."""

    def __init__(self, envelope: Envelope, wanted: Wanted) -> None:
        self._envelope = envelope
        self._wanted = wanted
        self._written: dict[tuple[int, int], _Written] = {}
        self._finishes: dict[tuple[int, int], Finish] = {}
        self._started: dict[int, Started] = {}

    def take(self, prompt: int, event: Event) -> None:
        """Take an event of a prompt."""
        match event:
            case Started():
                self._started[prompt] = event
                for choice in range(self._wanted.choices):
                    echoes = self._wanted.echo and self._wanted.logprobs
                    self._written[prompt, choice] = _Written(hides=self._wanted.hides_echo, echoes=echoes)
            case Delta():
                self._add(self._written[prompt, event.choice], event, self._started[prompt])
            case Finish():
                self._finishes[prompt, event.choice] = event

    def answer(self) -> Part:
        """Return the answer; raises ProtocolFault if an output did not end."""
        wanted = self._wanted
        if len(self._finishes) != wanted.prompts * wanted.choices:
            seen, all_of = len(self._finishes), wanted.prompts * wanted.choices
            raise ProtocolFault(f"choices: got the end of {seen}, wanted that of {all_of}")
        choices = []
        for (prompt, choice), finish in sorted(self._finishes.items()):
            written, started = self._written[prompt, choice], self._started[prompt]
            extras = {**written.extras, **wanted.prompt_ids(started), **wanted.reason(finish)}
            choices.append(self._choice(wanted.index(prompt, choice), "".join(written.texts), written.logprobs, extras))
        usage, timings = usage_of(self._finishes), timings_of(self._finishes, choices=wanted.choices)
        return self._answer(choices=choices, usage=usage, timings=timings)

    def _add(self, written: _Written, delta: Delta, started: Started) -> None:
        if written.hides:
            written.hides = False
            return
        if self._wanted.logprobs:
            told = self._wanted.of_echo(started) if written.echoes else self._logprobs(delta, written.characters)
            written.logprobs.append(told)
            written.echoes = False
        written.texts.append(delta.text)
        written.characters += len(delta.text)
        for name, values in self._wanted.told(delta).items():
            written.extras.setdefault(name, []).extend(values)

    @abstractmethod
    def _answer(self, **fields: Any) -> Part:
        """Return the answer with its choices."""

    @abstractmethod
    def _choice(self, index: int, text: str, logprobs: list[Any], extras: dict[str, Any]) -> Part:
        """Return one choice."""

    @abstractmethod
    def _logprobs(self, delta: Delta, begin: int) -> Any:
        """Return the log-probabilities of a delta that begins so many characters into its choice."""


class WholeChat(Whole):
    """A chat's answer."""

    def _answer(self, **fields: Any) -> Part:
        return ChatCompletion(object="chat.completion", **self._envelope.fields, **fields)

    def _choice(self, index: int, text: str, logprobs: list[Any], extras: dict[str, Any]) -> Part:
        message = ChatMessage(role="assistant", content=text, refusal=None)
        joined = join_chat(logprobs) if self._wanted.logprobs else None
        return ChatChoice(index=index, message=message, logprobs=joined, **extras)

    def _logprobs(self, delta: Delta, begin: int) -> Any:
        return chat_logprobs(delta, self._wanted.bytes_of)


class WholeCompletion(Whole):
    """A completion's answer."""

    def _answer(self, **fields: Any) -> Part:
        return Completion(object="text_completion", **self._envelope.fields, **fields)

    def _choice(self, index: int, text: str, logprobs: list[Any], extras: dict[str, Any]) -> Part:
        joined = join_completion(logprobs) if self._wanted.logprobs else None
        return CompletionChoice(index=index, text=text, logprobs=joined, **extras)

    def _logprobs(self, delta: Delta, begin: int) -> Any:
        return completion_logprobs(delta, self._wanted.bytes_of, begin=begin)
