"""One simulation: a scene, a way of choosing γ, a seed; what came of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from foreword.errors import ForewordError
from foreword.laws.parameters import LawParameters
from foreword.protocol.info import CostPoint, ModelInfo, ServerInfo
from foreword.protocol.messages import (
    DraftKeys,
    DraftOpen,
    LogProbabilities,
    TargetKeys,
)
from foreword.protocol.sequence import Sequence
from foreword.protocol.words import Drafter, Rule
from foreword.testing.virtual_clock import VirtualClock
from loadtest.simulator.draft import SimDraft
from loadtest.simulator.scene import Scene
from loadtest.simulator.target import SimTarget
from loadtest.simulator.text import Text
from loadtest.simulator.wires import Wire
from orchestrator.core.state import Ended, Request, Session
from orchestrator.policy import Gamma, MeasuringPolicy, WaitLimits
from orchestrator.pools.drafts import DraftPeer, DraftPool, Trust, Wish
from orchestrator.pools.peer import Peer
from orchestrator.pools.targets import TargetPeer, TargetPool
from orchestrator.pools.tickets import Tickets
from orchestrator.sessions.afterwards import Afterwards
from orchestrator.sessions.driver import SessionDriver, Surroundings
from orchestrator.sessions.limits import SECOND_US, SessionLimits
from orchestrator.sessions.output import Decided, Places
from target_service.core.policy import StepPolicyName, step_policy

_MODEL = ModelInfo("m", "synthetic", "", "", 64, 1 << 30, "float32")
_KEY = b"\0" * 16
_CURVE_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_STAGGER_US = 20_000

Command = TypeVar("Command")


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a simulation."""

    tokens: int
    """Of all sessions."""
    seconds: float
    gammas: dict[int, int]
    """How many Results came under each γ; 0 are plain steps."""
    times_us: list[tuple[int, int]]
    """When how many tokens had come, once a second."""
    prices: list[tuple[int, float]]
    target_busy: float
    draft_busy: float
    """Shares of the time in steps and passes."""

    @property
    def tokens_s(self) -> float:
        """Tokens of all sessions in a second."""
        return self.tokens / self.seconds


class _Line(Generic[Command]):
    """An orchestrator's way to a peer."""

    def __init__(self, wire: Wire, take: Callable[[Command], None], rtt_us: Callable[[], int]) -> None:
        self._wire = wire
        self._take = take
        self._rtt_us = rtt_us

    def send(self, message: Command) -> bool:
        self._wire.send(lambda: self._take(message))
        return True

    def round_trip_us(self) -> int | None:
        return self._rtt_us()

    newest_round_trip_us = round_trip_us


@dataclass
class _Counts:
    """Meters and outputs of all sessions."""

    tokens: int = 0
    gammas: dict[int, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)

    def event(self, name: str) -> None:
        self.events[name] = self.events.get(name, 0) + 1

    def decided(self, decided: Decided) -> None:
        self.tokens += len(decided.emit.tokens)
        self.gammas[decided.gamma] = self.gammas.get(decided.gamma, 0) + 1


