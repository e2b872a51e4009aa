"""Both ends of a gRPC stream of raw frames behind one small port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import grpc
import grpc.aio

from foreword.errors import Unavailable
from foreword.rpc.errors import error_from_rpc


class Transport(Protocol):
    """One end of an ordered stream of frames."""

    async def read(self) -> bytes | None:
        """Return the next frame, None at an orderly end; raises ForewordError at another."""

    async def write(self, frame: bytes) -> None:
        """Hand over a frame; returns when the transport takes another. Raises ForewordError when the stream is over."""

    async def finish(self) -> bool:
        """Say that nothing more will be written; returns whether the stream is over with that."""


STREAM_OVER = (grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError)
"""What gRPC raises from a read or write of a server's stream that is over."""

Dial = Callable[[], AbstractAsyncContextManager[Transport]]
"""Opens a stream to a peer; leaving the context ends it."""


class ServerTransport:
    """The server's end, around the context of the RPC; the stream ends when the servicer method returns.

    gRPC shows a client that cancels as an orderly end or as the cancelling of the method, whichever comes first.
    """

    def __init__(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        self._context = context

    async def read(self) -> bytes | None:
        try:
            frame = await self._context.read()
        except STREAM_OVER as error:
            raise Unavailable(f"stream: the peer went away ({_one_line(error)})") from error
        return frame if isinstance(frame, bytes) else None  # grpc.aio.EOF

    async def write(self, frame: bytes) -> None:
        try:
            await self._context.write(frame)
        except STREAM_OVER as error:
            raise Unavailable(f"stream: the peer went away ({_one_line(error)})") from error

    async def finish(self) -> bool:
        """Do nothing: a server ends its direction by returning from the method."""
        return True


class ClientTransport:
    """The client's end, around the call object."""

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        self._call = call

    async def read(self) -> bytes | None:
        try:
            frame = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from error
        if not isinstance(frame, bytes):  # grpc.aio.EOF
            await self._raise_status()
            return None
        return frame

    async def write(self, frame: bytes) -> None:
        try:
            await self._call.write(frame)
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from error
        except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            await self._raise_status()
            raise Unavailable("stream: the peer has ended it") from error

    async def finish(self) -> bool:
        if not self._call.done():
            await self._call.done_writing()
        return False

    async def _raise_status(self) -> None:
        """Raise the error that the server ended the stream with, if it was one."""
        code = await self._call.code()
        if code is not grpc.StatusCode.OK:
            trailing = await self._call.trailing_metadata()
            details = await self._call.details()
            rpc_error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details=details)
            raise error_from_rpc(rpc_error)


def dial_on(channel: grpc.aio.Channel, method: str) -> Dial:
    """Return a Dial that opens `method`, a bidirectional stream of raw frames, on `channel`.

    Dial again on a new channel: one whose connection is half open keeps it until gRPC's own keepalive notices.
    """

    @asynccontextmanager
    async def dial() -> AsyncIterator[Transport]:
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(method)()
        try:
            yield ClientTransport(call)
        finally:
            call.cancel()

    return dial


def _one_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
