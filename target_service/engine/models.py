"""From the settings of a target to a runner: synthetic models need no weights and no torch."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from foreword.models.dtype import Dtype
from foreword.models.identity import synthetic_model_info
from foreword.models.load_tokenizer import load_tokenizer
from foreword.models.source import ModelSource, parse_source
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.info import ModelInfo
from foreword.runner.memory import available_bytes, token_bytes, tokens_that_fit
from foreword.runner.port import Runner
from foreword.testing.synthetic import Side, SyntheticRunner

if TYPE_CHECKING:
    from foreword.models.load import LoadedModel

_log = structlog.stdlib.get_logger(__name__)

SYNTHETIC_TOKENS = 1 << 20
"""Tokens that a synthetic model holds where no number is set; they take no memory to speak of."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which model, and how it is held."""

    source: str
    name: str
    dtype: Dtype
    cache: Path
    threads: int
    max_tokens: int | None
    memory_share: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """A runner and what it runs."""

    runner: Runner
    info: ModelInfo
    max_tokens: int
    """Most tokens in the cache over all sessions."""


def load(settings: ModelSettings) -> Loaded:
    """Return the runner of a model, fetched and converted if need be; raises ForewordError in one line."""
    source = parse_source(settings.source)
    loaded = _real(source, settings) if source.synthetic is None else _synthetic(source, source.synthetic, settings)
    return replace(loaded, info=replace(loaded.info, name=settings.name)) if settings.name else loaded


def _synthetic(source: ModelSource, model: SyntheticModel, settings: ModelSettings) -> Loaded:
    tokenizer = load_tokenizer(source, settings.cache)
    return Loaded(
        runner=SyntheticRunner(model, side=Side.TARGET),
        info=synthetic_model_info(source, model, tokenizer),
        max_tokens=settings.max_tokens or SYNTHETIC_TOKENS,
    )


def _real(source: ModelSource, settings: ModelSettings) -> Loaded:
    from foreword.models.load import load_model
    from foreword.runner.ragged import RaggedRunner

    model = load_model(
        source,
        dtype=settings.dtype,
        cache=settings.cache,
        threads=settings.threads or None,
        progress=LoggedProgress(),
    )
    runner = RaggedRunner(
        model.module, vocabulary_size=model.info.vocabulary_size, longest_context=model.info.longest_context
    )
    return Loaded(runner, model.info, settings.max_tokens or _fitting(model, settings.memory_share))


def _fitting(model: LoadedModel, share: float) -> int:
    size = token_bytes(model.module.config.get_text_config(), model.module.dtype.itemsize)
    return tokens_that_fit(available_bytes(), share, token_bytes=size)


class LoggedProgress:
    """Logs what a load is at, each piece of work when it starts and every few seconds."""

    def __init__(self, every_s: float = 5.0) -> None:
        self._every_s = every_s
        self._what = ""
        self._next = 0.0

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Log `done` of `total` bytes, if it is time to."""
        now = time.monotonic()
        if what == self._what and now < self._next:
            return
        self._what, self._next = what, now + self._every_s
        _log.info("loading", what=what, percent=round(100 * done / total) if total else None)
