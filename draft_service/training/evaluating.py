"""What a draft on disk is worth: its overlap with the target on new text, its cost, and the speed-up to expect."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch

from draft_service.folder.load import LoadedDraft
from draft_service.training.batches import Batch
from draft_service.training.corpus import Answer
from draft_service.training.measuring import SCALES, Worth, worth
from foreword.runner.narrow import narrow
from foreword.runner.port import Rows, Runner

MOST_GAMMA = 16
CONTEXT, STEPS = 128, 40
"""Tokens of the session whose steps are timed, and how many of them."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The best block length by the formula, for a constant chance r of a candidate and a draft step of c target steps.

    Speed-up (1 − r^(γ+1)) / ((1 − r)(1 + γc)), Leviathan, Kalman, Matias 2023; it leaves network and lookup out.
    """

    gamma: int
    speedup: float


def worth_of(draft: LoadedDraft, answers: Sequence[Answer]) -> dict[str, Worth]:
    """Return what a draft is worth on texts of its target, by temperature and kind, as it is served (int4)."""
    narrow(draft.module, 4)
    module: Any = draft.module

    def score(batch: Batch) -> torch.Tensor:
        hidden = module.model(input_ids=batch.tokens, attention_mask=batch.mask.long(), use_cache=False)[0]
        logits: torch.Tensor = module.lm_head(hidden.reshape(-1, hidden.shape[-1])[batch.rows])
        return logits

    return worth(score, answers, draft.vocabulary.ids.tolist())


def best_scales(found: dict[str, Worth]) -> dict[str, float]:
    """Return, for every temperature over 0, the factor of it at which the draft's law overlaps most."""
    best = {}
    for name, one in found.items():
        kind, _, temperature = name.partition(" ")
        if kind == "temperature" and float(temperature) > 0:
            best[temperature] = SCALES[max(range(len(SCALES)), key=one.scales.__getitem__)]
    return best


def expected(rate: float, cost: float) -> Expected:
    """Return the best γ from 0 to 16 and its speed-up."""
    speeds = [sum(rate**i for i in range(gamma + 1)) / (1 + gamma * cost) for gamma in range(MOST_GAMMA + 1)]
    gamma = max(range(len(speeds)), key=speeds.__getitem__)
    return Expected(gamma, speeds[gamma])


def step_seconds(runner: Runner) -> float:
    """Return the median time of a forward pass of one row."""
    runner.open(0)
    runner.forward([Rows(0, tuple(range(3, 3 + CONTEXT)), 1)])
    times = []
    for _ in range(STEPS):
        runner.truncate(0, CONTEXT)
        began = time.perf_counter()
        runner.forward([Rows(0, (3,), 1)])
        times.append(time.perf_counter() - began)
    runner.close(0)
    return median(times)


def figures_of(found: dict[str, Worth], *, cost: float) -> dict[str, Any]:
    """Return the figures for `draft.json`: everything rounded to what it is known to."""
    everything = found["all"]
    best = expected(everything.served, cost)
    return {
        "positions": everything.positions,
        "overlap": round(everything.overlap, 4),
        "agreement": round(everything.agreement, 4),
        "covered": round(everything.covered, 4),
        "cost_ratio": round(cost, 4),
        "expected": {"gamma": best.gamma, "speedup": round(best.speedup, 3)},
        "temperature_scales": best_scales(found),
        "by": {name: _rounded(one) for name, one in found.items() if name != "all"},
    }


def _rounded(one: Worth) -> dict[str, Any]:
    return {name: round(value, 4) for name, value in asdict(one).items() if name != "scales"}
