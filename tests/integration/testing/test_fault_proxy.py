"""The proxy over real sockets: what arrives, and how connections end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from foreword.errors import InvalidField, Unavailable
from foreword.testing.fault_proxy import Direction, FaultProxy, Shape

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Echo:
    """Sends back what it gets; counts how its connections ended."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.ended = asyncio.Event()
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            self.ends.append("eof")
        except ConnectionResetError:
            self.ends.append("reset")
        finally:
            self.ended.set()
            writer.close()


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    echo.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield echo
    server.close()


@contextlib.asynccontextmanager
async def connected(proxy: FaultProxy) -> AsyncIterator[Streams]:
    host, port = proxy.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def gone(proxy: FaultProxy) -> None:
    for _ in range(500):
        if not proxy.connections:
            return
        await asyncio.sleep(0.01)
    pytest.fail("a connection stayed")


async def echoed(streams: Streams, data: bytes) -> bytes:
    streams[1].write(data)
    return await asyncio.wait_for(streams[0].readexactly(len(data)), 10)


async def silent(streams: Streams, data: bytes) -> bool:
    streams[1].write(data)
    try:
        await asyncio.wait_for(streams[0].read(1), 0.15)
    except TimeoutError:
        return True
    return False


async def test_bytes_pass_and_are_counted(echo: Echo) -> None:
    payload = bytes(range(256)) * 4096
    async with FaultProxy(echo.address) as proxy, connected(proxy) as streams:
        proxy.shape(Shape(delay_ms=2, jitter_ms=3, bytes_per_s=50e6))
        assert await echoed(streams, payload) == payload
        assert proxy.carried_bytes(Direction.TO_UPSTREAM) == len(payload)
        assert proxy.carried_bytes(Direction.TO_CLIENT) == len(payload)
        assert proxy.connections == 1


async def test_half_closing_goes_through_and_the_connection_ends(echo: Echo) -> None:
    async with FaultProxy(echo.address) as proxy:
        async with connected(proxy) as (reader, writer):
            writer.write(b"last")
            writer.write_eof()
            assert await reader.read() == b"last"
        assert echo.ends == ["eof"]
        await gone(proxy)


async def test_reset_breaks_both_ends_and_takes_new_connections(echo: Echo) -> None:
    async with FaultProxy(echo.address) as proxy:
        async with connected(proxy) as streams:
            assert await echoed(streams, b"x") == b"x"
            proxy.reset()
            with pytest.raises(ConnectionResetError):
                await streams[0].readexactly(1)
            await echo.ended.wait()
            assert echo.ends == ["reset"]
        async with connected(proxy) as streams:
            assert await echoed(streams, b"y") == b"y"
        assert proxy.accepted == 2


async def test_a_cut_closes_and_refuses_until_restored(echo: Echo) -> None:
    async with FaultProxy(echo.address) as proxy:
        address = proxy.address
        async with connected(proxy) as streams:
            assert await echoed(streams, b"x") == b"x"
            proxy.cut()
            assert await streams[0].read() == b""
        await echo.ended.wait()
        assert echo.ends == ["eof"]
        with pytest.raises(ConnectionRefusedError):
            async with connected(proxy):
                pass
        proxy.restore()
        assert proxy.address == address
        async with connected(proxy) as streams:
            assert await echoed(streams, b"y") == b"y"


async def test_a_half_open_link_is_silent_in_one_direction(echo: Echo) -> None:
    async with FaultProxy(echo.address) as proxy, connected(proxy) as streams:
        assert await echoed(streams, b"x") == b"x"
        proxy.half_open(Direction.TO_CLIENT)
        assert await silent(streams, b"lost")
        assert proxy.carried_bytes(Direction.TO_UPSTREAM) == 5
        assert proxy.connections == 1
        proxy.restore()
        assert await echoed(streams, b"y") == b"y"


async def test_a_half_open_link_hides_that_the_client_is_gone(echo: Echo) -> None:
    async with FaultProxy(echo.address) as proxy:
        async with connected(proxy) as streams:
            assert await echoed(streams, b"x") == b"x"
            proxy.half_open(Direction.TO_UPSTREAM)
        await asyncio.sleep(0.1)
        assert (echo.ends, proxy.connections) == ([], 1)


async def test_a_pause_loses_nothing(echo: Echo) -> None:
    async with FaultProxy(echo.address) as proxy, connected(proxy) as streams:
        proxy.pause()
        assert await silent(streams, b"held ")
        streams[1].write(b"back")
        proxy.resume()
        assert await asyncio.wait_for(streams[0].readexactly(9), 10) == b"held back"


async def test_a_long_pause_stops_the_sender(echo: Echo) -> None:
    async with FaultProxy(echo.address) as proxy, connected(proxy) as (reader, writer):
        proxy.pause(Direction.TO_UPSTREAM)
        payload = bytes(64 * 1024 * 1024)
        writer.write(payload)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.drain(), 0.5)
        proxy.resume()
        assert len(await asyncio.wait_for(reader.readexactly(len(payload)), 30)) == len(payload)


async def test_corruption_changes_bytes_and_keeps_their_number(echo: Echo) -> None:
    async with FaultProxy(echo.address, seed=3) as proxy, connected(proxy) as streams:
        proxy.shape(Shape(corruption=0.01), Direction.TO_CLIENT)
        payload = bytes(10_000)
        back = await echoed(streams, payload)
        assert 50 < sum(byte != 0 for byte in back) < 170


async def test_a_client_without_upstream_is_reset() -> None:
    async with FaultProxy("127.0.0.1:1") as proxy:
        with pytest.raises(ConnectionResetError):  # as early as in connect(), where the proxy was quicker
            async with connected(proxy) as (reader, _):
                await reader.readexactly(1)
        await gone(proxy)


async def test_several_proxies_do_not_know_each_other(echo: Echo) -> None:
    with FaultProxy(echo.address) as one, FaultProxy(echo.address) as two:
        async with connected(one) as first, connected(two) as second:
            one.pause()
            assert await echoed(second, b"through") == b"through"
            assert await silent(first, b"held")


async def test_leaving_breaks_what_is_open(echo: Echo) -> None:
    async with FaultProxy(echo.address) as proxy, connected(proxy) as (reader, _):
        proxy.stop()
        with pytest.raises(ConnectionError):
            await reader.readexactly(1)


async def test_stopping_does_not_wait_for_a_peer_that_does_not_read(echo: Echo) -> None:
    async with FaultProxy(echo.address) as proxy, connected(proxy) as (reader, writer):
        reader._transport.pause_reading()
        writer.write(bytes(32 * 1024 * 1024))
        await asyncio.sleep(0.3)
        proxy.cut()
        await asyncio.to_thread(proxy.stop)


def test_misuse_is_named() -> None:
    with pytest.raises(InvalidField, match="upstream: got 'nowhere'"):
        FaultProxy("nowhere")
    with pytest.raises(RuntimeError, match="not started"):
        FaultProxy("127.0.0.1:1").pause()
    with (
        FaultProxy("127.0.0.1:1") as proxy,
        pytest.raises(Unavailable, match=f"listen: got {proxy.address}"),
        FaultProxy("127.0.0.1:1", listen=proxy.address),
    ):
        pass
