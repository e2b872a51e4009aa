"""The arms: one session on synthetic services, with a draft that works ahead or not."""

from __future__ import annotations

import time
from dataclasses import dataclass

from foreword.client import AsyncClient
from foreword.protocol.generation import Finish
from foreword.protocol.words import Rule
from foreword.stack.config import StackConfig
from loadtest.bench.apart import Apart
from loadtest.bench.scrape import free_port
from loadtest.delay.outcomes import between, outcomes

TOKENS = 512
_PROMPT = (5, 6, 7)
_VOCABULARY = 64


@dataclass(frozen=True, slots=True)
class World:
    """Costs, agreement and network of an arm; milliseconds."""

    draft_ms: float
    target_ms: float
    agreement: float
    rtt_ms: float


@dataclass(frozen=True, slots=True)
class Draft:
    """How candidates are drawn and accepted."""

    name: str
    rule: Rule
    temperature: float
    match_draw: str = "coupled"


@dataclass(frozen=True, slots=True)
class Ran:
    """What an arm gave."""

    tokens_s: float
    acceptance_length: float
    hits: dict[str, tuple[int, int]]
    """By ending (a correction, or the token after a block that was kept whole): hits, and outcomes in all."""
    target_busy: float
    """Share of the time in the target's steps."""

    @property
    def hit_rate(self) -> float | None:
        """Share of outcomes that were prepared for; None where nothing was."""
        hits, tried = (sum(column) for column in zip(*self.hits.values(), strict=True)) if self.hits else (0, 0)
        return hits / tried if tried else None


async def run(world: World, draft: Draft, *, gamma: int | None, ahead: bool, alternatives: int = 0) -> Ran:
    """Run one arm: a text to warm up, and one that counts."""
    metrics = free_port()
    config = _config(world, draft, ahead=ahead, alternatives=alternatives, metrics=metrics)
    async with Apart(config, rtt_ms=world.rtt_ms) as stack, AsyncClient(stack.address) as client:

        async def text(seed: int) -> tuple[float, Finish]:
            began = time.perf_counter()
            done = await client.generate(
                (*_PROMPT, seed % _VOCABULARY),
                max_tokens=TOKENS,
                temperature=draft.temperature,
                gamma=gamma,
                rule=draft.rule,
                seed=seed,
            )
            return time.perf_counter() - began, done.choices[0].finish

        await text(1)
        before = outcomes(metrics)
        seconds, finish = await text(2)
        after = outcomes(metrics)
        parts = {part.name: part.sum_us / 1e6 for part in finish.timings.parts}
        return Ran(
            tokens_s=TOKENS / seconds,
            acceptance_length=finish.usage.acceptance_length or 1.0,
            hits=between(before, after),
            target_busy=parts.get("verify_compute", 0.0) / seconds,
        )


def _config(world: World, draft: Draft, *, ahead: bool, alternatives: int, metrics: int) -> StackConfig:
    pair = f"synthetic:vocab={_VOCABULARY},agreement={world.agreement},seed=5,context={TOKENS + 64}"
    flags = ("--draft-ahead", "on" if ahead else "off", "--match-draw", draft.match_draw)
    return StackConfig(
        target=f"{pair},step_ms={world.target_ms:g}",
        draft=f"{pair},step_ms={world.draft_ms:g}",
        arguments={
            "draft": (*flags, "--metrics-port", str(metrics)),
            "orchestrator": ("--no-stop-rule", "--alternatives", str(alternatives)),
        },
    )
