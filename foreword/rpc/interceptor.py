"""The one place where errors of handlers become statuses, and where requests get their ids."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio
import structlog

from foreword.errors import ForewordError
from foreword.rpc.errors import status_of
from foreword.telemetry.ids import REQUEST_ID, new_incident, request_id_of

_log = structlog.stdlib.get_logger(__name__)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in its stubs only
Context = grpc.aio.ServicerContext[Any, Any]


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Maps ForewordError to its status; anything else to INTERNAL with an incident id, its traceback only in the log.

    Every call gets a request id, the caller's `x-request-id` if it sent one; it is bound to the log and returned in
    the trailing metadata.
    """

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        found = await continuation(handler_call_details)
        if found is None or handler_call_details.method.startswith("/grpc."):
            return found  # health and reflection have errors of their own
        handler: Any = found  # the stubs know synchronous handlers only
        request_id = _request_id(handler_call_details)
        method = handler_call_details.method
        if handler.request_streaming and handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(_wrapped(handler.stream_stream, method, request_id))
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(_wrapped(handler.unary_stream, method, request_id))
        return grpc.unary_unary_rpc_method_handler(_wrapped(handler.unary_unary, method, request_id))


def _wrapped(
    behaviour: Callable[[Any, Context], Awaitable[Any]], method: str, request_id: str
) -> Callable[[Any, Context], Awaitable[Any]]:
    async def call(request: Any, context: Context) -> Any:
        structlog.contextvars.bind_contextvars(request_id=request_id)
        context.set_trailing_metadata(((REQUEST_ID, request_id),))
        try:
            return await behaviour(request, context)
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except ForewordError as error:
            await _abort(context, error, request_id)
        except Exception:
            incident = new_incident()
            _log.exception("unexpected error", method=method, incident=incident)
            await context.abort(
                grpc.StatusCode.INTERNAL, f"internal error, incident {incident}", ((REQUEST_ID, request_id),)
            )

    return call


async def _abort(context: Context, error: ForewordError, request_id: str) -> None:
    status = status_of(error)
    await context.abort(status.code, status.details, (*status.trailing_metadata, (REQUEST_ID, request_id)))


def _request_id(details: grpc.HandlerCallDetails) -> str:
    return request_id_of(next((value for key, value in details.invocation_metadata if key == REQUEST_ID), None))
