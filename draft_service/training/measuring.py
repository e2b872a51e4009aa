"""What a draft is worth on text that it was not trained on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from draft_service.training.batches import Batch, batches
from draft_service.training.corpus import Answer
from draft_service.training.losses import refusal


@dataclass(frozen=True, slots=True)
class Worth:
    """Means over the positions of texts."""

    positions: int
    overlap: float
    """Σ min(p, q) at temperature 1."""
    agreement: float
    """How often both would choose the same token at temperature 0."""
    covered: float
    """Mass of the target's law that the head has."""


@torch.inference_mode()
def worth(
    score: Callable[[Batch], torch.Tensor], answers: Sequence[Answer], ids: Sequence[int], *, tokens: int = 8192
) -> dict[str, Worth]:
    """Return the worth over all answers ("all"), and by their temperature and kind; `score` gives logits [R, ids]."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    groups: defaultdict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        groups[f"temperature {answer.temperature:g}/{answer.kind}"].append(answer)
    for name, group in groups.items():
        for batch in batches(group, ids, tokens=tokens, seed=(0,)):
            logits = score(batch)
            kept = (1 - refusal(logits, batch.teacher)).sum()
            best = batch.teacher.columns[:, 0]
            agreed = (logits.argmax(1) == best) & (batch.teacher.probabilities[:, 0] > 0)
            counted = (len(best), float(kept), float(agreed.sum()), float(batch.teacher.probabilities.sum()))
            for key in ("all", *name.split("/")):
                sums[key] = [a + b for a, b in zip(sums[key], counted, strict=True)]
    return {key: Worth(int(n), a / n, b / n, c / n) for key, (n, a, b, c) in sums.items()}
