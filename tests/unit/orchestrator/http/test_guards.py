"""What stands in front of the endpoints, and how events are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from foreword.errors import DeadlineExceeded, Full
from foreword.protocol.generation import Delta, Event, GenerateRequest
from orchestrator.http.calls import Calls
from orchestrator.http.feed import MOST_AT_ONCE, Feed, Over, events_of
from orchestrator.http.generation_routes import deadline_s
from orchestrator.http.guards import BodyLimit, KeyGuard, without_root


class Caller:
    """Calls an application and keeps what it sends."""

    def __init__(self, *bodies: bytes, **scope: Any) -> None:
        self.scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/x", "headers": [], **scope}
        self.waiting = [
            {"type": "http.request", "body": body, "more_body": place < len(bodies)}
            for place, body in enumerate(bodies, start=1)
        ]
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        return self.waiting.pop(0) if self.waiting else {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def call(self, app: Any) -> int:
        await app(self.scope, self.receive, self.send)
        return int(self.sent[0]["status"])


async def echo(_: Any, receive: Any, send: Any) -> None:
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def bearer(key: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", key.encode())]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (bearer("Bearer one"), 200),
        (bearer("bearer  two "), 200),
        (bearer("Bearer three"), 401),
        (bearer("Basic one"), 401),
        (bearer("one"), 401),
        (bearer("Bearer "), 401),
        ([], 401),
    ],
)
async def test_a_key_opens(headers: list[tuple[bytes, bytes]], status: int) -> None:
    guard = KeyGuard(echo, ("one", "two"), root_path="")
    assert await Caller(b"", headers=headers).call(guard) == status


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/health", 200),
        ("/llm/health", 200),
        ("/ping", 200),
        ("/metrics", 401),
        ("/health/x", 401),
        ("/llmhealth", 401),
    ],
)
async def test_probes_need_no_key(path: str, status: int) -> None:
    assert await Caller(b"", path=path).call(KeyGuard(echo, ("one",), root_path="/llm")) == status


def test_a_prefix_ends_at_a_slash() -> None:
    assert [without_root(path, "/a") for path in ("/a/b", "/ab", "/b", "/a")] == ["/b", "/ab", "/b", "/a"]
    assert without_root("/a/b", "") == "/a/b"


@pytest.mark.parametrize(
    ("bodies", "status"),
    [
        ((b"12345",), 200),
        ((b"123", b"45"), 200),
        ((b"123456",), 413),
        ((b"123", b"456"), 413),
        ((b"1" * 11, b"never read"), 413),
    ],
)
async def test_bodies_have_a_limit(bodies: tuple[bytes, ...], status: int) -> None:
    caller = Caller(*bodies)
    assert await caller.call(BodyLimit(echo, 5)) == status
    if status == 200:
        assert caller.sent[1]["body"] == b"12345"
    else:
        assert caller.waiting == ([caller.waiting[0]] if b"never read" in bodies else [])


async def test_a_body_that_says_it_is_too_large_is_not_kept() -> None:
    caller = Caller(b"12", headers=[(b"content-length", b"6")])
    assert await caller.call(BodyLimit(echo, 5)) == 413


async def test_head_is_get_without_the_body() -> None:
    seen: list[Any] = []

    async def answers(scope: Any, _: Any, send: Any) -> None:
        seen.append(scope["method"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    caller = Caller(method="HEAD")
    assert await caller.call(Calls(answers)) == 200
    assert (seen, caller.scope["method"], caller.sent[1]["body"]) == (["GET"], "HEAD", b"")
    assert caller.sent[0]["headers"][0] == (b"content-length", b"2")


@pytest.mark.parametrize(("given", "kept"), [(b"mine", True), (b"", False), (b"two words", False), (b"x" * 129, False)])
async def test_every_call_has_an_id(given: bytes, kept: bool) -> None:
    caller = Caller(b"", headers=[(b"x-request-id", given)])
    await caller.call(Calls(echo))
    ((name, value),) = caller.sent[0]["headers"]
    assert name == b"x-request-id"
    assert value == given if kept else len(value) == 32


async def test_a_fault_is_an_answer_and_nothing_is_raised() -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("secret")

    caller = Caller(b"")
    assert await caller.call(Calls(broken)) == 500
    assert b"incident" in caller.sent[1]["body"]
    assert b"secret" not in caller.sent[1]["body"]


@pytest.mark.parametrize(("given", "seconds"), [("1500", 1.5), ("", None), ("0", None), ("-1", None), ("soon", None)])
def test_the_deadline_of_a_proxy(given: str, seconds: float | None) -> None:
    assert deadline_s(given) == seconds


class Source:
    """Yields what it is given; knows whether it was left."""

    def __init__(self) -> None:
        self.values: asyncio.Queue[int] = asyncio.Queue()
        self.left = False

    async def run(self) -> AsyncGenerator[int, None]:
        try:
            while (value := await self.values.get()) >= 0:
                yield value
        finally:
            self.left = True


async def test_a_feed_loses_nothing_while_it_gives_up_waiting() -> None:
    source = Source()
    feed = Feed(source.run())
    assert await feed.next(0.001) is None
    assert await feed.next(0.0) is None
    for value in (1, 2, -1):
        source.values.put_nowait(value)
    assert [await feed.next(60), await feed.next()] == [1, 2]
    with pytest.raises(Over):
        await feed.next()
    await feed.close()


async def test_leaving_a_feed_leaves_its_source() -> None:
    source = Source()
    feed = Feed(source.run())
    assert await feed.next(0.0) is None
    await asyncio.sleep(0)
    await feed.close()
    assert source.left


async def test_a_feed_has_a_deadline() -> None:
    feed = Feed(Source().run(), limit_s=0.0)
    with pytest.raises(DeadlineExceeded, match="not over within 0 s"):
        await feed.next(10)
    await feed.close()


class Generations:
    """A front: each prompt says how many tokens it gives, or that it fails."""

    def __init__(self) -> None:
        self.at_work = self.most = 0

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        try:
            for place in range(int(str(request.prompt))):
                await asyncio.sleep(0)
                yield Delta(0, str(place))
            if request.prompt == "0":
                raise Full("no room")
        finally:
            self.at_work -= 1


async def test_events_of_many_prompts_come_with_their_places() -> None:
    front = Generations()
    requests = [GenerateRequest(str(1 + place % 3)) for place in range(3 * MOST_AT_ONCE)]
    seen: dict[int, list[str]] = {}
    async for place, event in events_of(front.generate, requests):
        assert isinstance(event, Delta)
        seen.setdefault(place, []).append(event.text)
    assert [len(seen[place]) for place in range(len(requests))] == [int(str(r.prompt)) for r in requests]
    assert all(texts == sorted(texts) for texts in seen.values())
    assert (front.at_work, front.most) == (0, MOST_AT_ONCE)


@pytest.mark.parametrize("prompts", [("0",), ("0", "1000"), ("1000", "0")])
async def test_the_first_error_ends_them_all(prompts: tuple[str, ...]) -> None:
    front = Generations()
    with pytest.raises(Full):
        async for _ in events_of(front.generate, [GenerateRequest(prompt) for prompt in prompts]):
            pass
    assert front.at_work == 0


async def test_leaving_ends_them_all() -> None:
    front = Generations()
    events = events_of(front.generate, [GenerateRequest("1000")] * 5)
    await anext(events)
    await events.aclose()
    assert front.at_work == 0
