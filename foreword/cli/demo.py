"""`foreword demo`: everything started, some prompts with and without the draft, texts and speeds side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from foreword.cli import options
from foreword.cli.comparison import Outcome, first_difference, totals
from foreword.cli.demo_prompts import DemoPrompt, built_in, read_prompts
from foreword.cli.fetching import fetch_models
from foreword.cli.output import TextWriter, legend, shows_colours, stderr, stdout, summary, write_json
from foreword.cli.starting import check_start
from foreword.cli.up import Reporter
from foreword.client import AsyncClient
from foreword.errors import InvalidField
from foreword.protocol.generation import Choice, Delta
from foreword.stack.config import AUTO_DRAFT, DEFAULT_TARGET, StackConfig
from foreword.stack.stack import Stack

_WARM_UP_TOKENS: Final = 8
_TOLERANCE: Final = {"float32": 1e-3}
_LOW_PRECISION_TOLERANCE: Final = 0.125
"""A step of bfloat16 at the size that logits have."""


def command(
    prompts: Annotated[
        Path | None, typer.Option(help="JSON lines with messages or prompt, instead of the built-in ones.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Most output tokens of a prompt.", min=1)] = 64,
    target: options.Target = DEFAULT_TARGET,
    draft: options.Draft = AUTO_DRAFT,
    drafts: options.Drafts = 1,
    gamma: options.Gamma = None,
    dtype: options.Dtype = "float32",
    threads: options.Threads = 0,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Top-2 margin in nats up to which a difference is rounding's.",
            min=0,
            max=100,
            show_default=f"{_TOLERANCE['float32']:g}, and {_LOW_PRECISION_TOLERANCE:g} in less than float32",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Start a target, a draft and an orchestrator, and compare decoding with and without the draft, greedily."""
    if drafts == 0:
        raise InvalidField("drafts", drafts, "at least one, whose texts and speeds are held against those without")
    config = StackConfig(target=target, draft=draft, drafts=drafts, gamma=gamma, dtype=dtype, threads=threads)
    check_start(config)
    chosen = built_in(target) if prompts is None else read_prompts(prompts)
    limit = _TOLERANCE.get(dtype, _LOW_PRECISION_TOLERANCE) if tolerance is None else tolerance
    demo = Demo(out=None if json else stdout(), err=stderr(), max_tokens=max_tokens, tolerance=limit)
    outcomes = asyncio.run(demo.run(config, chosen))
    total = totals(outcomes)
    if json:
        texts = [outcome.json() for outcome in outcomes]
        report = {"prompts": texts, "total": total, "target": target, "draft": config.drafter}
        write_json(stdout(), {**report, "dtype": dtype, "tolerance": limit, "max_tokens": max_tokens})
    else:
        _show(stdout(), outcomes, total, limit)
    raise typer.Exit(1 if total["unexplained"] else 0)


