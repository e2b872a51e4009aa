"""From rows of logits to target laws.

The order is that of vLLM: bias, bans and masks, penalties, temperature, min-p, top-k, top-p; each of the last three
renormalises before the next. Every parameter counts at every verified position, as if the candidates before it had
been committed one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from foreword.errors import EngineFailure, ForewordError, InvalidField
from foreword.laws.edits import Logits, TokenMask, Tokens, edited
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.laws.truncate import softmax, truncated_law, truncates


@dataclass(frozen=True, slots=True, eq=False)
class LawRows:
    """Logits of one session at consecutive positions, and what its laws depend on.

    `logits` is float32[m, V]; row i is the one after `candidates[:i]`, so m is at most one more than the candidates.
    `output` holds the committed output tokens and may be left empty if nothing penalizes and there is no mask;
    `prompt` likewise counts only for the repetition penalty. Arrays of ids spare a conversion. `first_position` is
    the output position of row 0. Ids from `vocabulary_size` on are padding and have no mass.
    """

    parameters: LawParameters
    logits: Logits
    prompt: Tokens = ()
    output: Tokens = ()
    candidates: Tokens = ()
    first_position: int = 0
    mask: TokenMask | None = None
    vocabulary_size: int | None = None

    def __post_init__(self) -> None:
        """Raise InvalidField if shapes or candidates do not fit."""
        if self.logits.ndim != 2 or len(self.logits) > len(self.candidates) + 1:
            wanted = f"[m, V] with m up to {len(self.candidates) + 1}, one more than the candidates"
            raise InvalidField("logits", f"shape {self.logits.shape}", wanted)
        if not 0 < self.width <= self.logits.shape[1]:
            raise InvalidField("vocabulary_size", self.width, f"1 to the {self.logits.shape[1]} columns of the logits")
        for token in self.candidates:
            if not 0 <= token < self.width:
                raise InvalidField("candidates", int(token), f"token ids from 0 to {self.width - 1}")

    @property
    def width(self) -> int:
        """Number of ids that can have mass."""
        return self.logits.shape[1] if self.vocabulary_size is None else self.vocabulary_size


def target_laws(rows: Sequence[LawRows]) -> list[list[Law]]:
    """Return the law of every row of every session; raise the error of the first session that has one.

    Raises EngineFailure for logits that are not numbers, InvalidField where nothing may come.
    """
    result = []
    for laws in try_target_laws(rows):
        if isinstance(laws, ForewordError):
            raise laws
        result.append(laws)
    return result


def try_target_laws(rows: Sequence[LawRows]) -> list[list[Law] | ForewordError]:
    """Return the laws of every session, or its error where it has one: a bad session costs no other its step."""
    result: list[list[Law] | ForewordError] = []
    for session, one in enumerate(rows):
        try:
            result.append(session_laws(one, session=session))
        except ForewordError as error:
            result.append(error)
    return result


def edited_logits(rows: LawRows) -> Logits:
    """Return float32[m, width] logits as the temperature finds them: padding off; bias, bans and penalties on."""
    return edited(
        rows.logits[:, : rows.width],
        rows.parameters,
        prompt=rows.prompt,
        output=rows.output,
        candidates=rows.candidates,
        first_position=rows.first_position,
        mask=rows.mask,
    )


def session_laws(rows: LawRows, *, session: int) -> list[Law]:
    """Return the laws of one session, whose number in the step errors name.

    Raises EngineFailure for logits that are not numbers, InvalidField where nothing may come in the first row. Behind a
    candidate that is no error yet, for the text may not go there: the law then is certain of `dead_end`.
    """
    logits = edited_logits(rows)
    if not len(logits):
        return []
    best = logits.argmax(axis=1)
    largest = logits[np.arange(len(best)), best]
    if np.isfinite(largest).all():
        return _laws(logits, rows.parameters, best, largest)
    dead = [row > 0 and _is_dead(rows, largest, row) for row in range(len(logits))]
    if not all(np.isfinite(largest) | dead):
        _refuse(rows, largest, session=session)
    open_rows = np.flatnonzero(~np.array(dead))
    laws = iter(_laws(logits[open_rows], rows.parameters, best[open_rows], largest[open_rows]))
    return [Law.one_hot(dead_end(rows)) if over else next(laws) for over in dead]


def dead_end(rows: LawRows) -> int:
    """Return the id that stands for "nothing may come here": one beyond the vocabulary, so that no draft draws it.

    As a token like any other it keeps every rule exact. A session that would commit it has come to where nothing may.
    """
    return rows.width


def refuse_dead_end(parameters: LawParameters, position: int) -> NoReturn:
    """Raise the InvalidField of a law under which nothing may come at an output position."""
    raise parameters.fault(f"what leaves a token that may come: no token left at output position {position}")


def _laws(logits: Logits, parameters: LawParameters, best: NDArray[np.intp], largest: NDArray[np.float32]) -> list[Law]:
    """Return the laws of rows whose largest logits are finite."""
    if parameters.greedy:
        return [Law.one_hot(token) for token in best.tolist()]
    if truncates(parameters):
        return [truncated_law(row, parameters) for row in logits]
    dense = softmax(logits, temperature=parameters.temperature, largest=largest[:, None])
    return [Law(None, row) for row in dense]


def _is_dead(rows: LawRows, largest: NDArray[np.float32], row: int) -> bool:
    """Whether a row is without a token because of the law's parameters, and not by the model's failure."""
    return bool(largest[row] == -math.inf and (rows.logits[row, : rows.width] > -math.inf).any())


def _refuse(rows: LawRows, largest: NDArray[np.float32], *, session: int) -> NoReturn:
    # argmax takes a NaN for the largest, so `largest` shows every NaN and every infinity.
    row = next(r for r in np.flatnonzero(~np.isfinite(largest)).tolist() if r == 0 or not _is_dead(rows, largest, r))
    where = f"logits of session {session} of the step, row {row} (output position {rows.first_position + row})"
    if _is_dead(rows, largest, row):
        refuse_dead_end(rows.parameters, rows.first_position + row)
    raise EngineFailure(f"{where}: got {float(largest[row])!r} as the largest, wanted finite numbers")
