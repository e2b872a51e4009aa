"""Composition root of a target: settings in, a running service out."""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections.abc import Coroutine
from importlib.util import find_spec

from foreword._version import __version__
from foreword.engine.process import EngineOptions
from foreword.errors import InvalidField, Unavailable
from foreword.extras import how_to_install
from foreword.models.local import check_there
from foreword.protocol.info import ServerInfo
from foreword.protocol.words import PROTOCOL_MAX, PROTOCOL_MIN
from foreword.rpc.server import RpcServer, serve
from foreword.settings.environment import cache_folder, engine_environment
from foreword.settings.rpc import advertised, server_options
from foreword.telemetry.metrics import MetricsServer, new_registry, serve_metrics
from target_service.core.budget import Budget
from target_service.engine.messages import GiveUp, StopOpening
from target_service.engine.models import ModelSettings
from target_service.engine.run import ENTRY, EngineSettings
from target_service.engine_host import EngineHost
from target_service.hub import Hub
from target_service.metrics import TargetMetrics
from target_service.servicer import TargetServicer
from target_service.settings import TargetSettings
from target_service.tensor_parallel.settings import GROUP_ENTRY, GroupedSettings, GroupSettings, ray_environment

_STAY = 0.75
"""Share of the grace time in which sessions may end by themselves; in the rest they are told to move."""


async def run(settings: TargetSettings, *, stop: asyncio.Event | None = None) -> None:
    """Serve until `stop` is set or a signal comes; sessions get the grace time to end, then they are told to move.

    Raises ForewordError, before it listens, for a model that is not there.
    """
    check_there(settings.model)
    await TargetProcess(settings).run(stop or asyncio.Event())


class TargetProcess:
    """The gRPC process of a target and its engine."""

    def __init__(self, settings: TargetSettings) -> None:
        self._settings = settings
        self._instance = uuid.uuid4().hex
        self._address = ""
        registry = new_registry()
        self._registry = registry
        self._hub = Hub(TargetMetrics(registry))
        self._host: EngineHost | None = None
        servicer = TargetServicer(self._hub, instance=self._instance, info=self._info)
        self._server = RpcServer(server_options(settings), [servicer.service()])
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop."""
        metrics: MetricsServer | None = None
        if self._settings.metrics_port is not None:
            metrics = serve_metrics(self._registry, self._settings.metrics_port, self._settings.metrics_host)
        try:
            await serve(self._server, stop=stop, started=self._started, drain=self._drain)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._host is not None:
                await self._host.stop()
            if metrics is not None:
                metrics.close()

    async def _started(self, address: str) -> None:
        self._address = advertised(self._settings, address)
        settings = self._settings
        entry, told = engine_entry(settings, self._instance)
        self._host = EngineHost(
            self._hub,
            told,
            entry=entry,
            options=engine_options(settings),
            on_warm=self._warm,
        )
        await self._host.start()
        gc.freeze()  # what is loaded by now stays: collections need not look at it again
        self._keeper = self._spawn(self._host.keep())

    async def _drain(self) -> None:
        """Open nothing more; let sessions end for most of the grace time, tell the rest to move, end the streams."""
        if self._keeper is not None:
            self._keeper.cancel()
        self._hub.send([StopOpening()])
        try:
            await self._hub.wait_idle(_STAY * self._settings.grace_s)
            self._hub.send([GiveUp()])
            await self._hub.wait_idle(self._settings.grace_s)
        finally:
            self._hub.close()

    def _warm(self, warm: bool) -> None:
        self._spawn(self._server.set_ready(ready=warm))

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _info(self) -> ServerInfo:
        described = self._host.described if self._host is not None else None
        if described is None:
            raise Unavailable("the model is being loaded", retry_after_ms=1_000)
        status = self._hub.status
        return ServerInfo(
            model=described.model,
            instance=self._instance,
            address=self._address,
            version=__version__,
            protocol_min=PROTOCOL_MIN,
            protocol_max=PROTOCOL_MAX,
            tensor_parallel_size=self._settings.tensor_parallel_size,
            cost_curve=status.cost_curve if status is not None else described.cost_curve,
            sessions=self._hub.sessions,
            local_drafter=described.local_drafter,
            gamma_max=self._settings.gamma_max,
        )


def engine_options(settings: TargetSettings) -> EngineOptions:
    """Return how the engine process is started."""
    extra = ray_environment(settings.ray_address) if settings.tensor_parallel_size > 1 else {}
    environment = engine_environment(settings.threads, extra, cache=cache_folder(settings.cache))
    return EngineOptions(environment, start_timeout_s=settings.start_timeout_s, name="target engine")


def engine_settings(settings: TargetSettings, instance: str) -> EngineSettings:
    """Return what the engine process is told."""
    model = ModelSettings(
        source=settings.model,
        name=settings.name,
        dtype=settings.dtype,
        cache=cache_folder(settings.cache),
        threads=settings.threads,
        max_tokens=settings.max_tokens,
        memory_share=settings.memory_share,
        page_size=settings.page_size,
        device=settings.device,
        deterministic=settings.deterministic,
    )
    return EngineSettings(
        instance=instance,
        model=model,
        max_sessions=settings.max_sessions,
        max_waiting=settings.max_waiting,
        budget=Budget(
            settings.max_step_tokens,
            settings.prefill_chunk,
            None if settings.step_budget_ms is None else 1000 * settings.step_budget_ms,
        ),
        step_policy=settings.step_policy,
        gamma_max=settings.gamma_max,
        log_level=settings.log.level,
        log_format=settings.log.format,
        local_drafter=settings.local_drafter,
    )


def engine_entry(settings: TargetSettings, instance: str) -> tuple[str, object]:
    """Return what the engine process runs and what it is told: one model, or a group of ranks that share one."""
    engine = engine_settings(settings, instance)
    if settings.tensor_parallel_size == 1:
        return ENTRY, engine
    if find_spec("ray") is None:
        wanted = f"1, because Ray is not installed ({how_to_install('ray')})"
        raise InvalidField("tensor_parallel_size", settings.tensor_parallel_size, wanted)
    group = GroupSettings(
        settings.tensor_parallel_size,
        ray_address=settings.ray_address,
        device=settings.device,
        threads=settings.threads,
        start_timeout_s=settings.start_timeout_s,
    )
    return GROUP_ENTRY, GroupedSettings(engine, group)
