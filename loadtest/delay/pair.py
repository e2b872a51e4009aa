"""The real pair on this machine: how often its draft has prepared for what comes, and what that brings here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from foreword.client import AsyncClient
from foreword.models.dtype import Dtype
from foreword.stack.config import StackConfig
from foreword.stack.stack import Stack
from loadtest.bench.progress import Progress
from loadtest.bench.scrape import free_port
from loadtest.delay.arms import Draft, Ran
from loadtest.delay.outcomes import between, outcomes
from loadtest.prompts import Prompt, dev_prompts
from loadtest.speedup.plan import spread_over
from loadtest.speedup.texts import text_of, totals, warm

MODEL = "bundled"
_TOKENS = 64


def pair_prompts(per_category: int) -> tuple[Prompt, ...]:
    """Return the first dev prompts of every category."""
    return spread_over(dev_prompts(), per_category)


async def run_pair(
    drafts: Sequence[Draft], prompts: Sequence[Prompt], progress: Progress, *, gamma: int, ahead: bool
) -> dict[str, Ran]:
    """Answer the prompts in every manner of drafting; one start of the services for each kind of draw."""
    found: dict[str, Ran] = {}
    for draw, group in groupby(drafts, key=lambda draft: draft.match_draw):
        metrics = free_port()
        flags = ("--draft-ahead", "on" if ahead else "off", "--match-draw", draw, "--metrics-port", str(metrics))
        config = StackConfig(draft=MODEL, dtype=Dtype.BFLOAT16.value, arguments={"draft": flags})
        async with Stack(config) as stack, AsyncClient(stack.address) as client:
            for prompt in prompts:
                await warm(client, prompt)
            for draft in group:
                progress.now(f"{MODEL}: {draft.name}, {'ahead' if ahead else 'in turn'}")
                found[draft.name] = await _answers(client, draft, prompts, gamma=gamma, metrics=metrics)
                progress.done()
    return found


async def _answers(client: AsyncClient, draft: Draft, prompts: Sequence[Prompt], *, gamma: int, metrics: int) -> Ran:
    before, texts = outcomes(metrics), []
    for seed, prompt in enumerate(prompts):
        made = await client.generate(
            prompt.messages,
            max_tokens=_TOKENS,
            temperature=draft.temperature,
            rule=draft.rule,
            gamma=gamma,
            seed=seed,
        )
        texts.append(text_of(made.choices[0], prompt.category))
    spent = totals(texts)
    return Ran(
        tokens_s=spent.tokens_per_s,
        acceptance_length=spent.acceptance_length,
        hits=between(before, outcomes(metrics)),
        target_busy=spent.verify_s / spent.seconds,
    )
