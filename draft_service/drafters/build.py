"""Builds the drafter that a configuration names; only a real model needs torch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from draft_service.drafters.choosing import Style
from draft_service.drafters.draws import compiled_draws
from draft_service.drafters.lookup import LookupDrafter, LookupStyle
from draft_service.drafters.mixed import MixedDrafter
from draft_service.drafters.model import ModelDrafter
from draft_service.drafters.port import Abilities, Drafter
from draft_service.folder.bundled import draft_folder
from foreword.errors import InvalidField
from foreword.extras import check_installed
from foreword.grammars.load import load_grammars
from foreword.grammars.making import MaskMaker
from foreword.grammars.port import missing
from foreword.models.dtype import Dtype
from foreword.models.source import ModelSource, parse_source
from foreword.protocol.words import Drafter as Kind
from foreword.runner.budget import CacheBudget
from foreword.runner.build import build_runner
from foreword.testing.synthetic import Side
from foreword.values import replace


@dataclass(frozen=True, slots=True)
class DrafterConfig:
    """Which drafter, and how it drafts."""

    kind: Kind
    cache: Path
    """Folder of fetched models."""
    model: str = ""
    """Source of the model, or the folder of a distilled draft; lookup has none."""
    target: str = ""
    """Source of the target that such a draft takes its embedding from; empty takes the one that it was made from."""
    name: str = ""
    """What requests call it; empty takes the model's name."""
    dtype: Dtype | None = None
    """None takes the fastest, since a draft's rounding changes no text.

    On a CPU that is int4 for distilled drafts and int8 for other models, on a GPU bfloat16.
    """
    threads: int = 0
    """Threads of a forward pass; 0 leaves it to the libraries."""
    device: str = "cpu"
    chunk: int = 512
    """Most rows of one forward pass of a real model."""
    budget: CacheBudget = field(default_factory=CacheBudget)
    style: Style = field(default_factory=Style)
    lookup: LookupStyle = field(default_factory=LookupStyle)


def build_drafter(config: DrafterConfig) -> Drafter:
    """Return the drafter; raises ForewordError for a model that is not there or does not load."""
    if config.kind is Kind.LOOKUP:
        return LookupDrafter(config.lookup)
    if config.kind is Kind.MIXED:
        return MixedDrafter(config.lookup, _model_drafter(config), time.monotonic_ns)
    return _model_drafter(config)


def _model_drafter(config: DrafterConfig) -> ModelDrafter:
    """Return the drafter of the model; a mixed one takes any as its part."""
    if config.kind is not Kind.SYNTHETIC and (folder := draft_folder(config.model)) is not None:
        return _distilled(config, folder)
    source = parse_source(config.model)
    kind = Kind.MODEL if source.synthetic is None else Kind.SYNTHETIC
    if config.kind not in (kind, Kind.MIXED):
        wanted = "synthetic:…" if config.kind is Kind.SYNTHETIC else "a real model"
        raise InvalidField("model", config.model, f"{wanted} for the drafter {config.kind.name.lower()}")
    built = build_runner(
        source,
        side=Side.DRAFT,
        cache=config.cache,
        dtype=Dtype.FLOAT32 if kind is Kind.SYNTHETIC else _dtype(config),
        threads=config.threads or None,
        device=config.device,
        chunk=config.chunk,
        budget=config.budget,
    )
    info = replace(built.info, name=config.name) if config.name else built.info
    draws = None if kind is Kind.SYNTHETIC else compiled_draws(np.arange(info.vocabulary_size, dtype=np.int32))
    abilities = Abilities(
        kind,
        built.runner.longest_context,
        info.vocabulary_size,
        info,
        built.cache_tokens,
        on_gpu=kind is Kind.MODEL and _is_gpu(config),
    )
    masks = _masks(source, config, info.vocabulary_size)
    return ModelDrafter(built.runner, abilities, config.style, draws=draws, masks=masks)


def _distilled(config: DrafterConfig, folder: Path) -> ModelDrafter:
    check_installed("torch", "transformers")
    import torch

    from draft_service.folder.load import load_draft
    from foreword.models.device import find_device
    from foreword.runner.real import real_runner

    dtype = _dtype(config, on_cpu=Dtype.INT4)
    loaded = load_draft(folder, target=config.target, cache=config.cache, threads=config.threads or None)
    module: torch.nn.Module = loaded.module
    module.to(find_device(config.device), getattr(torch, dtype.loaded))
    info = replace(loaded.info, dtype=dtype.value, name=config.name or loaded.info.name)
    runner = real_runner(
        loaded.module,
        vocabulary_size=info.vocabulary_size,
        longest_context=info.longest_context,
        budget=config.budget,
        chunk=config.chunk,
        bits=dtype.bits,
    )
    memory, spare = runner.memory, config.budget.spare_pages
    abilities = Abilities(
        Kind.MODEL,
        runner.longest_context,
        info.vocabulary_size,
        info,
        (memory.pages - spare) * memory.page_size,
        loaded.vocabulary.digest,
        on_gpu=_is_gpu(config),
    )
    style = replace(config.style, fitted_scales=loaded.card.fitted_scales)
    masks = _masks(parse_source(config.target or loaded.card.target.source), config, info.vocabulary_size)
    draws = compiled_draws(loaded.vocabulary.ids)
    return ModelDrafter(runner, abilities, style, loaded.vocabulary, draws=draws, masks=masks)


def _masks(source: ModelSource, config: DrafterConfig, vocabulary_size: int) -> MaskMaker | None:
    """Return what makes masks over the ids of a model, or of a draft's target; None where the library is missing."""
    if missing():
        return None
    return MaskMaker(partial(load_grammars, source, config.cache, vocabulary_size=vocabulary_size))


def _dtype(config: DrafterConfig, *, on_cpu: Dtype = Dtype.INT8) -> Dtype:
    if config.dtype is not None:
        return config.dtype
    return Dtype.BFLOAT16 if _is_gpu(config) else on_cpu


def _is_gpu(config: DrafterConfig) -> bool:
    check_installed("torch", "transformers")
    from foreword.models.device import find_device

    return find_device(config.device).type != "cpu"
