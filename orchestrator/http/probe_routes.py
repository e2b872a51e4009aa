"""What operators ask: /health, /ping, /version, /info, /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from typing import Any

from fastapi import APIRouter
from fastapi.params import Depends
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import PlainTextResponse, Response

from foreword._version import __version__
from foreword.errors import Unavailable
from orchestrator.front.front import RETRY_AFTER_MS
from orchestrator.http.answers import Health, Info, Version
from orchestrator.http.described import ERRORS
from orchestrator.http.door import Door


def probe_routes(door: Door, secured: Sequence[Depends]) -> APIRouter:
    """Return the endpoints of operators; all but the probes are `secured`."""
    router = APIRouter(tags=["operation"], responses=ERRORS)

    def ready() -> Health:
        try:
            door.front.check_ready()
        except Unavailable as error:
            # Anybody may ask: why, with the addresses of targets, is for those who may see /info.
            raise Unavailable("not ready, or shutting down", retry_after_ms=RETRY_AFTER_MS) from error
        return Health(status="ok")

    @router.get("/health")
    async def health() -> Health:
        """Tell whether requests are taken; needs no key."""
        return ready()

    @router.get("/ping")
    async def ping() -> Health:
        """Tell what /health does."""
        return ready()

    @router.get("/version", dependencies=secured)
    async def version() -> Version:
        """Tell the release."""
        return Version(version=__version__)

    @router.get("/info", dependencies=secured)
    async def info() -> Info:
        """Tell what is served, and with what."""
        return Info(**_plain(asdict(door.front.info())))

    @router.get("/metrics", response_class=PlainTextResponse, dependencies=secured)
    async def metrics() -> Response:
        """Return the metrics of this process, as Prometheus reads them."""
        text = await asyncio.to_thread(generate_latest, door.registry)
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    return router


def _plain(value: Any) -> Any:
    """Return a value with words for members of enumerations."""
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
