"""Requests from the front to sessions and back, on the world in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from foreword.errors import DeadlineExceeded, Full, InvalidField, ProtocolFault, Unavailable
from foreword.protocol.activity import Activity
from foreword.protocol.generation import (
    Chat,
    Delta,
    Event,
    Finish,
    GenerateRequest,
    Message,
    Prompt,
    Speculation,
    Started,
    TokenPrompt,
)
from foreword.protocol.words import FinishReason, TokenSource
from orchestrator.front.checks import FrontLimits
from orchestrator.front.event_queue import QueueLimits
from orchestrator.front.front import Front, FrontSettings
from orchestrator.front.intake import Intake, Prepared
from orchestrator.sessions.limits import SessionLimits
from tests.unit.orchestrator.texts import WordText
from tests.unit.orchestrator.world import MODEL, World, text_after

PROMPT = (1, 2, 3)
REQUEST = GenerateRequest("1 2 3", max_tokens=40)


class Counted:
    def __init__(self) -> None:
        self.finishes: list[Finish] = []
        self.failures: list[str] = []
        self.now = 0

    def running(self, requests: int) -> None:
        self.now = requests

    def finished(self, finish: Finish) -> None:
        self.finishes.append(finish)

    def failed(self, code: str) -> None:
        self.failures.append(code)


class Stage:
    def __init__(self, world: World | None = None, **settings: object) -> None:
        self.world = world or World()
        self.counted = Counted()
        ids, numbers = itertools.count(1), itertools.count(100)
        self.front = Front(
            FrontSettings(**settings),  # type: ignore[arg-type]
            self.world.around,
            self.counted,
            new_id=lambda: f"request{next(ids)}",
        )
        intake = Intake(
            WordText(),
            MODEL,
            self.world.drafts,
            limits=FrontLimits(),
            entropy=lambda size: next(numbers).to_bytes(size, "big"),
        )
        self.front.open_up(intake)

    async def events(self, request: GenerateRequest) -> list[Event]:
        return [event async for event in self.front.generate(request)]

    async def run(self, request: GenerateRequest) -> list[Event]:
        """Collect a request's events while virtual time goes on."""
        task = asyncio.create_task(self.events(request))
        await self.spin(task)
        return await task

    async def first(self, events: AsyncGenerator[Event, None]) -> Event:
        """Return the first event, which comes with the first output."""
        task = asyncio.ensure_future(anext(events))
        await self.spin(task)
        return task.result()

    async def spin(self, *tasks: asyncio.Future[Any], limit: int = 200_000) -> None:
        for _ in range(limit):
            await asyncio.sleep(0)
            if all(task.done() for task in tasks):
                return
            self.world.clock.step()
        raise AssertionError("the request does not end")


def ids_of(events: list[Event], choice: int = 0) -> tuple[int, ...]:
    return tuple(t for e in events if isinstance(e, Delta) and e.choice == choice for t in e.ids)


def text_of(events: list[Event]) -> str:
    return "".join(e.text for e in events if isinstance(e, Delta))


async def test_a_request_from_text_to_text() -> None:
    stage = Stage()
    started, *deltas, finish = await stage.run(REQUEST)
    assert started == Started("request1", "m", 3)
    assert isinstance(finish, Finish)
    assert ids_of(deltas) == text_after(PROMPT, 40)
    assert text_of(deltas) == "".join(f"{t} " for t in text_after(PROMPT, 40))
    assert finish.reason is FinishReason.LENGTH
    assert stage.counted.now == 0
    assert [f.usage for f in stage.counted.finishes] == [finish.usage]


async def test_usage_adds_up() -> None:
    stage = Stage()
    events = await stage.run(REQUEST)
    usage = events[-1].usage
    sources = [s for e in events if isinstance(e, Delta) for s in e.sources]
    assert usage.output_tokens == 40
    assert usage.accepted_tokens == sources.count(TokenSource.DRAFT) > 0
    assert usage.output_tokens == usage.accepted_tokens + usage.verifications + usage.plain_steps
    assert usage.drafted_tokens == sum(usage.offered_per_position)
    assert sum(usage.accepted_per_position) == usage.accepted_tokens
    assert usage.prompt_tokens == 3
    assert (usage.drafts_used, usage.targets_used, usage.late_blocks) == (1, 1, 0)


