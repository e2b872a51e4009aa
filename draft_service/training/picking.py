"""One token for each of many rows, and the likeliest ids of each; quick rather than exact, for training data alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from foreword.laws.parameters import LawParameters

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Picked:
    """A token, and the likeliest ids with their log-probabilities at temperature 1."""

    token: int
    ids: Ids
    logprobs: Floats


_WIDE = 256
"""Ids that top-p looks at: beyond them lies next to nothing below temperature 1."""


@torch.inference_mode()
def pick(logits: Floats, laws: Sequence[LawParameters], numbers: Sequence[float], *, top: int) -> list[Picked]:
    """Pick a token for each row of float32 [N, V] by temperature and top-p, with one uniform number a row."""
    scores = torch.from_numpy(logits)
    rest = torch.logsumexp(scores, dim=1, keepdim=True)
    values, found = torch.topk(scores, min(_WIDE, scores.shape[1]), dim=1)
    logprobs: Floats = (values - rest).numpy()
    ids: Ids = found.numpy()
    picked = []
    for row, (law, number) in enumerate(zip(laws, numbers, strict=True)):
        place = 0 if law.temperature == 0 else _place(logprobs[row], law, number)
        token = _from_tail(logits[row], ids[row], number) if place is None else int(ids[row, place])
        picked.append(Picked(token, ids[row, :top], logprobs[row, :top]))
    return picked


def _place(logprobs: Floats, law: LawParameters, number: float) -> int | None:
    """Return which of the likeliest ids it is; None for one behind them."""
    top_p = 1.0 if law.top_p is None else law.top_p
    if law.temperature == top_p == 1.0:
        cumulative = np.cumsum(np.exp(logprobs.astype(np.float64)))
        place = int(np.searchsorted(cumulative, number, side="right"))
        return place if place < len(logprobs) else None
    shares = np.exp((logprobs.astype(np.float64) - float(logprobs[0])) / law.temperature)
    cumulative = np.cumsum(shares / shares.sum())
    kept = min(int(np.searchsorted(cumulative, top_p)) + 1, len(logprobs))
    return int(np.searchsorted(cumulative[: kept - 1], number * cumulative[kept - 1], side="right"))


def _from_tail(logits: Floats, ids: Ids, number: float) -> int:
    """Draw from what lies behind the likeliest ids, with what is left of the number."""
    shares = np.exp(logits.astype(np.float64) - float(logits.max()))
    inside = float(shares[ids].sum() / shares.sum())
    shares[ids] = 0.0
    cumulative = np.cumsum(shares)
    share = min(max(0.0, (number - inside) / max(1e-12, 1 - inside)), 1 - 1e-12)
    return int(np.searchsorted(cumulative, share * cumulative[-1], side="right"))
