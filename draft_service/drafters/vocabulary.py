"""The sub-vocabulary of a draft whose head has only some of the target's ids (FR-Spec, arXiv 2502.14856)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from foreword.errors import Corrupted
from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters
from foreword.values import replace

Ids = npt.NDArray[np.int32]


class VocabularyMap:
    """Columns of a head and the ids they stand for; both ascend together, so that ties go to the same token in both."""

    def __init__(self, ids: Ids, vocabulary_size: int) -> None:
        """Take int32 [K] ids below `vocabulary_size`; raises Corrupted unless they ascend without repeats."""
        self.ids: Ids = np.ascontiguousarray(ids, np.int32)
        self.vocabulary_size = vocabulary_size
        ascends = self.ids.ndim == 1 and len(self.ids) > 0 and bool((np.diff(self.ids) > 0).all())
        if not ascends or self.ids[0] < 0 or self.ids[-1] >= vocabulary_size:
            raise Corrupted(f"vocabulary map: got ids that do not ascend from 0 to {vocabulary_size - 1}, wanted such")

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the ids and of how many the target has, in hexadecimal."""
        return hashlib.sha256(b"%d:" % self.vocabulary_size + self.ids.astype("<i4").tobytes()).hexdigest()

    @cached_property
    def _columns(self) -> dict[int, int]:
        return {token: column for column, token in enumerate(self.ids.tolist())}

    def id_of(self, column: int) -> int:
        """Return the id that a column stands for."""
        return int(self.ids[column])

    def columns_of(self, tokens: Iterable[int]) -> tuple[int, ...]:
        """Return the columns of tokens, without those that have none."""
        columns = self._columns
        return tuple(columns[token] for token in tokens if token in columns)

    def nearest_columns(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return a column for each token: its own, or that of the next id which has one; the last if there is none."""
        places = self.ids.searchsorted(np.array(tokens, np.int32))
        return tuple(np.minimum(places, len(self.ids) - 1).tolist())

    def law_of(self, law: Law) -> Law:
        """Return a law over columns as a law over ids."""
        return Law(self.ids if law.ids is None else self.ids[law.ids], law.probabilities)

    def parameters_of(self, law: LawParameters) -> LawParameters:
        """Return parameters that do to columns what `law` does to their ids."""
        if not (law.bias or law.banned_ids or law.stop_ids):
            return law
        columns = self._columns
        return replace(
            law,
            bias=tuple((columns[token], value) for token, value in law.bias if token in columns),
            banned_ids=self.columns_of(law.banned_ids),
            stop_ids=self.columns_of(law.stop_ids),
        )
