"""Entry of the engine process: load the model, warm it up, serve."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from functools import partial

import structlog

from foreword.engine.channel import EngineChannel
from foreword.grammars.load import load_grammars
from foreword.grammars.port import missing
from foreword.models.source import parse_source
from foreword.telemetry.logs import LogFormat, LogLevel, configure_logs
from foreword.wire.limits import Limits
from target_service.core.budget import Budget
from target_service.core.policy import StepPolicyName, step_policy
from target_service.engine.admission import Bars
from target_service.engine.arithmetic import arithmetic_for
from target_service.engine.encoding import EncodingChannel
from target_service.engine.loop import Engine, EngineOptions
from target_service.engine.messages import Described
from target_service.engine.models import Loaded, ModelSettings, load
from target_service.engine.warmup import warm_up
from target_service.local.build import local_drafter

_log = structlog.stdlib.get_logger(__name__)

ENTRY = "target_service.engine.run:serve"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the engine process needs to know."""

    instance: str
    model: ModelSettings
    max_sessions: int
    max_waiting: int
    budget: Budget
    step_policy: StepPolicyName
    gamma_max: int
    log_level: LogLevel
    log_format: LogFormat
    local_drafter: str = "none"


def serve(channel: EngineChannel, settings: EngineSettings) -> None:
    """Load the model, warm it up, say what is served, and run until the service ends."""
    configure_logs(settings.log_level, settings.log_format)
    serve_model(channel, settings, load(settings.model))


def serve_model(channel: EngineChannel, settings: EngineSettings, loaded: Loaded) -> None:
    """Warm up a model that is loaded, say what is served, and run until the service ends."""
    runner = loaded.runner
    times = warm_up(runner, now=monotonic_us)
    arithmetic = arithmetic_for(runner.vocabulary_size)
    memory = runner.memory
    longest_length = min(runner.longest_context, memory.pages * memory.page_size)
    _log.info(
        "serving",
        model=loaded.info.name,
        pages=memory.pages,
        page_size=memory.page_size,
        tokens=memory.pages * memory.page_size,
        longest_length=longest_length,
    )
    bars = Bars(
        max_sessions=settings.max_sessions,
        max_waiting=settings.max_waiting,
        longest_length=longest_length,
        vocabulary_size=runner.vocabulary_size,
        gamma_max=settings.gamma_max,
        no_grammars=missing(),
    )
    source, cache = parse_source(settings.model.source), settings.model.cache
    grammars = partial(load_grammars, source, cache, vocabulary_size=runner.vocabulary_size)
    local = local_drafter(settings.local_drafter, settings.model, loaded.info)
    engine = Engine(
        runner,
        EncodingChannel(channel, Limits(vocabulary=runner.vocabulary_size)),
        now=monotonic_us,
        policy=step_policy(settings.step_policy),
        bars=bars,
        options=EngineOptions(
            instance=settings.instance, budget=settings.budget, arithmetic=arithmetic, grammars=grammars
        ),
        times=times,
        local=local,
    )
    gc.freeze()  # weights and modules are here to stay: collections need not look at them
    channel.ready(
        Described(
            model=loaded.info,
            longest_length=longest_length,
            memory=memory,
            cost_curve=times.curve(),
            local_drafter=local.kind if local is not None else None,
        )
    )
    engine.run()


def monotonic_us() -> int:
    """Return the machine's monotonic clock in microseconds; the gRPC process reads the same one."""
    return time.monotonic_ns() // 1000
