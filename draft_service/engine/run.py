"""Entry of the engine process: receives, drafts, sends, and sleeps until a message or a deadline comes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from draft_service.drafters.build import DrafterConfig, build_drafter
from draft_service.drafters.port import Abilities
from draft_service.engine.admission import bounded_room
from draft_service.engine.costs import measure_costs
from draft_service.engine.encoding import encoded
from draft_service.engine.engine import Engine, Policy
from draft_service.engine_messages import Ready, ToEngine, ToService
from foreword.telemetry.logs import LogFormat, LogLevel, configure_logs
from foreword.values import replace


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """All that an engine process needs to know."""

    drafter: DrafterConfig
    policy: Policy
    ahead_on_gpu_only: bool = False
    """Draft ahead only where the model has a device of its own."""
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.JSON


class Channel(Protocol):
    """The engine's side of its process; see `foreword.engine.channel.EngineChannel`."""

    def ready(self, info: object = None) -> None:
        """Tell the service that the engine has started."""

    def receive(self, timeout_s: float | None = None) -> list[list[ToEngine]]:
        """Return what is there, after waiting up to `timeout_s` for the first."""

    def send(self, batch: list[ToService]) -> None:
        """Send a batch."""


def run(channel: Channel, config: EngineConfig) -> None:
    """Build the drafter, warm it up, and serve until the service wants the end."""
    configure_logs(config.log_level, config.log_format)
    drafter = build_drafter(config.drafter)
    costs = measure_costs(drafter)
    engine = Engine(drafter, bounded(config, drafter.abilities), time.monotonic_ns, costs=costs)
    gc.freeze()  # what loading left is never garbage; scanning it takes longer than a drafting step
    channel.ready(Ready(drafter.abilities, costs))
    while True:
        turn(engine, channel, time.monotonic_ns)


def bounded(config: EngineConfig, abilities: Abilities) -> Policy:
    """Return the policy within what the drafter can do."""
    policy = config.policy
    branches = 0 if config.ahead_on_gpu_only and not abilities.on_gpu else policy.branches
    return replace(policy, room=bounded_room(policy.room, abilities), branches=branches)


def turn(engine: Engine, channel: Channel, now_ns: Callable[[], int]) -> None:
    """Wait for something to do, take all that came, and do one step."""
    wait_ns = engine.next_ns() - now_ns()
    for batch in channel.receive(max(0, wait_ns) / 1e9):
        for message in batch:
            engine.take(message)
    _send(engine, channel)  # answers do not wait for a step
    engine.work()
    _send(engine, channel)


def _send(engine: Engine, channel: Channel) -> None:
    batch = engine.outgoing.take()
    if batch:
        channel.send(encoded(batch, engine.outgoing.count))
