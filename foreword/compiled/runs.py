"""Weights of runs of 64 logits: exponentials in float64 that compile to vectors, and sums in a fixed order.

Loops run over whole arrays or over constants, and views are made outside of them: then the compiler makes vectors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from foreword.kernel import kernel

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]
Integer = int | np.integer[Any]
"""What a loop counts with."""

FLAGS = {"contract", "nsz"}
"""Products may be fused into additions; nothing may be added up in another order."""
RUN = 64
"""Ids of a run: what is weighed again to find one of them."""
BLOCK = 512
"""Ids that are weighed together; their numbers stay in the first cache."""

_LOG2_E = 1.4426950408889634
# ln 2 in two parts, of which the first has so few digits that its multiples are exact (Cephes, exp).
_LN_2_HIGH, _LN_2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
_LEAST = -708.0
"""The exponential of what is less would be denormal; it is 0 here."""
_ROUND = 1.5 * 2.0**52
"""Adding it leaves the nearest whole number in the lowest bits."""
_C2, _C3, _C4, _C5 = (1.0 / math.factorial(n) for n in range(2, 6))
_C6, _C7, _C8, _C9 = (1.0 / math.factorial(n) for n in range(6, 10))
_C10, _C11, _C12, _C13 = (1.0 / math.factorial(n) for n in range(10, 14))
_EXPONENT = np.int64(52)
_TOP = np.int32(31)
_LOWEST, _HIGHEST = np.int32(-(2**31)), np.int32(2**31 - 1)
_INFINITE = np.int32(0x7F800000)


@kernel(fastmath=FLAGS, error_model="numpy")
def exponentials(x: Doubles, powers: Doubles, whole: Words, out: Doubles, bits: Words) -> None:
    """Write the exponentials of numbers up to 0 to `out`, to about 1 ulp.

    `powers` is room for as many; `whole` and `bits` are views of `powers` and `out` as int64. e^x = 2^n · e^r with
    |r| ≤ ln 2 / 2, and the series of e^r up to r^13, whose rest is under 1e-17.
    """
    for j in range(len(x)):
        z = x[j] if x[j] > _LEAST else _LEAST
        shifted = z * _LOG2_E + _ROUND
        n = shifted - _ROUND
        r = (z - n * _LN_2_HIGH) - n * _LN_2_LOW
        p = ((((_C13 * r + _C12) * r + _C11) * r + _C10) * r + _C9) * r + _C8
        p = (((((p * r + _C7) * r + _C6) * r + _C5) * r + _C4) * r + _C3) * r + _C2
        out[j] = (p * r + 1.0) * r + 1.0
        powers[j] = shifted
    for j in range(len(x)):
        bits[j] += whole[j] << _EXPONENT
    for j in range(len(x)):
        out[j] = out[j] if x[j] >= _LEAST else 0.0


@kernel(fastmath=FLAGS, error_model="numpy")
def shift(logits: Floats, largest: float, temperature: float, x: Doubles) -> None:
    """Write (logit − largest) / temperature to the front of `x`, and what weighs nothing behind."""
    for j in range(len(logits)):
        x[j] = (np.float64(logits[j]) - largest) / temperature
    for j in range(len(logits), len(x)):
        x[j] = -np.inf


@kernel(fastmath=FLAGS, error_model="numpy")
def add_up(weights: Doubles, sums: Doubles) -> None:
    """Write the sum of every 64 weights to the front of `sums`."""
    for run in range(len(weights) // RUN):
        part = weights[run * RUN : (run + 1) * RUN]
        a = b = c = d = e = f = g = h = 0.0
        for j in range(0, RUN, 8):
            a += part[j]
            b += part[j + 1]
            c += part[j + 2]
            d += part[j + 3]
            e += part[j + 4]
            f += part[j + 5]
            g += part[j + 6]
            h += part[j + 7]
        sums[run] = ((a + e) + (b + f)) + ((c + g) + (d + h))


@kernel(fastmath=FLAGS, error_model="numpy")
def measure(row: Floats, largest: float, temperature: float, sums: Doubles) -> float:
    """Write the weight of every run, e^((logit − largest) / temperature) summed, to `sums`; return the sum of those."""
    x, powers, out = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    whole, bits = powers.view(np.int64), out.view(np.int64)
    result = 0.0
    for first in range(0, len(row), BLOCK):
        part = row[first : first + BLOCK]
        shift(part, largest, temperature, x)
        exponentials(x, powers, whole, out, bits)
        add_up(out, powers)
        for run in range((len(part) + RUN - 1) // RUN):
            sums[first // RUN + run] = powers[run]
            result += powers[run]
    return result


@kernel(fastmath=FLAGS, error_model="numpy")
def weigh_into(logits: Floats, largest: float, temperature: float, out: Doubles) -> None:
    """Write the weight of every logit to `out`, by the same instructions as `measure`."""
    x, powers, block = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    whole, bits = powers.view(np.int64), block.view(np.int64)
    for first in range(0, len(logits), BLOCK):
        part = logits[first : first + BLOCK]
        shift(part, largest, temperature, x)
        exponentials(x, powers, whole, block, bits)
        target = out[first : first + BLOCK]
        for j in range(len(part)):
            target[j] = block[j]


@kernel(fastmath=FLAGS, error_model="numpy")
def largest_of(row: Floats) -> float:
    """Return the largest of a row; a NaN if there is one in it.

    Compares bits, ordered as signed numbers: then the loop has vectors, and every NaN is beyond an infinity.
    """
    high, low = np.full(BLOCK, _LOWEST, np.int32), np.full(BLOCK, _HIGHEST, np.int32)
    words = row.view(np.int32)
    for first in range(0, len(words), BLOCK):
        part = words[first : first + BLOCK]
        for j in range(len(part)):
            key = part[j] ^ ((part[j] >> _TOP) & _HIGHEST)
            high[j] = max(high[j], key)
            low[j] = min(low[j], key)
    if high.max() > _INFINITE or low.min() < ~_INFINITE:
        return np.nan
    found = np.empty(1, np.int32)
    found[0] = high.max() ^ ((high.max() >> _TOP) & _HIGHEST)
    return np.float64(found.view(np.float32)[0])
