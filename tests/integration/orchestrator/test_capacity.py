"""More requests than there is room for, over real gRPC: a line up to its bound, then a refusal with a delay."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from grpc_status.rpc_status import from_call

from foreword.client import AsyncClient
from foreword.client.stream import AsyncStream
from foreword.errors import Full
from foreword.protocol.generation import Delta, GenerateRequest, TokenPrompt
from foreword.protocol.info import ServerInfo
from foreword.rpc.calls import call_unary
from foreword.wire.generation import GENERATE, encode_request
from foreword.wire.info import decode_target_info
from foreword.wire.limits import Limits
from foreword.wire.methods import TARGET_GET_INFO
from tests.integration.orchestrator.services import start_orchestrator, start_target

pytestmark = pytest.mark.asyncio


def prompt(number: int) -> TokenPrompt:
    return TokenPrompt((number, 1, 4, 1, 5))


async def first_token(stream: AsyncStream) -> None:
    async for event in stream:
        if isinstance(event, Delta):
            return


async def sessions_are(count: int, address: str) -> None:
    """Return when a target has so many sessions."""
    async with grpc.aio.insecure_channel(address) as channel:
        while (await call_unary(channel, TARGET_GET_INFO, decode=_info)).sessions != count:  # noqa: ASYNC110 - it is another process that counts
            await asyncio.sleep(0.02)


def _info(data: bytes) -> ServerInfo:
    return decode_target_info(data, Limits())


async def test_requests_wait_in_line_up_to_its_bound_and_are_then_refused_with_a_delay(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        target = start_target(tmp_path, step_ms=20.0, max_sessions=1, max_waiting=2)
        stack.push_async_callback(target.stop)
        await target.ready()
        orchestrator = start_orchestrator(tmp_path, [target], [])
        stack.push_async_callback(orchestrator.stop)
        await orchestrator.ready()
        client = await stack.enter_async_context(AsyncClient(orchestrator.address))

        running = await stack.enter_async_context(client.stream(prompt(1), max_tokens=400, temperature=0.0))
        await first_token(running)
        waiting = [asyncio.create_task(client.generate(prompt(n), max_tokens=3, temperature=0.0)) for n in (2, 3)]
        await sessions_are(3, target.address)
        with pytest.raises(Full, match=r"full: 2 sessions wait in line for room, as many as may \(max") as refused:
            await client.generate(prompt(4), max_tokens=3, temperature=0.0)
        assert refused.value.retry_after_ms == 1000
        await refused_on_the_wire(orchestrator.address)

        await running.aclose()
        done = await asyncio.gather(*waiting)
        assert [len(generation.ids) for generation in done] == [3, 3]
        after = await client.generate(prompt(4), max_tokens=3, temperature=0.0)
        assert len(after.ids) == 3


async def refused_on_the_wire(address: str) -> None:
    """Any gRPC client sees the status and the standard detail."""
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_stream(GENERATE)(encode_request(GenerateRequest(prompt(5), max_tokens=3)))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    status = from_call(refused.value)
    assert status is not None
    retry = RetryInfo()
    assert any(detail.Unpack(retry) for detail in status.details)
    assert retry.retry_delay.seconds == 1
