"""The web server on the orchestrator's loop: it starts and stops with the service and handles no signals."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
import uvicorn
from starlette.types import ASGIApp

from foreword.errors import Unavailable

_IDLE_S = 75
"""How long a connection without a request stays open; clients keep theirs for less."""
_LAST_WORDS_S = 1
"""Time in which answers that were ended are still written."""
_BACKLOG = 2048
_log = structlog.stdlib.get_logger(__name__)


class HttpServer:
    """Serves an application between `start` and `stop`."""

    def __init__(self, app: ASGIApp, *, listen: str, tls: ssl.SSLContext | None) -> None:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=_LAST_WORDS_S,
        )
        config.load()
        config.ssl = tls
        self._server = _Quiet(config)
        self._listen = listen
        self._secure = tls is not None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Bind and serve; returns the bound address. Raises Unavailable if it cannot be bound."""
        bound = bind(self._listen)
        host = self._listen.rpartition(":")[0]
        address = f"{host}:{bound.getsockname()[1]}"
        self._task = asyncio.create_task(self._server.serve([bound]))
        up = asyncio.create_task(self._server.up.wait())
        await asyncio.wait((self._task, up), return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if self._task.done():
            self._task.result()
        _log.info("listening", http=address, tls=self._secure)
        return address

    async def stop(self) -> None:
        """Take no more connections, end those that are idle, and give the others a moment."""
        if self._task is not None:
            task, self._task = self._task, None
            self._server.should_exit = True
            await task


class _Quiet(uvicorn.Server):
    """Leaves signals to the service, and tells when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve on the sockets."""
        await super().startup(sockets)
        self.up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def bind(listen: str) -> socket.socket:
    """Return a socket that listens at `host:port`; raises Unavailable."""
    host, _, port = listen.rpartition(":")
    error: OSError | None = None
    try:
        places = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as unknown:
        places, error = [], unknown
    for family, kind, protocol, _, place in places:
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended hold no port
            bound.bind(place)
            bound.listen(_BACKLOG)
            bound.setblocking(False)
            return bound
        except OSError as refused:
            bound.close()
            error = refused
    why = f" ({error.strerror})" if error is not None and error.strerror else ""
    wanted = "a free address of this machine"
    raise Unavailable(f"http.listen: got {listen}, which cannot be bound{why}, wanted {wanted}") from error
