"""Composition root of the draft service: its gRPC process."""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import structlog

from draft_service.engine_host import EngineHost
from draft_service.engine_messages import (
    Bound,
    Drain,
    Drained,
    EncodedBlocks,
    Events,
    Gauges,
    Released,
    Tallies,
    ToEngine,
    ToService,
)
from draft_service.folder.bundled import draft_folder
from draft_service.metrics import DraftMetrics
from draft_service.servicer import DraftServicer
from draft_service.settings import DraftSettings
from draft_service.target_links import TargetLinks
from foreword._version import __version__
from foreword.engine.process import EngineOptions
from foreword.errors import ForewordError, InvalidField, Unavailable
from foreword.models.local import check_there
from foreword.protocol.info import DraftInfo, ServerInfo
from foreword.protocol.messages import DraftEvent, LoadReport
from foreword.protocol.words import PROTOCOL_MAX, PROTOCOL_MIN
from foreword.rpc.server import RpcServer, serve
from foreword.rpc.tls import is_loopback, open_channel
from foreword.rpc.transport import Dial, Transport, dial_on
from foreword.settings.environment import cache_folder, engine_environment
from foreword.settings.rpc import advertised, server_options, tls_files
from foreword.telemetry.metrics import new_registry, serve_metrics
from foreword.wire.limits import Limits
from foreword.wire.methods import TARGET_PUSH_BLOCKS

_log = structlog.stdlib.get_logger(__name__)


async def run(settings: DraftSettings, stop: asyncio.Event | None = None) -> None:
    """Serve until `stop` is set or SIGTERM comes; raises ForewordError if it cannot start.

    A model that is not there is said before it listens.
    """
    if settings.model and draft_folder(settings.model) is None:
        check_there(settings.model)
    registry = new_registry()
    service = DraftProcess(settings, DraftMetrics(registry))
    with ExitStack() as stack:
        if settings.metrics_port is not None:
            stack.callback(serve_metrics(registry, settings.metrics_port, settings.metrics_host).close)
        await service.serve(stop or asyncio.Event())


def engine_options(settings: DraftSettings) -> EngineOptions:
    """Return how the engine process is started."""
    environment = engine_environment(settings.threads, cache=cache_folder(settings.cache))
    return EngineOptions(environment, start_timeout_s=settings.start_timeout_s, name="draft engine")


class DraftProcess:
    """The gRPC process: joins the servicer, the target links and the engine, and moves messages between them."""

    def __init__(self, settings: DraftSettings, metrics: DraftMetrics) -> None:
        self.instance = uuid.uuid4().hex
        self._settings = settings
        self._metrics = metrics
        self._address = ""
        self._gauges = Gauges(0, 0, 0, None, 0)
        self._announcement: asyncio.Task[None] | None = None
        self._drained = asyncio.Event()
        self._host = EngineHost(
            settings.engine_config(),
            engine_options(settings),
            on_batch=self._from_engine,
            on_lost=self._engine_lost,
            on_back=self._engine_back,
        )
        self._servicer = DraftServicer(self, instance=self.instance)
        self._links = TargetLinks(self, instance=self.instance, limits=self.limits)
        self._server = RpcServer(server_options(settings), [self._servicer.service()])

    @property
    def engine_pid(self) -> int | None:
        """Process id of the engine; None while there is none."""
        return self._host.pid

    async def serve(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        try:
            await serve(self._server, stop=stop, started=self._started, drain=self._drain)
        finally:
            await self._links.close()
            await self._host.stop()

    def admit(self) -> None:
        """Raise Unavailable while there is no engine."""
        if not self._host.running:
            raise Unavailable("draft: the engine is not ready")

    def limits(self) -> Limits:
        """Return what frames may hold: no id beyond the model's vocabulary reaches the engine."""
        vocabulary = self._host.ready.abilities.vocabulary_size if self._host.ready else None
        return Limits() if vocabulary is None else Limits(vocabulary=vocabulary)

    def info(self) -> DraftInfo:
        """Return what the service is; raises Unavailable before it is known."""
        ready = self._host.ready
        if ready is None:
            raise Unavailable("draft: the engine is not ready yet")
        server = ServerInfo(
            model=ready.abilities.model,
            instance=self.instance,
            address=self._address,
            version=__version__,
            protocol_min=PROTOCOL_MIN,
            protocol_max=PROTOCOL_MAX,
            cost_curve=ready.cost_curve,
            drafter=ready.abilities.kind,
            sessions=self._gauges.sessions,
            name=self._settings.name,
        )
        return DraftInfo(server, self._settings.gamma_max, ready.abilities.vocabulary_map_digest)

    def dial(self, address: str) -> Dial:
        """Return how the target at an address is reached; raises InvalidField for plaintext off loopback."""
        tls, insecure = tls_files(self._settings.tls), self._settings.insecure
        if tls is None and not insecure and not is_loopback(address):
            raise InvalidField("target_address", address, "TLS files for a target off loopback, or --insecure")

        @asynccontextmanager
        async def dial() -> AsyncIterator[Transport]:
            # A channel of its own for each attempt: names are looked up again, and gRPC adds no back-off to ours.
            async with (
                open_channel(address, tls=tls, insecure=insecure) as channel,
                dial_on(channel, TARGET_PUSH_BLOCKS)() as transport,
            ):
                yield transport

        return dial

    def to_engine(self, message: ToEngine) -> None:
        """Hand a message to the engine."""
        self._host.send(message)

    def tell(self, stream: int, event: DraftEvent) -> None:
        """Send an event to the orchestrator of a stream."""
        self._servicer.deliver(Events(stream, (event,)))

    def count(self, name: str) -> None:
        """Count something that went wrong or was ignored."""
        self._metrics.count(name)

    async def _started(self, address: str) -> None:
        self._address = advertised(self._settings, address)
        await self._host.start()
        gc.collect()
        gc.freeze()  # what is loaded by now stays: collections need not look at it again

    async def _drain(self) -> None:
        if self._host.running:
            self._drained.clear()  # the loss of an earlier engine has set it
            self.to_engine(Drain())
            await self._drained.wait()
        self._servicer.close_all()

    def _engine_lost(self, error: ForewordError) -> None:
        self._metrics.count("engine_lost")
        self._announcement = asyncio.get_running_loop().create_task(self._server.set_ready(ready=False))
        self._servicer.abort_all(error)
        self._drained.set()  # nobody is left to be told
        self._links.forget()

    async def _engine_back(self) -> None:
        await self._server.set_ready(ready=True)

    def _from_engine(self, batch: list[ToService]) -> None:
        for message in batch:
            match message:
                case EncodedBlocks():
                    self._push(message)
                case Events():
                    self._servicer.deliver(message)
                case Bound():
                    self._links.bind(message)
                case Released():
                    self._links.release(message.ticket)
                case Tallies():
                    self._metrics.tallies(message)
                case Gauges():
                    self._report(message)
                case Drained():
                    self._drained.set()

    def _push(self, message: EncodedBlocks) -> None:
        fates = self._links.push(message)
        # Behind the link's writer, which what was pushed has woken: a block is what everybody waits for.
        asyncio.get_running_loop().call_soon(self._count_blocks, message, fates)

    def _count_blocks(self, message: EncodedBlocks, fates: Counter[str]) -> None:
        for fate, times in fates.items():
            self._metrics.count(fate, times)
        self._metrics.blocks(message)

    def _report(self, message: Gauges) -> None:
        self._gauges = message
        self._metrics.gauges(message)
        report = LoadReport(message.sessions, message.waiting, message.free_tokens, message.step_us)
        self._servicer.tell_all(report)
