"""Keeps an engine process running: starts it, restarts it when it dies, tells whether it is warm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from foreword.engine.process import EngineOptions, EngineProcess
from foreword.errors import EngineFailure, ForewordError
from target_service.engine.messages import Described
from target_service.engine.run import ENTRY
from target_service.hub import Hub

_log = structlog.stdlib.get_logger(__name__)

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0


class EngineHost:
    """One engine at a time. `on_warm` is called with True when one is warm and with False when it is gone."""

    def __init__(
        self,
        hub: Hub,
        settings: object,
        *,
        entry: str = ENTRY,
        options: EngineOptions,
        on_warm: Callable[[bool], None],
    ) -> None:
        self.described: Described | None = None
        """What the engine serves; None before the first one is warm."""
        self._hub = hub
        self._settings = settings
        self._entry = entry
        self._options = options
        self._on_warm = on_warm
        self._engine: EngineProcess | None = None
        self._died = asyncio.Event()

    async def start(self) -> None:
        """Start the first engine and return when it is warm; raises what it failed with."""
        self._died.clear()
        engine = await EngineProcess.start(
            self._entry, self._settings, options=self._options, on_batch=self._hub.take, on_exit=self._exited
        )
        if not engine.is_running:  # it died before this line, and `_exited` has been called for it
            raise EngineFailure(f"{self._options.name}: ended as soon as it was warm")
        self._engine, self.described = engine, engine.info
        self._hub.engine_up(engine.send)
        self._on_warm(True)

    async def keep(self) -> None:
        """Restart the engine whenever it dies, waiting longer after each failure in a row; runs until cancelled."""
        wait_s = FIRST_WAIT_S
        while True:
            await self._died.wait()
            await asyncio.sleep(wait_s)
            try:
                await self.start()
                wait_s = FIRST_WAIT_S
            except ForewordError as error:
                _log.error("engine not started", reason=error.message, retry_s=wait_s)
                self._died.set()
                wait_s = min(LONGEST_WAIT_S, 2 * wait_s)

    async def stop(self) -> None:
        """Stop the engine; returns when it is gone."""
        if self._engine is not None:
            await self._engine.stop()

    def _exited(self, error: ForewordError | None) -> None:
        if error is None:
            return
        _log.error("engine died", reason=error.message)
        self._hub.engine_down(error.message)
        self._on_warm(False)
        self._died.set()
