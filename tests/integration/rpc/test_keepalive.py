"""Idle connections stay up: servers take the keepalive pings that our channels send."""

from __future__ import annotations

import asyncio

import grpc.aio
import pytest

from foreword.rpc.options import channel_options, server_options


def faster(options: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
    """Return the options with every interval in a hundredth of its time."""
    return [(name, value // 100 if name.endswith("_ms") else value) for name, value in options]


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
                    await asyncio.wait_for(changed, 6.0)
            else:  # that this test sees what it is for: gRPC's own defaults call four idle pings too many
                await asyncio.wait_for(changed, 30.0)
    finally:
        await server.stop(None)
