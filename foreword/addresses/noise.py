"""Exponential and Gumbel noise by token id.

The integers behind the noise are the same bits on every device. Logarithms are not: libraries differ in the last bit,
so two devices may order two tokens differently whose scores are within about 1e-15 of each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from foreword.addresses.keys import Address
from foreword.addresses.philox import U64, Picks, integers, integers_across, uniforms

_PREFIX_COST = 1 / 24
"""Cost of one number read in order, over that of one picked by index (measured)."""


def exponentials(numbers: U64) -> NDArray[np.float64]:
    """Map numbers to standard exponential noise, float64, over 0."""
    return -np.log(uniforms(numbers))


def numbers_at(key: bytes, address: Address, ids: NDArray[np.integer]) -> U64:
    """Return the numbers of token ids (ascending), by the cheaper of the two ways; uint64[len(ids)]."""
    return next(numbers_across([(key, address, ids)]))


def exponential_at(key: bytes, address: Address, ids: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return standard exponential noise of token ids (ascending), float64[len(ids)]."""
    return exponentials(numbers_at(key, address, ids))


def gumbel_at(key: bytes, address: Address, ids: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return standard Gumbel noise of token ids (ascending), float64[len(ids)]: minus the log of the exponential."""
    return -np.log(exponential_at(key, address, ids))


def numbers_across(wanted: Sequence[Picks]) -> Iterator[U64]:
    """Yield the numbers of several (key, address, ascending ids), the small ones made together, the others when asked.

    Arrays are uint64[len(ids)].
    """
    together = [pick for pick in wanted if not _by_prefix(pick[2])]
    picked = iter(integers_across(together))
    for key, address, ids in wanted:
        yield integers(key, address, int(ids[-1]) + 1)[ids] if _by_prefix(ids) else next(picked)


def _by_prefix(ids: NDArray[np.integer]) -> bool:
    return len(ids) > 0 and len(ids) > (int(ids[-1]) + 1) * _PREFIX_COST
