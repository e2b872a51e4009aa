"""Entry of the engine process: load the model, warm it up, serve."""

from __future__ import annotations

import time
from dataclasses import dataclass

from foreword.engine.channel import EngineChannel
from target_service.core.policy import StepPolicyName, step_policy
from target_service.engine.admission import Bars
from target_service.engine.loop import Engine, EngineOptions
from target_service.engine.messages import Described
from target_service.engine.models import ModelSettings, load
from target_service.engine.warmup import warm_up

ENTRY = "target_service.engine.run:serve"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the engine process needs to know."""

    instance: str
    model: ModelSettings
    max_sessions: int
    prefill_chunk: int
    step_policy: StepPolicyName
    gamma_max: int


def serve(channel: EngineChannel, settings: EngineSettings) -> None:
    """Load, warm up, say what is served, and run until the service ends."""
    loaded = load(settings.model)
    runner = loaded.runner
    times = warm_up(runner, now=monotonic_us)
    longest_length = min(runner.longest_context, loaded.max_tokens)
    bars = Bars(
        max_sessions=settings.max_sessions,
        longest_length=longest_length,
        vocabulary_size=runner.vocabulary_size,
        gamma_max=settings.gamma_max,
    )
    options = EngineOptions(
        instance=settings.instance, max_tokens=loaded.max_tokens, prefill_chunk=settings.prefill_chunk
    )
    engine = Engine(
        runner,
        channel,
        now=monotonic_us,
        policy=step_policy(settings.step_policy),
        bars=bars,
        options=options,
        times=times,
    )
    channel.ready(
        Described(
            model=loaded.info,
            longest_length=longest_length,
            max_tokens=loaded.max_tokens,
            cost_curve=times.curve(),
        )
    )
    engine.run()


def monotonic_us() -> int:
    """Return the machine's monotonic clock in microseconds; the gRPC process reads the same one."""
    return time.monotonic_ns() // 1000
