"""`foreword bench speedup`: one session with a draft against the same session without, on real prompts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from foreword.client import AsyncClient
from foreword.models.dtype import exact_dtype
from foreword.stack.stack import Stack
from loadtest.bench import options
from loadtest.bench.command import bench_command
from loadtest.bench.findings import Findings
from loadtest.bench.frame import Destination, carry_out
from loadtest.bench.progress import Progress
from loadtest.prompts import Prompt, dev_prompts, read_prompts
from loadtest.speedup.assisted import Assisted, Peer
from loadtest.speedup.figures import Found, findings_of
from loadtest.speedup.plan import Plan, Sampling, spread_over
from loadtest.speedup.texts import Text, warm, write


def speedup(
    model: Annotated[str, typer.Option(help="The target.")] = "embedded",
    draft: Annotated[
        str, typer.Option(help="The draft: lookup, bundled, a distilled draft's folder, or a model.")
    ] = "bundled",
    drafter: Annotated[str, typer.Option(help="How it drafts: model or mixed; empty takes what the draft is.")] = "",
    prompts: Annotated[Path | None, typer.Option(help="JSON lines; the 100 dev prompts by default.")] = None,
    per_category: Annotated[int, typer.Option(help="Prompts of each category; 0 takes all.")] = 0,
    gamma: Annotated[
        int | None, typer.Option(help="Candidates of a block; by default the orchestrator measures what is best.")
    ] = None,
    tokens: Annotated[int, typer.Option(help="Most output of a prompt.")] = 128,
    dtype: Annotated[str, typer.Option(help="Arithmetic of the target: float32, bfloat16 or float16.")] = "bfloat16",
    threads: Annotated[int, typer.Option(help="Threads of each engine; 0 leaves it to the libraries.", min=0)] = 0,
    assisted: Annotated[int, typer.Option(help="Prompts for transformers' assisted generation; 0 for none.")] = 10,
    json: options.Json = None,
    plot: options.Plot = None,
) -> None:
    """Measure what a draft is worth at three temperatures, and against transformers' assisted generation."""
    chats = dev_prompts() if prompts is None else read_prompts(prompts)
    plan = Plan(
        prompts=spread_over(chats, per_category),
        model=model,
        draft=draft,
        drafter=drafter,
        dtype=exact_dtype(dtype),
        gamma=gamma,
        tokens=tokens,
        threads=threads,
        assisted=assisted,
    )
    carry_out(partial(measure, plan), plan.json(), Destination(json, plot))


async def measure(plan: Plan, progress: Progress) -> Findings:
    """Run all prompts; the arms of a prompt follow each other, and every other prompt has them in reverse."""
    helped = _spread(plan.prompts, plan.assisted)
    progress.begin(len(plan.prompts) * len(plan.laws) + len(helped))
    progress.now("starting the services")
    pairs: dict[Sampling, list[tuple[Text, Text]]] = {law: [] for law in plan.laws}
    greedy: dict[str, Text] = {}
    beside: list[tuple[Text, Assisted]] = []
    stack = Stack(plan.stack())
    async with stack, AsyncClient(stack.address) as client, Peer(plan) as peer:
        if helped:
            await peer.warm(helped)
        await warm(client, plan.prompts[0])
        await write(client, plan, plan.prompts[0], plan.laws[-1], gamma=plan.gamma)
        for number, prompt in enumerate(plan.prompts):
            progress.now(prompt.category)
            await warm(client, prompt)
            for law in plan.laws:
                pair = await _pair(client, plan, prompt, law, reverse=number % 2 == 1)
                pairs[law].append(pair)
                if law.temperature == 0:
                    greedy[prompt.id] = pair[1]
                progress.done()
            if prompt in helped:
                beside.append((greedy[prompt.id], await peer.write(prompt)))
                progress.done()
        drafts = (await client.info()).drafts
        costs = [point for one in drafts[:1] if one.info is not None for point in one.info.cost_curve]
        found = Found(pairs, beside, peer.manner, costs)
    return findings_of(plan, found)


async def _pair(client: AsyncClient, plan: Plan, prompt: Prompt, law: Sampling, *, reverse: bool) -> tuple[Text, Text]:
    gammas: tuple[int | None, ...] = (plan.gamma, 0) if reverse else (0, plan.gamma)
    made = {gamma: await write(client, plan, prompt, law, gamma=gamma) for gamma in gammas}
    return made[0], made[plan.gamma]


def _spread(prompts: tuple[Prompt, ...], count: int) -> list[Prompt]:
    """Return so many prompts, evenly over all, and over categories that come in turn: a plain stride would meet one."""
    count = min(count, len(prompts))
    places = dict.fromkeys((i * len(prompts) // count + i) % len(prompts) for i in range(count))
    return [prompts[place] for place in places]


command = bench_command("speedup", speedup)
