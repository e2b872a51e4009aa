"""What the next step does: the parts of sessions that are ready, and pieces of texts that the cache lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foreword.errors import InvalidField
from foreword.protocol.messages import Tokens
from foreword.protocol.words import LossCode
from foreword.runner.checks import check_rows
from foreword.runner.port import Rows, Runner
from target_service.core import budget as sharing
from target_service.core.budget import Budget
from target_service.core.session import lost, obeyed
from target_service.core.state import Phase
from target_service.core.step import (
    Work,
    behind,
    build,
    buildable,
    failed,
    needed_rows,
    opens_by_a_lease,
    scores,
    unread,
)
from target_service.engine.allotment import Allotment, Ask
from target_service.engine.guessing import Guessing
from target_service.engine.record import Place, Record
from target_service.engine.sessions import Sessions

SCORED_ROWS = 128
"""Rows of prompts that want logits in one step: each is as long as the vocabulary."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of a session's text that enter the cache in this step."""

    record: Record
    tokens: Tokens

    @property
    def need(self) -> int:
        """Return how many of its rows want logits: those of a prompt whose log-probabilities are asked for."""
        return len(self.tokens) if scores(self.record.session) else 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What one step does."""

    works: tuple[tuple[Record, Work], ...]
    rows: tuple[Rows, ...]
    """The forward pass of the works."""
    pieces: tuple[Piece, ...]
    opened: tuple[Record, ...] = ()
    """Those of the works whose prompt ends in this step: its last rows bring the first token of a lease."""

    @property
    def work_rows(self) -> int:
        """Rows that end in logits."""
        return sum(len(work.rows) for _, work in self.works)

    @property
    def prompt_rows(self) -> int:
        """Rows of texts that are read."""
        return sum(len(piece.tokens) for piece in self.pieces)

    @property
    def read_rows(self) -> int:
        """Rows of texts that are read, those that a first token comes with included."""
        return self.prompt_rows + sum(len(work.rows) - 1 for record, work in self.works if record in self.opened)

    @property
    def guessed(self) -> int:
        """Works that verify guesses of the target's own drafter; to be asked before they are applied."""
        return sum(record.session.guess is not None for record, _ in self.works)

    @property
    def longest_block(self) -> tuple[int, int]:
        """Candidates of the longest block of a draft, and microseconds it took; to be asked before it is applied."""
        blocks = [record.session.block for record, _ in self.works if record.session.block is not None]
        return max(((len(block.ids), block.draft_compute_us) for block in blocks), default=(0, 0))

    @property
    def blocks_us(self) -> list[int]:
        """When drafts' blocks were there; to be asked before they are applied."""
        return [record.ready_us for record, _ in self.works if record.session.block is not None]

    @property
    def lags_us(self) -> list[int]:
        """How much later than its Commit each block was there, [0] with works that have none; asked before applying."""
        if any(record.session.block is None for record, _ in self.works):
            return [0]
        return [record.lag_us or 0 for record, _ in self.works]

    @property
    def mean_context(self) -> int:
        """Mean length of the sequences in the step."""
        lengths = [work.cached for _, work in self.works] + [piece.record.session.cached for piece in self.pieces]
        return sum(lengths) // len(lengths)

    def batch(self) -> list[Rows]:
        """Return the forward pass, works first."""
        return [*self.rows, *(Rows(piece.record.slot, piece.tokens, piece.need) for piece in self.pieces)]


