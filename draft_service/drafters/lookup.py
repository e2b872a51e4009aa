"""Prompt lookup: the continuation of an earlier occurrence of the text's end; no model, no weights.

Candidates are certain (one-hot laws), a whole block comes in one step, and where nothing matches the block goes out
empty at once, so that the target does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draft_service.core.writing import Drawn
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import Abilities, CompareJob, ReadJob
from foreword.errors import ForewordError, InvalidField
from foreword.lookup.ngrams import NgramIndex
from foreword.protocol.words import Drafter as Kind


@dataclass(frozen=True, slots=True)
class LookupStyle:
    """Which n-grams are searched for."""

    shortest: int = 2
    longest: int = 4
    context: int = 1 << 20
    """Most tokens of one session."""

    def validate(self) -> LookupStyle:
        """Return self, or raise InvalidField."""
        if not 1 <= self.shortest <= self.longest:
            raise InvalidField("lookup_min", self.shortest, f"a whole number from 1 to lookup_max, {self.longest}")
        return self


class LookupDrafter:
    """Drafts from an n-gram index for each slot."""

    def __init__(self, style: LookupStyle) -> None:
        self._style = style.validate()
        self._indexes: dict[int, NgramIndex] = {}

    @property
    def abilities(self) -> Abilities:
        """What it is and can do."""
        return Abilities(Kind.LOOKUP, self._style.context, vocabulary_size=None, model=None)

    @property
    def resident_tokens(self) -> int:
        """Tokens indexed over all slots."""
        return sum(len(index) for index in self._indexes.values())

    def open(self, slot: int) -> None:
        """Start an empty slot."""
        self._indexes[slot] = NgramIndex(self._style.shortest, self._style.longest)

    def close(self, slot: int) -> None:
        """Free a slot."""
        del self._indexes[slot]

    def step(self, pens: Sequence[Pen], reads: Sequence[ReadJob]) -> list[Drawn | ForewordError]:
        """Draw whole blocks, and index tokens for other sessions."""
        for job in reads:
            self._append(job.slot, job.read.cached, job.read.rows)
        return [self._drawn(pen) for pen in pens]

    def compare(self, jobs: Sequence[CompareJob]) -> list[int | ForewordError]:
        """Count how often the next token was the one that lookup would have drafted."""
        return [self._agreed(job) for job in jobs]

    def _drawn(self, pen: Pen) -> Drawn:
        index = self._append(pen.slot, pen.cached, pen.rows)
        return Drawn(index.continuation(pen.left), None, stop=True)

    def _agreed(self, job: CompareJob) -> int:
        # Its cache ends one token before the end, like every cache: the last wanted token is read by the next job.
        seen = job.compare.rows + job.compare.wanted[-1:]
        known = len(seen) - job.compare.count
        index = self._append(job.slot, job.compare.cached, seen[:known])
        agreed = index.agreed(seen[known:])
        index.cut(len(index) - 1)
        return agreed

    def _append(self, slot: int, cached: int, rows: tuple[int, ...]) -> NgramIndex:
        index = self._indexes[slot]
        index.cut(cached)
        index.extend(rows)
        return index
