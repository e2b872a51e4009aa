"""HTTP as one part of the orchestrator: made of settings, started and stopped with it."""

from __future__ import annotations

import time
import uuid

from prometheus_client import CollectorRegistry

from foreword.rpc.server import write_address
from foreword.rpc.tls import TlsFiles
from orchestrator.front.front import Front
from orchestrator.http.app import build_app
from orchestrator.http.door import Door
from orchestrator.http.server import HttpServer
from orchestrator.http.settings import HttpSettings
from orchestrator.http.tls import pair_for, server_context


class HttpService:
    """Serves the front over HTTP; raises InvalidField for keys and certificates that cannot be read."""

    def __init__(
        self, settings: HttpSettings, front: Front, registry: CollectorRegistry, *, service_tls: TlsFiles | None
    ) -> None:
        door = Door(
            front,
            settings,
            registry,
            now_s=lambda: int(time.time()),
            since_s=int(time.time()),
            new_id=lambda: uuid.uuid4().hex,
        )
        pair = pair_for(settings, service_tls)
        self._settings = settings
        self._server = HttpServer(
            build_app(door, settings.read_keys()),
            listen=settings.listen,
            tls=None if pair is None else server_context(pair),
        )
        self.address = ""
        """Host and port that are bound, once it is started."""

    async def start(self) -> None:
        """Serve; until the front takes requests they are answered with 503. Raises Unavailable."""
        self.address = await self._server.start()

    def announce(self) -> None:
        """Write the bound address where the settings say."""
        if self._settings.address_file is not None:
            write_address(self._settings.address_file, self.address)

    async def stop(self) -> None:
        """Stop; requests that still run have been ended by the front."""
        await self._server.stop()
