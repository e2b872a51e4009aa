"""What a draft is worth on text that it was not trained on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from draft_service.training.batches import Batch, batches
from draft_service.training.corpus import Answer
from draft_service.training.losses import Teacher, overlap, refusal

SCALES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
"""Factors of the target's temperature that the draft's may have."""


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
    served: float
    """Σ min(p, q) of the laws that the texts were sampled from and drafted with, at the best factor of `scales`."""
    scales: tuple[float, ...]
    """`served` for each of `SCALES`."""


@torch.inference_mode()
def worth(
    score: Callable[[Batch], torch.Tensor], answers: Sequence[Answer], ids: Sequence[int], *, tokens: int = 8192
) -> dict[str, Worth]:
    """Return the worth over all answers ("all"), and by their temperature and kind; `score` gives logits [R, ids]."""
    sums: defaultdict[str, torch.Tensor] = defaultdict(lambda: torch.zeros(4 + len(SCALES), dtype=torch.float64))
    groups: defaultdict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        groups[f"temperature {answer.temperature:g}/{answer.kind}"].append(answer)
    for name, group in groups.items():
        for batch in batches(group, ids, tokens=tokens, seed=(0,)):
            counted = _counted(score(batch), batch, group[0])
            for key in ("all", *name.split("/")):
                sums[key] += counted
    return {key: _worth(total) for key, total in sorted(sums.items())}


def _counted(logits: torch.Tensor, batch: Batch, law: Answer) -> torch.Tensor:
    teacher = batch.teacher
    best = teacher.columns[:, 0]
    agreed = (logits.argmax(1) == best) & (teacher.probabilities[:, 0] > 0)
    kept = (1 - refusal(logits, teacher)).sum()
    sums = [kept, agreed.sum(), teacher.probabilities.sum(), *_served(logits, teacher, law, agreed)]
    return torch.tensor([len(best), *(float(one) for one in sums)], dtype=torch.float64)


def _served(logits: torch.Tensor, teacher: Teacher, law: Answer, agreed: torch.Tensor) -> list[torch.Tensor]:
    if law.temperature == 0:
        return [agreed.sum()] * len(SCALES)
    return [overlap(logits, teacher, law.temperature, law.top_p, scale).sum() for scale in SCALES]


def _worth(sums: torch.Tensor) -> Worth:
    count, *means = [float(one) for one in sums]
    kept, agreed, covered, *scales = [one / count for one in means]
    return Worth(int(count), kept, agreed, covered, max(scales), tuple(scales))
