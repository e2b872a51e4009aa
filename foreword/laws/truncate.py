"""Min-p, top-k and top-p: from one row of logits to the law over what they keep.

Each keeps the largest logits, ties to the lowest id, and renormalises before the next; so all three together keep the
n largest, and only n and the smallest of them have to be found.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from foreword.laws.law import Law
from foreword.laws.nucleus import Values, pick, reaching, top_until
from foreword.laws.parameters import LawParameters

_SLACK = 1e-5
"""More than the relative error of a sum of single-precision exponentials.

The exponent y carries two roundings, so a term is off by 2·y·2⁻²⁴; the mean of y under the law is at most log V, 12 for
the largest vocabularies. numpy's exp adds 3e-7 and its pairwise sum less.
"""


def truncates(parameters: LawParameters) -> bool:
    """Whether the law leaves out tokens that the logits allow."""
    top_p = parameters.top_p is not None and parameters.top_p < 1.0
    return parameters.top_k is not None or top_p or bool(parameters.min_p)


def truncated_law(logits: NDArray[np.float32], parameters: LawParameters) -> Law:
    """Return the law of one row, float32[V], whose largest logit is finite; temperature over 0."""
    temperature = parameters.temperature
    largest = float(logits.max())
    kept, least = _min_p_top_k(logits, parameters, largest=largest)
    if parameters.top_p is not None and parameters.top_p < 1.0:
        rest = logits if kept == len(logits) else np.partition(logits, len(logits) - kept)[len(logits) - kept :]
        kept, least = _top_p(rest, parameters.top_p, temperature=temperature, largest=largest)
    ids = np.flatnonzero(logits > least) if least == -math.inf else pick(logits, kept, least)
    return Law(ids.astype(np.int32), softmax(logits[ids], temperature=temperature, largest=largest))


def softmax(
    logits: NDArray[np.float32], *, temperature: float, largest: float | NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return probabilities over the last axis in float64; `largest` are the maxima, finite."""
    weights = _weights(logits, temperature=temperature, largest=largest)
    weights *= 1.0 / weights.sum(axis=-1, keepdims=True)
    return weights


def _weights(logits: Values, *, temperature: float, largest: float | NDArray[np.float32]) -> NDArray[np.float64]:
    weights = np.subtract(logits, largest, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        if temperature != 1.0:
            weights /= temperature
        return np.exp(weights, out=weights)


def _min_p_top_k(logits: NDArray[np.float32], parameters: LawParameters, *, largest: float) -> tuple[int, float]:
    # How many of the largest logits stay, and the smallest of them (-inf for "all that is allowed").
    kept, least = len(logits), -math.inf
    if parameters.min_p:
        # np.float64 keeps numpy from rounding the bound to single precision.
        floor = np.float64(largest + parameters.temperature * math.log(parameters.min_p))
        stays = logits >= floor
        kept, least = int(np.count_nonzero(stays)), float(logits[stays].min())
    if parameters.top_k is not None and parameters.top_k < kept:
        kept = parameters.top_k
        least = float(np.partition(logits, len(logits) - kept)[len(logits) - kept])
    return kept, least


def _top_p(logits: NDArray[np.float32], top_p: float, *, temperature: float, largest: float) -> tuple[int, float]:
    def weigh(values: Values) -> NDArray[np.float64]:
        return _weights(values, temperature=temperature, largest=largest)

    total = _rough_total(logits, temperature=temperature, largest=largest)
    # Tokens under (1 - p)/V each hold under 1 - p together, so the others reach p.
    floor = largest + temperature * math.log(0.99 * (1.0 - top_p) * total / len(logits))
    # compress is several times faster than indexing by a mask.
    likely = np.compress(logits >= np.nextafter(np.float32(floor), np.float32(-math.inf)), logits)
    top, cumulated = top_until(likely, top_p * total * (1.0 + _SLACK), weigh=weigh)
    kept = reaching(cumulated, top_p * total * (1.0 - _SLACK))
    if kept != reaching(cumulated, top_p * total * (1.0 + _SLACK)):
        # The cut is within the error of the rough total.
        kept = reaching(cumulated, top_p * float(weigh(logits).sum()))
    return kept, float(top[kept - 1])


def _rough_total(logits: NDArray[np.float32], *, temperature: float, largest: float) -> float:
    weights = logits - np.float32(largest)
    with np.errstate(over="ignore", under="ignore"):
        weights /= np.float32(max(temperature, float(np.finfo(np.float32).tiny)))
        return float(np.exp(weights, out=weights).sum())
