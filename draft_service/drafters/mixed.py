"""The mixed drafter: lookup and a model behind one port; for each block the one that lately earned more.

A round with a lookup block emits 1 + L tokens in the time W that it takes beside drafting, one with a model block of n
candidates 1 + M tokens in W + n·t: L and M are the numbers of candidates that are expected to be kept, from rates that
the session's own blocks taught, W and t measured. The higher rate writes the block. Lookup guesses in every round, as
it costs nothing, so it learns from blocks that the model writes too.

The choice is made before a candidate is drawn, from tokens that are there already, and a block has one part only:
the law that goes out with a candidate is the one that it was drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from draft_service.ahead.forecast import BLIND, Outlook
from draft_service.core.reading import Compare, Read
from draft_service.core.state import Session
from draft_service.core.writing import Drawn
from draft_service.drafters.foresight import Foresight, LookJob
from draft_service.drafters.lookup import Lookup, LookupStyle, block_of, shared_rates
from draft_service.drafters.pace import Pace
from draft_service.drafters.pen import Pen
from draft_service.drafters.port import Abilities, CompareJob, Drafter, ReadJob
from draft_service.drafters.rates import SESSION_SPAN, SHARED_SPAN, Guess, Rates
from foreword.errors import ForewordError
from foreword.protocol.messages import Tokens
from foreword.protocol.words import Drafter as Kind
from foreword.values import replace

READ_ALONG = 64
"""Tokens that the model's cache may fall behind: after a long quotation the model must not read all of it at once."""
_BEFORE = (0.6,)
"""The model's acceptance rate beforehand."""
_CANDIDATE = 0


class ModelPart(Drafter, Foresight, Protocol):
    """The part that has a model."""

    def guessed(self, jobs: Sequence[CompareJob]) -> list[tuple[bool, ...] | ForewordError]:
        """Return for each wanted token of a job whether it was guessed."""


@dataclass(slots=True)
class _Slot:
    """One session; the engine's `cached` is the length of the text that lookup has read."""

    lookup: Lookup
    rates: Rates
    """Of the model's candidates."""
    read: int = 0
    """How much of that text the model's cache holds, at most all."""
    start: int = 0
    """Length of the text before the current block."""
    drawn: list[int] = field(default_factory=list)
    """What the model has drawn of the current block."""
    ended_ns: int | None = None
    """When the last candidate was drawn."""

    def take(self, cached: int, rows: Tokens) -> None:
        """Read on after `cached`; what the model has read beyond it is void."""
        self.lookup.take(cached, rows)
        self.read = min(self.read, cached)

    def unread(self) -> Read:
        """Return what the model has not read of the text."""
        return Read(self.read, self.lookup.since(self.read))


