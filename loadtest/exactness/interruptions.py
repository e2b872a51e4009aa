"""Requests during which something happens: processes killed, stopped, continued; links cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foreword.client import AsyncClient
from foreword.protocol.generation import Completion, Delta, GenerateRequest, Started
from foreword.protocol.words import TokenSource
from loadtest.exactness.many import at_most


@dataclass(frozen=True, slots=True)
class Interruption:
    """Something that is done once when so many output tokens have come."""

    after: int
    act: Callable[[], None]


async def generate_interrupted(
    client: AsyncClient, request: GenerateRequest, interruptions: Sequence[Interruption]
) -> Completion:
    """Return the output of a request; interruptions that its end comes before are not carried out."""
    waiting = sorted(interruptions, key=lambda one: one.after)
    seen = 0
    async with client.stream(request) as events:
        async for event in events:
            if isinstance(event, Delta):
                seen += len(event.ids)
            while waiting and seen >= waiting[0].after:
                waiting.pop(0).act()
        return await events.completion()


async def generate_together(
    client: AsyncClient, requests: Sequence[GenerateRequest], *, share: float, act: Callable[[], None]
) -> list[Completion]:
    """Return the outputs of requests side by side; `act` is called once, when each has that share of its tokens."""
    unready = set(range(len(requests)))

    def passed(number: int) -> None:
        if number in unready:
            unready.remove(number)
            if not unready:
                act()

    async def one(number: int) -> Completion:
        request, seen = requests[number], 0
        async with client.stream(request) as events:
            async for event in events:
                seen += len(event.ids) if isinstance(event, Delta) else 0
                if seen >= share * (request.max_tokens or 0):
                    passed(number)
            passed(number)  # it ended before
            return await events.completion()

    return await at_most(len(requests), range(len(requests)), one)


async def generate_until_drafted_again(
    client: AsyncClient, request: GenerateRequest, *, interruption: Interruption, drafted: int
) -> Completion:
    """Interrupt a long request, and end it when the draft has written that many tokens after the interruption.

    The output is as long as it takes for speculation to come back, however slow the machine; the request's
    `max_tokens` says when to give up.
    """
    request_id, seen, written = "", 0, 0
    done = False
    async with client.stream(request) as events:
        async for event in events:
            if isinstance(event, Started):
                request_id = event.request_id
            if not isinstance(event, Delta):
                continue
            before, seen = seen, seen + len(event.ids)
            if before < interruption.after <= seen:
                interruption.act()
            elif before >= interruption.after:
                written += event.sources.count(TokenSource.DRAFT)
            if written >= drafted and not done:
                done = True
                await client.abort(request_id)
        return await events.completion()
