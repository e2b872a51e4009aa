"""What the next step does: the parts of all sessions that are ready, and a piece of the prompts that wait."""

from __future__ import annotations

from dataclasses import dataclass

from foreword.errors import InvalidField
from foreword.protocol.messages import Tokens
from foreword.protocol.words import LossCode
from foreword.runner.checks import check_rows
from foreword.runner.port import Rows, Runner
from target_service.core.session import lost
from target_service.core.state import Phase
from target_service.core.step import Work, build, buildable, failed
from target_service.engine.room import Room
from target_service.engine.sessions import Record, Sessions


@dataclass(frozen=True, slots=True)
class Piece:
    """Prompt tokens of a session that enter the cache in this step."""

    record: Record
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class Plan:
    """What one step does."""

    works: tuple[tuple[Record, Work], ...]
    rows: tuple[Rows, ...]
    """The forward pass of the works."""
    pieces: tuple[Piece, ...]

    @property
    def work_rows(self) -> int:
        """Rows that end in logits, and tokens before them that the cache lacks."""
        return sum(len(work.rows) for _, work in self.works)

    @property
    def prompt_rows(self) -> int:
        """Rows of prompts."""
        return sum(len(piece.tokens) for piece in self.pieces)

    @property
    def mean_context(self) -> int:
        """Mean length of the sequences in the step."""
        lengths = [work.cached for _, work in self.works] + [piece.record.session.cached for piece in self.pieces]
        return sum(lengths) // len(lengths)

    def batch(self) -> list[Rows]:
        """Return the forward pass, works first."""
        return [*self.rows, *(Rows(piece.record.slot, piece.tokens, 0) for piece in self.pieces)]


class Planner:
    """Builds steps, oldest sessions first; `chunk` bounds the prompt tokens of one step."""

    def __init__(self, runner: Runner, sessions: Sessions, room: Room, *, chunk: int) -> None:
        self._runner = runner
        self._sessions = sessions
        self._room = room
        self._chunk = chunk

    def plan(self, now_us: int) -> Plan | None:
        """Build the step from what is ready now; None if there is nothing to do. Slots are cut to what is usable."""
        works: list[tuple[Record, Work]] = []
        rows: list[Rows] = []
        for record in self._sessions:
            if buildable(record.session) and (part := self._part(record, now_us)) is not None:
                works.append((record, part[0]))
                rows.append(part[1])
        pieces = self._pieces()
        return Plan(tuple(works), tuple(rows), tuple(pieces)) if works or pieces else None

    def prompts_wait(self) -> int:
        """Return how many prompt tokens the next step would read."""
        waiting = (_unread(r) for r in self._sessions if r.session.phase is Phase.PREFILL)
        return min(self._chunk, sum(waiting), max(0, self._room.free))

    def _part(self, record: Record, now_us: int) -> tuple[Work, Rows] | None:
        """Decide the session's part and make room for it; None if it was lost instead."""
        session, work = build(record.session)
        try:
            rows = Rows(record.slot, work.rows, work.need, temperature=session.law.temperature)
            check_rows(
                rows,
                length=work.cached,
                vocabulary_size=self._runner.vocabulary_size,
                longest_context=self._runner.longest_context,
            )
        except InvalidField as error:
            self._sessions.apply(record, failed(session, LossCode.RUNNER, error.message), at_us=now_us)
            return None
        length = work.cached + len(work.rows)
        while not self._room.fits(record.slot, length):
            youngest = self._sessions.youngest()
            outcome = lost(
                youngest.session, LossCode.EVICTED, "tokens: the cache is full and this session is the youngest"
            )
            self._sessions.apply(youngest, outcome, at_us=now_us)
            if youngest is record:
                return None
        if self._room.held(record.slot) > work.cached:
            self._runner.truncate(record.slot, work.cached)
        self._room.set(record.slot, length)
        record.session = session
        record.rows = len(work.rows)
        return work, rows

    def _pieces(self) -> list[Piece]:
        """Take prompts in the order of opening, as far as the chunk and the room go; nobody is evicted for a prompt."""
        pieces = []
        left = min(self._chunk, self._room.free)
        for record in self._sessions:
            if left <= 0:
                break
            if record.session.phase is Phase.PREFILL:
                cached = record.session.cached
                tokens = record.session.sequence.tokens[cached : cached + min(left, _unread(record))]
                self._room.set(record.slot, cached + len(tokens))
                left -= len(tokens)
                pieces.append(Piece(record, tokens))
        return pieces


def _unread(record: Record) -> int:
    """Return how many prompt tokens the cache lacks; the last one stays out, so that every step has a row."""
    return len(record.session.sequence.tokens) - 1 - record.session.cached
