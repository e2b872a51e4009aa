"""Services as tables of methods on raw bytes: each says who may call it; decoding happens inside, where errors map.

Frames stay bytes in gRPC, because the codec reads and writes them in one step; so no generated service class is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import grpc.aio

from foreword.errors import DeadlineExceeded
from foreword.rpc.roles import ALL_ROLES, Role, RolePolicy
from foreword.rpc.tls import peer_identity
from foreword.rpc.transport import STREAM_OVER, ServerTransport, Transport

Context = grpc.aio.ServicerContext[Any, Any]
Request = TypeVar("Request")
Response = TypeVar("Response")
AnyHandler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Method:
    """One method: how its handler is built for a role policy, and which roles may call it."""

    build: Callable[[Callable[[Context], None]], grpc.RpcMethodHandler[Any, Any]]
    roles: frozenset[Role]


@dataclass(frozen=True, slots=True)
class Service:
    """A service by its full name and the methods it has."""

    name: str
    methods: Mapping[str, Method]

    def handler(self, policy: RolePolicy) -> grpc.GenericRpcHandler:
        """Return what a gRPC server registers."""
        handlers = {name: method.build(self._guard(name, method, policy)) for name, method in self.methods.items()}
        return grpc.method_handlers_generic_handler(self.name, handlers)

    def _guard(self, name: str, method: Method, policy: RolePolicy) -> Callable[[Context], None]:
        def check(context: Context) -> None:
            peer_identity(context, policy).require(method.roles, f"{self.name}/{name}")

        return check


def unary(
    call: Callable[[Request, Context], Awaitable[Response]],
    *,
    decode: Callable[[bytes], Request],
    encode: Callable[[Response], bytes],
    roles: frozenset[Role] = ALL_ROLES,
) -> Method:
    """A method with one request and one response."""

    def build(check: Callable[[Context], None]) -> grpc.RpcMethodHandler[Any, Any]:
        async def behaviour(request: bytes, context: Context) -> bytes:
            check(context)
            return encode(await call(decode(request), context))

        return grpc.unary_unary_rpc_method_handler(behaviour)

    return Method(build, roles)


def server_stream(
    call: Callable[[Request, Context], AsyncGenerator[Response, None]],
    *,
    decode: Callable[[bytes], Request],
    encode: Callable[[Response], bytes],
    write_s: float | None = None,
    roles: frozenset[Role] = ALL_ROLES,
) -> Method:
    """A method with one request and a stream of responses.

    A client that does not take a response within `write_s` seconds ends the call with DeadlineExceeded.
    """

    def build(check: Callable[[Context], None]) -> grpc.RpcMethodHandler[Any, Any]:
        async def behaviour(request: bytes, context: Context) -> None:
            check(context)
            async with aclosing(call(decode(request), context)) as responses:
                async for response in responses:
                    await _write(context, encode(response), write_s, otherwise=responses.aclose)

        return grpc.unary_stream_rpc_method_handler(behaviour)

    return Method(build, roles)


async def _write(
    context: Context, data: bytes, limit_s: float | None, *, otherwise: Callable[[], Awaitable[None]]
) -> None:
    """Write, and run `otherwise` if that takes `limit_s` seconds; DeadlineExceeded when the write then ends.

    The write is not cancelled: gRPC sends no status while one is on, and the client would wait for it forever.
    """
    late: list[asyncio.Future[None]] = []
    timer = None
    if limit_s is not None:
        timer = asyncio.get_running_loop().call_later(limit_s, lambda: late.append(asyncio.ensure_future(otherwise())))
    try:
        await context.write(data)
    except STREAM_OVER as error:  # a client that cancels shows as this or as the cancelling of the task
        raise asyncio.CancelledError from error
    finally:
        if timer is not None:
            timer.cancel()
        await asyncio.gather(*late)
    if late:
        raise DeadlineExceeded(f"client: took nothing for {limit_s:g} s, wanted it to keep reading")


def link_stream(serve: Callable[[Transport, Context], Awaitable[None]], *, roles: frozenset[Role]) -> Method:
    """A long-lived stream of frames both ways; `serve` returns or raises at its end."""

    def build(check: Callable[[Context], None]) -> grpc.RpcMethodHandler[Any, Any]:
        async def behaviour(_: AsyncIterator[bytes], context: Context) -> None:
            check(context)
            await serve(ServerTransport(context), context)

        return grpc.stream_stream_rpc_method_handler(behaviour)

    return Method(build, roles)
