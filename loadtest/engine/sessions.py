"""Sessions on running services, and what the target says of its steps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foreword.client import AsyncClient
from foreword.errors import ProtocolFault
from foreword.protocol.generation import Delta, Finish, TokenPrompt
from foreword.protocol.messages import Tokens
from loadtest.bench.scrape import scraped
from loadtest.engine.rates import Output

_NAMES = (
    "foreword_target_step_seconds_count",
    "foreword_target_step_seconds_sum",
    "foreword_target_evidence_seconds_sum",
)


@dataclass(frozen=True, slots=True)
class Steps:
    """What a target's steps took, all of them since it started or between two readings."""

    count: float
    seconds: float
    evidence_s: float
    """Part of it for laws and evidence."""

    def since(self, before: Steps) -> Steps:
        """Return what came after an earlier reading."""
        return Steps(self.count - before.count, self.seconds - before.seconds, self.evidence_s - before.evidence_s)

    @property
    def step_ms(self) -> float:
        """Mean time of a step."""
        return 1e3 * self.seconds / max(1.0, self.count)

    @property
    def evidence_ms(self) -> float:
        """Mean time for laws and evidence in a step."""
        return 1e3 * self.evidence_s / max(1.0, self.count)


@dataclass(frozen=True, slots=True)
class Services:
    """A running deployment: a client of it, and where its target's metrics are."""

    client: AsyncClient
    metrics_port: int

    async def steps(self) -> Steps:
        """Return what the target's steps have taken so far."""
        return read_steps(await asyncio.to_thread(scraped, self.metrics_port))

    async def output(
        self,
        prompt: Tokens,
        tokens: int,
        *,
        salt: bytes,
        gamma: int = 0,
        arrived: Callable[[float], None] = lambda _: None,
    ) -> Output:
        """Return the greedy output of so many tokens; raises ProtocolFault if it ended early.

        Beginnings are shared under one `salt`. `arrived` is told the moment of every token.
        """
        began, at, ids = time.perf_counter(), list[float](), list[int]()
        end: Finish | None = None
        stream = self.client.stream(
            TokenPrompt(tuple(prompt)),
            max_tokens=tokens,
            temperature=0.0,
            gamma=gamma,
            ignore_eos=True,
            cache_salt=salt,
        )
        async with stream as events:
            async for event in events:
                if isinstance(event, Delta):
                    now = time.perf_counter()
                    at += [now - began] * len(event.ids)
                    ids += event.ids
                    arrived(now)
                elif isinstance(event, Finish):
                    end = event
        if end is None or len(ids) != tokens:
            raise ProtocolFault(f"session: got {len(ids)} tokens, wanted {tokens}")
        return Output(at[-1], tuple(at), tuple(ids), end.usage.prompt_tokens, end.usage.cached_tokens)

    async def outputs(self, prompts: Sequence[Tokens], tokens: int, *, salt: bytes) -> list[Output]:
        """Return the outputs of sessions that run side by side."""
        return await asyncio.gather(*(self.output(prompt, tokens, salt=salt) for prompt in prompts))


def read_steps(text: str) -> Steps:
    """Return what the text of a target's metrics says of its steps; raises ProtocolFault if it says nothing."""
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(_NAMES))
    if missing := [name for name in _NAMES if name not in found]:
        raise ProtocolFault(f"metrics of the target: got no {missing[0]}, wanted its histograms of steps")
    return Steps(*(float(found[name]) for name in _NAMES))
