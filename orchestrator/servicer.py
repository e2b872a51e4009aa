"""GenerationService over gRPC: decode, hand to the front, encode."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import structlog

from foreword.protocol.activity import Activity
from foreword.protocol.generation import DeploymentInfo, Event, GenerateRequest
from foreword.rpc.roles import Role
from foreword.rpc.services import Context, Service, server_stream, unary
from foreword.wire.generation import decode_abort, decode_request, encode_abort_response
from foreword.wire.generation_activity import encode_activity
from foreword.wire.generation_events import encode_event
from foreword.wire.generation_info import encode_info
from foreword.wire.limits import Limits
from foreword.wire.methods import GENERATION_SERVICE
from orchestrator.front.front import Front
from orchestrator.trace import trace_of

CLIENTS = frozenset({Role.CLIENT})


class GenerationServicer:
    """Serves Generate, Abort, GetInfo and GetActivity."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._limits = Limits()

    def service(self) -> Service:
        """Return the table of methods and who may call them."""
        limits = self._limits
        return Service(
            GENERATION_SERVICE,
            {
                "Generate": server_stream(
                    self._generate,
                    decode=lambda data: decode_request(data, limits),
                    encode=encode_event,
                    write_s=self._front.patience_s,
                    roles=CLIENTS,
                ),
                "Abort": unary(
                    self._abort,
                    decode=lambda data: decode_abort(data, limits),
                    encode=lambda found: encode_abort_response(found=found),
                    roles=CLIENTS,
                ),
                "GetInfo": unary(self._get_info, decode=_read_nothing, encode=lambda info: encode_info(info, limits)),
                "GetActivity": unary(self._get_activity, decode=_read_nothing, encode=encode_activity, roles=CLIENTS),
            },
        )

    async def _generate(self, request: GenerateRequest, context: Context) -> AsyncGenerator[Event, None]:
        # A request without an id of its own goes by that of its call, which came in or goes out as x-request-id.
        of_call = str(structlog.contextvars.get_contextvars().get("request_id", ""))
        own = request.trace if request.trace is not None and request.trace.parent else None
        trace = own or trace_of(context.invocation_metadata())
        named = replace(request, request_id=request.request_id or of_call, trace=trace)
        structlog.contextvars.bind_contextvars(request_id=named.request_id)
        async with aclosing(self._front.generate(named)) as events:
            async for event in events:
                yield event

    async def _abort(self, request_id: str, _: Context) -> bool:
        return self._front.abort(request_id)

    async def _get_info(self, _: None, __: Context) -> DeploymentInfo:
        return self._front.info()

    async def _get_activity(self, _: None, __: Context) -> Activity:
        return self._front.activity()


def _read_nothing(data: bytes) -> None:
    """Take an empty request; fields that a later release adds are ignored."""
