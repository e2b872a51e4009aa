"""The synchronous client: AsyncClient on an event loop of its own, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from foreword.client.aio import DEFAULT_ADDRESS, AsyncClient
from foreword.client.endpoints import Tls
from foreword.client.request import PromptLike, RequestFields
from foreword.client.stream import AsyncStream
from foreword.errors import Cancelled
from foreword.protocol.activity import Activity
from foreword.protocol.generation import Completion, DeploymentInfo, Event, GenerateRequest

_T = TypeVar("_T")


class Client:
    """Does what AsyncClient does, and waits; may be used by several threads. Close it, or use it in a `with` statement.

    with Client() as client:
        print(client.generate("Once upon a time", max_tokens=64).text)
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
        self._client = AsyncClient(address, tls=tls, token=token, timeout_s=timeout_s, insecure=insecure)
        self._loop = _LoopThread()

    def generate(
        self,
        prompt: PromptLike | GenerateRequest,
        *,
        timeout_s: float | None = None,
        **fields: Unpack[RequestFields],
    ) -> Completion:
        """Return the whole output; see RequestFields for what may be asked."""
        return self._loop.run(self._client.generate(prompt, timeout_s=timeout_s, **fields))

    def stream(
        self,
        prompt: PromptLike | GenerateRequest,
        *,
        timeout_s: float | None = None,
        **fields: Unpack[RequestFields],
    ) -> Stream:
        """Return the output as it comes; see RequestFields for what may be asked."""
        return Stream(self._loop, self._client.stream(prompt, timeout_s=timeout_s, **fields))

    def info(self, *, timeout_s: float | None = None) -> DeploymentInfo:
        """Return what is served, by the first address that answers."""
        return self._loop.run(self._client.info(timeout_s=timeout_s))

    def activity(self, *, timeout_s: float | None = None) -> Activity:
        """Return what the first address that answers is doing."""
        return self._loop.run(self._client.activity(timeout_s=timeout_s))

    def abort(self, request_id: str, *, timeout_s: float | None = None) -> bool:
        """End a request, wherever it runs; return whether it was running."""
        return self._loop.run(self._client.abort(request_id, timeout_s=timeout_s))

    def close(self) -> None:
        """Close the connections and end the thread; calls that run are cancelled."""
        if self._loop.running:
            self._loop.run(self._client.close())
            self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Stream:
    """Events of one request, as AsyncStream; leaving the context or `close` cancels the request at the server."""

    def __init__(self, loop: _LoopThread, stream: AsyncStream) -> None:
        self._loop = loop
        self._stream = stream

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self._loop.run(_next(self._stream))
        if event is None:
            raise StopIteration
        return event

    def completion(self) -> Completion:
        """Take the rest of the events and return all of them, those that were taken before included."""
        return self._loop.run(self._stream.completion())

    def close(self) -> None:
        """Cancel the request if it runs."""
        if self._loop.running:
            self._loop.run(self._stream.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _next(stream: AsyncStream) -> Event | None:
    """Return the next event or None: a coroutine must not raise StopAsyncIteration across threads."""
    return await anext(stream, None)


class _LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=_serve, args=(ready,), name="foreword client", daemon=True)
        self._thread.start()
        self._loop, self._stopping = ready.result()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end; if the caller is interrupted, so is the coroutine."""
        if not self.running:
            work.close()
            raise RuntimeError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise Cancelled("client: closed by another thread") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Cancel what runs, and end the loop and the thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()


def _serve(ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    async def main() -> None:
        stopping = asyncio.Event()
        ready.set_result((asyncio.get_running_loop(), stopping))
        await stopping.wait()

    asyncio.run(main())
