"""One closed loop in virtual time: the engine's own outlook, estimates and policy; sessions and steps are simulated.

Orchestrators answer at once, so that a session waits for its block from the moment of its Result on.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from foreword.laws.parameters import LawParameters
from foreword.protocol.messages import (
    Block,
    BlockOrder,
    Commit,
    PlainOrder,
    TargetKeys,
    TargetOpen,
)
from foreword.protocol.words import Drafter, Rule
from foreword.values import replace
from target_service.core.budget import Budget
from target_service.core.estimates import Replies, StepTimes
from target_service.core.policy import StartNow, StepPolicy
from target_service.core.session import opened
from target_service.core.state import Bounds, Phase
from target_service.engine.outlook import Outlook
from target_service.engine.record import Place, Record
from target_service.policy_bench.scene import Scene

_WAIT_US = 1_000_000
"""Longest wait for a block: nobody's in these scenes."""
_STAGGER_US = 50_000
"""Sessions come within this time."""
_NOISE = 0.02
"""Relative spread of step times."""
_WARM_ROWS = (1, 2, 4, 8, 16, 64)
_SETTLING = 0.2
"""Share of the time that does not count."""
_KEY = b"\0" * 16


@dataclass(frozen=True, slots=True)
class Played:
    """What a policy made of a scene."""

    tokens_s: float
    """Tokens of all sessions in a second."""
    steps_s: float
    slowest_tokens_s: float
    """Of the session that got least."""


class _Cast:
    """The sessions of a scene, as `Outlook` sees them."""

    def __init__(self, scene: Scene) -> None:
        self.replies = Replies(window=128)
        self.drafted = [_record(number, scene) for number in range(len(scene.replies))]
        self.leased = [_record(len(self.drafted) + number, scene) for number in range(scene.leases)]
        for record in self.leased:
            order = replace(_commit(record, scene), order=PlainOrder(1 << 30))
            record.session = replace(record.session, phase=Phase.LEASE, commit=order)

    def __iter__(self) -> Iterator[Record]:
        yield from self.drafted
        yield from self.leased


class Play:
    """Plays one scene under one policy; the same seed gives the same reply times and acceptances."""

    def __init__(self, scene: Scene, policy: StepPolicy, *, seed: int) -> None:
        self._scene = scene
        self._policy = policy
        self._chance = Random(seed)
        self._cast = _Cast(scene)
        self._outlook = Outlook(self._cast, Budget(1 << 20, 1 << 20))
        self._times = StepTimes()
        for rows in _WARM_ROWS:
            for _ in range(3):
                self._times.add(rows, 0, step_us=scene.step.step_us(rows))
        self._now_us = 0
        self._tokens = [0] * (len(scene.replies) + scene.leases)
        self._steps = 0
        self._due = [(self._chance.randrange(_STAGGER_US), record.slot) for record in self._cast.drafted]
        heapq.heapify(self._due)

    def play(self) -> Played:
        """Return what came of it."""
        end_us = round(self._scene.seconds * 1e6)
        counted_us = round(_SETTLING * end_us)
        before = [0] * len(self._tokens)
        while self._now_us < end_us:
            if self._now_us < counted_us:
                before, self._steps = list(self._tokens), 0
            self._turn()
        seconds = (self._now_us - counted_us) / 1e6
        got = [after - start for after, start in zip(self._tokens, before, strict=True)]
        return Played(sum(got) / seconds, self._steps / seconds, min(got) / seconds)

    def _turn(self) -> None:
        self._deliver()
        ready = self._outlook.ready()
        next_us = self._due[0][0] if self._due else None
        if not ready.rows:
            assert next_us is not None
            self._now_us = next_us
            return
        arrivals = self._outlook.arrivals(self._now_us)
        decision = self._policy.decide(self._now_us, ready, arrivals, step_us=self._times.step_us)
        if isinstance(decision, StartNow):
            self._step(ready.rows)
            return
        until_us = max(decision.at_us, self._now_us + 1)
        self._now_us = until_us if next_us is None else min(until_us, next_us)

    def _deliver(self) -> None:
        while self._due and self._due[0][0] <= self._now_us:
            at_us, slot = heapq.heappop(self._due)
            record = self._cast.drafted[slot]
            record.session = replace(record.session, phase=Phase.READY, block=_block(self._scene.gamma))
            if record.result_us is not None:
                record.replies.add(at_us - record.result_us)
                self._cast.replies.add(at_us - record.result_us)

    def _step(self, rows: int) -> None:
        took_us = round(self._scene.step.step_us(rows) * self._chance.uniform(1 - _NOISE, 1 + _NOISE))
        self._times.add(rows, 0, step_us=took_us)
        self._now_us += took_us
        self._steps += 1
        for record in self._cast.leased:
            self._tokens[record.slot] += 1
        for record in self._cast.drafted:
            if record.session.phase is Phase.READY:
                self._answer(record)

    def _answer(self, record: Record) -> None:
        """A verification is done: count its tokens, and begin the next round."""
        kept = 0
        while kept < self._scene.gamma and self._chance.random() < self._scene.agreement:
            kept += 1
        self._tokens[record.slot] += kept + 1
        record.emitted.add(kept + 1)
        record.rows = self._scene.gamma + 1
        record.result_us = self._now_us
        record.hold_us = self._now_us + _WAIT_US
        commit = _commit(record, self._scene)
        record.session = replace(record.session, phase=Phase.WAIT, block=None, commit=commit)
        reply_us = self._scene.replies[record.slot].draw_us(self._chance)
        heapq.heappush(self._due, (self._now_us + reply_us, record.slot))


def _record(slot: int, scene: Scene) -> Record:
    message = TargetOpen(
        sid=slot + 1,
        tokens=(0,),
        prompt_len=1,
        law=LawParameters(),
        keys=TargetKeys(_KEY, _KEY, _KEY),
        max_output=1 << 30,
    )
    bounds = Bounds(vocabulary_size=2, longest_length=1 << 30, max_output=1 << 30, gamma_max=scene.gamma)
    session = replace(opened(message, bounds), phase=Phase.IDLE)
    return Record(stream=1, slot=slot, session=session, opened_us=0, place=Place.CACHED)


def _commit(record: Record, scene: Scene) -> Commit:
    order = BlockOrder(_WAIT_US, scene.gamma, _KEY)
    return Commit(record.session.sid, 1, 0, (), 0, rule=Rule.MATCH, order=order)


def _block(gamma: int) -> Block:
    return Block(_KEY, 1, 0, 0, ids=(0,) * gamma, drafter=Drafter.SYNTHETIC)
