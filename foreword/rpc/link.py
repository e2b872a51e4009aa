"""A link: one long-lived bidirectional stream between two services, many sessions on it.

What is sent is queued and framed when the transport takes a frame, so that senders and readers never wait for a
writer and everything of one engine step rides in one frame. Both ends begin with Hello and check their protocol
versions; liveness frames go out each second, three that do not come end the link, and their echoes measure the round
trip. Honest peers' credit bounds the queue; a byte cap ends the link for others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from foreword.errors import DeadlineExceeded, ForewordError, Full, Mismatch, ProtocolFault, Unavailable
from foreword.protocol.info import Hello
from foreword.protocol.words import PROTOCOL_MAX, PROTOCOL_MIN
from foreword.rpc.outbox import Outbox
from foreword.rpc.roundtrip import RoundTrip
from foreword.rpc.transport import Transport
from foreword.wire.frames import Encoded, FrameCodec, build_frame

Out = TypeVar("Out")
In = TypeVar("In")

LAST_WRITE_S = 1.0
"""Seconds for a write to end once the link is over."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """How a link behaves."""

    liveness_s: float = 1.0
    """Seconds between this end's liveness frames."""
    misses: int = 3
    """Intervals of the peer without any frame that end the link."""
    handshake_s: float = 10.0
    """Seconds until the peer's Hello must be there."""
    frame_bytes: int = 256 << 10
    """Size at which a frame is full; one that holds a single message may be larger."""
    queue_bytes: int = 64 << 20
    """Bytes that may wait for the transport before the link is ended."""
    protocol_min: int = PROTOCOL_MIN
    protocol_max: int = PROTOCOL_MAX

    def hello(self, instance: str) -> Hello:
        """Return the Hello of the process with this random id."""
        return Hello(self.protocol_min, self.protocol_max, instance, liveness_ms=max(1, round(self.liveness_s * 1000)))


class LinkHandler(Protocol[Out, In]):
    """Whoever uses a link; called from the event loop, must not block. `down` comes once for every link."""

    def up(self, link: Link[Out, In]) -> None:
        """Take note that the peer's Hello has come and fits; messages follow."""

    def received(self, link: Link[Out, In], entries: Sequence[In]) -> None:
        """Take the messages of one frame, in order."""

    def down(self, link: Link[Out, In], error: ForewordError | None) -> None:
        """Take note that the link is over, or never came up; None when it was ended in good order."""