class _Loop:
    """One user: asks for a text as soon as the one before has come."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self._simulation = simulation
        self._number = number
        self._asked = 0

    def ask(self) -> None:
        self._simulation.drive(self, 1000 * self._asked + self._number)
        self._asked += 1

    def decided(self, decided: Decided) -> int | None:
        return None

    def scored(self, logprobs: LogProbabilities) -> None:
        return None

    def ended(self, ended: Ended, places: Places) -> None:
        self._simulation.clock.call_later(0, self.ask)

    def failed(self, error: ForewordError) -> None:
        raise error


class Simulation:
    """Runs a scene once."""

    def __init__(self, scene: Scene, gamma: Gamma, *, seed: int) -> None:
        self._scene = scene
        self._gamma = gamma
        self._seed = seed
        self.clock = clock = VirtualClock(seed=seed)
        self._counts = _Counts()
        numbers = itertools.count(1)
        tickets = Tickets(lambda size: next(numbers).to_bytes(size, "big"))
        target_peer: TargetPeer = Peer("target", tickets, self._counts.event)
        draft_peer: DraftPeer = Peer("draft", tickets, self._counts.event)
        near, far = self._near_us, self._far_us
        self._target = SimTarget(
            clock,
            target_peer,
            step=scene.step,
            policy=step_policy(StepPolicyName.WORTHWHILE),
            to_orchestrator=Wire(clock, near),
            to_draft=Wire(clock, far),
            tell_draft=lambda notice: self._draft.verdict(notice),
        )
        self._draft = SimDraft(
            clock,
            draft_peer,
            draft_us=scene.draft_us,
            agreement=scene.agreement,
            text_of=self._text_of,
            to_orchestrator=Wire(clock, far),
            to_target=Wire(clock, far),
            push=lambda block: self._target.block(block),
        )
        targets, drafts = TargetPool([target_peer]), DraftPool(Trust(), [draft_peer])
        self._around = Surroundings(
            clock=clock,
            afterwards=Afterwards(clock),
            targets=targets,
            drafts=drafts,
            tickets=tickets,
            policy=MeasuringPolicy(WaitLimits(), stops=False),
            meters=self._counts,
            limits=SessionLimits(round_us=600 * SECOND_US),
        )
        curve = tuple(CostPoint(rows, 0, scene.step.step_us(rows)) for rows in _CURVE_ROWS)
        info = ServerInfo(_MODEL, "target#1", "target", "0", 1, 1, cost_curve=curve)
        to_target = _Line(Wire(clock, near), self._target.take, lambda: 2 * near(clock.now_us()))
        to_draft = _Line(Wire(clock, far), self._draft.take, self._last_round_trip_us)
        targets.came_up(target_peer, to_target, info, "target#1")
        drafts.came_up(
            draft_peer, to_draft, ServerInfo(_MODEL, "d", "d", "0", 1, 1, drafter=Drafter.SYNTHETIC), "draft#1"
        )

    def run(self) -> Played:
        """Return what came of it."""
        scene, counts = self._scene, self._counts
        for number in range(scene.sessions):
            self.clock.call_later(number * _STAGGER_US // scene.sessions, _Loop(self, number).ask)
        times = []
        for at_us in range(SECOND_US, scene.end_us + 1, SECOND_US):
            self.clock.run_until(at_us)
            times.append((at_us, counts.tokens))
        self.clock.run_until(scene.end_us)
        return Played(
            tokens=counts.tokens,
            seconds=scene.seconds,
            gammas=dict(sorted(counts.gammas.items())),
            times_us=times,
            prices=self._target.prices,
            target_busy=self._target.busy_us / scene.end_us,
            draft_busy=self._draft.busy_us / scene.end_us,
        )

    def drive(self, loop: _Loop, number: int) -> None:
        """Start a text."""
        request = Request(
            law=LawParameters(temperature=0.0),
            target_keys=TargetKeys(_KEY, _KEY, _KEY),
            draft_keys=DraftKeys(_KEY),
            max_output=self._scene.tokens,
            gamma_max=16,
            vocabulary_size=64,
        )
        session = Session(request, Sequence.of((number,), 1), Rule.MATCH)
        SessionDriver(session, loop, self._around, gamma=self._gamma, wish=Wish()).start()

    def _text_of(self, command: DraftOpen) -> Text:
        return Text(self._seed, command.tokens[0])

    def _near_us(self, now_us: int) -> int:
        return self._scene.hop_us

    def _far_us(self, now_us: int) -> int:
        return self._scene.hop_us + round(self._scene.rtt_us.at(now_us) / 2)

    def _last_round_trip_us(self) -> int:
        """Return what was measured at the last full second."""
        return 2 * self._far_us(self.clock.now_us() // SECOND_US * SECOND_US)
