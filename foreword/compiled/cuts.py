"""Where min-p, top-k and top-p cut a row: the smallest logit that stays, and how many of those that equal it.

Logits are ordered by the bits of float32, of which a digit at a time is counted (radix selection): no row is sorted,
and nothing depends on how logits are spread.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from foreword.compiled.runs import FLAGS, Doubles, Floats, Integer, measure, weigh_into
from foreword.kernel import kernel

Keys = npt.NDArray[np.uint32]

_DIGITS = 2048
_SHIFTS = (21, 10, 0)
_SIGN = np.uint32(0x80000000)
_ALL = np.uint32(0xFFFFFFFF)
_ROUNDING = 1e-9
"""More than the error of a sum."""
_SLACK = 0.99
"""Leaves room for rounding under the least weight that can be in a nucleus."""


@kernel(fastmath=FLAGS, error_model="numpy")
def cut(
    row: Floats, largest: float, temperature: float, min_p: float, top_k: int, top_p: float, sums: Doubles
) -> tuple[float, Integer, Integer, float]:
    """Return the smallest logit that stays, the last id of that logit, how many stay, and their weight.

    `min_p` and `top_k` are 0, `top_p` is 1 for none; `sums` is room for the runs of the row. Each keeps the largest,
    ties to the lowest id, of what the one before has kept.
    """
    least: float = -np.inf
    ties: Integer = -1
    values = np.empty(len(row), np.float32)
    if top_p < 1.0 and top_k == 0 and min_p == 0.0:
        whole = measure(row, largest, temperature, sums)
        count, weights = _nucleus(row, largest, temperature, top_p, whole, values)
        keys = _ordered(values[:count])
    else:
        floor = largest + temperature * math.log(min_p) if min_p > 0.0 else -np.inf
        count = _at_least(row, floor, values)
        keys = _ordered(values[:count])
        if 0 < top_k < count:
            least, ties, _ = _select(keys, np.empty(0), top_k, np.inf)
            count = top_k
            values, keys = _kept(row, least, ties, top_k)
        weights = np.empty(count)
        weigh_into(values[:count], largest, temperature, weights)
        whole = _sum(weights)
    if top_p < 1.0:
        least, ties, found = _select(keys, weights, count, top_p * whole)
        above = ties
        for i in range(count):
            above += np.int64(values[i] > least)
        return least, _last(row, least, ties), above, found
    if ties < 0:
        return float(values[:count].min()), len(row) - 1, count, whole
    return least, _last(row, least, ties), count, whole


@kernel(fastmath=FLAGS, error_model="numpy")
def _nucleus(
    row: Floats, largest: float, temperature: float, top_p: float, whole: float, values: Floats
) -> tuple[Integer, Doubles]:
    """Write logits that contain the nucleus to `values`; return how many they are, and their weights.

    Tokens under (1 - p)/V each hold under 1 - p together, so the others reach p. A thousand in the place of V leaves
    fewer, and is nearly always enough.
    """
    for tokens in (min(1000, len(row)), len(row)):
        floor = largest + temperature * math.log(_SLACK * (1.0 - top_p) * whole / tokens)
        floor -= 1e-6 * (1.0 + abs(floor))
        count = _at_least(row, floor, values)
        weights = np.empty(count)
        weigh_into(values[:count], largest, temperature, weights)
        if _sum(weights) > (1.0 + _ROUNDING) * top_p * whole:
            break
    return count, weights


@kernel(fastmath=FLAGS, error_model="numpy")
def _at_least(row: Floats, floor: float, out: Floats) -> Integer:
    """Write what is at least `floor` and may come to `out`, in order; return how much that is."""
    count: Integer = 0
    for i in range(len(row)):
        out[count] = row[i]
        count += np.int64((row[i] >= floor) & (row[i] > -np.inf))
    return count


@kernel(fastmath=FLAGS, error_model="numpy")
def _kept(row: Floats, least: float, ties: Integer, count: Integer) -> tuple[Floats, Keys]:
    """Return the `count` values of which all but the last `ties` are over `least`, and their keys."""
    values = np.empty(count, np.float32)
    n = 0
    for i in range(len(row)):
        if row[i] > least:
            values[n] = row[i]
            n += 1
    values[count - ties :] = np.float32(least)
    return values, _ordered(values)


@kernel(fastmath=FLAGS, error_model="numpy")
def _ordered(values: Floats) -> Keys:
    """Return uint32 that are ordered as the values are; the two zeros are equal."""
    bits = values.copy().view(np.uint32)
    for i in range(len(bits)):
        b = np.uint32(0) if bits[i] == _SIGN else bits[i]
        bits[i] = b ^ (_ALL if b & _SIGN else _SIGN)
    return bits


@kernel(fastmath=FLAGS, error_model="numpy")
def _value(key: Integer) -> float:
    bits = np.empty(1, np.uint32)
    bits[0] = np.uint32(key) ^ (_SIGN if np.uint32(key) & _SIGN else _ALL)
    return float(bits.view(np.float32)[0])


@kernel(fastmath=FLAGS, error_model="numpy")
def _sum(weights: Doubles) -> float:
    # Pairwise, as errors of a long chain of additions would show.
    sums = 0.0
    for first in range(0, len(weights), 128):
        part = 0.0
        for weight in weights[first : first + 128]:
            part += weight
        sums += part
    return sums


@kernel(fastmath=FLAGS, error_model="numpy")
def _select(keys: Keys, weights: Doubles, count: Integer, mass: float) -> tuple[float, Integer, float]:
    """Return the value at which the largest reach `count` in number or `mass` in weight, whichever comes first.

    And how many of those that equal it are needed, and the weight of all that is taken then (0 without weights).
    Changes keys and weights.
    """
    weighed = len(weights) > 0
    n, number, weight, key = len(keys), 0, 0.0, np.uint32(0)
    counts, masses = np.empty(_DIGITS, np.int64), np.empty(_DIGITS)
    for shift in _SHIFTS:
        counts[:], masses[:] = 0, 0.0
        for i in range(n):
            digit = (keys[i] >> np.uint32(shift)) & np.uint32(_DIGITS - 1 if shift else 1023)
            counts[digit] += 1
            if weighed:
                masses[digit] += weights[i]
        chosen = -1
        for digit in range(_DIGITS - 1, -1, -1):
            if counts[digit] == 0:
                continue
            if chosen >= 0:
                number += counts[chosen]
                weight += masses[chosen]
            chosen = digit
            if number + counts[digit] >= count or weight + masses[digit] >= mass:
                break
        key |= np.uint32(chosen) << np.uint32(shift)
        m = 0
        for i in range(n):
            if (keys[i] >> np.uint32(shift)) & np.uint32(_DIGITS - 1 if shift else 1023) == np.uint32(chosen):
                keys[m] = keys[i]
                if weighed:
                    weights[m] = weights[i]
                m += 1
        n = m
    ties = min(n, count - number)
    if weighed:
        wanted = 1
        while wanted < ties and weight + wanted * weights[0] < mass:
            wanted += 1
        return _value(key), wanted, weight + wanted * weights[0]
    return _value(key), ties, 0.0


@kernel(fastmath=FLAGS, error_model="numpy")
def _last(row: Floats, least: float, ties: Integer) -> Integer:
    """Return the id of the `ties`-th logit that equals `least`."""
    seen = 0
    for i in range(len(row)):
        if row[i] == least:
            seen += 1
            if seen == ties:
                return i
    return len(row) - 1
