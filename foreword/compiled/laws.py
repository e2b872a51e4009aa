"""From the logits of a step to its laws: what `foreword.laws.pipeline` makes, by one compiled loop over all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from foreword.compiled.law import RowLaw
from foreword.compiled.rows import Ids, describe, write
from foreword.compiled.runs import RUN, Doubles, Floats, Words
from foreword.errors import ForewordError
from foreword.laws.law import Law, TargetLaw
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, edited_logits, session_laws
from foreword.laws.truncate import truncates

Found = list[TargetLaw] | ForewordError


def try_compiled_laws(rows: Sequence[LawRows]) -> list[Found]:
    """Return the laws of every session, or its error where it has one: as `try_target_laws`, to the last bits.

    Laws of whole rows read the logits when they are asked: they last until those are written again.
    """
    edited = [_edited(one) for one in rows]
    table = _Table([(one.parameters, row) for one, part in zip(rows, edited, strict=True) for row in part])
    laws = table.laws()
    found: list[Found] = []
    for session, (one, part) in enumerate(zip(rows, edited, strict=True)):
        own = [next(laws) for _ in part]
        whole = [law for law in own if law is not None]
        # Certain laws, and errors: rare, or cheap.
        found.append(whole if len(whole) == len(own) and own else _by_reference(one, session))
    return found


def _edited(rows: LawRows) -> list[Floats]:
    """Return what the temperature finds of every row, each without gaps; nothing where the reference has to see it."""
    if rows.parameters.greedy:
        return []
    try:
        logits = edited_logits(rows)
    except ForewordError:
        return []
    return [np.ascontiguousarray(row, dtype=np.float32) for row in logits]


def _by_reference(rows: LawRows, session: int) -> Found:
    try:
        return list(session_laws(rows, session=session))
    except ForewordError as error:
        return error


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows of logits of all sessions, and how each becomes a law."""

    rows: list[tuple[LawParameters, Floats]]

    def laws(self) -> Iterator[TargetLaw | None]:
        """Yield the law of every row; None for one whose largest logit is not finite."""
        if not self.rows:
            return
        addresses = np.array([row.ctypes.data for _, row in self.rows], dtype=np.int64)
        widths = np.array([len(row) for _, row in self.rows], dtype=np.int64)
        settings = np.array([_settings(parameters) for parameters, _ in self.rows])
        top_k = np.array([parameters.top_k or 0 for parameters, _ in self.rows], dtype=np.int64)
        sums = np.zeros((len(self.rows), -(-int(widths.max()) // RUN)))
        found, stays = np.empty((len(self.rows), 3)), np.empty((len(self.rows), 2), dtype=np.int64)
        describe(addresses, widths, settings, top_k, sums, found, stays)
        cut = _cut_rows(addresses, widths, settings, found, stays)
        for r, (parameters, row) in enumerate(self.rows):
            if not np.isfinite(found[r, 0]):
                yield None
            elif truncates(parameters):
                yield next(cut)
            else:
                scale = 1.0 / found[r, 1]
                numbers = np.array([found[r, 0], parameters.temperature, scale, 1.0])
                yield RowLaw(row, numbers, sums[r, : -(-len(row) // RUN)] * scale)


def _settings(parameters: LawParameters) -> tuple[float, float, float]:
    top_p = 1.0 if parameters.top_p is None else parameters.top_p
    return parameters.temperature, parameters.min_p or 0.0, top_p


def _cut_rows(addresses: Words, widths: Words, settings: Doubles, found: Doubles, stays: Words) -> Iterator[Law]:
    """Yield the laws of the rows of which not everything stays."""
    counts = stays[:, 1]
    if not counts.any():
        return
    ends = counts.cumsum()
    ids: Ids = np.empty(int(ends[-1]), dtype=np.int32)
    probabilities = np.empty(len(ids))
    write(addresses, widths, settings, found, stays, ends - counts, ids, probabilities)
    for end, count in zip(ends.tolist(), counts.tolist(), strict=True):
        if count:
            yield Law(ids[end - count : end], probabilities[end - count : end])
