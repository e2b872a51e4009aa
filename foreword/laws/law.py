"""A law: probabilities of the next token, over the whole vocabulary or over a support."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Probabilities = NDArray[np.float64]


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


@lru_cache(maxsize=4096)
def _certain(token: int) -> Law:
    return Law(np.array([token], dtype=np.int32), np.ones(1))
