"""The law of one position, written as plainly as possible: loops, sorting, no arrays."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from foreword.laws.law import Law
from foreword.laws.parameters import LawParameters


def law(
    parameters: LawParameters,
    logits: Sequence[float],
    *,
    prompt: Sequence[int] = (),
    output: Sequence[int] = (),
    allowed: Sequence[bool] | None = None,
) -> dict[int, float]:
    """Return the probability of every token that can follow `output`."""
    z = penalized(parameters, logits, prompt=prompt, output=output, allowed=allowed)
    order = sorted((t for t in range(len(z)) if z[t] > -math.inf), key=lambda t: (-z[t], t))
    if parameters.temperature == 0.0:
        return {order[0]: 1.0}
    p = normalized({t: math.exp((z[t] - z[order[0]]) / parameters.temperature) for t in order})
    if parameters.min_p is not None:
        p = normalized({t: p[t] for t in order if p[t] >= parameters.min_p * p[order[0]]})
    if parameters.top_k is not None:
        p = normalized(dict(list(p.items())[: parameters.top_k]))
    if parameters.top_p is not None and parameters.top_p < 1.0:
        p = normalized(nucleus(p, parameters.top_p))
    return p


def penalized(
    parameters: LawParameters,
    logits: Sequence[float],
    *,
    prompt: Sequence[int],
    output: Sequence[int],
    allowed: Sequence[bool] | None,
) -> list[float]:
    z = [np.float32(x) for x in logits]
    counts = Counter(output)
    for token in {token for token, _ in parameters.bias}:
        z[token] += np.float32(sum(value for named, value in parameters.bias if named == token))
    for token in range(len(z)):
        barred = token in parameters.stop_ids and len(output) < parameters.min_tokens
        if token in parameters.banned_ids or barred or (allowed is not None and not allowed[token]):
            z[token] = np.float32(-math.inf)
        x = float(z[token])
        if token in counts or token in prompt:
            x = x / parameters.repetition_penalty if x > 0 else x * parameters.repetition_penalty
        if token in counts:
            x -= parameters.frequency_penalty * counts[token]
            x -= parameters.presence_penalty
        z[token] = np.float32(x)
    return [float(x) for x in z]


def nucleus(p: dict[int, float], mass: float) -> dict[int, float]:
    kept: dict[int, float] = {}
    for token, probability in p.items():
        if kept and math.fsum(kept.values()) >= mass:
            break
        kept[token] = probability
    return kept


def normalized(weights: dict[int, float]) -> dict[int, float]:
    total = math.fsum(weights.values())
    return {token: weight / total for token, weight in weights.items()}


def as_dict(law: Law) -> dict[int, float]:
    """Return a law's tokens of probability over 0."""
    return {int(t): float(p) for t, p in zip(law.support, law.probabilities, strict=True) if p > 0.0}