class MixedDrafter:
    """Drafts with lookup or a model, whichever is expected to give more tokens in the same time."""

    def __init__(self, style: LookupStyle, model: ModelPart, now_ns: Callable[[], int]) -> None:
        self._style = style.validate()
        self._model = model
        self._now_ns = now_ns
        self._pace = Pace()
        self._lookup_rates = shared_rates()
        self._model_rates = Rates(_BEFORE, span=SHARED_SPAN)
        self._slots: dict[int, _Slot] = {}
        self._branches: set[int] = set()

    @property
    def abilities(self) -> Abilities:
        """What it is and can do: as much as its model."""
        return replace(self._model.abilities, kind=Kind.MIXED)

    @property
    def resident_tokens(self) -> int:
        """Tokens in the model's cache over all slots; beside them, what lookup indexes takes little."""
        return self._model.resident_tokens

    def open(self, slot: int, *, salt: bytes = b"") -> None:
        """Start an empty slot."""
        self._model.open(slot, salt=salt)
        rates = Rates(self._model_rates, span=SESSION_SPAN)
        self._slots[slot] = _Slot(Lookup(self._style, self._lookup_rates), rates)

    def adopt(self, slot: int, tokens: Tokens) -> int:
        """Let the model begin with what it has read before; return 0, for lookup has to read all of it."""
        self._slots[slot].read = self._model.adopt(slot, tokens)
        return 0

    def close(self, slot: int) -> None:
        """Free a slot."""
        if slot in self._branches:
            self._branches.remove(slot)
        else:
            del self._slots[slot]
        self._model.close(slot)

    def branch(self, source: int, slot: int, length: int, *, salt: bytes = b"") -> None:
        """Open a branch of the model's alone: what lookup would write takes no time when its turn comes."""
        self._model.branch(source, slot, length, salt=salt)
        self._branches.add(slot)

    def look_ahead(
        self, pens: Sequence[Pen], jobs: Sequence[LookJob]
    ) -> tuple[list[Drawn | ForewordError], list[Outlook | ForewordError]]:
        """Let the model draw, and look behind its own blocks; lookup reads what sessions have drafted.

        Behind a block that lookup wrote nothing is prepared, for lookup is likely to write the next one too. That is
        settled here, before anything is drawn: a branch of which something is drawn is gone on with, whatever it is.
        """
        own = [job for job in jobs if not _is_quoted(job)]
        drawn, seen = (
            self._model.look_ahead(pens, [self._behind_block(job) for job in own]) if pens or own else ([], [])
        )
        found = iter(seen)
        outlooks = [BLIND if _is_quoted(job) else next(found) for job in jobs]
        for job in jobs:
            if job.slot not in self._branches:
                slot = self._slots[job.slot]
                slot.lookup.take(len(slot.lookup), job.session.context_from(len(slot.lookup)))
                if not _is_quoted(job):
                    slot.read = len(slot.lookup)
        kind = self._model.abilities.kind
        return [one if isinstance(one, ForewordError) else replace(one, drafter=kind) for one in drawn], outlooks

    def take_over(self, slot: int, branch: int, session: Session, prepared: Session, *, shipped: bool) -> bool:
        """Go on with the model's block, unless nothing of it is drawn yet and lookup is expected to earn more."""
        own, pen = self._slots[slot], Pen(slot, session)
        own.take(pen.cached, pen.rows)
        begun = shipped or (prepared.writing is not None and bool(prepared.writing.ids))
        if self._begin(own, pen) is not None and not begun:
            return False
        self._branches.remove(branch)
        self._model.take_over(slot, branch, session, prepared, shipped=shipped)
        drafted = prepared.writing.ids if prepared.writing else ()
        known = len(own.lookup)
        own.lookup.take(known, prepared.context_from(known)[: max(0, prepared.cached - known)])
        own.lookup.cut(prepared.cached)
        own.read = prepared.cached
        own.drawn += drafted
        own.ended_ns = self._now_ns()
        return True

    def step(self, pens: Sequence[Pen], reads: Sequence[ReadJob]) -> list[Drawn | ForewordError]:
        """Choose a part for blocks that begin; draw whole blocks from lookup, and a candidate each from the model."""
        jobs = []
        for job in reads:
            slot = self._slots[job.slot]
            slot.take(job.read.cached, job.read.rows)
            jobs.append(ReadJob(job.slot, slot.unread()))
        quoted: dict[int, Drawn] = {}
        others: list[Pen] = []
        for pen in pens:
            slot = self._slots[pen.slot]
            slot.take(pen.cached, pen.rows)
            guess = self._begin(slot, pen) if pen.begins else None
            if guess is None:
                others.append(_behind(pen, slot.read))
                continue
            quoted[pen.slot] = block_of(guess)
            if len(slot.lookup) - slot.read >= READ_ALONG:
                jobs.append(ReadJob(pen.slot, slot.unread()))
        drawn = iter(self._pass(others, jobs) if others or jobs else ())
        results = [quoted[pen.slot] if pen.slot in quoted else next(drawn) for pen in pens]
        ended_ns = self._now_ns()
        for pen in pens:
            self._slots[pen.slot].ended_ns = ended_ns
        return results

    def compare(self, jobs: Sequence[CompareJob]) -> list[int | ForewordError]:
        """Guess each token with the part that would have written a block of it."""
        quoted: list[list[Guess]] = []
        behind: list[CompareJob] = []
        for job in jobs:
            slot, work = self._slots[job.slot], job.compare
            slot.read = min(slot.read, work.cached)
            slot.drawn.clear()
            quoted.append(slot.lookup.compare(work))
            behind.append(replace(job, compare=replace(work, cached=slot.read, rows=slot.unread().rows)))
        results = self._model.guessed(behind)
        agreed: list[int | ForewordError] = []
        for job, guesses, flags in zip(jobs, quoted, results, strict=True):
            if isinstance(flags, ForewordError):
                agreed.append(flags)
                continue
            slot = self._slots[job.slot]
            slot.read = len(slot.lookup)
            slot.ended_ns = None
            agreed.append(self._agreed(slot, job.compare, guesses, flags))
        return agreed

    def _begin(self, slot: _Slot, pen: Pen) -> Guess | None:
        """Learn how the last block did; return the next one if lookup writes it, and None if the model does."""
        came = slot.lookup.since(slot.start) if pen.cached >= slot.start else ()
        if came and slot.ended_ns is not None:
            self._pace.waited(self._now_ns() - slot.ended_ns)
        slot.rates.hear(Guess(slot.start, tuple(slot.drawn), (_CANDIDATE,) * len(slot.drawn)), came)
        slot.lookup.hear()
        slot.start = len(slot.lookup)
        slot.drawn.clear()
        guess = slot.lookup.guess(pen.left, pen.lookup_threshold)
        first = self._lookup_earns_more(guess, slot.rates, most=pen.left, threshold=pen.threshold)
        return guess if first else None

    def _lookup_earns_more(self, guess: Guess, rates: Rates, *, most: int, threshold: float = 0.0) -> bool:
        """Whether lookup is expected to give as many tokens in the same time as the model.

        What the model's cache is behind has no say: it has to be read some day, and a model that is never asked for
        that reason falls behind for ever.
        """
        if not guess.ids:
            return False
        drawn = rates.survivals((_CANDIDATE,) * most, threshold)
        wait_ns = self._pace.wait_ns
        model_ns = wait_ns + len(drawn) * self._pace.step_ns
        return (1.0 + sum(guess.survivals)) * model_ns >= (1.0 + sum(drawn)) * wait_ns

    def _behind_block(self, job: LookJob) -> LookJob:
        """Return the job, or one that looks the same after a cache that holds less."""
        if job.slot in self._branches:
            return job
        read = min(self._slots[job.slot].read, job.cached)
        return job if read == job.cached else replace(job, cached=read, rows=job.session.context_from(read))

    def _pass(self, pens: list[Pen], jobs: list[ReadJob]) -> list[Drawn | ForewordError]:
        """Let the model draw and read; its caches are then as long as the text that lookup has read."""
        began_ns = self._now_ns()
        results = self._model.step(pens, jobs)
        if pens:
            self._pace.stepped(self._now_ns() - began_ns)
        for job in jobs:
            self._slots[job.slot].read = len(self._slots[job.slot].lookup)
        drawn: list[Drawn | ForewordError] = []
        for pen, result in zip(pens, results, strict=True):
            slot = self._slots[pen.slot]
            slot.read = len(slot.lookup)
            if isinstance(result, Drawn):
                slot.drawn += result.ids
                result = replace(result, drafter=self._model.abilities.kind)
            drawn.append(result)
        return drawn

    def _agreed(self, slot: _Slot, work: Compare, guesses: list[Guess], flags: tuple[bool, ...]) -> int:
        firsts = [self._lookup_earns_more(guess, slot.rates, most=1) for guess in guesses]
        for flag in flags:
            slot.rates.note(_CANDIDATE, kept=flag)
        return sum(
            guess.ids == (token,) if first else flag
            for first, guess, token, flag in zip(firsts, guesses, work.wanted, flags, strict=True)
        )


def _is_quoted(job: LookJob) -> bool:
    """Whether lookup wrote the block."""
    return job.session.writing is not None and job.session.writing.drafter is Kind.LOOKUP


def _behind(pen: Pen, read: int) -> Pen:
    """Return the pen, or one that draws the same after a cache that holds only the first `read` tokens."""
    return pen if read == pen.cached else Pen(pen.slot, replace(pen.session, cached=read))
