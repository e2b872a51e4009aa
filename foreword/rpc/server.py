"""Life cycle of a service's gRPC server: build, register, health, reflection, start, drain, stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc.aio
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_health.v1.health import aio as health_aio  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from foreword.errors import Unavailable
from foreword.rpc.interceptor import ErrorInterceptor
from foreword.rpc.options import server_options
from foreword.rpc.roles import RolePolicy
from foreword.rpc.services import Service
from foreword.rpc.tls import TlsFiles, check_plaintext, server_credentials

_log = structlog.stdlib.get_logger(__name__)

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server listens."""

    listen: str = "127.0.0.1:0"
    """Host and port; port 0 takes a free one."""
    tls: TlsFiles | None = None
    insecure: bool = False
    """Allow plaintext off loopback."""
    health_listen: str = ""
    """Host and port of a further server, in plaintext, that has the health service alone; empty for none."""
    roles: RolePolicy = field(default_factory=RolePolicy)
    """Roles of peers under TLS; without TLS everybody has every role."""
    reflection: bool = False
    address_file: Path | None = None
    """Where the bound address is written once the server is ready."""
    grace_s: float = 10.0
    """Time that draining may take, and that running calls get afterwards."""


class RpcServer:
    """A gRPC server with standard health: "" tells liveness, each service's name readiness."""

    def __init__(self, options: ServerOptions, services: Sequence[Service]) -> None:
        if options.tls is None:
            check_plaintext(options.listen, insecure=options.insecure)
        self._options = options
        self._services = tuple(services)
        self._server: grpc.aio.Server | None = None
        self._health_server: grpc.aio.Server | None = None
        self._health = health_aio.HealthServicer()
        self.address = ""
        """Host and port that the server is bound to, once it is started."""
        self.health_address = ""
        """Host and port of the server for probes, if there is one."""

    @property
    def grace_s(self) -> float:
        """Time that draining may take, and that running calls get afterwards."""
        return self._options.grace_s

    async def start(self) -> str:
        """Bind and serve, not ready yet; returns the bound address. Raises Unavailable if the port is taken."""
        options = self._options
        server = grpc.aio.server(interceptors=[ErrorInterceptor()], options=server_options())
        policy = options.roles if options.tls is not None else RolePolicy(open=True)
        server.add_generic_rpc_handlers([service.handler(policy) for service in self._services])
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        if options.reflection:
            names = (*(service.name for service in self._services), "grpc.health.v1.Health", reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, server)
        self.address = _with_port(options.listen, self._bind(server))
        self._health_server = self._for_probes() if options.health_listen else None
        await self.set_ready(ready=False)
        await server.start()
        if self._health_server is not None:
            await self._health_server.start()
        await self._health.set("", _SERVING)
        self._server = server
        _log.info("listening", address=self.address, tls=options.tls is not None)
        return self.address

    async def set_ready(self, *, ready: bool) -> None:
        """Tell probes and balancers whether the services take requests; the first time writes the address file."""
        for service in self._services:
            await self._health.set(service.name, _SERVING if ready else _NOT_SERVING)
        if ready and self._options.address_file is not None:
            write_address(self._options.address_file, self.address)

    async def drain(self) -> None:
        """Tell probes and balancers that the server is going, for good."""
        await self._health.enter_graceful_shutdown()

    async def stop(self) -> None:
        """Take no new calls, give running ones the grace time, end the rest."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(self._options.grace_s)
        if self._health_server is not None:
            server, self._health_server = self._health_server, None
            await server.stop(None)

    def _for_probes(self) -> grpc.aio.Server:
        """Return a server for probes that know no TLS: all that it tells is whether requests are taken here."""
        listen, server = self._options.health_listen, grpc.aio.server(options=server_options())
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        self.health_address = _with_port(listen, _bound("health_listen", listen, server.add_insecure_port))
        return server

    def _bind(self, server: grpc.aio.Server) -> int:
        tls = self._options.tls
        if tls is None:
            return _bound("listen", self._options.listen, server.add_insecure_port)
        credentials = server_credentials(tls)
        return _bound("listen", self._options.listen, lambda address: server.add_secure_port(address, credentials))


def _bound(field: str, address: str, bind: Callable[[str], int]) -> int:
    try:
        _try_to_bind(address)
        return bind(address)
    except (RuntimeError, OSError) as error:
        why = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        wanted = "a free address of this machine"
        raise Unavailable(f"{field}: got {address}, which cannot be bound{why}, wanted {wanted}") from error


def _try_to_bind(address: str) -> None:
    """Raise OSError for a port that nobody can have: gRPC would write a line of its own about it to stderr."""
    host, _, port = address.rpartition(":")
    if address.startswith("unix:") or port == "0":
        return
    error = None
    for family, kind, protocol, _, place in socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended hold no port
            try:
                probe.bind(place)
            except OSError as refused:
                error = refused
            else:
                return  # one address of a name is enough for gRPC
    if error is not None:
        raise error


async def serve(
    server: RpcServer,
    *,
    stop: asyncio.Event,
    started: Callable[[str], Awaitable[None]],
    drain: Callable[[], Awaitable[None]],
) -> None:
    """Run a server until `stop` is set or SIGTERM or SIGINT comes.

    `started` gets the bound address and returns when the service can take requests; `drain` moves its sessions away and
    is cut off after the grace time.
    """
    stop_on_signals(stop)
    address = await server.start()
    try:
        await _until(stop, started(address))
        if not stop.is_set():
            await server.set_ready(ready=True)
            _log.info("ready", address=address)
        await stop.wait()
        _log.info("draining", address=address)
        await server.drain()
        await _within(server.grace_s, drain())
    finally:
        await server.stop()
        _log.info("stopped", address=address)


async def _within(grace_s: float, work: Awaitable[None]) -> None:
    try:
        await asyncio.wait_for(work, grace_s)
    except TimeoutError:
        _log.warning("not drained in time", grace_s=grace_s)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` on SIGTERM and SIGINT; must run in the main thread."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


def write_address(path: Path, address: str) -> None:
    """Write the address so that a reader sees all of it or nothing."""
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(address + "\n", encoding="utf-8")
    unfinished.replace(path)


async def _until(stop: asyncio.Event, work: Awaitable[None]) -> None:
    """Await `work`, or cancel it when `stop` is set first."""
    running = asyncio.ensure_future(work)
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        stopped.cancel()
        running.cancel()
        await asyncio.gather(running, stopped, return_exceptions=True)


def _with_port(listen: str, port: int) -> str:
    if listen.startswith("unix:"):
        return listen
    return f"{listen.rpartition(':')[0]}:{port}"
