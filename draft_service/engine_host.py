"""Keeps an engine process running: starts it, notices its death, starts another with a growing wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from draft_service.engine.run import EngineConfig
from draft_service.engine_messages import Ready, ToEngine, ToService
from foreword.engine.process import EngineOptions, EngineProcess
from foreword.errors import EngineFailure, ForewordError

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0

_ENTRY = "draft_service.engine.run:run"
_log = structlog.stdlib.get_logger(__name__)


class EngineHost:
    """One engine process at a time; what is sent while there is none goes nowhere."""

    def __init__(
        self,
        config: EngineConfig,
        options: EngineOptions,
        *,
        on_batch: Callable[[list[ToService]], None],
        on_lost: Callable[[ForewordError], None],
        on_back: Callable[[], Any],
    ) -> None:
        self._config = config
        self._options = options
        self._on_batch = on_batch
        self._on_lost = on_lost
        self._on_back = on_back
        self._process: EngineProcess | None = None
        self._restart: asyncio.Task[None] | None = None
        self._stopping = False
        self.ready: Ready | None = None
        """What the newest engine said of itself; None before the first was ready."""

    async def start(self) -> None:
        """Start the first engine; raises what it could not start with."""
        process = await EngineProcess.start(
            _ENTRY, self._config, options=self._options, on_batch=self._on_batch, on_exit=self._exited
        )
        if not process.is_running:  # it died before this line
            raise EngineFailure(f"{self._options.name}: ended as soon as it was ready")
        self._process, self.ready = process, process.info
        _log.info("engine ready", pid=process.pid)

    @property
    def running(self) -> bool:
        """Whether there is an engine that takes messages."""
        return self._process is not None and self._process.is_running

    @property
    def pid(self) -> int | None:
        """Process id of the engine; None while there is none."""
        return self._process.pid if self._process is not None else None

    def send(self, message: ToEngine) -> None:
        """Hand a message to the engine."""
        if self._process is not None:
            self._process.send([message])

    async def stop(self) -> None:
        """Stop the engine, for good."""
        self._stopping = True
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.gather(self._restart, return_exceptions=True)
        if self._process is not None:
            await self._process.stop()

    def _exited(self, error: ForewordError | None) -> None:
        known, self._process = self._process, None
        if known is None or self._stopping or error is None:
            return  # one that is not known yet is told of by `start`
        _log.error("engine lost", reason=error.message)
        self._on_lost(error)
        self._restart = asyncio.get_running_loop().create_task(self._start_again())

    async def _start_again(self) -> None:
        wait_s = FIRST_WAIT_S
        while True:
            await asyncio.sleep(wait_s)
            try:
                await self.start()
            except ForewordError as error:
                wait_s = min(LONGEST_WAIT_S, 2 * wait_s)
                _log.error("engine cannot start", reason=error.message, retry_s=wait_s)
                continue
            await self._on_back()
            return
