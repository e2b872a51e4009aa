"""Three processes on loopback, killed while a request runs: the text does not change, and speculation comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from foreword.client import AsyncClient
from foreword.protocol.generation import Completion, Delta, TokenPrompt
from foreword.protocol.words import TokenSource
from foreword.stack.config import StackConfig
from foreword.stack.stack import Stack

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

TARGET = "synthetic:vocab=64,step_ms=4,agreement=0.8,seed=1,context=2048"
DRAFT = "synthetic:vocab=64,step_ms=0.5,agreement=0.8,seed=1,context=2048"
PROMPT = TokenPrompt((3, 1, 4, 1, 5))
LONG = 400


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[Stack]:
    config = StackConfig(target=TARGET, draft=DRAFT, backoff_s=0.1, longest_backoff_s=0.1, grace_s=2.0)
    async with Stack(config) as running:
        yield running


async def generate(stack: Stack, **fields: object) -> Completion:
    async with AsyncClient(stack.address) as client:
        return await client.generate(PROMPT, **fields)  # type: ignore[arg-type]


async def killed_in_mid_request(stack: Stack, service: str, **fields: object) -> Completion:
    """Kill a service when some tokens have come."""
    async with (
        AsyncClient(stack.address) as client,
        client.stream(PROMPT, **fields) as stream,  # type: ignore[arg-type]
    ):
        seen = 0
        async for event in stream:
            if isinstance(event, Delta):
                seen, before = seen + len(event.ids), seen
                if before < 60 <= seen:
                    stack.kill(service)
        return await stream.completion()


async def test_text_is_the_same_with_and_without_the_draft(stack: Stack) -> None:
    plain = await generate(stack, temperature=0.0, max_tokens=200, gamma=0)
    fast = await generate(stack, temperature=0.0, max_tokens=200, gamma=4)
    assert fast.ids == plain.ids
    assert fast.usage.accepted_tokens > 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_draft_killed_in_mid_request(stack: Stack, temperature: float) -> None:
    fields = {"temperature": temperature, "seed": 5, "max_tokens": LONG}
    plain = await generate(stack, **fields, gamma=0)
    restarts = stack.restarts("draft")
    hurt = await killed_in_mid_request(stack, "draft", **fields, gamma=4)
    assert hurt.ids == plain.ids
    assert hurt.usage.plain_steps > 0
    assert hurt.usage.targets_used == 1
    async with asyncio.timeout(300):
        await stack.serving("draft")
    assert stack.restarts("draft") == restarts + 1
    again = await wait_for_speculation(stack)
    assert TokenSource.DRAFT in again.choices[0].sources


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_target_killed_in_mid_request(stack: Stack, temperature: float) -> None:
    fields = {"temperature": temperature, "seed": 6, "max_tokens": LONG}
    plain = await generate(stack, **fields, gamma=0)
    hurt = await killed_in_mid_request(stack, "target", **fields, gamma=4)
    assert hurt.ids == plain.ids
    assert hurt.usage.targets_used == 2


async def wait_for_speculation(stack: Stack) -> Completion:
    async with asyncio.timeout(300):
        while True:
            done = await generate(stack, temperature=0.0, max_tokens=60, gamma=4)
            if done.usage.accepted_tokens:
                return done
            await asyncio.sleep(0.1)
