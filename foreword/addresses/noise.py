"""Exponential and Gumbel noise by token id.

The integers behind the noise are the same bits on every device. Logarithms are not: libraries differ in the last bit,
so two devices may order two tokens differently whose scores are within about 1e-15 of each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foreword.addresses.keys import Address
from foreword.addresses.philox import U64, Indices, integers_at, uniforms


def exponentials(numbers: U64) -> NDArray[np.float64]:
    """Map numbers to standard exponential noise, float64, over 0."""
    return -np.log(uniforms(numbers))


def exponential_at(key: bytes, address: Address, ids: Indices) -> NDArray[np.float64]:
    """Return the standard exponential noise of token ids (ascending), float64[len(ids)]."""
    return exponentials(integers_at(key, address, ids))


def gumbel_at(key: bytes, address: Address, ids: Indices) -> NDArray[np.float64]:
    """Return the standard Gumbel noise of token ids (ascending), float64[len(ids)]: -log of the exponential."""
    return -np.log(exponential_at(key, address, ids))
