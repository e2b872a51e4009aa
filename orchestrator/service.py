"""Composition root of an orchestrator: settings in, a running service out."""

from __future__ import annotations

import asyncio
import gc
import secrets
import uuid
from contextlib import ExitStack
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from foreword.clock import MonotonicClock
from foreword.rpc.dialler import Dialler
from foreword.rpc.link import LinkOptions
from foreword.rpc.server import RpcServer, serve
from foreword.settings.environment import cache_folder
from foreword.settings.rpc import server_options, tls_files
from foreword.telemetry.metrics import new_registry, serve_metrics
from orchestrator.front.checks import FrontLimits
from orchestrator.front.event_queue import QueueLimits
from orchestrator.front.front import Front, FrontSettings
from orchestrator.front.intake import Intake
from orchestrator.links import Reach, draft_dialler, target_dialler
from orchestrator.measure.progress import Progress
from orchestrator.metrics import OrchestratorMetrics
from orchestrator.policy import FixedPolicy, WaitLimits
from orchestrator.pools.drafts import DraftPeer, DraftPool
from orchestrator.pools.targets import TargetPeer, TargetPool
from orchestrator.pools.tickets import Tickets
from orchestrator.servicer import GenerationServicer
from orchestrator.sessions.afterwards import Afterwards
from orchestrator.sessions.driver import Surroundings
from orchestrator.sessions.limits import SECOND_US, SessionLimits
from orchestrator.settings import OrchestratorSettings
from orchestrator.tokenizers import load_text

_log = structlog.stdlib.get_logger(__name__)

FAREWELL_S = 1.0
"""Time in which links end in good order at shutdown."""


async def run(settings: OrchestratorSettings, stop: asyncio.Event | None = None) -> None:
    """Serve until `stop` is set or a signal comes; raises ForewordError if it cannot start."""
    registry = new_registry()
    with ExitStack() as stack:
        if settings.metrics_port is not None:
            stack.callback(serve_metrics(registry, settings.metrics_port, settings.metrics_host).close)
        await OrchestratorProcess(settings, registry).serve(stop or asyncio.Event())


class OrchestratorProcess:
    """One process, one event loop: it has no forward pass, so no engine beside it (docs/decisions/0003)."""

    def __init__(self, settings: OrchestratorSettings, registry: CollectorRegistry) -> None:
        self._settings = settings
        self._metrics = OrchestratorMetrics(registry)
        self._around = self._surroundings()
        self._front = Front(front_settings(settings), self._around, self._metrics, new_id=lambda: uuid.uuid4().hex)
        self._server = RpcServer(server_options(settings), [GenerationServicer(self._front).service()])
        self._open = False
        self._ready = True
        """Whether probes are told that requests are taken, once the service is open."""
        self._diallers: dict[Dialler[Any, Any], asyncio.Task[None]] = {}

    async def serve(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        report = asyncio.create_task(self._report()) if self._settings.report_s else None
        try:
            await serve(self._server, stop=stop, started=self._started, drain=self._drain)
        finally:
            if report is not None:
                report.cancel()
            await self._close_links()

    def _surroundings(self) -> Surroundings:
        settings, count = self._settings, self._metrics.event
        tickets = Tickets(secrets.token_bytes)
        waits = WaitLimits(least_us=round(settings.wait_min_ms * 1000), most_us=round(settings.wait_max_ms * 1000))
        targets: list[TargetPeer] = [TargetPeer(address, tickets, count) for address in settings.targets]
        drafts: list[DraftPeer] = [DraftPeer(address, tickets, count) for address in settings.drafts]
        clock = MonotonicClock(asyncio.get_running_loop())
        return Surroundings(
            clock=clock,
            afterwards=Afterwards(clock),
            targets=TargetPool(targets),
            drafts=DraftPool(drafts, settings.trusted()),
            tickets=tickets,
            policy=FixedPolicy(waits),
            meters=self._metrics,
            limits=session_limits(settings),
        )

    async def _started(self, _: str) -> None:
        """Reach the peers; ready as soon as one target is up and its tokenizer is loaded."""
        reach = Reach(
            instance=uuid.uuid4().hex,
            tls=tls_files(self._settings.tls),
            insecure=self._settings.insecure,
            link=LinkOptions(),
        )
        around, now_us = self._around, self._around.clock.now_us
        up = asyncio.Event()
        around.targets.waiting.add(self, up.set)
        for target in around.targets.peers:
            self._keep(target_dialler(target, around.targets, reach, now_us, self._targets_changed))
        for draft in around.drafts.peers:
            self._keep(draft_dialler(draft, around.drafts, around.targets, reach, now_us))
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

    def _keep(self, dialler: Dialler[Any, Any]) -> None:
        self._diallers[dialler] = asyncio.get_running_loop().create_task(dialler.run())

    async def _close_links(self) -> None:
        """End the links in good order, so that what was sent last arrives; not for ever."""
        for dialler in self._diallers:
            dialler.stop()
        tasks = self._diallers.values()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=FAREWELL_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def front_settings(settings: OrchestratorSettings) -> FrontSettings:
    """Return what the front is told."""
    return FrontSettings(
        limits=FrontLimits(
            gamma=settings.gamma,
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
