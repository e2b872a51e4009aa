"""Idle connections stay up: servers take the keepalive pings that our channels send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest

from foreword.rpc.options import Options, channel_options, server_options

PACE = 300
"""By how much pings come sooner; how long they may take stays as it is, so that a busy machine ends nothing."""


def faster(options: Options) -> list[tuple[str, int]]:
    """Return the options with the time between pings, and the least of it, divided by the pace."""
    intervals = ("grpc.keepalive_time_ms", "grpc.http2.min_ping_interval_without_data_ms")
    return [(name, value // PACE if name in intervals else value) for name, value in options]


@asynccontextmanager
async def idle(options: list[tuple[str, int]]) -> AsyncIterator[asyncio.Task[None]]:
    """Connect to a server with these options; the task ends when the connection does."""
    server = grpc.aio.server(options=options)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=faster(channel_options())) as channel:
            await channel.channel_ready()
            ended = asyncio.create_task(channel.wait_for_state_change(grpc.ChannelConnectivity.READY))
            yield ended
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
    finally:
        await server.stop(None)


async def test_an_idle_connection_stays_up() -> None:
    loop = asyncio.get_running_loop()
    async with idle(faster(server_options())) as ours, idle([]) as strict:
        began = loop.time()
        # gRPC's own defaults call some idle pings too many: that long at least ours has to be watched.
        await asyncio.wait_for(strict, 60.0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(ours), loop.time() - began)
