"""What grammars let come next in the texts that a draft model writes.

A draft may have any law, so a mask is a matter of acceptance alone: until it is made, and where it cannot be, a draft
draws as if there were no grammar. A mask is a function of the text that it is asked about, which makes rollback,
branches and what a verdict has cut off the same to it as any other text.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import structlog
from numpy.typing import NDArray

from foreword.errors import InvalidField
from foreword.grammars.making import MaskMaker
from foreword.laws.edits import TokenMask
from foreword.laws.law import Ids
from foreword.laws.parameters import LawParameters
from foreword.runner.port import Logits

_log = structlog.stdlib.get_logger(__name__)


class DraftMasks:
    """The masks of a drafter's slots; a branch shares that of the slot it came from."""

    def __init__(self, maker: MaskMaker | None, columns: Ids | None = None) -> None:
        """Take what makes masks, None for a drafter without; `columns` are the ids of a head that lacks some."""
        self._maker = maker
        self._columns = columns
        self._made: dict[int, Future[TokenMask]] = {}

    def of(self, slot: int, law: LawParameters) -> TokenMask | None:
        """Return the mask of a slot's text, None while there is none; the making starts when this is first asked."""
        if law.grammar is None or self._maker is None:
            return None
        found = self._made.get(slot)
        if found is None:
            found = self._made[slot] = self._maker.start(law)
            found.add_done_callback(_remark)
        return found.result() if found.done() and found.exception() is None else None

    def branch(self, source: int, slot: int) -> None:
        """Let a new slot have the mask of the one that it branches off."""
        if source in self._made:
            self._made[slot] = self._made[source]

    def forget(self, slot: int) -> None:
        """Free a slot."""
        self._made.pop(slot, None)

    def restricted(
        self, mask: TokenMask, logits: Logits, output: Sequence[int], candidates: Sequence[int]
    ) -> Logits | None:
        """Return float32 [m, V] with what may not come at -inf; row i is behind `output` and `candidates[:i]`.

        None where nothing may come in the first row that the head has. A later row like that stays as it is.
        """
        logits = logits.copy()
        for i, row in enumerate(logits):
            allowed = self._allowed(mask, (*output, *candidates[:i]))
            if allowed.any():
                row[: len(allowed)][~allowed] = -np.inf
            elif i == 0:
                return None
        return logits

    def _allowed(self, mask: TokenMask, text: Sequence[int]) -> NDArray[np.bool_]:
        """Return which columns may follow a text: none where it has left the grammar."""
        try:
            allowed = mask.allowed(text)
        except InvalidField:
            return np.zeros(0, np.bool_)
        assert allowed is not None
        return allowed if self._columns is None else allowed[self._columns]


def _remark(made: Future[TokenMask]) -> None:
    if not made.cancelled() and (error := made.exception()) is not None:
        _log.warning("drafting without a grammar", reason=str(error))
