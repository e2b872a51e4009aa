"""A TCP proxy that misbehaves on command.

    with FaultProxy("127.0.0.1:50051", seed=1) as proxy:
        proxy.shape(Shape(delay_ms=10, jitter_ms=2))
        ...  # talk to proxy.address
        proxy.half_open(Direction.TO_UPSTREAM)

A proxy runs on a thread and event loop of its own, so that it keeps its times while the caller's loop works. Every
method may be called from any thread and has taken effect when it returns. Connecting itself is not delayed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from enum import Enum
from types import TracebackType
from typing import Self, TypeVar

from foreword.clock import MonotonicClock
from foreword.errors import InvalidField, Unavailable
from foreword.testing.fault_link import Link
from foreword.testing.fault_pipe import Lane, Shape
from foreword.testing.precise_loop import new_precise_loop

__all__ = ["Direction", "FaultProxy", "Shape"]

_T = TypeVar("_T")


class Direction(Enum):
    """Which way bytes go."""

    TO_UPSTREAM = "to upstream"
    TO_CLIENT = "to client"


class FaultProxy:
    """Listens on `listen` (host:port, port 0 for a free one) and forwards to `upstream` (host:port).

    A context manager, with or without `async`. Raises InvalidField for a bad address, Unavailable if it cannot listen.
    """

    def __init__(self, upstream: str, *, listen: str = "127.0.0.1:0", seed: int = 0) -> None:
        self._upstream = _split(upstream, name="upstream")
        self._listen = _split(listen, name="listen")
        self._seed = seed
        self._lanes = {direction: Lane() for direction in Direction}
        self._links: set[Link] = set()
        self._accepted = 0
        self._server: asyncio.Server | None = None
        self._link_ended = asyncio.Event()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """Where the proxy listens, host:port; the same until it is stopped, through cuts too."""
        host, port = self._listen
        return f"{host}:{port}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self._call(lambda: len(self._links))

    @property
    def accepted(self) -> int:
        """How many connections have been accepted so far."""
        return self._call(lambda: self._accepted)

    def carried_bytes(self, direction: Direction) -> int:
        """Return how many bytes have been delivered in one direction."""
        return self._call(lambda: self._lanes[direction].carried_bytes)

    def shape(self, shape: Shape, direction: Direction | None = None) -> None:
        """Set the quality of one direction, or of both; bytes under way keep the times they have."""
        self._change(direction, lambda lane: setattr(lane, "shape", shape))

    def pause(self, direction: Direction | None = None) -> None:
        """Hold everything; nothing is lost: a partition that `resume` heals."""
        self._change(direction, lambda lane: setattr(lane, "held", True))

    def resume(self, direction: Direction | None = None) -> None:
        """End a pause: what was held arrives in order."""
        self._change(direction, lambda lane: setattr(lane, "held", False))

    def half_open(self, direction: Direction | None = None) -> None:
        """Lose what comes in, ends of connections included, without telling anybody; `restore` ends it."""
        self._change(direction, lambda lane: setattr(lane, "swallows", True))

    def reset(self) -> None:
        """Break all connections by RST; new ones are accepted."""
        self._call(self._reset)

    def cut(self) -> None:
        """Close all connections in order (FIN) and refuse new ones until `restore`."""
        self._call(self._cut)

    def restore(self) -> None:
        """End cut, pause and half-open; shapes stay."""
        self._wait(self._serve())
        self._change(None, _heal)

    def start(self) -> Self:
        """Start to listen."""
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="fault proxy", daemon=True)
        self._thread.start()
        try:
            started.result()
        except OSError as error:
            self._thread.join()
            raise Unavailable(f"listen: got {self.address}, wanted a free address: {error.strerror}") from error
        return self

    def stop(self) -> None:
        """Break all connections and stop to listen; without effect if not started."""
        if self._loop is not None and self._thread is not None:
            self._call(self._stopping.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _change(self, direction: Direction | None, change: Callable[[Lane], None]) -> None:
        def apply() -> None:
            for each in Direction if direction is None else (direction,):
                change(self._lanes[each])
            for link in list(self._links):
                link.flow()

        self._call(apply)

    def _call(self, function: Callable[[], _T]) -> _T:
        async def call() -> _T:
            return function()

        return self._wait(call())

    def _wait(self, work: Coroutine[None, None, _T]) -> _T:
        if self._loop is None:
            work.close()
            raise RuntimeError("the proxy is not started: use it in a with statement, or call start()")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self, started: Future[None]) -> None:
        with asyncio.Runner(loop_factory=new_precise_loop) as runner:
            runner.run(self._main(started))

    async def _main(self, started: Future[None]) -> None:
        try:
            await self._serve()
        except OSError as error:
            started.set_exception(error)
            return
        self._loop = asyncio.get_running_loop()
        started.set_result(None)
        await self._stopping.wait()
        self._loop = None
        self._cut()
        self._reset()
        while self._links:
            self._link_ended.clear()
            await self._link_ended.wait()

    async def _serve(self) -> None:
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._accept, *self._listen, reuse_address=True)
            self._listen = (self._listen[0], self._server.sockets[0].getsockname()[1])

    def _accept(self) -> asyncio.Protocol:
        self._accepted += 1
        to_upstream, to_client = self._lanes[Direction.TO_UPSTREAM], self._lanes[Direction.TO_CLIENT]
        clock = MonotonicClock(asyncio.get_running_loop())
        seed = f"{self._seed} {self._accepted}"
        link = Link(to_upstream, to_client, clock=clock, seed=seed, ended=self._ended)
        self._links.add(link)
        link.connect(*self._upstream)
        return link.client

    def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in list(self._links):
            link.close()

    def _reset(self) -> None:
        for link in list(self._links):
            link.reset()

    def _ended(self, link: Link) -> None:
        self._links.discard(link)
        self._link_ended.set()


def _heal(lane: Lane) -> None:
    lane.held = lane.swallows = False


def _split(address: str, *, name: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) < 65536):
        raise InvalidField(name, address, "host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
