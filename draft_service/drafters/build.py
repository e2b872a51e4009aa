"""Builds the drafter that a configuration names; only a real model needs torch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from draft_service.drafters.choosing import Style
from draft_service.drafters.lookup import LookupDrafter, LookupStyle
from draft_service.drafters.mixed import MixedDrafter
from draft_service.drafters.model import ModelDrafter
from draft_service.drafters.port import Abilities, Drafter
from foreword.errors import InvalidField
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
    """Source of the model; lookup has none."""
    name: str = ""
    """What requests call it; empty takes the model's name."""
    dtype: Dtype = Dtype.FLOAT32
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
    source = parse_source(config.model)
    kind = Kind.MODEL if source.synthetic is None else Kind.SYNTHETIC
    if config.kind is Kind.MIXED:
        return MixedDrafter(config.lookup, _model_drafter(config, source, kind), time.monotonic_ns)
    if config.kind is not kind:
        wanted = "synthetic:…" if config.kind is Kind.SYNTHETIC else "a real model"
        raise InvalidField("model", config.model, f"{wanted} for the drafter {config.kind.name.lower()}")
    return _model_drafter(config, source, kind)


def _model_drafter(config: DrafterConfig, source: ModelSource, kind: Kind) -> ModelDrafter:
    built = build_runner(
        source,
        side=Side.DRAFT,
        cache=config.cache,
        dtype=config.dtype,
        threads=config.threads or None,
        device=config.device,
        chunk=config.chunk,
        budget=config.budget,
    )
    info = replace(built.info, name=config.name) if config.name else built.info
    abilities = Abilities(kind, built.runner.longest_context, info.vocabulary_size, info, built.cache_tokens)
    return ModelDrafter(built.runner, abilities, config.style)
