"""The best number of candidates, from what they bring and what they cost; pure.

A round with γ candidates brings E(γ) = 1 + Σ S_k tokens, where S_k is the probability that candidate k and all before
it are kept, and takes T(γ) = C + d·D(γ), where D(γ) is how many candidates are really drafted, d what each takes, and C
the rest of the round: network, waiting, verification, host. Every candidate takes a row of the target's step from
others, worth λ tokens. The best γ has the most (E(γ) - λ·D(γ)) / T(γ); plain decoding has one token a step.
(Leviathan et al. 2023 without C and λ; docs/decisions/0017-gamma.md.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_NEARLY = 0.003


@dataclass(frozen=True, slots=True)
class RoundCost:
    """What a round takes; microseconds."""

    fixed_us: float
    """All that does not grow with its own candidates."""
    candidate_us: float
    """To draft one."""
    price: float = 0.0
    """Tokens that a candidate's row takes from all sessions together."""


def rates(kept: Sequence[float], written: Sequence[float], cost: RoundCost, plain_us: float) -> list[float]:
    """Return tokens a microsecond, less what rows take from others, with 0, 1, 2, … candidates.

    `kept` are the survivals S_k, `written` the probabilities that a block gets to its k-th candidate; `plain_us` is
    what a token takes without a draft.
    """
    found = [1.0 / plain_us]
    tokens, drafted = 1.0, 0.0
    for survival, share in zip(kept, written, strict=True):
        tokens += survival
        drafted += share
        found.append((tokens - cost.price * drafted) / max(1.0, cost.fixed_us + cost.candidate_us * drafted))
    return found


def best(values: Sequence[float], *, least: int, most: int, longest: bool = False) -> int:
    """Return which of `least` to `most` candidates has the largest value, the fewest of those that are nearly equal.

    With a least of more than 0, plain decoding is not among them. Estimates of deep places are the least certain; of
    blocks that end by themselves where a candidate is not worth it, the `longest` is the better bound all the same.
    """
    among = range(least, min(most, len(values) - 1) + 1)
    if longest:
        among = among[::-1]
    enough = max(values[gamma] for gamma in among)
    enough -= _NEARLY * abs(enough)
    return next(gamma for gamma in among if values[gamma] >= enough)