async def test_timings_have_the_parts_of_a_round() -> None:
    stage = Stage()
    finish = (await stage.run(REQUEST))[-1]
    names = {part.name for part in finish.timings.parts}
    assert {"verify_compute", "block_lag", "host"} <= names
    assert 0 < finish.timings.first_token_us <= finish.timings.total_us


async def test_without_speculation_the_text_is_the_same() -> None:
    plain = await Stage().run(replace(REQUEST, speculation=Speculation(gamma=0)))
    assert ids_of(plain) == text_after(PROMPT, 40)
    assert plain[-1].usage.plain_steps == 40


async def test_choices_are_separate() -> None:
    events = await Stage().run(replace(REQUEST, n=3))
    assert sorted(e.choice for e in events if isinstance(e, Finish)) == [0, 1, 2]
    for choice in range(3):
        assert ids_of(events, choice) == text_after(PROMPT, 40)


async def test_a_stop_text_inside_a_block() -> None:
    words = text_after(PROMPT, 40)
    stop = f"{words[10]} {words[11]} "
    stage = Stage()
    events = await stage.run(replace(REQUEST, stop=(stop,)))
    finish = events[-1]
    assert ids_of(events) == words[:10]
    assert (finish.reason, finish.stop) == (FinishReason.STOP, stop)
    assert finish.usage.output_tokens == 10
    assert stage.world.fake_targets[0].sent[-1].final_length == 10
    assert stage.world.clock.run() < 50


async def test_a_stop_text_with_the_last_token_of_the_budget() -> None:
    words = text_after(PROMPT, 40)
    events = await Stage().run(replace(REQUEST, stop=(f"{words[38]} {words[39]}",)))
    assert events[-1].reason is FinishReason.STOP
    assert ids_of(events) == words[:38]


async def test_echo_puts_the_prompt_in_front() -> None:
    started, first, *_ = await Stage().run(replace(REQUEST, echo=True))
    assert started.prompt_ids == PROMPT
    assert (first.text, first.ids) == ("1 2 3 ", ())


async def test_one_token_per_event() -> None:
    events = await Stage().run(replace(REQUEST, one_token_per_event=True))
    assert all(len(e.ids) == 1 for e in events if isinstance(e, Delta))
    assert ids_of(events) == text_after(PROMPT, 40)


async def test_resume_gives_the_rest() -> None:
    words = text_after(PROMPT, 40)
    events = await Stage().run(replace(REQUEST, resume=words[:25]))
    assert ids_of(events) == words[25:]
    assert events[-1].usage.output_tokens == 15


@pytest.mark.parametrize("include_stop", [False, True])
@pytest.mark.parametrize("begins", ["with a token", "in the middle of one"])
async def test_a_stop_text_ends_the_output_wherever_it_is_resumed(begins: str, include_stop: bool) -> None:
    words = text_after(PROMPT, 40)
    stop = f"{words[10]} {words[11]}" if begins == "with a token" else f" {words[11]} {words[12]}"
    asked = replace(REQUEST, stop=(stop,), include_stop=include_stop)
    whole = await Stage().run(asked)
    ids, text = ids_of(whole), text_of(whole)
    assert len(ids) in range(10, 14)
    for count in range(len(ids) + 1):
        rest = await Stage().run(replace(asked, resume=ids[:count]))
        finish = rest[-1]
        assert ids_of(rest) == ids[count:]
        assert text.endswith(text_of(rest))
        assert (finish.reason, finish.stop) == (FinishReason.STOP, stop)


async def test_who_goes_on_behind_a_stop_text_comes_to_the_next() -> None:
    words = text_after(PROMPT, 40)
    stops = (f"{words[10]} {words[11]}", f"{words[20]} {words[21]}")
    rest = await Stage().run(replace(REQUEST, stop=stops, resume=words[:15]))
    assert ids_of(rest) == words[15:20]
    assert rest[-1].stop == stops[1]


async def test_resume_of_what_is_complete_only_finishes() -> None:
    stage = Stage()
    events = await stage.run(replace(REQUEST, resume=text_after(PROMPT, 40)))
    assert [type(e) for e in events] == [Started, Finish]
    assert events[-1].reason is FinishReason.LENGTH
    assert not stage.world.fake_targets[0].sent


