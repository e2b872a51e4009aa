"""What the engine has to say, gathered until it hands it over; verdicts go first."""

from __future__ import annotations

from collections import Counter, defaultdict

from foreword.protocol.messages import Receipt, TargetEvent, VerdictNotice
from foreword.protocol.words import ReceiptCode
from target_service.engine.messages import Answers, Consumed, Events, FromEngine

MOST_TAKEN = 256
"""Messages that were taken from peers before that alone is worth a message to the gRPC process."""


class Outbox:
    """Events by stream and answers by link, in order, and counts of what happened."""

    def __init__(self) -> None:
        self._events: defaultdict[int, list[TargetEvent]] = defaultdict(list)
        self._answers: defaultdict[int, list[Receipt | VerdictNotice]] = defaultdict(list)
        self._counts: Counter[str] = Counter()
        self._taken: Counter[int] = Counter()

    def tell(self, stream: int, event: TargetEvent) -> None:
        """Queue an event for an orchestrator."""
        self._events[stream].append(event)

    def answer(self, link: int, answer: Receipt | VerdictNotice) -> None:
        """Queue an answer for a draft."""
        self._answers[link].append(answer)

    def count(self, name: str, times: int = 1) -> None:
        """Count something."""
        self._counts[name] += times

    def consumed(self, number: int, messages: int) -> None:
        """Note that messages of a stream or link were taken."""
        self._taken[number] += messages

    @property
    def urgent(self) -> bool:
        """Whether something is queued that should not wait for a step.

        A receipt of a block that was taken can: the draft does nothing until the verdict comes.
        """
        return bool(self._events) or any(not _can_wait(one) for queued in self._answers.values() for one in queued)

    def take_answers(self) -> list[FromEngine]:
        """Return and forget what is queued for drafts: their next block waits for it."""
        answers: list[FromEngine] = [Answers(link, tuple(queued)) for link, queued in self._answers.items()]
        self._answers.clear()
        return answers

    def take_events(self) -> list[FromEngine]:
        """Return and forget what is queued for orchestrators, and beside it what was taken from peers."""
        events: list[FromEngine] = [Events(stream, tuple(queued)) for stream, queued in self._events.items()]
        self._events.clear()
        if self._taken and (events or self._taken.total() >= MOST_TAKEN):
            events.append(Consumed(tuple(self._taken.items())))
            self._taken.clear()
        return events

    def take_counts(self) -> dict[str, int]:
        """Return and forget the counts."""
        counts = dict(self._counts)
        self._counts.clear()
        return counts


def _can_wait(answer: Receipt | VerdictNotice) -> bool:
    return isinstance(answer, Receipt) and answer.code is ReceiptCode.TAKEN
