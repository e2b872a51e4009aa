"""From a corpus to batches: texts of like lengths side by side, in an order that the seed and the epoch decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from draft_service.training.corpus import Answer
from draft_service.training.losses import Teacher


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts filled up to one length, and what the target says at the positions that count."""

    tokens: torch.Tensor
    """int64 [B, T]."""
    mask: torch.Tensor
    """bool [B, T], false where it is filled up."""
    rows: torch.Tensor
    """int64 [R], positions of the flat batch that are followed by the target's own text."""
    teacher: Teacher
    follows: torch.Tensor
    """int64 [R], the id that the target wrote there."""

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        teacher = Teacher(
            self.teacher.columns.to(device), self.teacher.probabilities.to(device), self.teacher.likeliest.to(device)
        )
        return Batch(
            self.tokens.to(device), self.mask.to(device), self.rows.to(device), teacher, self.follows.to(device)
        )


def batches(answers: Sequence[Answer], ids: Sequence[int], *, tokens: int, seed: tuple[int, ...]) -> Iterator[Batch]:
    """Yield all answers once, as `grouped` puts them together."""
    columns = columns_of(ids)
    return (batch_of(group, columns) for group in grouped(answers, tokens=tokens, seed=seed))


def grouped(answers: Sequence[Answer], *, tokens: int, seed: tuple[int, ...]) -> list[list[Answer]]:
    """Return all answers once, in groups of at most `tokens` tokens, filling included (or of one longer answer)."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(answers))
    # Nearly sorted: equal lengths meet, and not always the same texts.
    lengths = np.array([len(a.prompt) + len(a.output) for a in answers])
    order = order[np.argsort(lengths[order] // 16, kind="stable")]
    groups: list[list[Answer]] = [[]]
    longest = 0
    for index in order:
        longest = max(longest, int(lengths[index]))
        if groups[-1] and longest * (len(groups[-1]) + 1) > tokens:
            groups.append([])
            longest = int(lengths[index])
        groups[-1].append(answers[index])
    return [groups[number] for number in random.permutation(len(groups))]


def columns_of(ids: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the column of every id up to the largest, -1 for one without."""
    columns = np.full(max(ids) + 1, -1, np.int64)
    columns[np.array(ids)] = np.arange(len(ids))
    return columns


def batch_of(answers: Sequence[Answer], columns: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Batch:
    """Return answers as one batch."""
    longest = max(len(a.prompt) + len(a.output) for a in answers) - 1
    tokens = np.zeros((len(answers), longest), np.int64)
    mask = np.zeros((len(answers), longest), bool)
    rows = []
    for i, a in enumerate(answers):
        text = np.concatenate([a.prompt, a.output])[:-1]
        tokens[i, : len(text)] = text
        mask[i, : len(text)] = True
        rows.append(i * longest + np.arange(len(a.prompt) - 1, len(text)))
    ids = np.concatenate([a.ids for a in answers]).astype(np.int64)
    known = ids < len(columns)
    found = np.where(known, columns[np.where(known, ids, 0)], -1)
    p = np.exp(np.concatenate([a.logprobs for a in answers]).astype(np.float32))
    teacher = Teacher(
        torch.from_numpy(np.maximum(found, 0)),
        torch.from_numpy(np.where(found >= 0, p, 0).astype(np.float32)),
        torch.from_numpy(p),
    )
    follows = torch.from_numpy(np.concatenate([a.output for a in answers]).astype(np.int64))
    return Batch(
        torch.from_numpy(tokens), torch.from_numpy(mask), torch.from_numpy(np.concatenate(rows)), teacher, follows
    )
