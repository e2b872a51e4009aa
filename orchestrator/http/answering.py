"""Writes an answer, whole or as a stream of server-sent events, while its client is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from foreword.errors import ForewordError, InvalidField, NotFound
from foreword.protocol.generation import Event
from foreword.telemetry.ids import new_incident
from orchestrator.http.answers import Part
from orchestrator.http.errors import Failure, failure_of, incident_failure
from orchestrator.http.feed import Feed, Over
from orchestrator.http.stream import Stream
from orchestrator.http.whole import Whole

_log = structlog.stdlib.get_logger(__name__)

Events = Feed[tuple[int, Event]]
Rename = Callable[[ForewordError], ForewordError]
"""Gives an error the names of the body that it is about."""

_DONE: Final = b"data: [DONE]\n\n"
_ALIVE: Final = b": keep-alive\n\n"
_STREAM_HEADERS: Final = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Proxies are asked to pass events on at once."""


class Answering(Response):
    """A response that ends its work as soon as the client is gone."""

    def __init__(self, work: Callable[[Send], Awaitable[None]], *, patience_s: float) -> None:
        """A client may take nothing for `patience_s`."""
        super().__init__()
        self._work = work
        self._patience_s = patience_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Do the work; what it raises is raised."""

        async def patient(message: Message) -> None:
            async with asyncio.timeout(self._patience_s):
                await send(message)

        work = asyncio.ensure_future(self._work(patient))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        except TimeoutError:
            _log.info("client too slow", patience_s=self._patience_s)
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)


async def write_whole(send: Send, events: Events, whole: Whole, *, rename: Rename) -> None:
    """Write one answer when all of it is there, or the error that came instead."""
    try:
        while True:
            found = await events.next()
            if found is not None:
                whole.take(*found)
    except Over:
        await respond(send, 200, whole.answer())
    except ForewordError as error:
        await fail(send, failure_of(rename(error)))
    finally:
        await events.close()


async def write_stream(send: Send, events: Events, stream: Stream, *, rename: Rename, keep_alive_s: float) -> None:
    """Write a stream of events.

    What fails before anything has come, and before the client had to be told that work goes on, is an answer with a
    status of its own; later it is the last event of the stream, without [DONE].
    """
    patience_s = keep_alive_s or None
    try:
        found = await events.next(patience_s)
    except ForewordError as error:
        await events.close()
        await fail(send, failure_of(rename(error)))
        return
    except BaseException:
        await events.close()
        raise
    try:
        await _start(send, 200, {"content-type": "text/event-stream; charset=utf-8", **_STREAM_HEADERS})
        while True:
            await _part(send, _ALIVE if found is None else _written(stream.take(*found)))
            found = await events.next(patience_s)
    except Over:
        await _end(send, _written(stream.last()) + _DONE)
    except ForewordError as error:
        await _end(send, _written([failure_of(rename(error)).body]))
    except (TimeoutError, asyncio.CancelledError):
        raise
    except Exception:
        incident = new_incident()
        _log.exception("unexpected error in a stream", incident=incident)
        await _end(send, _written([incident_failure(incident).body]))
    finally:
        await events.close()


async def respond(send: Send, status: int, body: Part, headers: dict[str, str] | None = None) -> None:
    """Write a JSON answer."""
    data = body.json_bytes()
    await _start(
        send, status, {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
    )
    await _end(send, data)


async def fail(send: Send, failure: Failure) -> None:
    """Write an error."""
    await respond(send, failure.status, failure.body, dict(failure.headers))


def renaming(rename: Callable[[InvalidField | NotFound], ForewordError]) -> Rename:
    """Return what renames errors that name a field and leaves the others."""
    return lambda error: rename(error) if isinstance(error, InvalidField | NotFound) else error


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _written(parts: Iterable[Part]) -> bytes:
    return b"".join(b"data: " + part.json_bytes() + b"\n\n" for part in parts)


async def _start(send: Send, status: int, headers: dict[str, str]) -> None:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def _part(send: Send, data: bytes) -> None:
    if data:
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _end(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": False})