class Demo:
    """Runs prompts both ways; texts go to `out` as they come, progress to `err`."""

    def __init__(self, *, out: Console | None, err: Console, max_tokens: int, tolerance: float) -> None:
        self._out = out
        self._err = err
        self._max_tokens = max_tokens
        self._tolerance = tolerance

    async def run(self, config: StackConfig, prompts: Sequence[DemoPrompt]) -> list[Outcome]:
        """Start the stack, warm it up, and return one outcome for every prompt."""
        reporter = Reporter(self._err, quiet=True)
        await fetch_models(config)
        stack = Stack(config, on_event=reporter.event, on_log=reporter.log)
        async with stack, AsyncClient(stack.address) as client:
            return await self.compare(client, prompts)

    async def compare(self, client: AsyncClient, prompts: Sequence[DemoPrompt]) -> list[Outcome]:
        """Return one outcome for every prompt; which way comes first alternates, since the second finds caches warm."""
        self._err.print("warming up", style="dim")
        for gamma in (0, None):
            await client.generate(prompts[0].prompt, temperature=0, max_tokens=_WARM_UP_TOKENS, gamma=gamma)
        outcomes = []
        for number, prompt in enumerate(prompts):
            if self._out is not None:
                self._out.print(Text.assemble((f"\n{prompt.id}  ", "bold"), (prompt.shown, "italic")))
            if number % 2:
                drafted = await self._drafted(client, prompt)
                plain = await self._plain(client, prompt)
            else:
                plain = await self._plain(client, prompt)
                drafted = await self._drafted(client, prompt)
            margin = await self._margin(client, prompt, plain, drafted)
            outcomes.append(Outcome(prompt, plain, drafted, self._tolerance, margin))
        return outcomes

    async def _plain(self, client: AsyncClient, prompt: DemoPrompt) -> Choice:
        completion = await client.generate(prompt.prompt, temperature=0, max_tokens=self._limit(prompt), gamma=0)
        self._err.print(f"{prompt.id} without draft: {summary(completion.choices[0])}", style="dim")
        return completion.choices[0]

    async def _drafted(self, client: AsyncClient, prompt: DemoPrompt) -> Choice:
        writer = TextWriter(self._out) if self._out is not None else None
        async with client.stream(prompt.prompt, temperature=0, max_tokens=self._limit(prompt)) as events:
            async for event in events:
                if writer is not None and isinstance(event, Delta):
                    writer.write(event)
            completion = await events.completion()
        if writer is not None:
            writer.finish()
        self._err.print(f"{prompt.id} with draft: {summary(completion.choices[0])}", style="dim")
        return completion.choices[0]

    async def _margin(self, client: AsyncClient, prompt: DemoPrompt, plain: Choice, drafted: Choice) -> float | None:
        """Return the target's top-2 margin where the outputs part, from a run of its own that is not timed."""
        at = first_difference(plain.ids, drafted.ids)
        if at is None:
            return None
        again = await client.generate(prompt.prompt, temperature=0, max_tokens=at + 1, gamma=0, top_logprobs=2)
        logprobs = again.choices[0].logprobs
        if logprobs is None or len(logprobs.top) <= at or again.ids[:at] != plain.ids[:at]:
            return None
        (_, first), (_, second) = logprobs.top[at]
        return first - second

    def _limit(self, prompt: DemoPrompt) -> int:
        return self._max_tokens if prompt.max_tokens is None else min(prompt.max_tokens, self._max_tokens)


def _show(console: Console, outcomes: Sequence[Outcome], total: dict[str, Any], tolerance: float) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("prompt", "tokens", "acceptance length", "tok/s without", "tok/s with", "times", "identical"):
        table.add_column(name, justify="left" if name == "prompt" else "right")
    for o in outcomes:
        rates = (o.plain.decode_rate, o.drafted.decode_rate, o.speedup)
        usage = o.drafted.usage
        table.add_row(o.prompt.id, str(usage.output_tokens), *_numbers(o.acceptance_length, *rates), _verdict(o))
    numbers = _numbers(total["acceptance_length"], total["plain_tok_s"], total["spec_tok_s"], total["speedup"])
    same = f"{total['identical']} of {total['prompts']}"
    table.add_row("all", str(total["tokens"]), *numbers, same, style="bold")
    console.print()
    console.print(table)
    if total["acceptance_length"] is not None and shows_colours(console):
        console.print(Text.assemble("written by: ", legend()))
    console.print("greedy; tok/s after the first token, by the server's clock", style="dim")
    if total["explained"] or total["unexplained"]:
        words = f"{total['explained']} differ from a near-tie on (margin up to {tolerance:g} nats)"
        console.print(f"{words}, {total['unexplained']} differ without that explanation")


def _verdict(outcome: Outcome) -> str:
    if outcome.identical:
        return "yes"
    margin = "margin not known" if outcome.margin is None else f"margin {outcome.margin:.1e}"
    return f"from {outcome.first_difference} on ({margin})"


def _numbers(*values: float | None) -> list[str]:
    return ["–" if value is None else f"{value:.2f}" for value in values]
