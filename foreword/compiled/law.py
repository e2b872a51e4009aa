"""A law over a whole vocabulary that is never written down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foreword.compiled.draws import find, residual, weight_at, weights
from foreword.compiled.runs import Doubles, Floats
from foreword.errors import InvalidField
from foreword.laws.law import Ids, Law, Probabilities, TargetLaw

_NOTHING = Law(np.empty(0, dtype=np.int32), np.empty(0))


@dataclass(frozen=True, slots=True, eq=False)
class RowLaw:
    """The law proportional to max(0, scale · p − taken), where p is the softmax of a row of logits.

    It reads `row`, float32 [V], whenever it is asked, so it lasts as long as the logits do. `numbers` is float64 [4]:
    largest logit, temperature, 1 / total, scale. `sums` is the weight of every run of 64 ids, and `mass` their sum.
    Stands for `foreword.laws.law.Law` wherever a target's law is asked for something.
    """

    row: Floats
    numbers: Doubles
    sums: Doubles
    mass: float = 1.0
    taken: Law = _NOTHING

    @property
    def ids(self) -> Ids | None:
        """None: the law is that of ids 0..V-1."""
        return None

    @property
    def size(self) -> int:
        """Number of ids that are named."""
        return len(self.row)

    @property
    def support(self) -> Ids:
        """The ids that are named, int32 [V]."""
        return np.arange(self.size, dtype=np.int32)

    @property
    def probabilities(self) -> Probabilities:
        """All probabilities, float64 [V], computed anew."""
        found = np.empty(self.size)
        weights(self.row, self.numbers, self.taken.support, self.taken.probabilities, found)
        found /= self.mass
        return found

    def token_at(self, index: int) -> int:
        """Return the id at an index of `probabilities`."""
        return index

    def probability_of(self, token: int) -> float:
        """Return the probability of one token, 0 for what is not named."""
        if not 0 <= token < self.size:
            return 0.0
        return float(weight_at(self.row, self.numbers, self.taken.support, self.taken.probabilities, token)) / self.mass

    def residual(self, drafted: Law, scale: float) -> tuple[TargetLaw, float]:
        """Return the law proportional to max(0, scale · p − q), and the sum of that; as `Law.residual`.

        Only of a law of which nothing is taken yet: a block takes once from each.
        """
        ids, taken = drafted.support, drafted.probabilities
        if len(ids) and not 0 <= int(ids[0]) <= int(ids[-1]) < self.size:
            raise InvalidField("law.ids", int(ids[-1]), f"token ids from 0 to {self.size - 1}")
        numbers = self.numbers.copy()
        numbers[3] = scale
        sums = np.empty_like(self.sums)
        mass = float(residual(self.row, numbers, ids, taken, self.sums, sums))
        if mass <= 0.0:
            return self, 0.0
        return RowLaw(self.row, numbers, sums, mass, drafted), mass

    def drawn_by(self, u: float) -> int:
        """Return the token at `u` in [0, 1) of the inverse CDF, in the order of ids."""
        return int(find(self.row, self.numbers, self.taken.support, self.taken.probabilities, self.sums, u))
