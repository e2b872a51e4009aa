"""An engine that dies between its last word and its first use is started again, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from draft_service import engine_host
from draft_service.engine_host import EngineHost
from foreword.engine.process import EngineOptions, EngineProcess
from foreword.errors import EngineFailure, ForewordError

Exit = Callable[[ForewordError | None], None]


async def test_an_engine_that_dies_as_soon_as_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    exits: list[Exit] = []
    lost: list[ForewordError] = []
    back = asyncio.Event()

    async def start(*_: object, on_exit: Exit, **__: object) -> Any:
        exits.append(on_exit)
        alive = len(exits) != 2
        if not alive:
            on_exit(EngineFailure("killed by signal 9"))
        return SimpleNamespace(is_running=alive, info=None, pid=len(exits))

    async def on_back() -> None:
        back.set()

    monkeypatch.setattr(EngineProcess, "start", start)
    monkeypatch.setattr(engine_host, "FIRST_WAIT_S", 0.0)
    host = EngineHost(
        None,  # type: ignore[arg-type]
        EngineOptions({}, name="e"),
        on_batch=lambda batch: None,
        on_lost=lost.append,
        on_back=on_back,
    )
    await host.start()
    exits[0](EngineFailure("killed by signal 9"))
    await asyncio.wait_for(back.wait(), 120.0)
    assert host.running
    assert (host.pid, len(exits), len(lost)) == (3, 3, 1)
