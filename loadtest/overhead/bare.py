"""What a round costs at least on this machine: the same processes and streams without Foreword."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass

from foreword.errors import Unavailable
from loadtest.overhead.plan import Plan

ROUNDS = 60
_CHAIN = "loadtest.overhead.bare_chain"
_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class BareTrial:
    """Median times of one run, in ms."""

    round_ms: float
    steps_ms: float
    """What draft and target slept in a round."""

    @property
    def share(self) -> float:
        """Throughput over the formula's: what wakes and messages leave of it."""
        return self.steps_ms / self.round_ms

    @property
    def added_ms(self) -> float:
        """What a round takes beyond its steps."""
        return self.round_ms - self.steps_ms


async def run_bare(plan: Plan, rounds: int = ROUNDS) -> BareTrial:
    """Run one session's rounds through the bare processes; raises Unavailable if they do not finish."""
    target = await asyncio.create_subprocess_exec(
        sys.executable, "-m", _CHAIN, "target", str(plan.target_ms), stdout=PIPE, stdin=DEVNULL
    )
    try:
        async with asyncio.timeout(_LIMIT_S + rounds * (plan.gamma * plan.draft_ms + plan.target_ms) / 1e3):
            assert target.stdout is not None
            port = (await target.stdout.readline()).decode().strip()
            arguments = ["draft", port, str(plan.draft_ms), str(plan.gamma), str(rounds)]
            draft = await asyncio.create_subprocess_exec(
                sys.executable, "-m", _CHAIN, *arguments, stdout=PIPE, stdin=DEVNULL
            )
            try:
                report, _ = await draft.communicate()
            finally:
                if draft.returncode is None:
                    draft.kill()
    except TimeoutError:
        raise Unavailable("bare processes: got no report in time; is the machine busy?") from None
    finally:
        target.kill()
        await target.wait()
    if not report:
        raise Unavailable("bare processes: got no report, wanted the times of their rounds")
    return BareTrial(**json.loads(report))
