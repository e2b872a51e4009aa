"""One trial: some sessions side by side on a running stack, and what their rounds were made of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foreword.client import AsyncClient
from foreword.errors import ProtocolFault, Unavailable
from foreword.protocol.generation import Delta, Finish
from foreword.protocol.words import TokenSource
from loadtest.bench.cpu import busy_ns, difference_ms, spent_ns
from loadtest.bench.summary import median
from loadtest.overhead.formula import RoundCost, ideal_tokens_per_s
from loadtest.overhead.plan import Plan
from loadtest.overhead.window import Steady, SteadyWindow


@dataclass(frozen=True, slots=True)
class Trial:
    """What some sessions did together."""

    sessions: int
    steady: Steady
    late: int
    """Rounds that went without their block, of all sessions from their first token to their last."""
    parts_ms: Mapping[str, float]
    """The parts of a round that the services reported: the median over sessions of each one's median over rounds."""
    cpu_ms: Mapping[str, float]
    """CPU time by process for one round of all sessions; empty where the kernel does not tell."""
    other_cores: float | None
    """Cores that were busy with something else; None where the kernel does not tell."""

    @property
    def emitted(self) -> float:
        """Tokens emitted per verification; a round without its block emitted one and verified nothing."""
        return (self.steady.tokens - self.late) / max(1, self.steady.rounds - self.late)

    @property
    def cost(self) -> RoundCost:
        """Step times as the services measured them; on loopback nothing is granted for a network."""
        return RoundCost(self.parts_ms["draft_compute"], self.parts_ms["verify_compute"])

    def share(self, cost: RoundCost) -> float:
        """Return tokens per second over what the formula gives for this cost."""
        return self.steady.tokens_per_s / ideal_tokens_per_s(self.sessions, self.emitted, cost)


async def run_trial(client: AsyncClient, plan: Plan, sessions: int, *, repeat: int, pids: Mapping[str, int]) -> Trial:
    """Run sessions together, each with a text of its own; `pids` are the processes whose CPU time is asked for.

    Raises ProtocolFault if a request ended early, Unavailable if no block was ever verified, InvalidField if there was
    no time when all were in their middle.
    """
    recorder = _Recorder(plan, sessions, pids)
    ends = await asyncio.gather(
        *(_session(client, plan, plan.prompt(number, repeat), recorder, number) for number in range(sessions))
    )
    if not any(end.usage.verifications for end in ends):
        raise Unavailable(
            f"{sessions} sessions: got no verified block, wanted drafts that keep up; is the machine busy?"
        )
    steady = recorder.window.steady()
    spent = difference_ms(recorder.before.spent, recorder.after.spent, pids)
    rounds = steady.rounds / sessions
    return Trial(
        sessions=sessions,
        steady=steady,
        late=sum(end.usage.late_blocks for end in ends),
        parts_ms=_parts_ms(ends),
        cpu_ms={name: ms / rounds for name, ms in spent.items()},
        other_cores=_other_cores(recorder.before, recorder.after, sum(spent.values())),
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """CPU times at one moment: by process, and of the whole machine."""

    at_s: float
    spent: dict[str, int]
    busy: int | None


class _Recorder:
    """Notes arrivals, and reads CPU times when the window opens and closes."""

    def __init__(self, plan: Plan, sessions: int, pids: Mapping[str, int]) -> None:
        self.window = SteadyWindow(sessions, first=plan.first, last=plan.last)
        self.before = self.after = _Reading(0.0, {}, None)
        self._pids = pids

    def take(self, session: int, delta: Delta) -> None:
        rounds = delta.sources.count(TokenSource.TARGET)  # every round ends with one token of the target's own
        self.window.add(session, time.perf_counter(), tokens=len(delta.ids), rounds=rounds)
        if self.window.opened_s is not None and not self.before.at_s:
            self.before = self._read()
        if self.window.closed_s is not None and not self.after.at_s:
            self.after = self._read()

    def _read(self) -> _Reading:
        return _Reading(time.perf_counter(), spent_ns(self._pids), busy_ns())


def _other_cores(before: _Reading, after: _Reading, own_ms: float) -> float | None:
    if before.busy is None or after.busy is None or not own_ms:
        return None
    seconds = after.at_s - before.at_s
    return max(0.0, (after.busy - before.busy) / 1e9 - own_ms / 1e3) / seconds


async def _session(client: AsyncClient, plan: Plan, prompt: Sequence[int], recorder: _Recorder, number: int) -> Finish:
    end: Finish | None = None
    stream = client.stream(prompt, max_tokens=plan.tokens, temperature=0.0, gamma=plan.gamma)
    async with stream as events:
        async for event in events:
            if isinstance(event, Delta):
                recorder.take(number, event)
            elif isinstance(event, Finish):
                end = event
    if end is None or end.usage.output_tokens != plan.tokens:
        seen = 0 if end is None else end.usage.output_tokens
        raise ProtocolFault(f"session {number}: got {seen} tokens, wanted {plan.tokens}")
    return end


def _parts_ms(ends: Sequence[Finish]) -> dict[str, float]:
    medians: dict[str, list[float]] = {}
    for end in ends:
        for part in end.timings.parts:
            medians.setdefault(part.name, []).append(part.p50_us / 1000.0)
    return {name: median(values) for name, values in medians.items()}
