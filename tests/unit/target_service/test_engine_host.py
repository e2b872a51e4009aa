"""An engine that dies between its last word and its first use is started again, and gets no sessions meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from foreword.engine.process import EngineOptions, EngineProcess
from foreword.errors import EngineFailure, ForewordError
from target_service import engine_host
from target_service.engine_host import EngineHost
from target_service.hub import Hub
from target_service.metrics import TargetMetrics


async def test_an_engine_that_dies_as_soon_as_it_is_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[bool] = []
    warm: list[bool] = []
    up = asyncio.Event()

    def on_warm(is_warm: bool) -> None:
        warm.append(is_warm)
        if is_warm:
            up.set()

    async def start(*_: object, on_exit: Callable[[ForewordError | None], None], **__: object) -> Any:
        alive = bool(starts)
        starts.append(alive)
        if not alive:
            on_exit(EngineFailure("killed by signal 9"))
        return SimpleNamespace(is_running=alive, info=None, send=lambda batch: None)

    monkeypatch.setattr(EngineProcess, "start", start)
    monkeypatch.setattr(engine_host, "FIRST_WAIT_S", 0.0)
    hub = Hub(TargetMetrics(CollectorRegistry()))
    host = EngineHost(hub, None, options=EngineOptions({}, name="e"), on_warm=on_warm)  # type: ignore[arg-type]
    with pytest.raises(EngineFailure, match="ended as soon as it was warm"):
        await host.start()
    assert hub._to_engine is None, "Opens would wait for an engine that is gone"
    keeping = asyncio.create_task(host.keep())
    await asyncio.wait_for(up.wait(), 120.0)
    keeping.cancel()
    assert (starts, warm) == ([False, True], [False, True])
