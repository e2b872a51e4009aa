"""Answers as they are written: what comes first, what comes of errors, and what a client that leaves ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from foreword.errors import Full, InvalidField
from foreword.protocol.generation import Delta, Event, Finish, Started
from foreword.protocol.words import FinishReason
from orchestrator.http.answering import Answering, Events, renaming, write_stream, write_whole
from orchestrator.http.feed import Feed
from orchestrator.http.shape import Envelope, Wanted
from orchestrator.http.stream import CompletionStream
from orchestrator.http.whole import WholeCompletion

SHAPE = (Envelope("id", 5, "m", "fp"), Wanted())
EVENTS: list[Event] = [Started("id", "m", 1), Delta(0, "one"), Finish(0, FinishReason.STOP)]


class Answer:
    """What a client is sent."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def send(self, message: Any) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def text(self) -> str:
        assert not self.messages[-1]["more_body"]
        return b"".join(message["body"] for message in self.messages[1:]).decode()


def rename(error: Any) -> Any:
    return InvalidField(f"new {error.field}", error.seen, error.wanted)


def feed(*steps: Any) -> Events:
    """Return a feed of events; a number is a silence, an error is raised."""

    async def source() -> AsyncGenerator[tuple[int, Event], None]:
        for step in steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                yield 0, step

    return Feed(source())


async def streamed(*steps: Any, keep_alive_s: float = 0.0) -> Answer:
    answer = Answer()
    await write_stream(
        answer.send, feed(*steps), CompletionStream(*SHAPE), rename=renaming(rename), keep_alive_s=keep_alive_s
    )
    return answer


async def whole(*steps: Any) -> Answer:
    answer = Answer()
    await write_whole(answer.send, feed(*steps), WholeCompletion(*SHAPE), rename=renaming(rename))
    return answer


async def test_a_stream_ends_with_done() -> None:
    answer = await streamed(*EVENTS)
    headers = dict(answer.messages[0]["headers"])
    assert (answer.status, headers[b"content-type"]) == (200, b"text/event-stream; charset=utf-8")
    first, second, done, rest = answer.text.split("\n\n")
    assert json.loads(first.removeprefix("data: "))["choices"][0]["text"] == "one"
    assert json.loads(second.removeprefix("data: "))["choices"][0]["finish_reason"] == "stop"
    assert (done, rest) == ("data: [DONE]", "")


@pytest.mark.parametrize("silence", [0, 2])
async def test_a_silence_is_filled_with_comments(silence: int) -> None:
    steps: list[Any] = [*EVENTS]
    steps.insert(silence, 0.05)
    answer = await streamed(*steps, keep_alive_s=0.001)
    assert ": keep-alive\n\n" in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("write", [streamed, whole])
async def test_what_fails_first_has_a_status(write: Any) -> None:
    answer = await write(InvalidField("n", 0, "1"))
    assert (answer.status, json.loads(answer.text)["error"]["param"]) == (400, "new n")
    answer = await write(Full("no room", retry_after_ms=2_500))
    assert (answer.status, dict(answer.messages[0]["headers"])[b"retry-after"]) == (429, b"3")


async def test_what_fails_later_is_the_last_event_of_a_stream() -> None:
    answer = await streamed(*EVENTS[:2], Full("no room"))
    *_, last, rest = answer.text.split("\n\n")
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == "no room"
    assert (answer.status, rest) == (200, "")
    answer = await streamed(0.05, Full("no room"), keep_alive_s=0.001)
    assert answer.status == 200
    assert '"no room"' in answer.text
    assert "[DONE]" not in answer.text


async def test_a_whole_answer_that_fails_later_is_the_error_alone() -> None:
    answer = await whole(*EVENTS[:2], Full("no room"))
    assert (answer.status, json.loads(answer.text)["error"]["code"]) == (429, "rate_limit_exceeded")


async def test_a_fault_of_ours_tells_an_incident_and_no_more() -> None:
    answer = await streamed(*EVENTS[:2], RuntimeError("secret"))
    assert "incident" in answer.text
    assert "secret" not in answer.text
    with pytest.raises(RuntimeError):
        await streamed(RuntimeError("secret"))
    with pytest.raises(RuntimeError):
        await whole(RuntimeError("secret"))


class Work:
    """Work that goes on until it is cancelled."""

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), False

    async def __call__(self, send: Any) -> None:
        try:
            self.began.set()
            await asyncio.Event().wait()
        finally:
            self.ended = True


async def test_a_client_that_leaves_ends_the_work() -> None:
    work = Work()

    async def receive() -> Any:
        await work.began.wait()
        return {"type": "http.disconnect"}

    await Answering(work, patience_s=60)({}, receive, Answer().send)
    assert work.ended


async def test_a_client_that_reads_nothing_ends_the_work() -> None:
    async def never(_: Any = None) -> Any:
        await asyncio.Event().wait()

    async def write(send: Any) -> None:
        await send({})

    await Answering(write, patience_s=0.001)({}, never, never)


async def test_what_the_work_raises_is_raised() -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    async def broken(_: Any) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await Answering(broken, patience_s=60)({}, never, Answer().send)