class Link(Generic[Out, In]):
    """One end of one stream; lives as long as the stream."""

    def __init__(
        self,
        codec: FrameCodec[Out, In],
        handler: LinkHandler[Out, In],
        *,
        instance: str,
        options: LinkOptions | None = None,
        now_us: Callable[[], int] = lambda: time.monotonic_ns() // 1000,
    ) -> None:
        self.options = options or LinkOptions()
        self.hello = self.options.hello(instance)
        self.peer: Hello | None = None
        """The peer's Hello; None before it came."""
        self.round_trip = RoundTrip()
        self._codec = codec
        self._handler = handler
        self._now_us = now_us
        self._outbox = Outbox()
        self._wake = asyncio.Event()
        self._greeted = asyncio.Event()
        self._heard = False
        self._liveness_due = True
        self._closing = False
        self._crash: Exception | None = None
        self._closed: asyncio.Future[ForewordError | None] | None = None
        self._over = False
        self._reason: ForewordError | None = None
        self._told = False

    @property
    def is_up(self) -> bool:
        """Whether Hellos have been exchanged and the link is not over."""
        return self.peer is not None and not self._over

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for the transport."""
        return self._outbox.queued_bytes

    def send(self, message: Out) -> bool:
        """Queue a message; never blocks. Returns False if the link is over, which `down` tells or has told.

        Raises InvalidField or ProtocolFault for a message that cannot be encoded; nothing else is affected then.
        """
        return False if self._over or self._closing else self.send_encoded(self._codec.encode(message))

    def send_encoded(self, message: Encoded) -> bool:
        """Queue a message that its sender has encoded, with a codec like this link's that has no state for it."""
        if self._over or self._closing:
            return False
        self._outbox.put(message)
        if self._outbox.queued_bytes > self.options.queue_bytes:
            seen, wanted = self._outbox.queued_bytes, self.options.queue_bytes
            self._end(Full(f"outgoing queue: got {seen} bytes, wanted at most {wanted}; the peer does not read"))
            return False
        self._wake.set()
        return True

    def close(self) -> None:
        """End the link in good order: what is queued goes out first."""
        self._closing = True
        self._wake.set()

    def abort(self, error: ForewordError) -> None:
        """End the link at once, for this reason."""
        self._end(error)

    def never_came_up(self, error: ForewordError) -> None:
        """End a link whose stream could not be opened; its handler hears of it, once, like of any other end."""
        self._end(error)
        self._tell_down()

    async def wait_closed(self) -> ForewordError | None:
        """Return when the link is over: None for good order, else the reason."""
        return await asyncio.shield(self._closed_future())

    async def run(self, transport: Transport) -> ForewordError | None:
        """Serve the link until it is over; returns why, None for good order. Cancelling ends it."""
        writer = asyncio.create_task(self._guarded(self._write(transport)))
        others = [
            asyncio.create_task(self._guarded(self._read(transport))),
            asyncio.create_task(self._beat()),
            asyncio.create_task(self._watch()),
        ]
        try:
            await self.wait_closed()
            await _cancelled(others)  # nothing is received after `down`
            self._tell_down()
            await asyncio.wait([writer], timeout=LAST_WRITE_S)  # while a write is on, gRPC sends no status: peers hang
        except asyncio.CancelledError:
            self._end(Unavailable("link: the stream was cancelled"))
            raise
        finally:
            await _cancelled([writer, *others])
            self._tell_down()
        if self._crash is not None:
            raise self._crash
        return self._reason

    def _closed_future(self) -> asyncio.Future[ForewordError | None]:
        if self._closed is None:
            self._closed = asyncio.get_running_loop().create_future()
            if self._over:
                self._closed.set_result(self._reason)
        return self._closed

    def _end(self, error: ForewordError | None) -> None:
        if self._over:
            return
        self._over, self._reason = True, error
        self._wake.set()
        if self._closed is not None:
            self._closed.set_result(error)

    def _tell_down(self) -> None:
        if not self._told:
            self._told = True
            self._outbox.clear()
            self._handler.down(self, self._reason)

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except ForewordError as error:
            self._end(error)
        except Exception as error:
            self._crash = error
            self._end(ProtocolFault(f"link: the handler raised {type(error).__name__}"))

    async def _read(self, transport: Transport) -> None:
        while not self._over:
            data = await transport.read()
            if data is None:
                break
            self._take(data)
        self._end(None)

    def _take(self, data: bytes) -> None:
        frame = self._codec.decode(data)
        self._heard = True
        if self.peer is None:
            if frame.hello is None:
                raise ProtocolFault("hello: got a first frame without one, wanted it in the first frame")
            self._greet(frame.hello)
        elif frame.hello is not None:
            raise ProtocolFault("hello: got a second one, wanted it only in the first frame")
        if frame.liveness is not None:
            self.round_trip.heard(frame.liveness, self._now_us())
            if frame.liveness.sequence == 1:  # answered at once, so that a first round trip is known early
                self._liveness_due = True
                self._wake.set()
        if frame.entries:
            self._handler.received(self, frame.entries)

    def _greet(self, peer: Hello) -> None:
        ours = self.hello
        if peer.protocol_min > ours.protocol_max or peer.protocol_max < ours.protocol_min:
            raise Mismatch(
                f"protocol version: the peer speaks {peer.protocol_min} to {peer.protocol_max}, "
                f"this end {ours.protocol_min} to {ours.protocol_max}; wanted one in common"
            )
        self.peer = peer
        self._greeted.set()
        self._handler.up(self)

    async def _write(self, transport: Transport) -> None:
        await transport.write(self._next_frame(self.hello))
        while not self._over:
            while self._outbox or self._liveness_due:
                await transport.write(self._next_frame())
            if self._closing:
                if await transport.finish():
                    self._end(None)
                return
            self._wake.clear()
            await self._wake.wait()

    def _next_frame(self, hello: Hello | None = None) -> bytes:
        liveness = self.round_trip.next_liveness(self._now_us()) if self._liveness_due else None
        self._liveness_due = False
        return build_frame(self._outbox.take(self.options.frame_bytes), hello=hello, liveness=liveness)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.options.liveness_s)
            self._liveness_due = True
            self._wake.set()

    async def _watch(self) -> None:
        """End the link when the peer falls silent.

        Misses are counted by ticks of this loop and not by the clock, so that a pause of this process, during which
        nothing could be read, counts as one miss and not as the peer's silence.
        """
        try:
            await asyncio.wait_for(self._greeted.wait(), self.options.handshake_s)
        except TimeoutError:
            self._end(DeadlineExceeded(f"hello: got none in {self.options.handshake_s:g} s, wanted one first"))
            return
        peer = self.peer
        assert peer is not None
        misses = 0
        while misses < self.options.misses:
            self._heard = False
            await asyncio.sleep(peer.liveness_ms / 1000)
            misses = 0 if self._heard else misses + 1
        silence = f"{misses} intervals of {peer.liveness_ms} ms"
        self._end(Unavailable(f"liveness: got no frame from {peer.instance or 'the peer'} in {silence}"))


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
