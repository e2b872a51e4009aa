"""What changes logits before the temperature: bias, bans, minimum length, masks, penalties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foreword.errors import InvalidField
from foreword.laws.parameters import LawParameters

Logits = NDArray[np.float32]
Tokens = Sequence[int] | NDArray[np.integer[Any]]


class TokenMask(Protocol):
    """A restriction of what may come next, for instance a grammar."""

    def allowed(self, output: Sequence[int]) -> NDArray[np.bool_] | None:
        """Return which tokens may follow these output tokens, bool[V]; None allows all.

        It is asked at every position that verification can reach, never behind a token that it did not allow. Raises
        InvalidField where it cannot say.
        """
        ...


def edited(
    logits: Logits,
    parameters: LawParameters,
    *,
    prompt: Tokens,
    output: Tokens,
    candidates: Tokens,
    first_position: int,
    mask: TokenMask | None,
) -> Logits:
    """Return float32[m, V] logits as the temperature finds them: the given ones if nothing changes, else a copy.

    Row i follows `candidates[:i]` and stands at output position `first_position + i`.
    """
    barred_rows = min(max(parameters.min_tokens - first_position, 0), len(logits)) if parameters.stop_ids else 0
    if not (parameters.bias or parameters.banned_ids or barred_rows or mask or parameters.penalizes):
        return logits
    logits = logits.copy()
    ids = parameters.edited_ids
    for row in logits:  # a row at a time: numpy gathers columns of all rows at half the pace
        row[ids.biased] += ids.bias
        row[ids.banned] = -math.inf
    logits[:barred_rows, ids.stops] = -math.inf
    if mask is not None:
        _restrict(logits, mask, output=output, candidates=candidates, stop_ids=parameters.stop_ids)
    if parameters.penalizes:
        _penalize(logits, parameters, prompt=prompt, output=output, candidates=candidates)
    return logits


def _restrict(
    logits: Logits, mask: TokenMask, *, output: Tokens, candidates: Tokens, stop_ids: tuple[int, ...]
) -> None:
    sequence = [int(token) for token in output]
    for i, row in enumerate(logits):
        if i > 0:
            token = int(candidates[i - 1])
            if token in stop_ids or logits[i - 1, token] == -math.inf:
                return  # What follows cannot be reached, and the mask cannot tell what would come there.
            sequence.append(token)
        try:
            allowed = mask.allowed(sequence)
        except InvalidField:
            if i == 0:
                raise
            row[:] = -math.inf  # the text may never come here: the session that does is told why then
            return
        if allowed is None:
            continue
        if len(allowed) < len(row):
            raise InvalidField("mask", f"{len(allowed)} tokens", f"one value for each of {len(row)} tokens")
        row[~allowed[: len(row)]] = -math.inf


def _penalize(logits: Logits, parameters: LawParameters, *, prompt: Tokens, output: Tokens, candidates: Tokens) -> None:
    width = logits.shape[1]
    counts = np.bincount(_ids("output", output, width), minlength=width)
    seen = counts > 0
    if parameters.repetition_penalty != 1.0:
        seen[_ids("prompt", prompt, width)] = True
    touched = np.flatnonzero(seen)
    for i, row in enumerate(logits):
        if i > 0:
            token = int(candidates[i - 1])
            counts[token] += 1
            if not seen[token]:
                seen[token] = True
                touched = np.append(touched, token)
        values = row[touched].astype(np.float64)
        values = np.where(values > 0.0, values / parameters.repetition_penalty, values * parameters.repetition_penalty)
        times = counts[touched]
        row[touched] = values - parameters.frequency_penalty * times - parameters.presence_penalty * (times > 0)


def _ids(name: str, tokens: Tokens, width: int) -> NDArray[np.int64]:
    ids = np.asarray(tokens, dtype=np.int64)
    if len(ids) and (ids.min() < 0 or ids.max() >= width):
        seen = ids.min() if ids.min() < 0 else ids.max()
        raise InvalidField(name, int(seen), f"token ids from 0 to {width - 1}")
    return ids
