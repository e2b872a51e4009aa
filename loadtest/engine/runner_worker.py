"""The runner without services: `python -m loadtest.engine.runner_worker MODEL THREADS CACHE`, asked in JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from foreword.acceptance import decide, gather
from foreword.compiled.laws import try_compiled_laws
from foreword.compiled.source import CompiledSource
from foreword.errors import ForewordError
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, target_laws
from foreword.models.dtype import Dtype
from foreword.models.quiet import quiet
from foreword.models.source import parse_source
from foreword.protocol.messages import TargetKeys
from foreword.protocol.words import Rule
from foreword.runner.budget import CacheBudget
from foreword.runner.build import build_runner
from foreword.runner.paged import PagedRunner
from foreword.runner.port import Logits, Rows, Runner
from foreword.telemetry.logs import LogFormat, LogLevel, configure_logs
from foreword.testing.synthetic import Side
from loadtest.bench.questions import answer_questions
from loadtest.engine.clock import timed
from loadtest.engine.profile import profiled

_KEYS: Final = TargetKeys(b"m" * 16, b"e" * 16, b"c" * 16)
_SOURCE = CompiledSource()
_PIECE: Final = 512
_CACHE_TOKENS: Final = 40_960
LAWS: Final = {
    "temperature 0": LawParameters(temperature=0.0),
    "temperature 1": LawParameters(temperature=1.0),
    "temperature 0.8, top-p 0.95": LawParameters(temperature=0.8, top_p=0.95),
}


@dataclass(slots=True)
class Contexts:
    """A runner, and sessions that hold a context each."""

    runner: Runner
    held: dict[int, int] = field(default_factory=dict)

    def batch(self, sessions: int, rows: int, context: int) -> list[Rows]:
        """Return a pass in which that many sessions append that many rows; contexts are read as they are missing."""
        for slot in range(sessions):
            self._hold(slot, context)
        return [Rows(slot, self._text(slot, context, rows), rows) for slot in range(sessions)]

    @property
    def spent_ns(self) -> tuple[int, ...]:
        """Where the time of passes went, as the runner says."""
        assert isinstance(self.runner, PagedRunner)
        return self.runner.spent_ns

    def undo(self, batch: list[Rows], context: int) -> None:
        """Forget what a pass appended."""
        for rows in batch:
            self.runner.truncate(rows.slot, context)

    def _hold(self, slot: int, context: int) -> None:
        if slot not in self.held:
            self.runner.open(slot, salt=slot.to_bytes(8, "little"))
        if self.held.get(slot) != context:
            self.runner.truncate(slot, 0)
            for first in range(0, context, _PIECE):
                piece = self._text(slot, first, min(_PIECE, context - first))
                self.runner.forward([Rows(slot, piece, 0)])
            self.held[slot] = context

    def _text(self, slot: int, first: int, count: int) -> tuple[int, ...]:
        return tuple((31 * slot + 7 * place) % self.runner.vocabulary_size for place in range(first, first + count))


class Worker:
    """The runners of one model, each built when it is first asked for."""

    def __init__(self, model: str, threads: int, folder: Path) -> None:
        self._model, self._threads, self._folder = model, threads, folder
        self._contexts = cache(self._built)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Carry out one question: `passes`, `profile` or `evidence`."""
        kind = question.pop("kind")
        known: dict[str, Callable[..., dict[str, Any]]] = {
            "passes": self.passes,
            "profile": self.profile,
            "evidence": self.evidence,
        }
        return known[kind](**question)

    def passes(self, dtype: str, sessions: int, rows: int, context: int, seconds: float) -> dict[str, Any]:
        """Return the seconds of passes of some rows of each of some sessions, logits of all rows wanted."""
        held = self._contexts(dtype)
        batch = held.batch(sessions, rows, context)
        return {
            "seconds": timed(lambda: held.runner.forward(batch), lambda: held.undo(batch, context), seconds=seconds)
        }

    def profile(self, dtype: str, sessions: int, rows: int, context: int, seconds: float) -> dict[str, Any]:
        """Return the mean seconds of a pass by what is done in it."""
        held = self._contexts(dtype)
        batch = held.batch(sessions, rows, context)
        return {
            "parts": profiled(
                held, lambda: held.runner.forward(batch), lambda: held.undo(batch, context), seconds=seconds
            )
        }

    def evidence(self, dtype: str, rows: int, context: int, seconds: float) -> dict[str, Any]:
        """Return by law the seconds of laws, evidence and verdict for a block of which the target keeps everything."""
        held = self._contexts(dtype)
        batch = held.batch(1, rows, context)
        (logits,) = held.runner.forward(batch)
        held.undo(batch, context)
        found = {}
        for name, law in LAWS.items():
            candidates = _kept(logits, law)
            taken = timed(
                lambda law=law, ids=candidates: _verdict(logits, law, ids),  # type: ignore[misc]
                lambda: None,
                seconds=seconds,
            )
            found[name] = taken
        return {"seconds": found}

    def _built(self, dtype: str) -> Contexts:
        built = build_runner(
            parse_source(self._model),
            side=Side.TARGET,
            cache=self._folder,
            dtype=Dtype(dtype),
            threads=self._threads,
            budget=CacheBudget(_CACHE_TOKENS),
        )
        return Contexts(built.runner)


def _kept(logits: Logits, law: LawParameters) -> tuple[int, ...]:
    """Return the candidates that the target itself would write, one fewer than rows."""
    ids: tuple[int, ...] = ()
    for _ in range(len(logits) - 1):
        rows = LawRows(law, logits[: len(ids) + 1], candidates=ids)
        (laws,) = target_laws([rows])
        evidence = gather(Rule.MATCH, laws, ids, None, keys=_KEYS, round=1, base=0)
        ids = (*ids, evidence.emit[-1] or 0)
    return ids


def _verdict(logits: Logits, law: LawParameters, candidates: tuple[int, ...]) -> None:
    """Do what a target does with the logits of a block."""
    (laws,) = try_compiled_laws([LawRows(law, logits, candidates=candidates)])
    if isinstance(laws, ForewordError):
        raise laws
    evidence = gather(Rule.MATCH, laws, candidates, None, keys=_KEYS, round=1, base=0, source=_SOURCE)
    decide(Rule.MATCH, evidence, coin_key=_KEYS.coin, round=1, base=0)


def main(model: str, threads: int, folder: Path) -> None:
    """Answer questions until stdin ends."""
    configure_logs(LogLevel.WARNING, LogFormat.CONSOLE)
    with quiet():
        worker = Worker(model, threads, folder)
        answer_questions(worker.answer)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
