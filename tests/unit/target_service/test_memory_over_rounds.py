"""Memory over ten thousand rounds: sessions come, verify, roll back, cancel and go, and the engine stays as it is."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foreword.models.synthetic import SyntheticModel
from foreword.protocol.messages import Lost, Result
from foreword.runner.budget import CacheBudget
from foreword.runner.port import Runner
from foreword.runner.real import real_runner
from foreword.testing.synthetic import Side, SyntheticRunner
from target_service.core.policy import Immediate
from target_service.engine.admission import Bars
from target_service.engine.loop import Engine, EngineOptions
from target_service.engine.messages import Blocks, Commands, Events, FromEngine, ToEngine
from tests.unit.runner.tiny import LONGEST, V, config, module
from tests.unit.target_service.kit import BUDGET, INSTANCE, Peer, open_session

SESSIONS = 16
WARM_UP, ROUNDS = 4_000, 10_000
MOST = 2_000_000
"""Bytes by which ten thousand rounds may change what is resident: far under 2 % of any engine."""


class Enough(Exception):
    """All rounds are done."""


class Crowd:
    """The engine's channel with peers behind it, which answer at once and remember nothing that is over."""

    def __init__(self, rounds: Sequence[int]) -> None:
        self.rounds = 0
        self.resident: list[int] = []
        self._marks = list(rounds)
        self._random = np.random.default_rng(1)
        self._peers: dict[int, Peer] = {}
        self._sids = 0
        self._out: list[ToEngine] = []
        self._now = 0

    def now(self) -> int:
        self._now += 50
        return self._now

    def receive(self, timeout_s: float | None) -> list[Sequence[ToEngine]]:
        while len(self._peers) < SESSIONS:
            self._open()
        batch, self._out = self._out, []
        return [batch] if batch else []

    def send(self, batch: Sequence[FromEngine]) -> None:
        for message in batch:
            for event in message.events if isinstance(message, Events) else ():
                assert not isinstance(event, Lost)
                if isinstance(event, Result) and event.sid in self._peers and event.final:
                    self._answered(self._peers[event.sid], event)

    def _open(self) -> None:
        self._sids += 1
        prompt = tuple(int(t) for t in self._random.integers(0, 40, int(self._random.integers(2, 60))))
        peer = self._peers[self._sids] = Peer(self._sids, prompt=prompt)
        self._command(open_session(self._sids, tokens=prompt, max_output=90))
        self._next(peer)

    def _answered(self, peer: Peer, result: Result) -> None:
        self.rounds += 1
        if self._marks and self.rounds >= self._marks[0]:
            self._marks.pop(0)
            self.resident.append(resident_bytes())
            if not self._marks:
                raise Enough
        peer.take(result)
        if len(peer.output) > 80 or self._random.random() < 0.02:
            self._command(peer.close())
            del self._peers[peer.sid]
        else:
            self._next(peer)

    def _next(self, peer: Peer) -> None:
        self._command(peer.speculate(4))
        guesses = tuple(int(t) for t in self._random.integers(0, 40, int(self._random.integers(0, 5))))
        self._out.append(Blocks(9, self._now, (peer.block(guesses),)))

    def _command(self, command: Any) -> None:
        self._out.append(Commands(1, self._now, (command,)))


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(runner: Runner, vocabulary: int, *, leak: list[bytes] | None = None) -> tuple[int, int]:
    """Return resident memory after the warm-up and after ten thousand rounds more."""
    crowd = Crowd([WARM_UP, WARM_UP + ROUNDS])
    if leak is not None:
        right = crowd._answered

        def answered(peer: Peer, result: Result) -> None:
            leak.append(os.urandom(512))
            right(peer, result)

        crowd._answered = answered
    bars = Bars(max_sessions=64, max_waiting=8, longest_length=LONGEST, vocabulary_size=vocabulary, gamma_max=8)
    engine = Engine(
        runner,
        crowd,
        now=crowd.now,
        policy=Immediate(),
        bars=bars,
        options=EngineOptions(instance=INSTANCE, budget=BUDGET),
    )
    with pytest.raises(Enough):
        engine.run()
    return crowd.resident[0], crowd.resident[1]


def synthetic() -> SyntheticRunner:
    model = SyntheticModel(vocabulary=64, step_ms=0.0, context=LONGEST)
    return SyntheticRunner(model, side=Side.TARGET, pages=256)


def soak_synthetic(leaks: bool) -> tuple[int, int]:
    return soak(synthetic(), 64, leak=[] if leaks else None)


def soak_real(leaks: bool) -> tuple[int, int]:
    runner = real_runner(module(config("llama")), vocabulary_size=V, longest_context=LONGEST, budget=CacheBudget(4096))
    return soak(runner, V, leak=[] if leaks else None)


def grown(run: Callable[[bool], tuple[int, int]], *, leaks: bool) -> int:
    """Soak in a process of its own: what other tests have freed in this one would take a leak in unseen."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        before, after = pool.submit(run, leaks).result()
    return after - before


def test_memory_stays_the_same_over_ten_thousand_rounds():
    assert grown(soak_synthetic, leaks=False) < MOST


def test_a_leak_of_half_a_kilobyte_a_round_is_noticed():
    assert grown(soak_synthetic, leaks=True) > MOST


@pytest.mark.slow
def test_memory_of_a_real_model_stays_the_same_over_ten_thousand_rounds():
    assert grown(soak_real, leaks=False) < MOST
