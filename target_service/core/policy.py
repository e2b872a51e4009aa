"""When to start a step: now, or a little later so that it carries more; pure (decision 4).

A round that misses the start of a step waits for the whole step, so this is the most valuable decision a target makes.
Times are microseconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Part:
    """What a step carries: rows of the forward pass, and the tokens that they are expected to yield."""

    rows: int = 0
    tokens: float = 0.0
    leased: float = 0.0
    """Those of `tokens` that are of leases, taken for a row each: they are ready again as soon as the step is over."""

    def __add__(self, other: Part) -> Part:
        return Part(self.rows + other.rows, self.tokens + other.tokens, self.leased + other.leased)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A session whose block is expected."""

    part: Part
    due_us: int
    limit_us: int | None
    """End of its Commit's wait; None while it has no Commit."""
    reply_us: int | None = None
    """From its last Result to when its block is due; None before its first."""


@dataclass(frozen=True, slots=True)
class StartNow:
    """Build the step from all that is ready."""


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Ask again at this time, or as soon as anything comes."""

    at_us: int


Decision = StartNow | WaitUntil
StepTime = Callable[[int], float]
"""Microseconds of a step with that many rows."""


class StepPolicy(Protocol):
    """Decides whether the step starts; asked whenever something is ready and no step is running."""

    def decide(self, now_us: int, ready: Part, waiting: Sequence[Arrival], *, step_us: StepTime) -> Decision:
        """Return what to do; `waiting` are the sessions that are expected, those with a limit within it."""


_ROUNDS = 3
"""Rounds for which sessions that have been brought into step are taken to stay there."""


class Immediate:
    """Starts as soon as anything is ready."""

    def decide(self, now_us: int, ready: Part, waiting: Sequence[Arrival], *, step_us: StepTime) -> Decision:
        """Return StartNow."""
        return StartNow()


class Lockstep:
    """Waits for every session within its wait limit."""

    def decide(self, now_us: int, ready: Part, waiting: Sequence[Arrival], *, step_us: StepTime) -> Decision:
        """Return StartNow once nobody is waited for."""
        limits = [a.limit_us for a in waiting if a.limit_us is not None and a.limit_us > now_us]
        return WaitUntil(max(limits)) if limits else StartNow()


class Worthwhile:
    """Waits while that saves more token-time than it costs.

    With A ready and J the next sessions to arrive, all of them within Δ < τ(A), a step that starts then makes A wait
    for Δ and for what J's rows add to the step. A step that starts now makes J wait for τ(A) instead of Δ. It costs J
    more than that where sessions in step have shorter rounds than two groups that take turns: with J's reply time ρ by
    τ(A) + τ(J) - ρ - τ(A + J), because either A is back while J's step runs, and so on round after round, or J waits
    for A then. So it waits iff for some J: E_J·S > E_A·(Δ + τ(A + J) - τ(A)), where E counts expected tokens and S is
    τ(A) - Δ and what three rounds in step are shorter by, if anything, at most τ(A): the wait is paid once, and rounds
    are shorter until sessions come and go (docs/decisions/0004-step-policy.md).

    Sessions on leases among A take part in both steps of taking turns and in one of a round in step. Of E tokens of
    such a round L are theirs, and it has to be shorter by that share to be worth as much.
    """

    def decide(self, now_us: int, ready: Part, waiting: Sequence[Arrival], *, step_us: StepTime) -> Decision:
        """Return the earliest arrival worth waiting for, or StartNow."""
        alone = step_us(ready.rows)
        joined = Part()
        for due_us, arrivals in groupby(sorted(waiting, key=_order), key=_due):
            reply_us = None
            for arrival in arrivals:
                joined += arrival.part
                reply_us = _later(reply_us, arrival.reply_us)
            delay = max(0, due_us - now_us)
            if delay >= alone:
                break
            together = step_us(ready.rows + joined.rows)
            saved = alone - delay
            if reply_us is not None:
                in_turns = alone + step_us(joined.rows + round(ready.leased))
                in_step = (reply_us + together) * (1.0 + ready.leased / (ready.tokens + joined.tokens))
                saved = min(alone, saved + _ROUNDS * max(0.0, in_turns - in_step))
            if joined.tokens * saved > ready.tokens * (delay + together - alone):
                return WaitUntil(now_us + delay)
        return StartNow()


def _due(arrival: Arrival) -> int:
    return arrival.due_us


def _order(arrival: Arrival) -> tuple[int, int, float]:
    """By due time, and then so that sums of floats do not depend on the order in which sessions were listed."""
    return arrival.due_us, arrival.part.rows, arrival.part.tokens


def _later(one: int | None, other: int | None) -> int | None:
    return max((us for us in (one, other) if us is not None), default=None)


class StepPolicyName(Enum):
    """Names of the policies in settings."""

    IMMEDIATE = "immediate"
    LOCKSTEP = "lockstep"
    WORTHWHILE = "worthwhile"


def step_policy(name: StepPolicyName) -> StepPolicy:
    """Return the policy of this name."""
    policies: dict[StepPolicyName, type[Immediate | Lockstep | Worthwhile]] = {
        StepPolicyName.IMMEDIATE: Immediate,
        StepPolicyName.LOCKSTEP: Lockstep,
        StepPolicyName.WORTHWHILE: Worthwhile,
    }
    return policies[name]()