class Planner:
    """Builds steps within a budget of rows, and within the pages that there are."""

    def __init__(
        self,
        runner: Runner,
        sessions: Sessions,
        allotment: Allotment,
        guessing: Guessing,
        *,
        budget: Budget,
        step_us: Callable[[int], float],
    ) -> None:
        self._runner = runner
        self._sessions = sessions
        self._allotment = allotment
        self._guessing = guessing
        self._budget = budget
        self._step_us = step_us
        self._steps = 0

    def plan(self, now_us: int) -> Plan | None:
        """Build the step from what is ready now; None if there is nothing to do. Slots are cut to what is usable."""
        asks = self._asks()
        granted, lacking = self._allotment.allot(asks)
        for record in lacking:
            text = f"pages: this session's {record.session.length + 1} tokens do not fit the cache"
            self._sessions.apply(record, lost(record.session, LossCode.EVICTED, text), at_us=now_us)
        self._steps += 1
        works: list[tuple[Record, Work]] = []
        rows: list[Rows] = []
        opened: list[Record] = []
        pieces: list[Piece] = []
        for ask in granted:
            record = ask.record
            if ask.reads and not (ask.rows > unread(record.session) and _opens(ask, now_us)):
                pieces.append(_piece(ask))
                continue
            part = self._part(record, now_us)
            if part is not None:
                works.append((record, part[0]))
                rows.append(part[1])
                opened += [record] if ask.reads else []
        return Plan(tuple(works), tuple(rows), tuple(pieces), tuple(opened)) if works or pieces else None

    def _asks(self) -> list[Ask]:
        """Return who takes part and with how many rows, as far as the budget goes, oldest first."""
        ready: list[Record] = []
        readers: list[Record] = []
        decoding = False
        for record in self._sessions:
            if record.place is not Place.CACHED:
                continue
            if behind(record.session):
                readers.append(record)
                continue
            decoding = True
            if buildable(record.session):
                ready.append(record)
        self._guessing.guess(ready)
        asks = self._decoders(ready, beside_prompts=bool(readers))
        if readers:
            asks += self._readers(readers, sum(ask.rows for ask in asks), decoding=decoding)
            asks.sort(key=lambda ask: ask.record.slot)
        return asks

    def _decoders(self, ready: Sequence[Record], *, beside_prompts: bool) -> list[Ask]:
        rows = [needed_rows(record.session) for record in ready]
        most = sharing.decode_rows(self._budget, beside_prompts=beside_prompts)
        chosen = sharing.decoders(rows, [record.served for record in ready], most=most)
        return [Ask(ready[index], rows[index]) for index in chosen]

    def _readers(self, readers: Sequence[Record], decode_rows: int, *, decoding: bool) -> list[Ask]:
        most = sharing.prompt_rows(self._budget, decode_rows, decoding=decoding, step_us=self._step_us)
        wanted, scored = [], SCORED_ROWS
        for session in (reader.session for reader in readers):
            rows = unread(session) + opens_by_a_lease(session)
            if scores(session):
                rows = min(rows, scored)
                scored -= rows
            wanted.append(rows)
        given = sharing.pieces(wanted, most=most)
        return [Ask(record, rows, reads=True) for record, rows in zip(readers, given, strict=True) if rows]

    def _part(self, record: Record, now_us: int) -> tuple[Work, Rows] | None:
        """Decide what the session does; None if it was lost instead."""
        session, work = build(record.session)
        rows = Rows(record.slot, work.rows, work.need, temperature=session.law.temperature)
        try:
            check_rows(
                rows,
                length=work.cached,
                vocabulary_size=self._runner.vocabulary_size,
                longest_context=self._runner.longest_context,
            )
        except InvalidField as error:
            self._sessions.apply(record, failed(session, LossCode.RUNNER, error.message), at_us=now_us)
            return None
        record.session = session
        record.rows = work.need
        record.served = self._steps
        return work, rows


def _opens(ask: Ask, now_us: int) -> bool:
    """Let a session whose prompt ends in this step take its first plain step in it; False if it has none to take."""
    record = ask.record
    session, _ = obeyed(record.session)
    # A Commit may bring tokens beyond those of the Open: pages were granted, and the budget counted, without them.
    if session.phase is not Phase.LEASE or needed_rows(session) > ask.rows:
        return False
    record.session = session
    record.commit_us = record.ready_us = now_us
    return True


def _piece(ask: Ask) -> Piece:
    session = ask.record.session
    rows = min(ask.rows, unread(session))
    return Piece(ask.record, session.context[session.cached : session.cached + rows])
