"""From events to a finished completion."""

from __future__ import annotations

from collections.abc import Iterable

from foreword.errors import ProtocolFault
from foreword.protocol.generation import Choice, Completion, Delta, Event, Finish, Started
from foreword.protocol.messages import LogProbabilities


class Collector:
    """Takes the events of one stream in order; `completion` puts them together once every choice has ended."""

    def __init__(self) -> None:
        self._started: Started | None = None
        self._deltas: dict[int, list[Delta]] = {}
        self._finishes: dict[int, Finish] = {}

    def add(self, event: Event) -> None:
        """Take one event."""
        match event:
            case Started():
                self._started = event
            case Delta():
                self._deltas.setdefault(event.choice, []).append(event)
            case Finish():
                self._finishes[event.choice] = event

    def completion(self) -> Completion:
        """Return the completion; raises ProtocolFault if the stream ended before its choices did."""
        if self._started is None or not self._finishes or not self._deltas.keys() <= self._finishes.keys():
            missing = sorted(self._deltas.keys() - self._finishes.keys())
            seen = f"choices without an end: {missing}" if missing else "no start or no end"
            raise ProtocolFault(f"stream: got {seen}, wanted Started, Deltas and a Finish for every choice")
        return Completion(
            started=self._started,
            choices=tuple(_choice(self._deltas.get(index, []), end) for index, end in sorted(self._finishes.items())),
        )


def collect(events: Iterable[Event]) -> Completion:
    """Return the completion of a whole stream of events."""
    collector = Collector()
    for event in events:
        collector.add(event)
    return collector.completion()


def _choice(deltas: list[Delta], finish: Finish) -> Choice:
    logprobs = [delta.logprobs for delta in deltas if delta.logprobs is not None]
    return Choice(
        index=finish.choice,
        text="".join(delta.text for delta in deltas),
        ids=tuple(token for delta in deltas for token in delta.ids),
        sources=tuple(source for delta in deltas for source in delta.sources),
        logprobs=_joined(logprobs) if logprobs else None,
        finish=finish,
    )


def _joined(parts: list[LogProbabilities]) -> LogProbabilities:
    return LogProbabilities(
        chosen=tuple(value for part in parts for value in part.chosen),
        top=tuple(row for part in parts for row in part.top),
    )
