"""The port through which rules draw, and its one production adapter.

Rules name a key and an address; a source turns them into a decision. Tests put in sources that enumerate every outcome
with its probability, so that the rules' own code is integrated exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from foreword.addresses.keys import Address
from foreword.addresses.philox import first_integers, uniforms
from foreword.laws.law import TargetLaw
from foreword.laws.sampling import races, sample_uniform

Draw = tuple[Address, TargetLaw]
"""Where to draw, and from what."""
Coin = tuple[Address, float]
"""Where to toss, and the threshold for success."""


class Source(Protocol):
    """Decisions at addresses: the same key and address always stand for the same number."""

    def race(self, key: bytes, draws: Sequence[Draw]) -> Iterator[int]:
        """Yield a token for each draw by its noise per token id, computed no sooner than it is asked for."""
        ...

    def choose(self, key: bytes, draws: Sequence[Draw]) -> Sequence[int]:
        """Return a token for each draw by one uniform number each."""
        ...

    def below(self, key: bytes, coins: Sequence[Coin]) -> Iterator[bool]:
        """Yield for each coin whether the uniform number in (0, 1) at its address is strictly under its threshold."""
        ...


class PhiloxSource:
    """Draws from counter-based random numbers; has no state."""

    def race(self, key: bytes, draws: Sequence[Draw]) -> Iterator[int]:
        """Yield the winners of exponential races."""
        return races(key, draws)

    def choose(self, key: bytes, draws: Sequence[Draw]) -> Sequence[int]:
        """Return tokens by inverse CDF."""
        numbers = uniforms(first_integers(key, [address for address, _ in draws]))
        return [sample_uniform(law, float(u)) for u, (_, law) in zip(numbers, draws, strict=True)]

    def below(self, key: bytes, coins: Sequence[Coin]) -> Iterator[bool]:
        """Toss addressed coins."""
        numbers = uniforms(first_integers(key, [address for address, _ in coins])).tolist()
        return (u < threshold for u, (_, threshold) in zip(numbers, coins, strict=True))
