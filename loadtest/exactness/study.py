"""Runs the parts of the exactness study, each on services of its own."""

from __future__ import annotations

from dataclasses import dataclass

from foreword.client import AsyncClient
from foreword.models.local import local_folder
from foreword.models.source import parse_source
from foreword.protocol.generation import Chat
from foreword.protocol.words import Rule
from foreword.settings.environment import cache_folder
from foreword.stack.stack import Stack
from foreword.values import replace
from loadtest.bench.progress import Progress
from loadtest.exactness import coupled, greedy
from loadtest.exactness.comparison import Tally
from loadtest.exactness.plan import MATCH_DRAWS, SAMPLED_LAWS, SYNTHETIC, Part, Plan, synthetic_stack
from loadtest.exactness.reference import Transformers
from loadtest.exactness.sampled import SampledFindings, SampledPlan, sampled


@dataclass(frozen=True, slots=True)
class SampledArm:
    """One rule, way of drafting and law."""

    name: str
    findings: SampledFindings


@dataclass(frozen=True, slots=True)
class Results:
    """What all parts found; empty where a part was left out."""

    greedy: tuple[Tally, ...] = ()
    coupled: tuple[Tally, ...] = ()
    sampled: tuple[SampledArm, ...] = ()


async def run(plan: Plan, progress: Progress) -> Results:
    """Run the parts that the plan names."""
    greedy_tallies: list[Tally] = []
    coupled_tallies: list[Tally] = []
    if plan.parts & {Part.GREEDY, Part.COUPLED}:
        cache = cache_folder()
        async with Transformers(local_folder(parse_source(plan.target), cache), cache) as side:
            if Part.GREEDY in plan.parts:
                greedy_tallies = await _greedy(plan, side, progress)
            if Part.COUPLED in plan.parts:
                coupled_tallies = await _coupled(plan, side, progress)
    arms = await _sampled(plan, progress) if Part.SAMPLED in plan.parts else []
    return Results(tuple(greedy_tallies), tuple(coupled_tallies), tuple(arms))


async def _greedy(plan: Plan, side: Transformers, progress: Progress) -> list[Tally]:
    asked = greedy.GreedyPlan(plan.prompts, plan.max_tokens, plan.gammas, plan.side_by_side)
    progress.now("greedy texts of transformers")
    wanted = await greedy.greedy_references(side, asked)
    tallies: list[Tally] = []
    for draft in plan.drafts:
        async with Stack(plan.stack(draft)) as stack, AsyncClient(stack.address) as client:
            for gamma in asked.gammas:
                progress.now(f"greedy texts with {draft}, γ {gamma}")
                one = replace(asked, gammas=(gamma,))
                tallies += await greedy.greedy_arms(client, one, wanted, drafter=draft)
    return tallies


async def _coupled(plan: Plan, side: Transformers, progress: Progress) -> list[Tally]:
    prompts = {prompt.id: Chat(prompt.messages) for prompt in plan.coupled}
    requests = coupled.requests_for(prompts, coupled.LAWS, max_tokens=plan.coupled_tokens)
    asked = coupled.CoupledPlan(requests, plan.coupled_gammas, plan.side_by_side)
    margin = coupled.margin_by(side)
    tallies: list[Tally] = []
    wanted = None
    for draft in plan.drafts:
        async with Stack(plan.stack(draft)) as stack, AsyncClient(stack.address) as client:
            if wanted is None:
                progress.now("seeded texts without a draft")
                wanted = await coupled.plain_texts(client, asked)
                tallies.append(await coupled.replayed(side, asked, wanted))
            for gamma in asked.gammas:
                progress.now(f"seeded texts with {draft}, γ {gamma}")
                one = replace(asked, gammas=(gamma,))
                tallies += await coupled.drafted_arms(client, one, wanted, drafter=draft, margin=margin)
            progress.now(f"seeded texts with {draft}, killed")
            tallies.append(await coupled.killed_arm(stack, client, asked, wanted, drafter=draft, margin=margin))
    return tallies


async def _sampled(plan: Plan, progress: Progress) -> list[SampledArm]:
    arms: list[SampledArm] = []
    for draw in MATCH_DRAWS:
        async with Stack(synthetic_stack(draw)) as stack, AsyncClient(stack.address) as client:
            # Only `match` leaves it to the draft how it draws.
            for rule in Rule if draw == MATCH_DRAWS[0] else (Rule.MATCH,):
                arms += await _laws(client, plan, rule, draw, progress)
    return arms


async def _laws(client: AsyncClient, plan: Plan, rule: Rule, draw: str, progress: Progress) -> list[SampledArm]:
    model = parse_source(SYNTHETIC).synthetic
    assert model is not None
    arms = []
    for name, law in SAMPLED_LAWS.items():
        label = f"{rule.name.lower()}{f' {draw}' if rule is Rule.MATCH else ''}, {name}"
        progress.now(f"sampled texts, {label}")
        arms.append(SampledArm(label, await sampled(client, model, SampledPlan(rule, law, texts=plan.texts))))
    return arms
