"""The parts of gpu-check about drafts: distilling one on a GPU, and drafting with it for one session and for many."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from draft_service.drafters.build import DrafterConfig, build_drafter
from draft_service.engine.costs import measure_costs
from draft_service.training.corpus import Corpus
from draft_service.training.making import StudentPlan, make_draft
from draft_service.training.sampling import Sampler, SamplingPlan, sample_until
from draft_service.training.trainer import Progress, TrainingPlan
from foreword.models.dtype import Dtype
from foreword.models.load import load_model
from foreword.models.source import parse_source
from foreword.protocol.words import Drafter
from foreword.runner.budget import CacheBudget
from foreword.runner.build import build_runner
from foreword.settings.environment import cache_folder
from foreword.testing.synthetic import Side

TOKENS = 6000
TRAINING = TrainingPlan(epochs=3, tokens=4096, warmup=4, rounded=None)


def distillation(model: str, device: str = "cuda", *, tokens: int = TOKENS) -> dict[str, Any]:
    """Sample, train and say how the loss fell; it has to fall."""
    with _distilled(model, device, tokens) as (_, losses):
        if not losses[-1] < losses[0]:
            raise AssertionError(f"refused share: {losses[0]:.3f} before and {losses[-1]:.3f} after, wanted it to fall")
        return {"steps": len(losses), "refused_before": round(losses[0], 3), "refused_after": round(losses[-1], 3)}


def drafting(model: str, device: str = "cuda", *, tokens: int = TOKENS) -> dict[str, Any]:
    """Time a drafting step of a distilled draft for 1 to 16 sessions, in microseconds by number of sessions."""
    with _distilled(model, device, tokens) as (folder, _):
        config = DrafterConfig(
            Drafter.MODEL, cache_folder(), str(folder), device=device, budget=CacheBudget(1 << 14), target=model
        )
        drafter = build_drafter(config)
        info = drafter.abilities.model
        costs = {str(point.rows): point.step_us for point in measure_costs(drafter)}
        return {"dtype": "" if info is None else info.dtype, "step_us": costs}


@contextmanager
def _distilled(model: str, device: str, tokens: int) -> Iterator[tuple[Path, list[float]]]:
    """Make a draft of two layers in a folder that is gone afterwards; yield it and the refused shares of its steps."""
    losses: list[float] = []

    def note(at: Progress) -> None:
        losses.append(at.refusal)

    with tempfile.TemporaryDirectory() as temporary:
        corpus, out = Corpus(Path(temporary) / "corpus"), Path(temporary) / "draft"
        built = build_runner(
            parse_source(model),
            side=Side.TARGET,
            cache=cache_folder(),
            dtype=Dtype.BFLOAT16,
            device=device,
            budget=CacheBudget(1 << 15),
        )
        plan = SamplingPlan(most_tokens=64, shard=32, side_by_side=32)
        sample_until(
            Sampler(built.runner, built.tokenizer, corpus, plan),
            corpus,
            tokens=tokens,
            shard=plan.shard,
            progress=lambda done, total: None,
        )
        target = load_model(parse_source(model), dtype=Dtype.FLOAT32, cache=cache_folder())
        last = int(target.module.config.get_text_config().num_hidden_layers) - 1
        student = StudentPlan((0, last), 2048, training=TRAINING)
        make_draft(target, [corpus], out, plan=student, device=device, progress=note)
        yield out, losses
