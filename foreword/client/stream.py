"""A generation as it comes: an async iterator of events."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

import grpc.aio

from foreword.client.collect import Collector
from foreword.client.endpoints import Endpoints
from foreword.client.status import error_from
from foreword.errors import Cancelled, ForewordError, ProtocolFault, Unavailable
from foreword.protocol.generation import Completion, Event
from foreword.wire.generation import GENERATE
from foreword.wire.generation_events import decode_event
from foreword.wire.limits import Limits

_LIMITS = Limits()


class AsyncStream:
    """Events of one request: Started, Deltas, one Finish for every choice.

    Nothing is sent before the first event is asked for. Leaving the context, `aclose`, or forgetting the stream cancels
    the request at the server. An address that cannot be reached is replaced by the next one while nothing has come yet;
    afterwards a failure is raised, and what has come can go on elsewhere by `resume`.
    """

    def __init__(self, endpoints: Endpoints, request: bytes, *, timeout_s: float | None) -> None:
        self._endpoints = endpoints
        self._request = request
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._untried = list(endpoints.addresses)
        self._address = ""
        self._call: grpc.aio.UnaryStreamCall[bytes, bytes] | None = None
        self._answered = False
        self._closed = False
        self._collector = Collector()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._closed:
            frame = await self._read()
            if isinstance(frame, bytes):
                event = await self._decoded(frame)
                self._collector.add(event)
                return event
        raise StopAsyncIteration

    async def completion(self) -> Completion:
        """Take the rest of the events and return all of them, those that were taken before included.

        Raises ProtocolFault if the stream ended, or was closed, before its choices did.
        """
        async for _ in self:
            pass
        return self._collector.completion()

    async def aclose(self) -> None:
        """Cancel the request if it runs; another task that waits for an event sees the end of the stream."""
        self._closed = True
        if self._call is not None:
            self._call.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _decoded(self, frame: bytes) -> Event:
        try:
            return decode_event(frame, _LIMITS)
        except ForewordError as error:
            await self.aclose()
            raise ProtocolFault(f"{self._address}: sent what is no event: {error}") from error

    async def _read(self) -> bytes | None:
        """Return the next frame, None at the end or after a call that failed and may be replaced."""
        call = self._call if self._call is not None else self._dial()
        try:
            frame = await call.read()
        except grpc.aio.AioRpcError as error:
            self._call = None
            failure = error_from(error, self._address)
            if not self._may_try_another(failure):
                self._closed = True
                raise failure from error
            return None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                await self.aclose()
                raise
            if self._closed:
                return None  # by another task
            self._closed = True
            raise Cancelled("client: closed while a stream was open") from None
        if not isinstance(frame, bytes):  # grpc.aio.EOF
            self._closed = True
            return None
        if not self._answered:
            self._answered = True
            self._endpoints.prefer(self._address)
        return frame

    def _dial(self) -> grpc.aio.UnaryStreamCall[bytes, bytes]:
        self._address = self._untried.pop(0)
        timeout = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._endpoints.channel(self._address).unary_stream(
            GENERATE
        )
        self._call = method(self._request, timeout=timeout, metadata=self._endpoints.metadata)
        self._endpoints.track(self._call)
        return self._call

    def _may_try_another(self, failure: ForewordError) -> bool:
        """Only what never answered is asked again elsewhere: nothing was output, so nothing can be output twice."""
        return bool(self._untried) and not self._answered and isinstance(failure, Unavailable)