async def test_abort_finishes_the_stream() -> None:
    stage = Stage()
    task = asyncio.create_task(stage.events(replace(REQUEST, request_id="mine")))
    await asyncio.sleep(0)
    stage.world.clock.run_for(150_000)
    assert stage.front.abort("mine")
    assert not stage.front.abort("other")
    await stage.spin(task)
    events = task.result()
    assert events[-1].reason is FinishReason.ABORT
    assert 0 < len(ids_of(events)) == events[-1].usage.output_tokens < 40
    assert not stage.front.abort("mine")


async def test_leaving_the_stream_closes_both_engines() -> None:
    stage = Stage()
    events = stage.front.generate(REQUEST)
    await stage.first(events)
    stage.world.clock.run_for(150_000)
    await anext(events)
    await events.aclose()
    stage.world.clock.run_for(30_000)
    assert not stage.world.fake_targets[0].sessions
    assert not stage.world.fake_drafts[0].sessions
    assert stage.counted.now == 0
    assert stage.counted.failures == ["CANCELLED"]


async def test_a_request_id_in_use_is_refused() -> None:
    stage = Stage()
    first = stage.front.generate(replace(REQUEST, request_id="x"))
    await stage.first(first)
    with pytest.raises(InvalidField, match="request_id"):
        await anext(stage.front.generate(replace(REQUEST, request_id="x")))
    await first.aclose()
    await stage.run(replace(REQUEST, request_id="x"))


async def test_too_many_requests_are_told_when_to_come_again() -> None:
    stage = Stage(max_requests=1)
    first = stage.front.generate(REQUEST)
    await stage.first(first)
    with pytest.raises(Full) as caught:
        await anext(stage.front.generate(REQUEST))
    assert caught.value.retry_after_ms
    await first.aclose()
    await stage.run(REQUEST)


async def test_not_open_yet_is_unavailable() -> None:
    stage = Stage()
    stage.front._intake = None
    with pytest.raises(Unavailable):
        await stage.run(REQUEST)


async def test_a_client_that_does_not_read_pauses_its_sessions() -> None:
    stage = Stage(queue=QueueLimits(full=10, drained=2))
    events = stage.front.generate(replace(REQUEST, max_tokens=300))
    got = [await stage.first(events)]
    stage.world.clock.run_for(5_000_000)
    sent = len(stage.world.fake_targets[0].sent)
    stage.world.clock.run_for(5_000_000)
    assert len(stage.world.fake_targets[0].sent) == sent

    async def rest() -> None:
        async for event in events:
            got.append(event)

    task = asyncio.create_task(rest())
    await stage.spin(task)
    assert ids_of(got) == text_after(PROMPT, 300)


async def test_a_client_that_never_reads_is_given_up() -> None:
    stage = Stage(queue=QueueLimits(full=10, drained=2), patience_us=1_000_000)
    events = stage.front.generate(replace(REQUEST, max_tokens=300))
    got = [await stage.first(events)]
    stage.world.clock.run_for(5_000_000)
    assert not stage.world.fake_targets[0].sessions

    async def rest() -> None:
        async for event in events:
            got.append(event)

    with pytest.raises(DeadlineExceeded, match="client"):
        await rest()
    words = ids_of(got)
    assert words == text_after(PROMPT, 300)[: len(words)]
    assert stage.counted.failures == ["DEADLINE_EXCEEDED"]


async def test_an_error_comes_after_what_was_decided() -> None:
    stage = Stage(World(limits=SessionLimits(target_us=100_000)))
    got: list[Event] = []

    async def read() -> None:
        async for event in stage.front.generate(REQUEST):
            got.append(event)

    task = asyncio.create_task(read())
    await asyncio.sleep(0)
    stage.world.clock.run_for(150_000)
    stage.world.fake_targets[0].kill()
    await stage.spin(task)
    assert isinstance(task.exception(), Unavailable)
    words = ids_of(got)
    assert words == text_after(PROMPT, 40)[: len(words)]
    assert 0 < len(words) < 40


