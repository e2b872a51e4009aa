"""Builds the drafter that a configuration names; only a real model needs torch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from draft_service.drafters.choosing import Style
from draft_service.drafters.lookup import LookupDrafter, LookupStyle
from draft_service.drafters.model import ModelDrafter
from draft_service.drafters.port import Abilities, Drafter
from foreword.errors import InvalidField
from foreword.models.source import parse_source
from foreword.protocol.messages import ModelInfo
from foreword.protocol.words import Drafter as Kind
from foreword.testing.synthetic import Side, SyntheticRunner


@dataclass(frozen=True, slots=True)
class DrafterConfig:
    """Which drafter, and how it drafts."""

    kind: Kind
    model: str = ""
    """Source of the model; lookup has none."""
    name: str = ""
    """What requests call it; empty takes the model's name."""
    dtype: str = "float32"
    threads: int = 0
    cache: Path | None = None
    style: Style = field(default_factory=Style)
    lookup: LookupStyle = field(default_factory=LookupStyle)


def build_drafter(config: DrafterConfig) -> Drafter:
    """Return the drafter; raises ForewordError for a model that is not there or does not load."""
    if config.kind is Kind.LOOKUP:
        return LookupDrafter(config.lookup)
    if config.kind is Kind.SYNTHETIC:
        return _synthetic(config)
    raise NotImplementedError


def _synthetic(config: DrafterConfig) -> ModelDrafter:
    model = parse_source(config.model or "synthetic").synthetic
    if model is None:
        raise InvalidField("model", config.model, "synthetic:… for the synthetic drafter")
    info = ModelInfo(
        name=config.name or "synthetic",
        source=config.model,
        weights_digest="",
        tokenizer_digest=hashlib.sha256(f"synthetic {model.vocabulary}".encode()).hexdigest(),
        vocabulary_size=model.vocabulary,
        longest_context=model.context,
        dtype="float64",
    )
    abilities = Abilities(Kind.SYNTHETIC, model.context, model.vocabulary, info)
    return ModelDrafter(SyntheticRunner(model, side=Side.DRAFT), abilities, config.style)
