"""What draft-ahead is worth, on a clock of its own: a draft, a target and the way between them, each with set times."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import pytest

from draft_service.drafters.model import ModelDrafter
from draft_service.engine_messages import Answers
from foreword.models.synthetic import SyntheticModel
from foreword.protocol.digest import EMPTY, extend
from foreword.protocol.info import CostPoint
from foreword.protocol.messages import Block, VerdictNotice
from tests.unit.draft_service import ahead_kit
from tests.unit.draft_service.ahead_kit import PROMPT, Scene
from tests.unit.draft_service.kit import MS


@dataclass
class Race:
    """One session for some rounds; times in milliseconds, the way is one direction's."""

    draft: float
    target: float
    way: float
    gamma: int
    branches: int
    alternatives: int = 0
    rounds: int = 80
    events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    arrived: dict[tuple[int, int], Block] = field(default_factory=dict)
    round: int = 1
    verifying: bool = False
    tokens: int = 0
    numbers: Iterator[int] = field(default_factory=count)
    at: int = 0
    """The time of the event that is being dealt with."""

    def run(self) -> float:
        """Return tokens per second."""
        self.scene = Scene(self.branches)
        self.bench = self.scene.bench
        self._pace(self.scene.drafter)
        costs = [CostPoint(rows, 32, round(1000 * self.draft)) for rows in (1, 16)]
        self.bench.engine._times.__init__(costs)  # type: ignore[misc]
        self.scene.open(1)
        self.text, began = (*PROMPT, 1), self.bench.now_ns
        self.bench.order(1, 1, gamma=self.gamma, alternatives=self.alternatives)
        while self.round <= self.rounds:
            self._turn()
        return self.tokens / (self.at - began) * 1e9

    def _turn(self) -> None:
        bench = self.bench
        while self.events and self.events[0][0] <= bench.now_ns:
            self.at, _, event = heapq.heappop(self.events)
            event()
        self._send()
        if bench.engine.next_ns() <= bench.now_ns:
            bench.engine.work()
            self._send()
        elif self.events:
            bench.now_ns = max(bench.now_ns, self.events[0][0])

    def _pace(self, drafter: ModelDrafter) -> None:
        """Let every pass take the draft's time."""
        for name in ("step", "look_ahead"):
            real = getattr(drafter, name)

            def timed(*work: object, real: Callable[..., object] = real) -> object:
                self.bench.now_ns += round(self.draft * MS)
                return real(*work)

            setattr(drafter, name, timed)

    def _later(self, at_ns: int, ms: float, event: Callable[[], None]) -> None:
        heapq.heappush(self.events, (at_ns + round(ms * MS), next(self.numbers), event))

    def _send(self) -> None:
        for block in self.bench.blocks():
            self._later(self.bench.now_ns, self.way, lambda block=block: self._arrive(block))

    def _arrive(self, block: Block) -> None:
        self.arrived.setdefault((block.round, block.digest), block)
        self._verify()

    def _verify(self) -> None:
        block = self.arrived.get((self.round, extend(EMPTY, self.text)))
        if block is not None and not self.verifying:
            self.verifying = True
            self._later(self.at, self.target, lambda: self._decide(block))

    def _decide(self, block: Block) -> None:
        """A verdict: its notice and the Advance reach the draft together, the Commit is here at once."""
        kept, token = self.scene.outcome(self.text, block)
        came = (*block.ids[:kept], token)
        self.text, self.tokens, self.round = self.text + came, self.tokens + len(came), self.round + 1
        self.verifying, round = False, self.round

        def told() -> None:
            notice = VerdictNotice(block.ticket, block.round, block.digest, kept, token)
            self.bench.engine.take(Answers(self.at, (notice,)))  # it may have waited for the end of a pass
            self.bench.order(1, round, came, gamma=self.gamma, alternatives=self.alternatives)

        self._later(self.at, self.way, told)
        self._verify()


def best(draft: float, target: float, way: float, gammas: range, **fields: int) -> float:
    return max(Race(draft, target, way, gamma, **fields).run() for gamma in gammas)


def model(monkeypatch: pytest.MonkeyPatch, agreement: float) -> None:
    wanted = SyntheticModel(vocabulary=32, step_ms=0.0, agreement=agreement, context=8192)
    monkeypatch.setattr(ahead_kit, "MODEL", wanted)


def test_the_next_block_is_there_when_the_verdict_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft of 5 ms beside a target of 20 ms: at least 1.3 times the best without."""
    model(monkeypatch, 0.8)
    without = best(5, 20, 0.5, range(2, 6), branches=0)
    assert best(5, 20, 0.5, range(4, 5), branches=16) >= 1.3 * without


def test_shipped_blocks_hide_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 ms each way: at least 1.25 times what no synchronous round can surpass."""
    model(monkeypatch, 0.9)
    bound = max((1 - 0.9 ** (gamma + 1)) / 0.1 / (2 * gamma + 40) * 1000 for gamma in range(1, 33))
    assert best(2, 20, 10, range(6, 7), branches=32, alternatives=32) >= 1.25 * bound


@pytest.mark.parametrize("agreement", [0.3, 0.95])
def test_it_never_costs_much(monkeypatch: pytest.MonkeyPatch, agreement: float) -> None:
    """A verdict that comes amid a pass waits for its end: what is lost so stays small where little is gained."""
    model(monkeypatch, agreement)
    for draft, target in ((1, 20), (10, 12), (20, 5)):
        without = best(draft, target, 0.5, range(2, 3), branches=0)
        assert best(draft, target, 0.5, range(2, 3), branches=16) >= 0.98 * without
