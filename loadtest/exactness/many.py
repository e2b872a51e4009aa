"""Many requests side by side, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")


async def at_most(limit: int, items: Iterable[_In], work: Callable[[_In], Awaitable[_Out]]) -> list[_Out]:
    """Return what `work` makes of each item, in their order, with at most `limit` at work; the first error ends all."""
    room = asyncio.Semaphore(limit)

    async def one(item: _In) -> _Out:
        async with room:
            return await work(item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(item)) for item in items]
    return [task.result() for task in tasks]
