"""A law: probabilities of the next token, over the whole vocabulary or over a support."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Probabilities = NDArray[np.float64]


class TargetLaw(Protocol):
    """What rules and sources ask of a target's law, however it is held."""

    @property
    def ids(self) -> Ids | None:
        """The ids that are named, ascending; None for 0..k-1."""
        ...

    @property
    def probabilities(self) -> Probabilities:
        """Their probabilities, float64[k]."""
        ...

    @property
    def size(self) -> int:
        """How many are named."""
        ...

    @property
    def support(self) -> Ids:
        """The ids that are named, int32[k]."""
        ...

    def token_at(self, index: int) -> int:
        """Return the id at an index of `probabilities`."""
        ...

    def probability_of(self, token: int) -> float:
        """Return the probability of one token, 0 for what is not named."""
        ...

    def residual(self, drafted: Law, scale: float) -> tuple[TargetLaw, float]:
        """Return the law proportional to max(0, scale·p − q), and the sum of that; p and 0 where the sum is 0."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """Next-token probabilities that sum to 1.

    `ids` is int32[k], ascending and without repeats, or None for the dense law of ids 0..k-1. `probabilities` is
    float64[k]. What is not named has probability 0. Nothing changes the arrays of a law.
    """

    ids: Ids | None
    probabilities: Probabilities

    @classmethod
    def one_hot(cls, token: int) -> Law:
        """Return the law that is certain of one token; laws of tokens that come often are shared."""
        return _certain(token)

    @property
    def size(self) -> int:
        """Number of ids that are named, some of which may have probability 0."""
        return len(self.probabilities)

    @property
    def support_size(self) -> int:
        """Number of ids with a probability over 0."""
        return int(np.count_nonzero(self.probabilities))

    @property
    def support(self) -> Ids:
        """The ids that are named, int32[k]."""
        return np.arange(self.size, dtype=np.int32) if self.ids is None else self.ids

    @property
    def best(self) -> int:
        """The likeliest token, ties to the lowest id."""
        return self.token_at(int(self.probabilities.argmax()))

    @property
    def margin(self) -> float:
        """Difference of the two largest log-probabilities, in nats; infinite if only one token can come."""
        if self.size < 2:
            return math.inf
        second, first = np.partition(self.probabilities, self.size - 2)[-2:]
        return math.inf if second == 0.0 else float(math.log(first) - math.log(second))

    def token_at(self, index: int) -> int:
        """Return the id at an index of `probabilities`."""
        return index if self.ids is None else int(self.ids[index])

    def probability_of(self, token: int) -> float:
        """Return the probability of one token, 0 for what is not named."""
        if self.ids is None:
            return float(self.probabilities[token]) if 0 <= token < self.size else 0.0
        index = int(self.ids.searchsorted(token))
        return float(self.probabilities[index]) if index < self.size and self.ids[index] == token else 0.0

    def probabilities_of(self, tokens: Ids) -> Probabilities:
        """Return the probabilities of several tokens, float64[len(tokens)]."""
        if self.ids is None:
            inside = (tokens >= 0) & (tokens < self.size)
            return np.where(inside, self.probabilities[np.where(inside, tokens, 0)], 0.0)
        index = np.minimum(self.ids.searchsorted(tokens), self.size - 1)
        return np.where(self.ids[index] == tokens, self.probabilities[index], 0.0)

    def residual(self, drafted: Law, scale: float) -> tuple[TargetLaw, float]:
        """Return the law proportional to max(0, scale·p − q), and the sum of that.

        Where the sum is 0, the law is p: rounding alone leads there, and then the residual is as good as never drawn.
        """
        weights = self.probabilities * scale
        taken_ids, taken = drafted.support, drafted.probabilities
        if self.ids is None:
            at: NDArray[np.intp] = taken_ids.astype(np.intp)
        else:
            at = np.minimum(self.ids.searchsorted(taken_ids), self.size - 1)
            named = self.ids[at] == taken_ids
            at, taken = at[named], taken[named]
        weights[at] = np.maximum(weights[at] - taken, 0.0)
        mass = float(weights.sum())
        if mass <= 0.0:
            return self, 0.0
        weights /= mass
        return Law(self.ids, weights), mass


@lru_cache(maxsize=4096)
def _certain(token: int) -> Law:
    return Law(np.array([token], dtype=np.int32), np.ones(1))
