"""The token sink: committed tokens of one choice, one at a time, become deltas of the output."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from foreword.models.tokenizer import TextStream
from foreword.protocol.generation import Delta
from foreword.protocol.messages import LogProbabilities
from foreword.protocol.words import TokenSource
from foreword.values import replace
from orchestrator.sink.stop_texts import Found, StopSearch, StopTexts


@dataclass(frozen=True, slots=True)
class OutputToken:
    """A committed token on its way to the client."""

    id: int
    source: TokenSource
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What one choice's output looks like."""

    choice: int = 0
    stop: StopTexts = field(default_factory=StopTexts)
    include_stop: bool = False
    stop_ids: frozenset[int] = frozenset()
    """A stop id is output as an id; its text only with `include_stop`."""
    min_tokens: int = 0
    """Output positions before which no stop text counts."""
    first_position: int = 0
    """Output position of the first token; more than 0 when an output is resumed."""
    begun: int = 0
    """State of the search for stop texts behind the tokens that an output is resumed with."""
    found: Found | None = None
    """The stop text that these end with, which ends the output before it goes on."""
    one_token_per_event: bool = False


@dataclass(slots=True)
class _Held:
    token: OutputToken
    text: str
    begin: int

    @property
    def end(self) -> int:
        return self.begin + len(self.text)


class TokenSink:
    """Releases a token when it is certain that it belongs to the output.

    A token is held back while its text may be part of a stop text, and while it has no text of its own, because it may
    be part of a character that is. When a stop text is complete, the output ends before it (after it with
    `include_stop`): tokens that begin there or later are dropped, the text of the last one is cut. So text, ids,
    sources and log-probabilities always belong together. What comes out depends on the tokens alone, not on how they
    are cut into blocks.
    """

    def __init__(self, options: SinkOptions, stream: TextStream) -> None:
        self._options = options
        self._stream = stream
        self._stops = StopSearch(options.stop, options.begun)
        self._held: deque[_Held] = deque()
        self._length = 0
        self._searched_from = 0
        self._position = options.first_position
        self.released = options.first_position
        """Output position behind the last token that was released."""
        self.found = options.found
        """The stop text that ended the output."""

    def take(self, tokens: Iterable[OutputToken]) -> list[Delta]:
        """Take committed tokens in order; what comes after a stop text is dropped."""
        ready: list[_Held] = []
        for token in tokens:
            if self.found is not None:
                break
            self._take_one(token, ready)
        return self._deltas(ready)

    def finish(self) -> list[Delta]:
        """Release what is held back: the output is over."""
        if self.found is not None:
            return []
        rest = self._stream.finish()
        if rest and self._held:
            self._held[-1].text += rest
            rest = ""
        ready = list(self._held)
        self._held.clear()
        deltas = self._deltas(ready)
        return [*deltas, Delta(self._options.choice, rest)] if rest else deltas

    def _take_one(self, token: OutputToken, ready: list[_Held]) -> None:
        text = self._stream.push(token.id)
        if token.id in self._options.stop_ids and not self._options.include_stop:
            text = ""
        self._held.append(_Held(token, text, self._length))
        self._length += len(text)
        self._position += 1
        if not text:
            return
        if self._position <= self._options.min_tokens:
            self._searched_from = self._length
        else:
            self.found = self._stops.feed(text)
        if self.found is not None:
            self._cut(self.found, ready)
            return
        for _ in range(self._certain()):
            ready.append(self._held.popleft())

    def _certain(self) -> int:
        """Return how many tokens are certain: up to the last one with text that no stop text can reach."""
        limit = self._length - self._stops.held
        count = 0
        for index, held in enumerate(self._held, start=1):
            if held.end > limit:
                break
            if held.text:
                count = index
        return count

    def _cut(self, found: Found, ready: list[_Held]) -> None:
        limit = self._searched_from + (found.end if self._options.include_stop else found.begin)
        for held in self._held:
            if held.begin >= limit:
                break
            held.text = held.text[: limit - held.begin]
            ready.append(held)
        self._held.clear()

    def _deltas(self, ready: Sequence[_Held]) -> list[Delta]:
        self.released += len(ready)
        if self._options.one_token_per_event:
            return [self._delta([held]) for held in ready]
        return [self._delta(ready)] if ready else []

    def _delta(self, ready: Sequence[_Held]) -> Delta:
        text, ends = "", []
        for held in ready:
            text += held.text
            ends.append(len(text))
        return Delta(
            choice=self._options.choice,
            text=text,
            ids=tuple(held.token.id for held in ready),
            sources=tuple(held.token.source for held in ready),
            logprobs=_logprobs(ready),
            text_ends=tuple(ends),
        )


def resumed(options: SinkOptions, stream: TextStream, ids: Iterable[int]) -> SinkOptions:
    """Return the options of an output that goes on behind `ids`, which its client has: what they have begun goes on.

    Whoever has gone on behind a stop text looks for the next one.
    """
    search, found = StopSearch(options.stop), None
    for position, token in enumerate(ids, start=1):
        text = stream.push(token)
        if token in options.stop_ids and not options.include_stop:
            text = ""
        found = search.feed(text) if position > options.min_tokens else None
        if found is not None:
            search = StopSearch(options.stop)
    return replace(options, begun=search.state, found=found)


def _logprobs(ready: Sequence[_Held]) -> LogProbabilities | None:
    chosen = tuple(held.token.logprob for held in ready if held.token.logprob is not None)
    if len(chosen) != len(ready):
        return None
    return LogProbabilities(chosen, tuple(held.token.top for held in ready))