async def test_abort_while_a_request_is_prepared() -> None:
    stage = Stage()
    long = GenerateRequest(TokenPrompt((1,) * 20_000), request_id="long")
    stage.front._intake.model = replace(MODEL, longest_context=1 << 20)  # type: ignore[union-attr]
    task = asyncio.create_task(stage.events(long))
    await asyncio.sleep(0)
    assert stage.front.abort("long")
    while not task.done():
        stage.world.clock.run_for(1_000)
        await asyncio.sleep(0.001)
    started, finish = task.result()
    assert isinstance(started, Started)
    assert finish.reason is FinishReason.ABORT


async def test_a_defect_in_the_output_costs_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    broken = asyncio.create_task(stage.events(replace(REQUEST, request_id="broken")))
    whole = asyncio.create_task(stage.events(REQUEST))
    await asyncio.sleep(0)
    stage.world.clock.run_for(100_000)
    outputs = stage.front._running["broken"]._generation._outputs  # type: ignore[union-attr]
    monkeypatch.setattr(outputs[0]._sink, "take", lambda _: 1 / 0)
    await stage.spin(broken, whole)
    assert isinstance(broken.exception(), ProtocolFault)
    assert ids_of(whole.result()) == text_after(PROMPT, 40)
    stage.world.clock.run_for(30_000)
    assert not stage.world.fake_targets[0].sessions


async def test_nothing_comes_before_there_is_output() -> None:
    stage = Stage(World(limits=SessionLimits(target_us=100_000)))
    stage.world.fake_targets[0].kill()
    events = stage.front.generate(REQUEST)
    with pytest.raises(Unavailable):
        await stage.first(events)


async def test_drain_waits_then_moves_the_rest() -> None:
    stage = Stage()
    task = asyncio.create_task(stage.events(replace(REQUEST, max_tokens=300)))
    await asyncio.sleep(0)
    stage.world.clock.run_for(150_000)
    drain = asyncio.create_task(stage.front.drain())
    await asyncio.sleep(0)
    drain.cancel()  # as the server does when the grace time is over
    await stage.spin(task, drain)
    assert isinstance(task.exception(), Unavailable)
    with pytest.raises(Unavailable, match="shutting down"):
        await stage.run(REQUEST)


async def test_activity_tells_what_is_at_work_and_no_more() -> None:
    stage = Stage()
    assert stage.front.activity() == Activity(0)
    task = asyncio.create_task(stage.events(replace(REQUEST, max_tokens=300, n=2, request_id="mine")))
    await asyncio.sleep(0)
    stage.world.clock.run_for(250_000)
    activity = stage.front.activity()
    assert activity.requests == 1
    assert stage.front.activity() is activity, "who asks at the same time gets the same answer"
    assert [(choice.request_id, choice.choice) for choice in activity.choices] == [("mine", 0), ("mine", 1)]
    for choice in activity.choices:
        assert choice.target
        assert choice.draft
        assert choice.usage.output_tokens > 0
        assert sum(choice.results_by_gamma) > 0
        assert choice.gamma.gamma <= 16
    stage.front.abort("mine")
    await stage.spin(task)
    stage.world.clock.run_for(200_000)
    assert stage.front.activity() == Activity(0)


async def test_info_tells_who_is_there() -> None:
    stage = Stage(World(targets=2))
    stage.world.fake_targets[1].kill("gone")
    info = stage.front.info()
    assert info.model == MODEL
    assert [(p.up, p.last_error) for p in info.targets] == [(True, ""), (False, "gone")]
    assert [(p.up, p.trusted) for p in info.drafts] == [(True, False)]
    assert (info.gamma, info.gamma_max) == (4, 16)


@pytest.mark.parametrize(
    "prompt",
    [
        Chat((Message("user" * 16, ""),) * 60),
        Chat((Message("user", ""),) * 130),
        Chat((Message("user", "a" * 5_000),)),
        "a" * 5_000,
        TokenPrompt((1,) * 20_000),
    ],
    ids=["roles", "turns", "content", "text", "ids"],
)
async def test_long_requests_are_prepared_in_a_thread(prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, threads = Stage(), []

    def prepare(request: GenerateRequest, request_id: str) -> Prepared:
        threads.append(threading.current_thread())
        raise InvalidField("prompt", "", "nothing, for this test")

    monkeypatch.setattr(stage.front._intake, "prepare", prepare)
    with pytest.raises(InvalidField):
        async for _ in stage.front.generate(GenerateRequest(prompt)):
            pass
    assert threads[0] is not threading.main_thread()
