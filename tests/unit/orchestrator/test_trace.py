"""Trace context of a call: read from its metadata where the request has none, and never the end of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc.aio
import pytest

from foreword.client import AsyncClient
from foreword.protocol.generation import Event, Finish, GenerateRequest, Started
from foreword.protocol.messages import Trace
from foreword.protocol.words import FinishReason
from foreword.rpc.server import RpcServer, ServerOptions
from foreword.wire.generation import GENERATE, encode_request
from orchestrator.servicer import GenerationServicer
from orchestrator.trace import trace_of

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("metadata", "trace"),
    [
        (None, None),
        ([], None),
        ([("traceparent", PARENT)], Trace(PARENT)),
        ([("x-request-id", "r"), ("traceparent", f" {PARENT} "), ("tracestate", "a=1")], Trace(PARENT, "a=1")),
        ([("tracestate", "a=1"), ("tracestate", ""), ("traceparent", PARENT), ("tracestate", "b=2")],
         Trace(PARENT, "a=1,b=2")),
        ([("traceparent", f"01{PARENT[2:]}-later")], Trace(f"01{PARENT[2:]}-later")),
        ([("traceparent", PARENT), ("tracestate", "a=" + "1" * 511)], Trace(PARENT)),
        ([("traceparent", PARENT), ("tracestate", "a=\nb")], Trace(PARENT)),
        ([("tracestate", "a=1")], None),
        ([("traceparent", PARENT), ("traceparent", PARENT)], None),
        *(
            ([("traceparent", wrong)], None)
            for wrong in (
                "", "x", PARENT.upper(), PARENT[:-1], f"ff{PARENT[2:]}", f"00-{'0' * 32}-b7ad6b7169203331-01",
                f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01", f"{PARENT}-later", f"01{PARENT[2:]}-{'x' * 600}",
            )
        ),
        ([("traceparent", PARENT.encode())], None),
    ],
)  # fmt: skip
def test_what_is_read(metadata: list[tuple[str, str | bytes]] | None, trace: Trace | None) -> None:
    assert trace_of(metadata) == trace


class Front:
    """Remembers requests and answers nothing much."""

    patience_s = None

    def __init__(self) -> None:
        self.requests: list[GenerateRequest] = []

    async def generate(self, request: GenerateRequest) -> AsyncIterator[Event]:
        self.requests.append(request)
        yield Started(request.request_id, "m", 1)
        yield Finish(0, FinishReason.LENGTH)


@pytest.mark.parametrize(
    ("own", "metadata", "trace"),
    [
        (None, (), None),
        (None, (("traceparent", PARENT), ("tracestate", "a=1")), Trace(PARENT, "a=1")),
        (Trace(), (("traceparent", PARENT),), Trace(PARENT)),
        (Trace("its own"), (("traceparent", PARENT),), Trace("its own")),
        (None, (("traceparent", "x"),), None),
    ],
)
async def test_it_reaches_the_request(
    own: Trace | None, metadata: tuple[tuple[str, str], ...], trace: Trace | None
) -> None:
    front = Front()
    server = RpcServer(ServerOptions("127.0.0.1:0"), [GenerationServicer(front).service()])  # type: ignore[arg-type]
    address = await server.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.unary_stream(GENERATE)(encode_request(GenerateRequest("x", trace=own)), metadata=metadata)
            assert len([frame async for frame in call]) == 2
    finally:
        await server.stop()
    assert front.requests[0].trace == trace


async def test_the_sdk_sends_it() -> None:
    front = Front()
    server = RpcServer(ServerOptions("127.0.0.1:0"), [GenerationServicer(front).service()])  # type: ignore[arg-type]
    address = await server.start()
    try:
        async with AsyncClient(address) as client:
            await client.generate("x", trace=Trace(PARENT, "a=1"))
    finally:
        await server.stop()
    assert front.requests[0].trace == Trace(PARENT, "a=1")
