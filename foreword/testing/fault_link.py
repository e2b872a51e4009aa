"""One connection through a fault proxy: two sockets and a pipe each way."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from foreword.clock import Clock
from foreword.testing.fault_pipe import End, Lane, Pipe

_RST_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends RST."""


class Link:
    """Joins a client's connection with one to the upstream.

    `to_upstream` and `to_client` are the lanes; `ended` is called once, when both sockets are gone.
    """

    def __init__(
        self, to_upstream: Lane, to_client: Lane, *, clock: Clock, seed: str, ended: Callable[[Link], None]
    ) -> None:
        self.client, self.upstream = _Socket(self), _Socket(self)
        self._ended = ended
        self._dialling: asyncio.Task[None] | None = None
        self.client.out = Pipe(to_upstream, self.client, self.upstream, clock=clock, seed=f"{seed} up")
        self.upstream.out = Pipe(to_client, self.upstream, self.client, clock=clock, seed=f"{seed} down")
        self.client.other, self.upstream.other = self.upstream, self.client

    def connect(self, host: str, port: int) -> None:
        """Dial the upstream; a client whose upstream cannot be reached is reset."""
        self._dialling = asyncio.get_running_loop().create_task(self._connect(host, port))
        self._dialling.add_done_callback(lambda _: self.upstream.dialled())

    async def _connect(self, host: str, port: int) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.upstream, host, port)
        except OSError:
            self.reset()
        self.client.resume_reading()

    def flow(self) -> None:
        """Look again at what is due, because a lane has changed."""
        self.client.out.flow()
        self.upstream.out.flow()

    def reset(self) -> None:
        """Break both sockets by RST and forget what is under way."""
        self._stop()
        self.client.abort()
        self.upstream.abort()

    def close(self) -> None:
        """Close both sockets in order and forget what is under way."""
        self._stop()
        self.client.close()
        self.upstream.close()

    def _stop(self) -> None:
        if self._dialling is not None:
            self._dialling.cancel()
        self.client.out.stop()
        self.upstream.out.stop()

    def socket_lost(self) -> None:
        """Count the sockets that are gone."""
        if self.client.lost and self.upstream.lost:
            self._ended(self)


class _Socket(asyncio.Protocol):
    """One end: reads into the pipe `out`, and is the sink of the other end's pipe."""

    out: Pipe
    other: _Socket

    def __init__(self, link: Link) -> None:
        self._link = link
        self._transport: asyncio.Transport | None = None
        self._eof_sent = False
        self._doomed = False
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._doomed or self.other.lost:
            self.abort()
        elif self.other._transport is None:
            transport.pause_reading()  # until the upstream is there

    def dialled(self) -> None:
        """Tell that no connection will be made if none was."""
        if self._transport is None:
            self.lost = True
            self._link.socket_lost()

    def data_received(self, data: bytes) -> None:
        self.out.feed(data)

    def eof_received(self) -> bool:
        self.out.feed_end(End.EOF)
        return True  # the other direction stays open

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.out.feed_end(End.CLOSED if exc is None else End.BROKEN)
        self._link.socket_lost()

    def pause_writing(self) -> None:
        self.other.out.block(blocked=True)

    def resume_writing(self) -> None:
        self.other.out.block(blocked=False)

    def pause_reading(self) -> None:
        if self._open is not None:
            self._open.pause_reading()

    def resume_reading(self) -> None:
        if self._open is not None:
            self._open.resume_reading()

    def write(self, data: bytes, /) -> None:
        if self._open is not None:
            self._open.write(data)

    def write_eof(self) -> None:
        self._eof_sent = True
        if self._open is not None:
            with suppress(OSError):  # the other end has reset the connection, and this loop has not heard of it yet
                self._open.write_eof()
        if self.other._eof_sent:  # both directions have ended, and nobody reads any more
            self.close()
            self.other.close()

    def close(self) -> None:
        self._doomed = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._doomed = True
        if self._transport is not None and not self.lost:  # also one that is closing, with bytes nobody takes
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
            self._transport.abort()

    @property
    def _open(self) -> asyncio.Transport | None:
        return None if self._transport is None or self._transport.is_closing() else self._transport
