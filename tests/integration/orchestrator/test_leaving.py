"""A client that leaves: its pages are free at both engines within two rounds, counted in the target's steps."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from foreword.client import AsyncClient
from foreword.protocol.generation import TokenPrompt
from orchestrator.http.settings import HttpSettings
from tests.integration.orchestrator.services import Deployment, start_draft, start_orchestrator, start_target
from tests.integration.orchestrator.test_service import all_closed, tokens_came
from tests.integration.orchestrator.web import client_of, free_address

STEP_MS = 150.0
"""Long beside what a message takes on a busy machine."""
ROUNDS = 2
BODY = {"prompt": [3, 1, 4], "temperature": 0, "max_tokens": 400, "speculative": {"gamma": 3}, "stream": True}


@dataclass(frozen=True)
class World:
    """Services whose metrics can be read."""

    served: Deployment
    http: str
    target_metrics: str
    draft_metrics: str

    async def figure(self, of: str, name: str) -> float:
        """Return a sum of metrics of one name."""
        async with client_of(of) as client:
            text = (await client.get("/metrics")).text
        return sum(
            float(value) for value in re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        )

    async def steps(self) -> float:
        """Return how many steps the target has made."""
        return await self.figure(self.target_metrics, "foreword_target_step_rows_count")

    async def residents(self) -> tuple[float, float]:
        """Return how many tokens sessions hold at the target and at the draft."""
        return (
            await self.figure(self.target_metrics, "foreword_target_resident_tokens"),
            await self.figure(self.draft_metrics, "foreword_draft_resident_tokens"),
        )


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    ports = [int(free_address().rpartition(":")[2]) for _ in range(2)]
    target = start_target(folder, step_ms=STEP_MS, metrics_port=ports[0])
    draft = start_draft(folder, metrics_port=ports[1])
    await target.ready()
    await draft.ready()
    file = folder / "http"
    http = HttpSettings(listen="127.0.0.1:0", address_file=file)
    orchestrator = start_orchestrator(folder, [target], [draft], http=http)
    await orchestrator.ready()
    try:
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        yield World(Deployment(orchestrator, [target], [draft]), f"http://{file.read_text().strip()}", *urls)
    finally:
        for service in (orchestrator, draft, target):
            await service.stop()


async def by_http(world: World, leave: Callable[[], Awaitable[None]]) -> None:
    async with client_of(world.http) as client, client.stream("POST", "/v1/completions", json=BODY) as answer:
        pieces = 0
        async for line in answer.aiter_lines():
            pieces += line.startswith("data: ")
            if pieces > 4:
                break
        await leave()


async def by_http_without_a_stream(world: World, leave: Callable[[], Awaitable[None]]) -> None:
    async with client_of(world.http) as client:
        asking = asyncio.create_task(client.post("/v1/completions", json={**BODY, "stream": False}))
        while await world.steps() < 4:  # noqa: ASYNC110 - it is another process that counts
            await asyncio.sleep(0.02)
        await leave()
        asking.cancel()
        with pytest.raises((asyncio.CancelledError, httpx2.HTTPError)):
            await asking


async def by_grpc(world: World, leave: Callable[[], Awaitable[None]]) -> None:
    async with AsyncClient(world.served.address) as client:
        stream = client.stream(TokenPrompt((3, 1, 4)), temperature=0.0, max_tokens=400, gamma=3)
        async with stream as events:
            await tokens_came(events, 8)
            await leave()


@pytest.mark.parametrize("way", [by_http, by_http_without_a_stream, by_grpc])
async def test_pages_are_free_within_two_rounds(
    tmp_path: Path, way: Callable[[World, Callable[[], Awaitable[None]]], Awaitable[None]]
) -> None:
    async with world(tmp_path) as running:
        begun: list[float] = []

        async def leave() -> None:
            begun.append(await running.steps())

        await way(running, leave)
        await all_closed(running.served)
        await asyncio.sleep(STEP_MS / 1000)  # a step that was running is over, and counted
        done = await running.steps()
        assert begun[0] >= 2, "it was at work"
        assert done - begun[0] <= ROUNDS
        await asyncio.sleep(2 * STEP_MS / 1000)
        assert await running.steps() == done, "nothing works on for nobody"
        async with asyncio.timeout(60):
            while await running.residents() != (0, 0):  # noqa: ASYNC110 - it is told now and then
                await asyncio.sleep(0.05)
