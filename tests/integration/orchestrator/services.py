"""Real services in this process, their engines in processes of their own, on free ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from draft_service.service import run as run_draft
from draft_service.settings import DrafterChoice, DraftSettings
from orchestrator.service import run as run_orchestrator
from orchestrator.settings import OrchestratorSettings
from target_service.service import run as run_target
from target_service.settings import TargetSettings

SYNTHETIC = "synthetic:vocab=64,step_ms={step_ms},agreement=0.8,seed={seed},context=512"
START_S = 300.0


class Running:
    """A service that serves at `address` until `stop`."""

    def __init__(self, run: Callable[..., Awaitable[None]], settings: Any, file: Path) -> None:
        self._stop = asyncio.Event()
        self._file = file
        self._task: asyncio.Task[None] = asyncio.create_task(_awaited(run(settings, stop=self._stop)))
        self.address = ""

    async def ready(self) -> Running:
        async with asyncio.timeout(START_S):
            while not self._file.exists():
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.01)
        self.address = self._file.read_text().strip()
        return self

    async def stop(self) -> None:
        self._stop.set()
        await self._task


async def _awaited(work: Awaitable[None]) -> None:
    await work


def start_target(
    folder: Path, name: str = "target", *, step_ms: float = 2.0, seed: int = 1, **settings: Any
) -> Running:
    file = folder / name
    file.unlink(missing_ok=True)
    values: dict[str, Any] = {
        "model": SYNTHETIC.format(step_ms=step_ms, seed=seed),
        "address_file": file,
        "grace_s": 0,
    }
    return Running(run_target, TargetSettings(**(values | settings)), file)


def start_draft(folder: Path, name: str = "draft", **settings: Any) -> Running:
    file = folder / name
    file.unlink(missing_ok=True)
    values: dict[str, Any] = {
        "drafter": DrafterChoice.SYNTHETIC,
        "model": SYNTHETIC.format(step_ms=0.2, seed=1),
        "address_file": file,
        "grace_s": 0,
    }
    return Running(run_draft, DraftSettings(**(values | settings)), file)


def start_orchestrator(
    folder: Path, targets: list[Running], drafts: list[Running], name: str = "orchestrator", **settings: Any
) -> Running:
    file = folder / name
    file.unlink(missing_ok=True)
    values: dict[str, Any] = {
        "targets": tuple(t.address for t in targets),
        "drafts": tuple(d.address for d in drafts),
        "address_file": file,
        "grace_s": 0,
    }
    return Running(run_orchestrator, OrchestratorSettings(**(values | settings)), file)


@asynccontextmanager
async def deployment(
    folder: Path, *, targets: int = 1, drafts: int = 1, model: str | None = None, **settings: Any
) -> AsyncIterator[Deployment]:
    served = {} if model is None else {"model": model}
    async with AsyncExitStack() as stack:
        running_targets = [start_target(folder, f"target{i}", **served) for i in range(targets)]
        running_drafts = [start_draft(folder, f"draft{i}", **served) for i in range(drafts)]
        for service in (*running_targets, *running_drafts):
            stack.push_async_callback(service.stop)
        for service in (*running_targets, *running_drafts):
            await service.ready()
        orchestrator = start_orchestrator(folder, running_targets, running_drafts, **settings)
        stack.push_async_callback(orchestrator.stop)
        await orchestrator.ready()
        yield Deployment(orchestrator, running_targets, running_drafts)


class Deployment:
    """A target or more, drafts, and an orchestrator in front."""

    def __init__(self, orchestrator: Running, targets: list[Running], drafts: list[Running]) -> None:
        self.orchestrator, self.targets, self.drafts = orchestrator, targets, drafts

    @property
    def address(self) -> str:
        return self.orchestrator.address
