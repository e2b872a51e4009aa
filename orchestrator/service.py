"""Composition root of an orchestrator: settings in, a running service out."""

from __future__ import annotations

import asyncio
import gc
import secrets
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry

from foreword.clock import MonotonicClock
from foreword.extras import check_installed
from foreword.rpc.link import LinkOptions
from foreword.rpc.server import RpcServer, serve
from foreword.settings.environment import cache_folder
from foreword.settings.rpc import server_options, tls_files
from foreword.telemetry.metrics import new_registry, serve_metrics
from orchestrator.front.checks import FrontLimits
from orchestrator.front.event_queue import QueueLimits
from orchestrator.front.front import Front, FrontSettings
from orchestrator.front.intake import Intake
from orchestrator.keeper import Keeper, Lookups, Pools
from orchestrator.links import Reach
from orchestrator.measure.progress import Progress
from orchestrator.metrics import OrchestratorMetrics
from orchestrator.policy import MeasuringPolicy, WaitLimits
from orchestrator.pools.drafts import DraftPool
from orchestrator.pools.names import LookUp
from orchestrator.pools.targets import TargetPool
from orchestrator.pools.tickets import Tickets
from orchestrator.resolver import SystemResolver
from orchestrator.servicer import GenerationServicer
from orchestrator.sessions.afterwards import Afterwards
from orchestrator.sessions.driver import Surroundings
from orchestrator.sessions.limits import SECOND_US, SessionLimits
from orchestrator.settings import OrchestratorSettings
from orchestrator.tokenizers import load_text

if TYPE_CHECKING:
    from orchestrator.http.service import HttpService

_log = structlog.stdlib.get_logger(__name__)


async def run(
    settings: OrchestratorSettings, stop: asyncio.Event | None = None, *, look_up: LookUp | None = None
) -> None:
    """Serve until `stop` is set or a signal comes; raises ForewordError if it cannot start.

    Names are looked up as the machine does, unless `look_up` is given.
    """
    registry = new_registry()
    with ExitStack() as stack:
        if settings.metrics_port is not None:
            stack.callback(serve_metrics(registry, settings.metrics_port, settings.metrics_host).close)
        process = OrchestratorProcess(settings, registry, look_up or SystemResolver())
        await process.serve(stop or asyncio.Event())


