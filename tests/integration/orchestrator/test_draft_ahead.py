"""Blocks that are prepared, and shipped, before their round, over real gRPC with the real services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import draft_service.service
import orchestrator.policy
from draft_service.settings import DraftAhead
from foreword.client import AsyncClient
from foreword.protocol.generation import TokenPrompt
from foreword.protocol.words import Rule
from foreword.telemetry.metrics import new_registry
from tests.integration.orchestrator.services import SYNTHETIC, start_draft, start_orchestrator, start_target

PROMPT = TokenPrompt((3, 1, 4, 1, 5))


class Stack:
    """A stack with one draft that drafts ahead."""

    def __init__(self, client: AsyncClient, registry: CollectorRegistry) -> None:
        self.client = client
        self._registry = registry

    async def fates(self) -> dict[str, float]:
        """Return what became of outcomes, once the draft has reported."""
        await asyncio.sleep(1.3)
        found: dict[str, float] = {}
        for metric in self._registry.collect():
            for sample in metric.samples:
                if sample.name == "foreword_draft_outcomes_total":
                    fate = sample.labels["fate"]
                    found[fate] = found.get(fate, 0.0) + sample.value
        return found

    def event(self, name: str) -> float:
        return self._registry.get_sample_value("foreword_draft_events_total", {"event": name}) or 0.0


@pytest.fixture(params=[0, 12], ids=["kept at the draft", "shipped"])
def alternatives(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
async def stack(tmp_path: Path, alternatives: int, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stack]:
    registry = new_registry()
    monkeypatch.setattr(orchestrator.policy, "FAR", 0.0)  # as if the network were long
    monkeypatch.setattr(draft_service.service, "new_registry", lambda: registry)
    async with AsyncExitStack() as running:
        target = start_target(tmp_path, step_ms=10.0)
        draft = start_draft(tmp_path, draft_ahead=DraftAhead.ON, model=SYNTHETIC.format(step_ms=1.0, seed=1))
        for service in (target, draft):
            running.push_async_callback(service.stop)
        for service in (target, draft):
            await service.ready()
        front = start_orchestrator(tmp_path, [target], [draft], trust=("all",), alternatives=alternatives)
        running.push_async_callback(front.stop)
        await front.ready()
        yield Stack(await running.enter_async_context(AsyncClient(front.address)), registry)


async def test_texts_are_the_same_and_outcomes_are_hit(stack: Stack, alternatives: int) -> None:
    for fields in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 7}):
        plain = await stack.client.generate(PROMPT, max_tokens=60, gamma=0, **fields)
        ahead = await stack.client.generate(PROMPT, max_tokens=60, gamma=3, **fields)
        assert ahead.ids == plain.ids
    fates = await stack.fates()
    assert fates["hit"] > fates.get("miss", 0.0)
    assert (fates.get("shipped", 0.0) > 0.0) is (alternatives > 0)
    assert stack.event("bad_block") == stack.event("ahead_failed") == stack.event("verdict_differs") == 0.0


async def test_sessions_side_by_side_under_rules_that_trust(stack: Stack) -> None:
    texts = await asyncio.gather(
        *(stack.client.generate(PROMPT, max_tokens=40, gamma=3, temperature=1.0, rule=Rule.BLOCK) for _ in range(4))
    )
    assert [len(text.ids) for text in texts] == [40] * 4
    fates = await stack.fates()
    assert fates["prepared"] > 0.0
    assert stack.event("bad_block") == stack.event("ahead_failed") == stack.event("verdict_differs") == 0.0
