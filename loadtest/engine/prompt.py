"""Sessions that run while a long prompt is read: how long their next token takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

from foreword.models.dtype import Dtype
from loadtest.bench.findings import Cell, Table
from loadtest.bench.interleave import interleaved
from loadtest.bench.progress import Progress
from loadtest.bench.summary import median, quantile, summarize
from loadtest.engine.plan import Deployment, Part, Plan
from loadtest.engine.report import Report
from loadtest.engine.rig import Prompts, Rig
from loadtest.engine.sessions import Services

IN_PIECES, WHOLE = "read in pieces", "read in one step"
_DEPLOYMENTS: Final = {
    IN_PIECES: Deployment(Dtype.FLOAT32),
    WHOLE: Deployment(Dtype.FLOAT32, whole_prompts=True),
}
_LONGEST: Final = 1200
"""Tokens that the sessions ask for; they are ended as soon as the long prompt is read."""
_FIRST, _BEFORE = 8, 40
"""Tokens of the slowest session when gaps begin to count, and when the long prompt is sent."""
_STATISTICS: Final = {"median": 0.5, "p99": 0.99, "longest": 1.0}


@dataclass(frozen=True, slots=True)
class Trial:
    """Gaps between tokens of all sessions, in seconds."""

    before: tuple[float, ...]
    during: tuple[float, ...]
    """Those that overlap with the time in which the long prompt was read."""
    first_token_s: float
    """Of the long prompt."""


async def measure(rig: Rig, plan: Plan, progress: Progress) -> Report:
    """Read the long prompt in pieces and in one step; a trial has hundreds of gaps, so a third of the repeats do."""
    repeats = -(-plan.repeats // 3)
    prompts = await rig.prompts()
    trials: dict[str, list[Trial]] = {name: [] for name in _DEPLOYMENTS}
    for repeat, name in interleaved(tuple(_DEPLOYMENTS), repeats):
        progress.now(f"a prompt of {plan.prompt} tokens, {name}")
        services = await rig.services(_DEPLOYMENTS[name])
        trials[name].append(await _trial(services, plan, prompts, repeat))
    return report_of(trials, plan)


class Arrivals:
    """When the tokens of some sessions came, and who waits for the slowest of them."""

    def __init__(self, sessions: int) -> None:
        self.at: list[list[float]] = [[] for _ in range(sessions)]
        self._wanted = 0
        self._reached = asyncio.Event()

    def add(self, session: int, moment: float) -> None:
        """Take a token."""
        self.at[session].append(moment)
        if self._wanted and self._least() >= self._wanted:
            self._reached.set()

    async def reach(self, tokens: int) -> None:
        """Return when every session has so many tokens."""
        self._wanted = tokens
        self._reached.clear()
        if self._least() < tokens:
            await self._reached.wait()

    def more(self, count: int) -> int:
        """Return how many tokens the fastest session has, and `count` more."""
        return max(len(at) for at in self.at) + count

    def _least(self) -> int:
        return min(len(at) for at in self.at)


def gaps(
    arrivals: Sequence[Sequence[float]], *, begin: float, sent: float, done: float
) -> tuple[list[float], list[float]]:
    """Return the gaps between tokens from `begin` to `sent`, and those that overlap with `sent` to `done`."""
    pairs = [(a, b) for at in arrivals for a, b in pairwise(at)]
    before = [b - a for a, b in pairs if a >= begin and b <= sent]
    during = [b - a for a, b in pairs if b > sent and a < done]
    return before, during


async def _trial(services: Services, plan: Plan, prompts: Prompts, repeat: int) -> Trial:
    arrivals = Arrivals(plan.beside)
    salt = f"prompt {repeat}".encode()
    running = [
        asyncio.ensure_future(
            services.output(prompts.long(32, number + 1), _LONGEST, salt=salt, arrived=partial(arrivals.add, number))
        )
        for number in range(plan.beside)
    ]
    try:
        await _unless_ended(arrivals.reach(_FIRST), running)
        begin = time.perf_counter()
        await _unless_ended(arrivals.reach(_BEFORE), running)
        sent = time.perf_counter()
        read = await services.output(prompts.long(plan.prompt, 50 + repeat), 1, salt=salt)
        done = time.perf_counter()
        await _unless_ended(arrivals.reach(arrivals.more(2)), running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    before, during = gaps(arrivals.at, begin=begin, sent=sent, done=done)
    return Trial(tuple(before), tuple(during), read.arrivals[0])


async def _unless_ended(event: Any, running: Sequence[asyncio.Future[Any]]) -> None:
    """Await something that the running sessions bring about; raises what one of them raised."""
    waiting = asyncio.ensure_future(event)
    try:
        ended, _ = await asyncio.wait([waiting, *running], return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        waiting.cancel()


def report_of(trials: Mapping[str, Sequence[Trial]], plan: Plan) -> Report:
    """Return the figures of both ways to read."""
    rows: list[tuple[Cell, ...]] = []
    for phase in ("before", "during"):
        for name, share in _STATISTICS.items():
            rows.append((f"{phase}, {name}", *(_gap_ms(some, phase, share) for some in trials.values())))
    rows.append(("first token of the long prompt, ms", *(_first_ms(some) for some in trials.values())))
    title = f"Time between tokens of {plan.beside} sessions while a prompt of {plan.prompt} tokens is read, float32, ms"
    return Report(
        Part.PROMPT,
        figures={name: _json(some) for name, some in trials.items()},
        tables=[Table(title, ("", *trials), tuple(rows))],
        draw=partial(_draw, trials),
    )


def _gap_ms(trials: Sequence[Trial], phase: str, share: float) -> float:
    return 1e3 * median([quantile(getattr(trial, phase), share) for trial in trials])


def _first_ms(trials: Sequence[Trial]) -> float:
    return 1e3 * median([trial.first_token_s for trial in trials])


def _json(trials: Sequence[Trial]) -> dict[str, Any]:
    return {
        **{
            f"{phase}_ms": {name: _gap_ms(trials, phase, share) for name, share in _STATISTICS.items()}
            for phase in ("before", "during")
        },
        "gaps_during": sum(len(trial.during) for trial in trials),
        "first_token_ms": asdict(summarize([1e3 * trial.first_token_s for trial in trials])),
    }


def _draw(trials: Mapping[str, Sequence[Trial]], axes: Any) -> None:
    for name, some in trials.items():
        for phase, style in (("before", ":"), ("during", "-")):
            ordered = sorted(1e3 * gap for trial in some for gap in getattr(trial, phase))
            shares = [(place + 1) / len(ordered) for place in range(len(ordered))]
            axes.plot(ordered, shares, ls=style, label=f"{phase}, {name}")
    axes.set_xscale("log")
    axes.set_xlabel("ms between tokens")
    axes.set_ylabel("share of the gaps")
    axes.legend(frameon=False, fontsize="small")
