"""Seeded text under `match`: the same with any draft, any γ, without a draft, and with the draft killed on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from foreword.client import AsyncClient
from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Completion, GenerateRequest, Prompt, Speculation
from foreword.protocol.messages import Tokens
from foreword.protocol.words import Rule
from foreword.stack.stack import Stack
from foreword.values import replace
from loadtest.exactness.comparison import Comparison, Tally, first_difference
from loadtest.exactness.interruptions import generate_together
from loadtest.exactness.many import at_most
from loadtest.exactness.reference import Transformers

TOLERANCE = 1e-3
"""Lead of the best log p + noise over the second, in nats, under which rounding may choose the other."""
LAWS: Mapping[str, LawParameters] = {
    "T 0.5": LawParameters(temperature=0.5),
    "T 0.8, top-p 0.95": LawParameters(temperature=0.8, top_p=0.95),
    "T 1": LawParameters(temperature=1.0),
}
Margin = Callable[[GenerateRequest, Completion, int], Awaitable[float | None]]
"""By how much the first choice leads at a position of the text of a request."""


@dataclass(frozen=True, slots=True)
class CoupledPlan:
    """The requests, by name, without their γ."""

    requests: Mapping[str, GenerateRequest]
    gammas: tuple[int, ...] = (2, 7)
    side_by_side: int = 16
    tolerance: float = TOLERANCE


def requests_for(
    prompts: Mapping[str, Prompt], laws: Mapping[str, LawParameters], *, max_tokens: int
) -> dict[str, GenerateRequest]:
    """Return a request for each prompt and law, each with a seed of its own."""
    made: dict[str, GenerateRequest] = {}
    for name, prompt in prompts.items():
        for law_name, law in laws.items():
            seed = 1000 + len(made)
            made[f"{name}, {law_name}"] = GenerateRequest(prompt, law=law, max_tokens=max_tokens, seed=seed, echo=True)
    return made


async def plain_texts(client: AsyncClient, plan: CoupledPlan) -> dict[str, Completion]:
    """Return the text of every request at γ 0, which the others have to equal."""
    return await _texts(plan, partial(_at, client, gamma=0))


async def drafted_arms(
    client: AsyncClient, plan: CoupledPlan, wanted: Mapping[str, Completion], *, drafter: str, margin: Margin
) -> list[Tally]:
    """Compare the texts with drafts at every γ."""
    return [
        await _compared(
            f"{drafter}, γ {gamma}", plan, wanted, await _texts(plan, partial(_at, client, gamma=gamma)), margin
        )
        for gamma in plan.gammas
    ]


async def killed_arm(
    stack: Stack,
    client: AsyncClient,
    plan: CoupledPlan,
    wanted: Mapping[str, Completion],
    *,
    drafter: str,
    margin: Margin,
) -> Tally:
    """Compare the texts of requests during which the draft's process is killed; so many side by side share a kill."""
    requests = [with_gamma(request, plan.gammas[0]) for request in plan.requests.values()]
    made: list[Completion] = []
    for begin in range(0, len(requests), plan.side_by_side):
        await stack.serving("draft")
        group = requests[begin : begin + plan.side_by_side]
        made += await generate_together(client, group, share=1 / 3, act=lambda: stack.kill("draft"))
    texts = dict(zip(plan.requests, made, strict=True))
    return await _compared(f"{drafter}, γ {plan.gammas[0]}, draft killed", plan, wanted, texts, margin)


async def replayed(side: Transformers, plan: CoupledPlan, texts: Mapping[str, Completion]) -> Tally:
    """Compare the plain texts with what transformers' logits and the same noise give after each of their prefixes."""
    comparisons = []
    for name, request in plan.requests.items():
        text = texts[name]
        replay = await side.replay(text.started.prompt_ids, text.ids, law=_law(request), seed=_seed(request))
        at = first_difference(text.ids, replay.ids)
        margin = None if at is None else replay.margins[at]
        comparisons.append(Comparison(name, len(text.ids), at, margin, plan.tolerance))
    return Tally("transformers, replayed", tuple(comparisons))


def margin_by(side: Transformers) -> Margin:
    """Return the margin as transformers' logits give it."""

    async def margin(request: GenerateRequest, text: Completion, at: int) -> float | None:
        output: Tokens = text.ids[: at + 1]
        if len(output) <= at:
            return None  # the other one went on after this one's end
        replay = await side.replay(text.started.prompt_ids, output, law=_law(request), seed=_seed(request))
        return replay.margins[at]

    return margin


async def no_margin(request: GenerateRequest, text: Completion, at: int) -> float | None:
    """For models whose arithmetic is the same at every γ: no difference is explained."""
    return None


def with_gamma(request: GenerateRequest, gamma: int) -> GenerateRequest:
    """Return the request under `match` with a fixed γ."""
    return replace(request, speculation=Speculation(gamma=gamma, rule=Rule.MATCH))


async def _at(client: AsyncClient, request: GenerateRequest, *, gamma: int) -> Completion:
    return await client.generate(with_gamma(request, gamma))


async def _texts(plan: CoupledPlan, ask: Callable[[GenerateRequest], Awaitable[Completion]]) -> dict[str, Completion]:
    made = await at_most(plan.side_by_side, plan.requests.values(), ask)
    return dict(zip(plan.requests, made, strict=True))


async def _compared(
    arm: str,
    plan: CoupledPlan,
    wanted: Mapping[str, Completion],
    made: Mapping[str, Completion],
    margin: Margin,
) -> Tally:
    comparisons = []
    for name, request in plan.requests.items():
        text = wanted[name]
        at = first_difference(text.ids, made[name].ids)
        lead = None if at is None else await margin(request, text, at)
        comparisons.append(Comparison(name, len(text.ids), at, lead, plan.tolerance))
    return Tally(arm, tuple(comparisons), tuple(text.usage for text in made.values()))


def _law(request: GenerateRequest) -> LawParameters:
    return request.law or LawParameters()


def _seed(request: GenerateRequest) -> int:
    assert request.seed is not None, "a coupled request has a seed"
    return request.seed
