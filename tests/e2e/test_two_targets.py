"""Two targets, one killed under eight running requests: every request completes, and each text is as undisturbed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL

import pytest

from foreword.client import AsyncClient
from foreword.client.stream import AsyncStream
from foreword.protocol.generation import Completion, Delta, TokenPrompt
from foreword.stack.config import ServicePlan, StackConfig, plan_drafts, plan_orchestrator, plan_target
from foreword.stack.service import Service
from tests.e2e.kit import synthetic_stack

pytestmark = [pytest.mark.e2e]

SESSIONS = 8
LENGTH = 400


class Pair:
    """A stack with two targets."""

    def __init__(self, targets: list[Service], front: Service) -> None:
        self.targets, self.front = targets, front

    @property
    def address(self) -> str:
        return self.front.address


@asynccontextmanager
async def pair(folder: Path, *, bug: str = "") -> AsyncIterator[Pair]:
    config = synthetic_stack(target_ms=4.0, draft_ms=0.5)
    if bug:
        config = replace(config, command=(sys.executable, "-m", "tests.e2e.planted", bug))
    async with AsyncExitStack() as stack:

        async def start(*plans: ServicePlan) -> list[Service]:
            services = [service_of(plan, config) for plan in plans]
            for service in services:
                stack.push_async_callback(service.stop)
            await asyncio.gather(*(service.start() for service in services))
            return services

        homes = [folder / name for name in ("one", "other")]
        for home in homes:
            home.mkdir()
        *targets, draft = await start(*(plan_target(config, home) for home in homes), *plan_drafts(config, folder))
        both = ",".join(target.address for target in targets)
        (front,) = await start(plan_orchestrator(config, folder, target=both, drafts=[draft.address]))
        await both_up(front.address)
        yield Pair(targets, front)


def service_of(plan: ServicePlan, config: StackConfig) -> Service:
    return Service(plan, config, on_event=lambda _: None, on_log=lambda *_: None)


async def both_up(address: str) -> None:
    async with asyncio.timeout(300), AsyncClient(address) as client:
        while True:
            info = await client.info()
            if all(peer.up for peer in (*info.targets, *info.drafts)):
                return
            await asyncio.sleep(0.05)


async def came(stream: AsyncStream, count: int) -> None:
    seen = 0
    async for event in stream:
        seen += len(event.ids) if isinstance(event, Delta) else 0
        if seen >= count:
            return


async def under_eight(pair: Pair, *, kill: bool) -> list[Completion]:
    """Run eight different requests at a time, and kill a target when each of them has some tokens."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(AsyncClient(pair.address))
        streams = [
            await stack.enter_async_context(
                client.stream(
                    TokenPrompt((3, 1, number)), temperature=number % 2, seed=number, max_tokens=LENGTH, gamma=4
                )
            )
            for number in range(SESSIONS)
        ]
        await asyncio.gather(*(came(stream, 40) for stream in streams))
        if kill:
            pair.targets[0].send(SIGKILL)
        return list(await asyncio.gather(*(stream.completion() for stream in streams)))


async def test_one_of_two_targets_is_killed_and_every_request_completes(tmp_path: Path) -> None:
    async with pair(tmp_path) as running:
        undisturbed = await under_eight(running, kill=False)
        assert {done.usage.targets_used for done in undisturbed} == {1}
        hurt = await under_eight(running, kill=True)
        assert [done.ids for done in hurt] == [done.ids for done in undisturbed]
        assert all(len(done.ids) == LENGTH for done in hurt)
        moved = [done for done in hurt if done.usage.targets_used > 1]
        assert 0 < len(moved) < SESSIONS
        assert sum(done.usage.accepted_tokens for done in hurt) > 0


async def test_planted_bug_a_session_that_moves_without_its_last_token_is_seen(tmp_path: Path) -> None:
    async with pair(tmp_path, bug="moves_without_the_last_token") as running:
        undisturbed = await under_eight(running, kill=False)
        hurt = await under_eight(running, kill=True)
        assert [done.ids for done in hurt] != [done.ids for done in undisturbed]