class OrchestratorProcess:
    """One process, one event loop: it has no forward pass, so no engine beside it (docs/decisions/0003)."""

    def __init__(self, settings: OrchestratorSettings, registry: CollectorRegistry, look_up: LookUp) -> None:
        self._settings = settings
        self._metrics = OrchestratorMetrics(registry)
        self._around = self._surroundings()
        self._keeper = self._new_keeper(look_up)
        self._front = Front(front_settings(settings), self._around, self._metrics, new_id=lambda: uuid.uuid4().hex)
        self._server = RpcServer(server_options(settings), [GenerationServicer(self._front).service()])
        self._http = _http_service(settings, self._front, registry) if settings.http.enabled else None
        self._open = False
        self._ready = True
        """Whether probes are told that requests are taken, once the service is open."""

    async def serve(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        report = asyncio.create_task(self._report()) if self._settings.report_s else None
        try:
            await serve(self._server, stop=stop, started=self._started, drain=self._drain)
        finally:
            if report is not None:
                report.cancel()
            if self._http is not None:
                await self._http.stop()
            await self._keeper.close()

    def _surroundings(self) -> Surroundings:
        settings, count = self._settings, self._metrics.event
        waits = WaitLimits(least_us=round(settings.wait_min_ms * 1000), most_us=round(settings.wait_max_ms * 1000))
        clock = MonotonicClock(asyncio.get_running_loop())
        return Surroundings(
            clock=clock,
            afterwards=Afterwards(clock),
            targets=TargetPool(
                reopens_at_once=settings.reopens_at_once, by_prefix=settings.route_by_prefix, count=count
            ),
            drafts=DraftPool(settings.trusted()),
            tickets=Tickets(secrets.token_bytes),
            policy=MeasuringPolicy(
                waits,
                local=settings.local_drafts,
                stops=settings.stop_rule,
                alternatives=settings.alternatives,
            ),
            meters=self._metrics,
            limits=session_limits(settings),
        )

    def _new_keeper(self, look_up: LookUp) -> Keeper:
        settings, around = self._settings, self._around
        reach = Reach(
            instance=uuid.uuid4().hex,
            tls=tls_files(settings.tls),
            insecure=settings.insecure,
            link=LinkOptions(),
        )
        return Keeper(
            Pools(around.targets, around.drafts, around.tickets, self._metrics.event),
            reach,
            Lookups(look_up, every_us=round(settings.resolve_s * SECOND_US)),
            clock=around.clock,
            targets_changed=self._targets_changed,
        )

    async def _started(self, _: str) -> None:
        """Reach the peers; ready as soon as one target is up and its tokenizer is loaded."""
        if self._http is not None:
            await self._http.start()
        around = self._around
        up = asyncio.Event()
        around.targets.waiting.add(self, up.set)
        self._keeper.start(targets=self._settings.targets, drafts=self._settings.drafts)
        await up.wait()
        model = around.targets.model
        assert model is not None
        cache = cache_folder(self._settings.cache)
        text = await asyncio.to_thread(load_text, self._settings.model, model, cache)
        intake = Intake(
            text,
            model,
            around.drafts,
            limits=front_settings(self._settings).limits,
            entropy=secrets.token_bytes,
        )
        self._front.open_up(intake)
        if self._http is not None:
            self._http.announce()

        self._open = True
        gc.collect()
        gc.freeze()  # what is here now stays: full collections need not walk it in the middle of a round

    async def _report(self) -> None:
        """Log what was decoded, now and then."""
        progress = Progress(self._around.clock.now_us())
        while True:
            await asyncio.sleep(self._settings.report_s)
            line = progress.look(self._metrics.totals(), self._around.clock.now_us())
            if line is not None:
                _log.info("decoded", **line)

    def _targets_changed(self) -> None:
        """Be ready while a target is up, so that balancers send requests to an orchestrator that has one."""
        up = any(peer.up for peer in self._around.targets.peers)
        if self._open and up != self._ready:
            self._ready = up
            self._readying = asyncio.get_running_loop().create_task(self._server.set_ready(ready=up))

    async def _drain(self) -> None:
        self._open = False
        await self._front.drain()


def _http_service(settings: OrchestratorSettings, front: Front, registry: CollectorRegistry) -> HttpService:
    """Return what serves HTTP; raises NotFound where the extra for it is not installed."""
    check_installed("fastapi", "uvicorn")
    from orchestrator.http.service import HttpService  # needs what gRPC does without

    return HttpService(settings.http, front, registry, service_tls=tls_files(settings.tls))


def front_settings(settings: OrchestratorSettings) -> FrontSettings:
    """Return what the front is told."""
    return FrontSettings(
        limits=FrontLimits(
            gamma=settings.gamma,
            gamma_min=settings.gamma_min,
            gamma_max=settings.gamma_max,
            default_max_tokens=settings.default_max_tokens,
            most_choices=settings.max_choices,
        ),
        max_requests=settings.max_requests,
        queue=QueueLimits(full=settings.client_buffer, drained=settings.client_buffer // 4),
        patience_us=round(settings.client_patience_s * SECOND_US),
    )


def session_limits(settings: OrchestratorSettings) -> SessionLimits:
    """Return how patient sessions are with their peers."""
    return SessionLimits(
        open_us=round(settings.open_limit_s * SECOND_US),
        round_us=round(settings.round_limit_s * SECOND_US),
        target_us=round(settings.target_patience_s * SECOND_US),
    )
