"""Some cells in real time through the real stack, beside the same in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from foreword.client import AsyncClient
from foreword.protocol.generation import Completion, Delta
from foreword.stack.config import StackConfig
from loadtest.bench.apart import Apart
from loadtest.regret.cells import COSTS, Cell
from loadtest.simulator.run import Simulation
from loadtest.simulator.scene import MS, Scene
from orchestrator.policy import Gamma

CELLS = (
    Cell(0.6, 0, 1, "flat"),
    Cell(0.8, 2, 1, "flat"),
    Cell(0.95, 10, 1, "flat"),
    Cell(0.8, 100, 1, "flat"),
    Cell(0.8, 2, 16, "flat"),
    Cell(0.8, 2, 16, "linear"),
)
TOKENS = 256
_PLAIN_SECONDS, _SECONDS = 4.0, 12.0
"""Of the closed loops; were it a number of texts, the last of many sessions would end theirs alone."""
_DRAFT_MS, _TARGET_MS = 2, 20
_SEEDS = 5
_MEASURED_GAMMA = 4
"""Of the run that says what a message takes on this machine."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A cell in both worlds; tokens a second of all sessions."""

    cell: Cell
    real: float
    virtual: float
    hop_ms: float
    """What a message takes beside the network, measured in a run of blocks of a fixed size."""
    turn_ms: float
    """What a step takes beside its model, measured in a run of plain decoding."""

    @property
    def ratio(self) -> float:
        """Virtual over real."""
        return self.virtual / self.real


async def compare(cell: Cell) -> Compared:
    """Run a cell on this machine, and simulate it with what a message and a step take here."""
    async with Apart(_config(cell), rtt_ms=cell.rtt_ms) as stack, AsyncClient(stack.address) as client:
        await _one_each(client, cell, gamma=None)  # services, links and estimates are warm then
        hop_us = _hop_us(cell, await _one_each(client, cell, gamma=_MEASURED_GAMMA))
        plain = await _loop(client, cell, seconds=_PLAIN_SECONDS, gamma=0)
        real = await _loop(client, cell, seconds=_SECONDS)
    turn_ms = max(0.0, 1000.0 * cell.sessions / plain - COSTS[cell.cost].step_us(cell.sessions) / MS)
    scene = Scene(
        sessions=cell.sessions,
        seconds=_SECONDS,
        agreement=cell.scene(1.0).agreement,
        rtt_us=cell.scene(1.0).rtt_us,
        step=replace(COSTS[cell.cost], base_ms=COSTS[cell.cost].base_ms + turn_ms),
        tokens=TOKENS,
        hop_us=hop_us,
    )
    virtual = fmean(Simulation(scene, Gamma(), seed=seed).run().tokens_s for seed in range(_SEEDS))
    return Compared(cell, real, virtual, hop_us / MS, turn_ms)


async def _one_each(client: AsyncClient, cell: Cell, *, gamma: int | None) -> Sequence[Completion]:
    """Let every session write a text."""
    prompts = ([number + 1, 1, 3 if gamma is None else 4] for number in range(cell.sessions))
    asked = (client.generate(prompt, max_tokens=TOKENS, temperature=0.0, gamma=gamma) for prompt in prompts)
    return await asyncio.gather(*asked)


async def _loop(client: AsyncClient, cell: Cell, *, seconds: float, gamma: int | None = None) -> float:
    """Let every session write text after text for so long; return tokens a second."""
    came = 0

    async def session(number: int) -> None:
        nonlocal came
        for text in itertools.count(2):
            prompt = [number + 1, text % 60, text // 60 + 5]
            async with client.stream(prompt, max_tokens=TOKENS, temperature=0.0, gamma=gamma) as events:
                async for event in events:
                    if isinstance(event, Delta):
                        came += len(event.ids)

    began = time.perf_counter()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(session(number) for number in range(cell.sessions)))
    return came / (time.perf_counter() - began)


def _hop_us(cell: Cell, done: Sequence[Completion]) -> int:
    """Return half of what a round takes beside its computing and the network: it has two messages in a row."""
    rounds = []
    for completion in done:
        parts = {part.name: part.p50_us for part in completion.choices[0].finish.timings.parts}
        beside = parts["network"] - cell.rtt_ms * MS + parts["draft_queue"] + parts["verify_queue"] + parts["host"]
        drafting = parts["draft_compute"] - _MEASURED_GAMMA * _DRAFT_MS * MS
        rounds.append(beside + drafting)
    return max(0, round(median(rounds) / 2.0))


def _config(cell: Cell) -> StackConfig:
    cost = COSTS[cell.cost]
    pair = f"vocab=64,agreement={cell.agreement},seed=11,context={TOKENS + 64}"
    target = f"synthetic:{pair},step_ms={_TARGET_MS},slope_ms={cost.slope_ms:g},knee={cost.knee}"
    flags = {"orchestrator": ("--no-stop-rule",)}  # the simulated draft knows nothing of a single candidate either
    return StackConfig(target=target, draft=f"synthetic:{pair},step_ms={_DRAFT_MS}", arguments=flags)
