"""From events to chunks: pure, one chunk or more for each event."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from foreword.protocol.generation import Delta, Event, Finish, Started
from orchestrator.http.answers import (
    ChatChunkChoice,
    ChatCompletionChunk,
    ChatDelta,
    Completion,
    CompletionChoice,
    Part,
)
from orchestrator.http.logprobs import chat_logprobs, completion_logprobs
from orchestrator.http.shape import Envelope, Wanted
from orchestrator.http.usage import timings_of, usage_of, usage_so_far


@dataclass(slots=True)
class _Progress:
    """How far a choice is."""

    characters: int = 0
    hides: bool = False
    """Whether its next delta is an echo that nobody asked for."""
    echoes: bool = False
    """Whether its next delta is an echo whose log-probabilities are told."""


class Stream(ABC):
    """Takes the events of each prompt in order; `last` is what comes behind them."""

    def __init__(self, envelope: Envelope, wanted: Wanted) -> None:
        self._envelope = envelope
        self._wanted = wanted
        self._progress: dict[int, _Progress] = {}
        self._finishes: dict[tuple[int, int], Finish] = {}
        self._started: dict[int, Started] = {}
        self._told: set[int] = set()
        """Choices that have told the ids of their prompt."""
        self._output = 0

    def take(self, prompt: int, event: Event) -> list[Part]:
        """Return what an event of a prompt adds to the stream."""
        match event:
            case Started():
                return self._start(prompt, event)
            case Delta():
                return self._delta(prompt, event)
            case Finish():
                self._finishes[prompt, event.choice] = event
                index = self._wanted.index(prompt, event.choice)
                timings = timings_of({(prompt, event.choice): event}, choices=self._wanted.choices)
                return [self._chunk(self._end(index, self._wanted.reason(event)), timings=timings)]

    def last(self) -> list[Part]:
        """Return the chunk with usage, if it was asked for."""
        if not (self._wanted.usage or self._wanted.running_usage):
            return []
        return [self._written(choices=[], usage=usage_of(self._finishes))]

    def _start(self, prompt: int, started: Started) -> list[Part]:
        self._started[prompt] = started
        chunks: list[Part] = []
        for choice in range(self._wanted.choices):
            index = self._wanted.index(prompt, choice)
            echoes = self._wanted.echo and self._wanted.logprobs
            self._progress[index] = _Progress(hides=self._wanted.hides_echo, echoes=echoes)
            opening = self._opening(index)
            if opening is not None:
                chunks.append(self._chunk(opening))
        return chunks

    def _delta(self, prompt: int, delta: Delta) -> list[Part]:
        index = self._wanted.index(prompt, delta.choice)
        progress = self._progress[index]
        if progress.hides:
            progress.hides = False
            return []
        extras = self._wanted.told(delta)
        if self._wanted.ids and index not in self._told:
            self._told.add(index)
            extras |= self._wanted.prompt_ids(self._started.get(prompt))
        begin, progress.characters = progress.characters, progress.characters + len(delta.text)
        self._output += len(delta.ids)
        piece = self._piece(index, delta, extras, begin)
        if progress.echoes:
            progress.echoes = False
            piece = piece.model_copy(update={"logprobs": self._wanted.of_echo(self._started[prompt])})
        return [self._chunk(piece)]

    def _chunk(self, choice: Part, **more: Any) -> Part:
        if self._wanted.running_usage:
            more["usage"] = usage_so_far(sum(s.prompt_tokens for s in self._started.values()), self._output)
        elif self._wanted.usage:
            more["usage"] = None  # OpenAI sends it so with every chunk but the last
        return self._written(choices=[choice], **more)

    @abstractmethod
    def _written(self, **fields: Any) -> Part:
        """Return a chunk."""

    @abstractmethod
    def _opening(self, index: int) -> Part | None:
        """Return what a choice begins with."""

    @abstractmethod
    def _piece(self, index: int, delta: Delta, extras: dict[str, Any], begin: int) -> Part:
        """Return what a delta adds to a choice."""

    @abstractmethod
    def _end(self, index: int, reason: dict[str, Any]) -> Part:
        """Return how a choice ends."""


class ChatStream(Stream):
    """Chunks of a chat: the role comes first."""

    def _written(self, **fields: Any) -> Part:
        return ChatCompletionChunk(object="chat.completion.chunk", **self._envelope.fields, **fields)

    def _opening(self, index: int) -> Part:
        delta = ChatDelta(role="assistant", content="")
        return ChatChunkChoice(index=index, delta=delta, logprobs=None, finish_reason=None)

    def _piece(self, index: int, delta: Delta, extras: dict[str, Any], begin: int) -> Part:
        logprobs = chat_logprobs(delta, self._wanted.bytes_of) if self._wanted.logprobs else None
        added = ChatDelta(content=delta.text)
        return ChatChunkChoice(index=index, delta=added, logprobs=logprobs, finish_reason=None, **extras)

    def _end(self, index: int, reason: dict[str, Any]) -> Part:
        return ChatChunkChoice(index=index, delta=ChatDelta(), logprobs=None, **reason)


class CompletionStream(Stream):
    """Chunks of completions: an echo of the prompt is text like any other."""

    def _written(self, **fields: Any) -> Part:
        return Completion(object="text_completion", **self._envelope.fields, **fields)

    def _opening(self, index: int) -> None:
        return None

    def _piece(self, index: int, delta: Delta, extras: dict[str, Any], begin: int) -> Part:
        logprobs = completion_logprobs(delta, self._wanted.bytes_of, begin=begin) if self._wanted.logprobs else None
        return CompletionChoice(index=index, text=delta.text, logprobs=logprobs, finish_reason=None, **extras)

    def _end(self, index: int, reason: dict[str, Any]) -> Part:
        return CompletionChoice(index=index, text="", logprobs=None, **reason)
