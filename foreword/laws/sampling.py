"""Sampling from laws with addressed numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from foreword.addresses.keys import Address
from foreword.addresses.noise import exponentials
from foreword.addresses.philox import U64, Draw, integers_across
from foreword.laws.law import Probabilities, TargetLaw

_RUN = 256
"""Weights per run of the two-level inverse CDF."""


def sample_match(law: TargetLaw, key: bytes, position: int) -> int:
    """Return the target's own sample at an output position: the argmax of log p + Gumbel noise (ties: lowest id).

    Noise belongs to (key, position, token id), so a draft that holds the key draws with the same noise from its own
    law (Daliri, Musco, Suresh, arXiv 2408.07978). Computed as the winner of an exponential race, argmin of E/p.
    """
    return next(races(key, [(Address(position), law)]))


def match_led(law: TargetLaw, key: bytes, position: int) -> tuple[int, float]:
    """Return the sample of `sample_match`, and `match_margin`."""
    return sample_match(law, key, position), match_margin(law, key, position)


def match_margin(law: TargetLaw, key: bytes, position: int) -> float:
    """Return by how much the best log p + noise at a position leads the second, in nats; infinite without a second.

    Two devices whose logits differ by less than half of this draw the same token.
    """
    positive = law.probabilities > 0.0
    if np.count_nonzero(positive) < 2:
        return math.inf
    noise = exponentials(next(integers_across([_noise(key, Address(position), law)])))
    with np.errstate(over="ignore"):  # what has next to no probability comes last
        times = noise[positive] / law.probabilities[positive]
    first, second = np.partition(times, 1)[:2]
    return float(math.log(second) - math.log(first))


def match_ranking(law: TargetLaw, key: bytes, position: int, *, most: int) -> tuple[tuple[int, ...], float]:
    """Return the order in which tokens come out of the race of `sample_match`, the winner first, and `match_margin`.

    A target of a law near this one, that draws with the same noise and not the winner, most often draws the second.
    """
    likely = np.flatnonzero(law.probabilities > 0.0)
    noise = exponentials(next(integers_across([_noise(key, Address(position), law)])))
    with np.errstate(over="ignore"):
        times = noise[likely] / law.probabilities[likely]
    first = times.argsort(kind="stable")[: max(most, 2)]
    lead = math.log(times[first[1]]) - math.log(times[first[0]]) if len(first) > 1 else math.inf
    return tuple(law.token_at(int(likely[place])) for place in first[:most]), float(lead)


def races(key: bytes, draws: Sequence[tuple[Address, TargetLaw]]) -> Iterator[int]:
    """Yield for each draw the token whose exponential noise over probability is smallest, ties to the lowest id.

    Numbers of small supports are made together; a large one costs nothing until it is asked for.
    """
    numbers = integers_across([_noise(key, address, law) for address, law in draws if law.size > 1])
    for _, law in draws:
        yield law.token_at(_winner(law.probabilities, next(numbers)) if law.size > 1 else 0)


def sample_uniform(law: TargetLaw, u: float) -> int:
    """Return the token at `u` in [0, 1) of the inverse cumulative distribution, in the order of ids."""
    return law.token_at(inverse_cdf(law.probabilities, u))


def inverse_cdf(weights: Probabilities, u: float) -> int:
    """Return the index whose stretch of the cumulated weights contains u times their sum.

    `weights` is float64[k], not negative, with a sum over 0. An index of weight 0 is never returned.
    """
    if len(weights) <= 2 * _RUN:
        cumulated = weights.cumsum()
        return _first_over(cumulated, u * float(cumulated[-1]))
    sums = np.add.reduceat(weights, np.arange(0, len(weights), _RUN))
    cumulated = sums.cumsum()
    wanted = u * float(cumulated[-1])
    run = _first_over(cumulated, wanted)
    # A difference that rounds to under 0 would find a weight of 0 in front.
    wanted = max(wanted - float(cumulated[run] - sums[run]), 0.0)
    return run * _RUN + _first_over(weights[run * _RUN : (run + 1) * _RUN].cumsum(), wanted)


def _noise(key: bytes, address: Address, law: TargetLaw) -> Draw:
    return key, address, law.size if law.ids is None else law.ids


def _first_over(cumulated: Probabilities, wanted: float) -> int:
    index = int(cumulated.searchsorted(wanted, side="right"))
    # Rounding may put `wanted` at the very end: then the last index that adds anything.
    return index if index < len(cumulated) else int(cumulated.searchsorted(cumulated[-1]))


def _winner(p: Probabilities, numbers: U64) -> int:
    """Return argmin of E/p without a logarithm for every id."""
    if len(p) <= 2 * _RUN:
        return _argmin_race(p, numbers)
    # An id with p at most `low` wins only if its E is under best * low, that is if its number is very large.
    low = 16.0 / len(p)
    likely = np.flatnonzero(p > low)
    if not len(likely):
        return _argmin_race(p, numbers)
    best = float((exponentials(numbers[likely]) / p[likely]).min())
    bound = math.exp(-best * low) - 1e-12
    chance = np.flatnonzero(numbers >= np.uint64(max(0.0, bound) * 2.0**64))
    contenders: NDArray[np.intp] = np.union1d(likely, chance)
    return int(contenders[_argmin_race(p[contenders], numbers[contenders])])


def _argmin_race(p: Probabilities, numbers: U64) -> int:
    with np.errstate(divide="ignore", over="ignore"):  # what has next to no probability comes last
        return int((exponentials(numbers) / p).argmin())
