"""Targets that draft with themselves, over real gRPC: the same text in fewer steps, with a draft or without."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from foreword.client import AsyncClient
from foreword.errors import InvalidField
from foreword.protocol.generation import Choice, Delta, TokenPrompt
from foreword.protocol.words import TokenSource
from tests.integration.orchestrator.services import start_draft, start_orchestrator, start_target

pytestmark = pytest.mark.asyncio

MODEL = "synthetic:vocab=8,step_ms={step_ms},agreement=0.8,seed=1,context=512"
PROMPT = TokenPrompt((3, 1, 4, 1, 5))
LENGTH = 150


async def texts(folder: Path, *, target: dict[str, Any], orchestrator: dict[str, Any]) -> list[list[Any]]:
    """Return what plain decoding and γ = 4 make of a greedy and of a seeded request, without a draft."""
    async with AsyncExitStack() as stack:
        served = start_target(folder, model=MODEL.format(step_ms=1), **target)
        stack.push_async_callback(served.stop)
        await served.ready()
        front = start_orchestrator(folder, [served], [], **orchestrator)
        stack.push_async_callback(front.stop)
        await front.ready()
        client = await stack.enter_async_context(AsyncClient(front.address))
        return [
            [await client.generate(PROMPT, max_tokens=LENGTH, gamma=gamma, **sampling) for gamma in (0, 4)]
            for sampling in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 5})
        ]


async def test_without_a_draft_lookup_runs_in_the_target_and_the_text_is_that_of_plain_steps(tmp_path: Path) -> None:
    pairs = await texts(tmp_path, target={}, orchestrator={})
    assert sum(fast.usage.accepted_tokens for _, fast in pairs) > 0
    for plain, fast in pairs:
        assert plain.ids == fast.ids
        assert len(plain.ids) == LENGTH
        assert (plain.usage.verifications, plain.usage.plain_steps) == (0, LENGTH)
        assert fast.usage.verifications > 0
        steps = fast.usage.verifications + fast.usage.plain_steps
        assert steps == LENGTH - fast.usage.accepted_tokens
        assert fast.usage.drafts_used == 0


async def test_a_draft_model_beside_the_targets_own(tmp_path: Path) -> None:
    beside = MODEL.format(step_ms=0)
    for plain, fast in await texts(tmp_path, target={"local_drafter": beside}, orchestrator={}):
        assert plain.ids == fast.ids
        assert fast.usage.acceptance_length is not None
        assert fast.usage.acceptance_length > 2
        assert fast.usage.plain_steps < 10
        assert fast.usage.drafts_used == 0


async def test_a_model_with_another_tokenizer_is_refused(tmp_path: Path) -> None:
    target = start_target(tmp_path, model=MODEL.format(step_ms=1), local_drafter="synthetic:vocab=64")
    with pytest.raises(InvalidField, match=r"local_drafter: got .*synthetic:vocab=64.*, wanted a model with the tok"):
        await target.ready()


@pytest.mark.parametrize(
    ("target", "orchestrator"),
    [({"local_drafter": "none"}, {}), ({}, {"local_drafts": False})],
    ids=["at the target", "at the orchestrator"],
)
async def test_either_side_can_switch_it_off(
    tmp_path: Path, target: dict[str, Any], orchestrator: dict[str, Any]
) -> None:
    for plain, fast in await texts(tmp_path, target=target, orchestrator=orchestrator):
        assert plain.ids == fast.ids
        assert (fast.usage.verifications, fast.usage.plain_steps) == (0, LENGTH)


async def test_the_draft_goes_and_another_comes_in_one_request(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        model = MODEL.format(step_ms=4)
        target = start_target(tmp_path, model=model)
        draft = start_draft(tmp_path, model=MODEL.format(step_ms=0.2))
        stack.push_async_callback(target.stop)
        front = start_orchestrator(tmp_path, [await target.ready()], [await draft.ready()])
        stack.push_async_callback(front.stop)
        client = await stack.enter_async_context(AsyncClient((await front.ready()).address))
        plain: Choice = await client.generate(PROMPT, max_tokens=400, temperature=0.0, gamma=0)
        ids: list[int] = []
        seen: list[TokenSource] = []
        async with client.stream(PROMPT, max_tokens=400, temperature=0.0, gamma=4) as stream:
            async for event in stream:
                if not isinstance(event, Delta):
                    continue
                before, seen, ids = len(seen), [*seen, *event.sources], [*ids, *event.ids]
                if before < 100 <= len(seen):
                    assert TokenSource.DRAFT in seen
                    await draft.stop()
        assert tuple(ids) == tuple(plain.ids)
        assert TokenSource.LOOKUP in seen[100:], "the target went on by itself"
