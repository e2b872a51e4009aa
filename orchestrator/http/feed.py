"""Events as they come, with a look at the clock in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Generic, TypeVar

from foreword.errors import DeadlineExceeded
from foreword.protocol.generation import Event, GenerateRequest

T = TypeVar("T")

Generate = Callable[[GenerateRequest], AsyncGenerator[Event, None]]
"""The front: yields the events of a request, which ends when it is left."""
MOST_AT_ONCE = 16
"""Prompts of one request that are at work at the same time."""


class Over(Exception):
    """Nothing more comes."""


class Feed(Generic[T]):
    """Asks a generator for one value at a time and may give up waiting without losing it."""

    def __init__(self, source: AsyncGenerator[T, None], *, limit_s: float | None = None) -> None:
        """`limit_s` is how long all of it may take."""
        self._source = source
        self._limit_s = limit_s
        self._due = None if limit_s is None else asyncio.get_running_loop().time() + limit_s
        self._waiting: asyncio.Task[T] | None = None

    async def next(self, patience_s: float | None = None) -> T | None:
        """Return the next value, None if none comes in time.

        Raises Over behind the last one, DeadlineExceeded when the whole takes too long, and what the source raises.
        """
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(_next(self._source))
        left_s = None if self._due is None else self._due - asyncio.get_running_loop().time()
        waits = [wait for wait in (patience_s, left_s) if wait is not None]
        await asyncio.wait((self._waiting,), timeout=max(0.0, min(waits)) if waits else None)
        if self._waiting.done():
            task, self._waiting = self._waiting, None
            return task.result()
        if self._due is not None and asyncio.get_running_loop().time() >= self._due:
            raise DeadlineExceeded(f"deadline: the request was not over within {self._limit_s:g} s")
        return None

    async def close(self) -> None:
        """Leave the generator, which ends what it is at."""
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)
            self._waiting = None
        await self._source.aclose()


async def _next(source: AsyncGenerator[T, None]) -> T:
    try:
        return await anext(source)
    except StopAsyncIteration:
        raise Over from None


async def events_of(generate: Generate, requests: Sequence[GenerateRequest]) -> AsyncGenerator[tuple[int, Event], None]:
    """Yield the events of all requests, each with the place of its request; the first error ends them all.

    Some are at work at the same time. A reader that is slow slows them down; one that leaves ends them.
    """
    if len(requests) == 1:
        async with aclosing(generate(requests[0])) as events:
            async for event in events:
                yield 0, event
        return
    ready: asyncio.Queue[tuple[int, Event] | Exception | None] = asyncio.Queue(maxsize=1)
    room = asyncio.Semaphore(MOST_AT_ONCE)

    async def work(place: int) -> None:
        try:
            async with room, aclosing(generate(requests[place])) as events:
                async for event in events:
                    await ready.put((place, event))
            await ready.put(None)
        except Exception as error:
            await ready.put(error)

    tasks = [asyncio.create_task(work(place)) for place in range(len(requests))]
    try:
        unfinished = len(tasks)
        while unfinished:
            found = await ready.get()
            if isinstance(found, Exception):
                raise found
            if found is None:
                unfinished -= 1
            else:
                yield found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
