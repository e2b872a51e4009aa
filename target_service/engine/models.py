"""From the settings of a target to a runner: synthetic models need no weights and no torch."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from foreword.models.dtype import Dtype
from foreword.models.source import parse_source
from foreword.protocol.info import ModelInfo
from foreword.runner.budget import PAGE_SIZE, CacheBudget
from foreword.runner.build import build_runner
from foreword.runner.port import Runner
from foreword.testing.synthetic import Side

_log = structlog.stdlib.get_logger(__name__)


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
    page_size: int = PAGE_SIZE
    device: str = "cpu"
    deterministic: bool = False

    @property
    def budget(self) -> CacheBudget:
        """How large the cache is made."""
        return CacheBudget(self.max_tokens, self.memory_share, self.page_size)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A runner and what it runs."""

    runner: Runner
    info: ModelInfo
    max_tokens: int
    """Most tokens in the cache over all sessions."""


def load(settings: ModelSettings) -> Loaded:
    """Return the runner of a model, fetched and converted if need be; raises ForewordError in one line."""
    built = build_runner(
        parse_source(settings.source),
        side=Side.TARGET,
        cache=settings.cache,
        dtype=settings.dtype,
        threads=settings.threads or None,
        device=settings.device,
        budget=settings.budget,
        deterministic=settings.deterministic,
        progress=LoggedProgress(),
    )
    info = replace(built.info, name=settings.name) if settings.name else built.info
    memory = built.runner.memory
    return Loaded(built.runner, info, memory.pages * memory.page_size)


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
