"""Greedy text against transformers' own `generate`, and seeded text with and without drafts: small shares and in full.

Real weights are used where they have been fetched before; `make test-full` fetches them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from rich.console import Console

from foreword.client import AsyncClient
from foreword.protocol.generation import Chat, TokenPrompt
from foreword.settings.environment import cache_folder
from foreword.stack.stack import Stack
from loadtest.bench.progress import Progress
from loadtest.exactness import coupled, greedy
from loadtest.exactness.comparison import Tally, Verdict, unexplained
from loadtest.exactness.plan import Part, Plan
from loadtest.exactness.reference import Transformers
from loadtest.exactness.study import run
from loadtest.prompts import dev_prompts
from tests.e2e.kit import QUICK, drafted, embedded_folder, synthetic_stack

pytestmark = [pytest.mark.e2e]

MODEL_DRAFT = "embedded#layers=2"


@pytest.fixture(scope="module")
def folder() -> Path:
    """Return the folder of the embedded model."""
    return embedded_folder()


@pytest_asyncio.fixture
async def side(folder: Path) -> AsyncIterator[Transformers]:
    async with Transformers(folder, cache_folder()) as running:
        yield running


def all_equal(tallies: list[Tally]) -> bool:
    return all(tally.count(Verdict.EQUAL) == len(tally.comparisons) > 0 for tally in tallies)


async def test_greedy_text_is_that_of_transformers(side: Transformers) -> None:
    prompts = dev_prompts()
    # Two short questions, and a text to be edited, which lookup finds candidates in.
    chosen = (prompts[0], prompts[50], next(prompt for prompt in prompts if prompt.category == "edit"))
    plan = greedy.GreedyPlan(chosen, max_tokens=24, gammas=(0, 4))
    wanted = await greedy.greedy_references(side, plan)
    async with Stack(QUICK) as stack, AsyncClient(stack.address) as client:
        tallies = await greedy.greedy_arms(client, plan, wanted, drafter="lookup")
    assert not unexplained(tallies)
    assert sum(usage.verifications for usage in tallies[1].usages) > 0


async def test_seeded_text_of_a_real_model_is_the_same_with_its_draft_and_with_the_draft_killed(
    side: Transformers,
) -> None:
    prompt = dev_prompts()[0]
    requests = coupled.requests_for({prompt.id: Chat(prompt.messages)}, coupled.LAWS, max_tokens=24)
    plan, margin = coupled.CoupledPlan(requests, gammas=(2, 7)), coupled.margin_by(side)
    async with Stack(replace(QUICK, draft=MODEL_DRAFT)) as stack, AsyncClient(stack.address) as client:
        wanted = await coupled.plain_texts(client, plan)
        tallies = [await coupled.replayed(side, plan, wanted)]
        tallies += await coupled.drafted_arms(client, plan, wanted, drafter=MODEL_DRAFT, margin=margin)
        tallies.append(await coupled.killed_arm(stack, client, plan, wanted, drafter=MODEL_DRAFT, margin=margin))
    assert not unexplained(tallies)
    assert all(sum(usage.verifications for usage in tally.usages) > 0 for tally in tallies[1:3])


@pytest.mark.parametrize("draft", ["lookup", "synthetic"])
async def test_seeded_text_of_synthetic_models_is_the_same_with_any_draft(draft: str) -> None:
    prompts = {f"prompt {i}": TokenPrompt((3, 1, 4, i)) for i in range(8)}
    requests = coupled.requests_for(prompts, coupled.LAWS, max_tokens=64)
    plan = coupled.CoupledPlan(requests, gammas=(2, 7), side_by_side=24)
    config = synthetic_stack(target_ms=2.0)
    async with (
        Stack(replace(config, draft=draft) if draft == "lookup" else config) as stack,
        AsyncClient(stack.address) as client,
    ):
        if draft == "synthetic":
            first = next(iter(requests.values()))
            await drafted(client, coupled.with_gamma(first, 2))
        wanted = await coupled.plain_texts(client, plan)
        tallies = await coupled.drafted_arms(client, plan, wanted, drafter=draft, margin=coupled.no_margin)
        tallies.append(await coupled.killed_arm(stack, client, plan, wanted, drafter=draft, margin=coupled.no_margin))
    assert all_equal(tallies)
    if draft == "synthetic":
        assert all(sum(usage.accepted_tokens for usage in tally.usages) > 0 for tally in tallies)


@pytest.mark.full
@pytest.mark.timeout(4 * 3600)
async def test_all_dev_prompts(folder: Path) -> None:
    plan = Plan(dev_prompts(), parts=frozenset({Part.GREEDY, Part.COUPLED}))
    results = await run(plan, Progress(Console(stderr=True)))
    assert not unexplained([*results.greedy, *results.coupled])
