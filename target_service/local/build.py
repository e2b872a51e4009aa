"""The drafter inside a target that a setting names."""

from __future__ import annotations

from foreword.errors import InvalidField
from foreword.models.source import parse_source
from foreword.protocol.info import ModelInfo
from foreword.protocol.words import Drafter
from foreword.runner.budget import CacheBudget
from foreword.runner.build import build_runner
from foreword.testing.synthetic import Side
from target_service.engine.models import ModelSettings
from target_service.local.lookup import LocalLookup
from target_service.local.model import LocalModel
from target_service.local.port import LocalDrafter

LOOKUP, NONE = "lookup", "none"
"""Settings that name no model."""
MEMORY_SHARE = 0.2
"""Share of the memory that the target leaves free which the cache of a model takes."""


def local_drafter(name: str, settings: ModelSettings, served: ModelInfo) -> LocalDrafter | None:
    """Return the drafter of this name, None for none; a model is loaded as the target's is.

    Raises InvalidField for a model whose ids are not those of the model that is served, and what loading raises.
    """
    if name == NONE:
        return None
    if name == LOOKUP:
        return LocalLookup()
    source = parse_source(name)
    built = build_runner(
        source,
        side=Side.DRAFT,
        cache=settings.cache,
        dtype=settings.dtype,
        threads=settings.threads or None,
        device=settings.device,
        budget=CacheBudget(None, MEMORY_SHARE, settings.page_size),
    )
    if built.info.tokenizer_digest != served.tokenizer_digest:
        raise InvalidField("local_drafter", name, f"a model with the tokenizer of {served.name}")
    kind = Drafter.MODEL if source.synthetic is None else Drafter.SYNTHETIC
    return LocalModel(built.runner, kind, vocabulary_size=built.info.vocabulary_size)
