"""What the engine has to say, gathered until it hands it over; verdicts go first."""

from __future__ import annotations

from collections import Counter, defaultdict

from foreword.protocol.messages import Receipt, TargetEvent, VerdictNotice
from foreword.protocol.words import ReceiptCode
from target_service.engine.messages import Answers, Consumed, Events, FromEngine, PrefixHits

MOST_CONSUMED = 256
"""Messages taken from peers before that alone is worth a message to the gRPC process."""


class Outbox:
    """Events by stream and answers by link, in order, and counts of what happened.

    Receipts of blocks that were taken are kept apart: drafts do nothing until the verdict comes, so they can wait for a
    step, and must not stand in front of verdicts.
    """

    def __init__(self) -> None:
        self._events: defaultdict[int, list[TargetEvent]] = defaultdict(list)
        self._answers: defaultdict[int, list[Receipt | VerdictNotice]] = defaultdict(list)
        self._taken: defaultdict[int, list[Receipt | VerdictNotice]] = defaultdict(list)
        self._counts: Counter[str] = Counter()
        self._consumed: Counter[int] = Counter()
        self._prefixes = PrefixHits()

    def tell(self, stream: int, event: TargetEvent) -> None:
        """Queue an event for an orchestrator."""
        self._events[stream].append(event)

    def answer(self, link: int, answer: Receipt | VerdictNotice) -> None:
        """Queue an answer for a draft."""
        can_wait = isinstance(answer, Receipt) and answer.code is ReceiptCode.TAKEN
        (self._taken if can_wait else self._answers)[link].append(answer)

    def count(self, name: str, times: int = 1) -> None:
        """Count something."""
        self._counts[name] += times

    def looked_up(self, tokens: int, *, hit: int) -> None:
        """Note that a text of so many tokens was looked up, and how many of them were cached."""
        self._prefixes = PrefixHits(self._prefixes.queried + tokens, self._prefixes.hit + hit)

    def consumed(self, number: int, messages: int) -> None:
        """Note that messages of a stream or link were consumed."""
        self._consumed[number] += messages

    @property
    def urgent(self) -> bool:
        """Whether something is queued that should not wait for a step."""
        return bool(self._events or self._answers)

    def take_answers(self) -> list[FromEngine]:
        """Return and forget what is queued for drafts and cannot wait: their next block waits for it."""
        return _answers(self._answers)

    def take_rest(self) -> list[FromEngine]:
        """Return and forget what is queued for orchestrators, then what can wait."""
        rest: list[FromEngine] = [Events(stream, tuple(queued)) for stream, queued in self._events.items()]
        self._events.clear()
        rest += _answers(self._taken)
        if self._consumed and (rest or self._consumed.total() >= MOST_CONSUMED):
            rest.append(Consumed(tuple(self._consumed.items())))
            self._consumed.clear()
        return rest

    def take_prefixes(self) -> PrefixHits:
        """Return and forget what was looked up."""
        prefixes, self._prefixes = self._prefixes, PrefixHits()
        return prefixes

    def take_counts(self) -> dict[str, int]:
        """Return and forget the counts."""
        counts = dict(self._counts)
        self._counts.clear()
        return counts


def _answers(queues: defaultdict[int, list[Receipt | VerdictNotice]]) -> list[FromEngine]:
    answers: list[FromEngine] = [Answers(link, tuple(queued)) for link, queued in queues.items()]
    queues.clear()
    return answers
