"""How far a draft's law is from the target's, of which the likeliest ids are known and the rest in one sum."""

from __future__ import annotations

from dataclasses import dataclass

import torch

_LEAST = 1e-8


@dataclass(frozen=True, slots=True)
class Teacher:
    """The target's law at R positions, as columns of the draft's head."""

    columns: torch.Tensor
    """int64 [R, K]; of ids that the head lacks any column, with probability 0."""
    probabilities: torch.Tensor
    """float32 [R, K]; what they leave to 1 is spread over all others."""
    likeliest: torch.Tensor
    """float32 [R, K]: those of the same ids, whether the head has them or not."""


def shares(logits: torch.Tensor, teacher: Teacher) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the draft's probabilities of the teacher's columns [R, K], and of all others together [R]."""
    q = torch.log_softmax(logits, dim=1).gather(1, teacher.columns).exp()
    q = torch.where(teacher.probabilities > 0, q, torch.zeros_like(q))
    return q, (1 - q.sum(1)).clamp_min(_LEAST)


def divergence(logits: torch.Tensor, teacher: Teacher) -> torch.Tensor:
    """Return KL(p‖q) [R], what is behind the likeliest ids taken as one."""
    q, q_rest = shares(logits, teacher)
    p, p_rest = teacher.probabilities, (1 - teacher.probabilities.sum(1)).clamp_min(_LEAST)
    inside = torch.where(p > 0, p * (p.clamp_min(_LEAST).log() - q.clamp_min(_LEAST).log()), torch.zeros_like(p))
    return inside.sum(1) + p_rest * (p_rest.log() - q_rest.log())


def refusal(logits: torch.Tensor, teacher: Teacher) -> torch.Tensor:
    """Return 1 − Σ min(p, q) [R], the probability that a candidate is refused; of the rest nothing counts as kept."""
    q, _ = shares(logits, teacher)
    return 1 - torch.minimum(q, teacher.probabilities).sum(1)


def overlap(logits: torch.Tensor, teacher: Teacher, temperature: float, top_p: float, scale: float) -> torch.Tensor:
    """Return Σ min(p, q) [R] of the laws at a temperature over 0, the draft's at `scale` times it, both cut to top-p.

    What lies behind the target's likeliest ids is left out of both; it is little where top-p cuts.
    """
    p = _cut(_tempered(teacher.likeliest, temperature), top_p)
    q = torch.softmax(logits / (temperature * scale), dim=1)
    if top_p < 1:
        q = _cut(q, top_p)
    q = q.gather(1, teacher.columns)
    return torch.minimum(p, torch.where(teacher.probabilities > 0, q, torch.zeros_like(q))).sum(1)


def _tempered(probabilities: torch.Tensor, temperature: float) -> torch.Tensor:
    if temperature == 1:
        return probabilities
    weights = probabilities.clamp_min(0) ** (1 / temperature)
    return weights / weights.sum(1, keepdim=True).clamp_min(_LEAST)


def _cut(p: torch.Tensor, top_p: float) -> torch.Tensor:
    """Keep the likeliest until their mass reaches `top_p`, and renormalise."""
    if top_p >= 1:
        return p
    ordered, order = p.sort(1, descending=True)
    kept = ordered.cumsum(1) - ordered < top_p
    cut = torch.zeros_like(p).scatter(1, order, torch.where(kept, ordered, torch.zeros_like(ordered)))
    return cut / cut.sum(1, keepdim=True).clamp_min(_LEAST)
