"""Greedy text of the services against `generate` of transformers, for several numbers of candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from foreword.client import AsyncClient
from foreword.protocol.generation import Chat, Completion
from loadtest.exactness.comparison import Comparison, Tally, first_difference
from loadtest.exactness.many import at_most
from loadtest.exactness.reference import GreedyText, Transformers
from loadtest.prompts import Prompt

TOLERANCE = 1e-4
"""Lead of the first logit over the second under which arithmetic in another order may choose the other."""


@dataclass(frozen=True, slots=True)
class GreedyPlan:
    """What is asked; every prompt at every γ."""

    prompts: tuple[Prompt, ...]
    max_tokens: int = 128
    gammas: tuple[int, ...] = (0, 1, 4, 8)
    side_by_side: int = 16
    tolerance: float = TOLERANCE


async def greedy_references(side: Transformers, plan: GreedyPlan) -> dict[str, GreedyText]:
    """Return the text of transformers for every prompt, by its id."""
    texts = await side.greedy([prompt.messages for prompt in plan.prompts], plan.max_tokens)
    return {prompt.id: text for prompt, text in zip(plan.prompts, texts, strict=True)}


async def greedy_arms(
    client: AsyncClient, plan: GreedyPlan, wanted: Mapping[str, GreedyText], *, drafter: str
) -> list[Tally]:
    """Ask for every prompt at every γ, many side by side so that steps are batches, and compare."""
    return [await _arm(client, plan, wanted, gamma=gamma, drafter=drafter) for gamma in plan.gammas]


def compare_greedy(name: str, made: Completion, wanted: GreedyText, *, tolerance: float) -> Comparison:
    """Compare one output with the text of transformers; where it parts, the margin is that of transformers.

    Another prompt parts at once: chat template and tokenizer are transformers' own on its side.
    """
    if made.started.prompt_ids != wanted.prompt:
        return Comparison(name, len(wanted.ids), parted_at=0)
    at = first_difference(wanted.ids, made.ids)
    margin = None if at is None or at >= len(wanted.margins) else wanted.margins[at]
    return Comparison(name, len(wanted.ids), at, margin, tolerance)


async def _arm(
    client: AsyncClient, plan: GreedyPlan, wanted: Mapping[str, GreedyText], *, gamma: int, drafter: str
) -> Tally:
    async def ask(prompt: Prompt) -> Completion:
        return await client.generate(
            Chat(prompt.messages), temperature=0.0, max_tokens=plan.max_tokens, gamma=gamma, echo=True
        )

    made = await at_most(plan.side_by_side, plan.prompts, ask)
    comparisons = [
        compare_greedy(prompt.id, one, wanted[prompt.id], tolerance=plan.tolerance)
        for prompt, one in zip(plan.prompts, made, strict=True)
    ]
    return Tally(f"{drafter}, γ {gamma}", tuple(comparisons), tuple(one.usage for one in made))
