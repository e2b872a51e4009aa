"""Loads one rank's part of a model, with room for keys and values that all ranks have."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from transformers import PreTrainedModel

from foreword.models.load import load_model
from foreword.models.source import parse_source
from foreword.protocol.info import ModelInfo
from foreword.runner.budget import CacheBudget
from foreword.runner.deterministic import check_deterministic
from foreword.runner.kernels.common import use_threads
from foreword.runner.memory import available_bytes
from foreword.runner.paged import PagedRunner
from foreword.runner.paged_attention import look
from foreword.runner.plan import StepModel
from foreword.runner.port import Logits
from foreword.runner.supported import check_config, check_probe, probe_logits
from foreword.runner.ways import Subject, Way, with_block_tables, with_tiles, with_torch
from target_service.engine.models import Loaded, LoggedProgress, ModelSettings
from target_service.tensor_parallel.model import column_widths
from target_service.tensor_parallel.ranks import Ranks
from target_service.tensor_parallel.shards import take_part

_WAYS: tuple[Way, ...] = (with_tiles, with_block_tables, with_torch)
"""How a part may run: a fused layer does not stop to add up what the ranks have."""


@dataclass(frozen=True, slots=True)
class LoadedPart:
    """A rank's part of the model, and who the whole is."""

    model: StepModel
    info: ModelInfo
    widths: tuple[int, ...]
    """Columns of the logits that each rank has."""
    model_type: str
    settings: ModelSettings
    probe: Logits
    """What transformers' own pass over all ranks scores for the tokens of the probe."""

    def loaded(self, whole: StepModel) -> Loaded:
        """Return the runner of the whole model, on rank 0 while the others follow; raises Mismatch if it is wrong."""
        runner = PagedRunner(
            whole, vocabulary_size=self.info.vocabulary_size, longest_context=self.info.longest_context
        )
        check_probe(runner, self.probe, self.model_type, getattr(torch, self.settings.dtype.value))
        if self.settings.deterministic:
            check_deterministic(runner)
        return Loaded(runner, self.info, whole.pages * whole.page_size)


def load_part(settings: ModelSettings, ranks: Ranks, *, neighbours: int) -> LoadedPart:
    """Load this rank's part of a model; all ranks call it at the same time, `neighbours` of them on this machine."""
    loaded = load_model(
        parse_source(settings.source),
        dtype=settings.dtype,
        cache=settings.cache,
        device=settings.device,
        ranks=ranks.size,
        progress=LoggedProgress(),
    )
    module, info = loaded.module, loaded.info
    check_config(module)
    probe = probe_logits(module, info.vocabulary_size)
    take_part(module, ranks)
    widths = column_widths(loaded.embedding_rows, info.vocabulary_size, ranks.size)
    model = part_model(
        module,
        ranks,
        settings.budget,
        columns=widths[ranks.rank],
        longest_context=info.longest_context,
        deterministic=settings.deterministic,
        neighbours=neighbours,
    )
    info = replace(info, name=settings.name) if settings.name else info
    return LoadedPart(model, info, widths, module.config.model_type, settings, probe)


def part_model(
    module: PreTrainedModel,
    ranks: Ranks,
    budget: CacheBudget,
    *,
    columns: int,
    longest_context: int,
    deterministic: bool = False,
    neighbours: int = 1,
) -> StepModel:
    """Return a part as a model with as many pages as there is room for on every rank; all ranks call it together."""
    if module.device.type == "cpu":
        use_threads(torch.get_num_threads())
    shape, manners = look(module)
    on_gpu = module.device.type == "cuda"
    free_bytes = torch.cuda.mem_get_info(module.device)[0] if on_gpu else available_bytes() // neighbours
    itemsize = module.dtype.itemsize if on_gpu else torch.float32.itemsize
    pages = ranks.least(budget.pages(shape, itemsize=itemsize, free_bytes=free_bytes))
    agreed = replace(budget, tokens=pages * budget.page_size)
    subject = Subject(module, shape, manners, agreed, columns, longest_context, deterministic=deterministic)
    return next(model for way in _WAYS if (model := way(subject)) is not None)
