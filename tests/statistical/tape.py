"""A source of random decisions that enumerates all of them, each with its exact probability.

Production code draws through `foreword.acceptance.source.Source`: a key, an address, and what to decide there. A tape
answers from a script and notes how many answers there were; replaying with every script walks the whole tree.

The number at (key, address) is uniform on [0, 1) and never chosen as such: the tape keeps the interval that it is known
to lie in. A coin cuts the interval at its threshold, a draw cuts it at the bounds of the inverse CDF, and each piece is
a branch that weighs as much as it is long. So if two decisions read one address they are correlated exactly as two
readings of one number are, and an address that is used twice shows in the law of the text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from foreword.acceptance.source import Coin, Draw
from foreword.addresses import Address
from foreword.laws.law import Law

Place = tuple[bytes, Address]
Memory = frozenset[tuple[Place, tuple[float, float]]]
"""What is known of numbers that may be read again: their intervals."""
T = TypeVar("T")

_SLIVER = 1e-15
"""Pieces shorter than this are rounding, not outcomes."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A token that is drawn only when somebody looks at it: emits that are not used need not be enumerated."""

    place: Place
    law: Law


@dataclass(slots=True)
class Tape:
    """One run: answers by script, the first answer where the script ends."""

    script: Sequence[int]
    intervals: dict[Place, tuple[float, float]]
    spent: Callable[[Place], bool] = lambda place: False
    weight: float = 1.0
    taken: list[tuple[int, int]] = field(default_factory=list)
    """Pairs (answer, number of answers)."""
    alias: Callable[[Place], Place] = lambda place: place
    """Where a planted bug reads instead."""

    def branch(self, weights: Sequence[float]) -> int:
        """Choose between outcomes of given weights that have nothing to do with addresses."""
        outcomes = [i for i, weight in enumerate(weights) if weight > 0.0]
        at = len(self.taken)
        answer = self.script[at] if at < len(self.script) else 0
        self.taken.append((answer, len(outcomes)))
        self.weight *= weights[outcomes[answer]] / sum(weights)
        return outcomes[answer]

    def cut(self, place: Place, bounds: Sequence[float]) -> int:
        """Return in which of the stretches between ascending bounds the number at a place lies."""
        place = self.alias(place)
        assert not self.spent(place), f"read again: {place}"
        low, high = self.intervals.get(place, (0.0, 1.0))
        edges = [0.0, *bounds, 1.0]
        pieces = [(max(low, a), min(high, b)) for a, b in itertools.pairwise(edges)]
        lengths = [b - a if b - a > _SLIVER else 0.0 for a, b in pieces]
        answer = self.branch(lengths) if sum(x > 0.0 for x in lengths) > 1 else lengths.index(max(lengths))
        self.intervals[place] = pieces[answer]
        return answer

    def settle(self, token: int | Pending) -> int:
        """Return a token, drawing it now if nobody has looked at it."""
        if not isinstance(token, Pending):
            return token
        cumulated = token.law.probabilities.cumsum()
        return token.law.token_at(self.cut(token.place, (cumulated[:-1] / cumulated[-1]).tolist()))

    def race(self, key: bytes, draws: Sequence[Draw]) -> Iterator[int]:
        """Yield tokens by inverse CDF: shared numbers couple draft and target here as shared noise does in races."""
        return (self.settle(Pending((key, address), law)) for address, law in draws)

    def choose(self, key: bytes, draws: Sequence[Draw]) -> Sequence[int]:
        """Return tokens that are drawn when they are settled."""
        return [Pending((key, address), law) for address, law in draws]  # type: ignore[misc]

    def below(self, key: bytes, coins: Sequence[Coin]) -> Iterator[bool]:
        """Toss coins one by one."""
        return (self.cut((key, address), (threshold,)) == 0 for address, threshold in coins)


def runs(program: Callable[[Tape], T], make: Callable[[Sequence[int]], Tape]) -> Iterator[tuple[T, Tape]]:
    """Run a program once for every script; the weights of all runs sum to 1."""
    script: list[int] = []
    while True:
        tape = make(script)
        yield program(tape), tape
        taken = tape.taken
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        script = [answer for answer, _ in taken[:-1]] + [taken[-1][0] + 1]
