"""Some cells in real time through the real stack, beside the same in virtual time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from foreword.client import AsyncClient
from foreword.protocol.generation import Completion
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
_TEXTS = 3
"""Of each session, one after the other."""
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

    @property
    def ratio(self) -> float:
        """Virtual over real."""
        return self.virtual / self.real


async def compare(cell: Cell) -> Compared:
    """Run a cell on this machine, and simulate it with what a message takes here."""
    async with Apart(_config(cell), rtt_ms=cell.rtt_ms) as stack, AsyncClient(stack.address) as client:
        await _texts(client, cell, 1, gamma=None)  # services, links and estimates are warm then
        fixed = await _texts(client, cell, 1, gamma=_MEASURED_GAMMA)
        hop_us = _hop_us(cell, fixed.done)
        measured = await _texts(client, cell, _TEXTS, gamma=None)
    scene = Scene(
        sessions=cell.sessions,
        seconds=cell.sessions * _TEXTS * TOKENS / measured.tokens_s,
        agreement=cell.scene(1.0).agreement,
        rtt_us=cell.scene(1.0).rtt_us,
        step=COSTS[cell.cost],
        tokens=TOKENS,
        hop_us=hop_us,
    )
    virtual = fmean(Simulation(scene, Gamma(), seed=seed).run().tokens_s for seed in range(_SEEDS))
    return Compared(cell, measured.tokens_s, virtual, hop_us / MS)


@dataclass(frozen=True, slots=True)
class _Texts:
    tokens_s: float
    done: Sequence[Completion]


async def _texts(client: AsyncClient, cell: Cell, count: int, *, gamma: int | None) -> _Texts:
    done: list[Completion] = []

    async def session(number: int) -> None:
        for text in range(count):
            prompt = [number + 1, text + 1, 3 if gamma is None else 4]
            done.append(await client.generate(prompt, max_tokens=TOKENS, temperature=0.0, gamma=gamma))

    began = time.perf_counter()
    await asyncio.gather(*(session(number) for number in range(cell.sessions)))
    return _Texts(cell.sessions * count * TOKENS / (time.perf_counter() - began), done)


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
