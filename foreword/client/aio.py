"""The asynchronous client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

import grpc.aio

from foreword.client.endpoints import Endpoints, Tls
from foreword.client.fields import read_timeout
from foreword.client.request import PromptLike, RequestFields, build_request
from foreword.client.status import error_from
from foreword.client.stream import AsyncStream
from foreword.errors import Cancelled, ForewordError, Unavailable
from foreword.protocol.activity import Activity
from foreword.protocol.generation import Completion, DeploymentInfo, GenerateRequest
from foreword.wire.generation import ABORT, GENERATION_GET_INFO, decode_abort_response, encode_abort, encode_request
from foreword.wire.generation_activity import GET_ACTIVITY, decode_activity
from foreword.wire.generation_info import decode_info
from foreword.wire.limits import Limits

DEFAULT_ADDRESS = "127.0.0.1:50051"
"""Where `foreword up` serves."""
_INFO_TIMEOUT_S = 10.0


class AsyncClient:
    """A client of one deployment, for one event loop.

    `address` is host:port, or several of the same deployment, in a list or separated by commas: one that cannot be
    reached is replaced by the next. TLS is required off loopback, unless `insecure`. `token` is sent as a bearer token.
    `timeout_s` is the default limit of a whole call, in seconds over 0; None waits for ever.

        async with AsyncClient() as client:
            async with client.stream("Once upon a time", temperature=0, max_tokens=64) as events:
                async for event in events:
                    ...

    Errors are those of `foreword.errors`, whether they arise here or at the server.
    """

    def __init__(
        self,
        address: str | Sequence[str] = DEFAULT_ADDRESS,
        *,
        tls: Tls | None = None,
        token: str | None = None,
        timeout_s: float | None = None,
        insecure: bool = False,
    ) -> None:
        self._endpoints = Endpoints(address, tls=tls, token=token, insecure=insecure)
        self._timeout_s = read_timeout("timeout_s", timeout_s)

    async def generate(
        self,
        prompt: PromptLike | GenerateRequest,
        *,
        timeout_s: float | None = None,
        **fields: Unpack[RequestFields],
    ) -> Completion:
        """Return the whole output; see RequestFields for what may be asked."""
        async with self.stream(prompt, timeout_s=timeout_s, **fields) as events:
            return await events.completion()

    def stream(
        self,
        prompt: PromptLike | GenerateRequest,
        *,
        timeout_s: float | None = None,
        **fields: Unpack[RequestFields],
    ) -> AsyncStream:
        """Return the output as it comes; see RequestFields for what may be asked."""
        request = encode_request(build_request(prompt, fields))
        limit = read_timeout("timeout_s", timeout_s)
        return AsyncStream(self._endpoints, request, timeout_s=self._timeout_s if limit is None else limit)

    async def info(self, *, timeout_s: float | None = None) -> DeploymentInfo:
        """Return what is served, by the first address that answers."""
        limit = _question_limit(timeout_s)
        return decode_info(await self._ask_any(GENERATION_GET_INFO, timeout_s=limit), Limits())

    async def activity(self, *, timeout_s: float | None = None) -> Activity:
        """Return what the first address that answers is doing."""
        limit = _question_limit(timeout_s)
        return decode_activity(await self._ask_any(GET_ACTIVITY, timeout_s=limit), Limits())

    async def abort(self, request_id: str, *, timeout_s: float | None = None) -> bool:
        """End a request, wherever it runs; return whether it was running."""
        limit = _question_limit(timeout_s)
        request, failures = encode_abort(request_id), list[Unavailable]()
        for address in self._endpoints.addresses:
            try:
                if decode_abort_response(await self._ask(address, ABORT, request=request, timeout_s=limit)):
                    return True
            except Unavailable as failure:
                failures.append(failure)
        if len(failures) == len(self._endpoints.addresses):
            raise failures[-1]
        return False

    async def close(self) -> None:
        """Close the connections; calls that run are cancelled."""
        await self._endpoints.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _ask_any(self, method: str, *, timeout_s: float) -> bytes:
        """Ask the addresses in turn until one answers; only a server that cannot be reached is passed over."""
        deadline, last = time.monotonic() + timeout_s, None
        for address in self._endpoints.addresses:
            try:
                left = max(0.0, deadline - time.monotonic())
                answer = await self._ask(address, method, request=b"", timeout_s=left)
            except Unavailable as failure:
                last = failure
                continue
            self._endpoints.prefer(address)
            return answer
        assert last is not None, "there is at least one address"
        raise last

    async def _ask(self, address: str, method: str, *, request: bytes, timeout_s: float) -> bytes:
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._endpoints.channel(address).unary_unary(method)
        call = ask(request, timeout=timeout_s, metadata=self._endpoints.metadata)
        self._endpoints.track(call)
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            failure: ForewordError = error_from(error, address)
            raise failure from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise Cancelled("client: closed while a call was open") from None


def _question_limit(timeout_s: float | None) -> float:
    """Return the limit of a call that only asks something, in seconds."""
    limit = read_timeout("timeout_s", timeout_s)
    return _INFO_TIMEOUT_S if limit is None else limit
