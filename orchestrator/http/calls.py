"""Every call gets an id and a line in the log; HEAD is answered as GET, without the body."""

from __future__ import annotations

import logging
import time
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foreword.telemetry.ids import REQUEST_ID, new_incident, request_id_of
from orchestrator.http.answering import fail
from orchestrator.http.errors import incident_failure
from orchestrator.http.guards import header

INCIDENT: Final = "foreword.incident"
"""Where an answer to a fault leaves its incident id in the scope of a call, for the log."""
_log = structlog.stdlib.get_logger(__name__)


class Calls:
    """Gives a call its request id, that of its header if it has one, and answers what nobody else has caught."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on; nothing is raised."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(header(scope, REQUEST_ID.encode()))
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        status, began = 0, time.monotonic()
        heads = scope["method"] == "HEAD"
        asked: Scope = {**scope, "method": "GET"} if heads else scope

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (REQUEST_ID.encode(), request_id.encode())]
            elif heads:
                message["body"] = b""
            await send(message)

        try:
            await self._app(asked, receive, named)
        except Exception:
            incident = asked.get(INCIDENT) or new_incident()
            _log.exception("unexpected error", path=scope["path"], incident=incident)
            if not status:
                await fail(named, incident_failure(incident))
        _log.log(
            level_of(status),
            "http",
            method=scope["method"],
            path=scope["path"],
            status=status,
            ms=round(1000 * (time.monotonic() - began)),
        )


def level_of(status: int) -> int:
    """Return how loud the log is about a status: what went well, or found nobody, is for those who look for it."""
    if status < 400 or status == 503:
        return logging.DEBUG
    return logging.INFO if status < 500 else logging.WARNING
