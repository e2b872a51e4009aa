"""Idle connections stay up: servers take the keepalive pings that our channels send."""

from __future__ import annotations

import asyncio

import grpc.aio
import pytest

from foreword.rpc.options import channel_options, server_options

PACE = 300
"""By how much pings come sooner; how long they may take stays as it is, so that a busy machine ends nothing."""


def faster(options: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
    """Return the options with the time between pings, and the least of it, divided by the pace."""
    intervals = ("grpc.keepalive_time_ms", "grpc.http2.min_ping_interval_without_data_ms")
    return [(name, value // PACE if name in intervals else value) for name, value in options]


@pytest.mark.parametrize("lenient", [True, False])
async def test_an_idle_connection_stays_up(lenient: bool) -> None:
    server_side = faster(server_options()) if lenient else []
    server = grpc.aio.server(options=server_side)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=faster(channel_options())) as channel:
            await channel.channel_ready()
            changed = channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
            if lenient:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(changed, 2.5)
            else:  # that this test sees what it is for: gRPC's own defaults call four idle pings too many
                await asyncio.wait_for(changed, 30.0)
    finally:
        await server.stop(None)
