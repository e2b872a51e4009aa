"""Trains a student: a schedule of steps, checkpoints that a run goes on from, and the same weights either way."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from draft_service.folder.student import Student
from draft_service.training.batches import Batch, batch_of, columns_of, grouped
from draft_service.training.corpus import Answer, digest_of
from draft_service.training.losses import divergence, refusal
from draft_service.training.rounding import rounded
from foreword.errors import InvalidField
from foreword.models.weights_file import write_whole
from foreword.runner.kernels.codes import Bits


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How a student is trained."""

    epochs: int = 2
    sharpened: float = 0.25
    """The last share of the steps, in which 1 − Σ min(p, q) is what is made small."""
    tokens: int = 8192
    """Of a batch, filling included."""
    rate: float = 5e-3
    """Of matrices at its largest, with Muon."""
    vector_rate: float = 1.5e-3
    """Of norms and biases at its largest, with AdamW."""
    least_rate: float = 0.05
    """What both end at, in shares of their largest."""
    warmup: int = 40
    decay: float = 0.01
    seed: int = 0
    checkpoint_every: int = 50
    rounded: Bits | None = 4
    """What layers are rounded to in the sharpened steps, as they are served: the draft gets used to it."""
    bfloat16: bool = False
    """Whether matrix products round to that format; weights, their averages and the loss are float32 always."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where training is."""

    step: int
    steps: int
    loss: float
    refusal: float


class Trainer:
    """Runs a plan over answers; `checkpoint` is written from time to time, and read when training begins.

    `origin` says, in JSON, what the student's layers began as: a checkpoint of another origin is not gone on from.
    """

    def __init__(
        self,
        student: Student,
        answers: Sequence[Answer],
        ids: Sequence[int],
        *,
        plan: TrainingPlan,
        origin: Mapping[str, Any],
        checkpoint: Path,
    ) -> None:
        self._student = student
        self._answers = answers
        self._ids = ids
        self._plan = plan
        self._checkpoint = checkpoint
        texts, head = digest_of(answers), hashlib.sha256(np.array(ids, np.int64).data).hexdigest()
        self._made_by: dict[str, Any] = {**origin, "texts": texts, "head": head, **asdict(plan)}
        self._trained = student.trained()
        self._device = next(iter(self._trained.values())).device
        self._optimizers = optimizers(self._trained.values(), plan)

    def run(self, progress: Callable[[Progress], None]) -> None:
        """Train to the end of the plan."""
        groups = [group for epoch in range(self._plan.epochs) for group in self._epoch(epoch)]
        steps, columns = len(groups), columns_of(self._ids)
        begun = self._resume(steps)
        for step, group in enumerate(groups[begun:], start=begun + 1):
            loss, refused = self._step(batch_of(group, columns), step, steps)
            progress(Progress(step, steps, loss, refused))
            if step % self._plan.checkpoint_every == 0 or step == steps:
                self._save(step, steps)

    def _epoch(self, epoch: int) -> list[list[Answer]]:
        return grouped(self._answers, tokens=self._plan.tokens, seed=(self._plan.seed, epoch))

    def _step(self, batch: Batch, step: int, steps: int) -> tuple[float, float]:
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = optimizer.defaults["lr"] * self._share(step, steps)
        batch = batch.to(self._device)
        sharpening = step > steps * (1 - self._plan.sharpened)
        with rounded(self._student, self._plan.rounded if sharpening else None):
            with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._plan.bfloat16):
                logits = self._student(batch.tokens, batch.mask, batch.rows)
            logits = logits.float()
            refused = refusal(logits, batch.teacher).mean()
            loss = refused if sharpening else divergence(logits, batch.teacher).mean()
            self._student.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._trained.values(), 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
        return float(loss.detach()), float(refused.detach())

    def _share(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, in shares of the largest."""
        plan = self._plan
        if step <= plan.warmup:
            return step / plan.warmup
        share = (step - plan.warmup) / max(1, steps - plan.warmup)
        return plan.least_rate + (1 - plan.least_rate) * 0.5 * (1 + math.cos(math.pi * share))

    def _save(self, step: int, steps: int) -> None:
        tensors = {}
        for optimizer in self._optimizers:
            for name, parameter in self._trained.items():
                for part, value in optimizer.state.get(parameter, {}).items():
                    tensors[f"{name}/{part}"] = value
        tensors.update({name: parameter.detach() for name, parameter in self._trained.items()})
        about = {"step": str(step), "run": self._run_of(steps)}
        write_whole(self._checkpoint, lambda partial: save_file(tensors, partial, metadata=about))

    def _run_of(self, steps: int) -> str:
        return json.dumps({"steps": steps, **self._made_by})

    def _check_run(self, run: str, steps: int) -> None:
        seen, wanted = json.loads(run), json.loads(self._run_of(steps))
        names = [name for name in wanted if seen.get(name) != wanted[name]]
        if names:
            other, own = (", ".join(f"{name} {one.get(name)}" for name in names) for one in (seen, wanted))
            raise InvalidField("checkpoint", f"{self._checkpoint} of a run with {other}", f"one with {own}, or none")

    def _resume(self, steps: int) -> int:
        """Take up the checkpoint, if there is one; return the steps that are done.

        Raises InvalidField for one of another plan, origin, text or head: its end would be neither's.
        """
        if not self._checkpoint.exists():
            return 0
        with safe_open(self._checkpoint, framework="pt") as file:
            self._check_run(file.metadata().get("run", "{}"), steps)
            step = int(file.metadata()["step"])
            for name, parameter in self._trained.items():
                parameter.data.copy_(file.get_tensor(name))
            owners = {
                parameter: optimizer
                for optimizer in self._optimizers
                for group in optimizer.param_groups
                for parameter in group["params"]
            }
            for key in file.keys():  # noqa: SIM118 - no mapping
                name, _, part = key.partition("/")
                if part:
                    value, parameter = file.get_tensor(key), self._trained[name]
                    owners[parameter].state[parameter][part] = value if part == "step" else value.to(self._device)
        return step


def optimizers(parameters: Iterable[nn.Parameter], plan: TrainingPlan) -> tuple[torch.optim.Optimizer, ...]:
    """Return what changes matrices, and what changes the rest.

    Muon for matrices (Jordan et al. 2024, with steps as large as AdamW's, Liu et al. 2025): from the same text its
    drafts overlap more than those of AdamW alone (docs/decisions/0020-muon.md).
    """
    matrices: list[nn.Parameter] = []
    vectors: list[nn.Parameter] = []
    for parameter in parameters:
        (matrices if parameter.ndim == 2 else vectors).append(parameter)
    made: list[torch.optim.Optimizer] = []
    if matrices:
        muon = torch.optim.Muon(matrices, lr=plan.rate, weight_decay=plan.decay, adjust_lr_fn="match_rms_adamw")
        made.append(muon)
    if vectors:
        made.append(torch.optim.AdamW(vectors, lr=plan.vector_rate, betas=(0.9, 0.98), weight_decay=0.0))
    return tuple(made)
