"""Log-probabilities of prompts on their way through the orchestrator: all of them come first, whatever is lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from foreword.errors import Mismatch
from foreword.protocol.generation import Delta, Finish, GenerateRequest, Started, TokenPrompt
from foreword.protocol.messages import Commit, TargetOpen
from foreword.protocol.words import FinishReason
from tests.unit.orchestrator.test_front import Stage, ids_of, text_of
from tests.unit.orchestrator.world import World, text_after

PROMPT = tuple(range(1, 12))
SCORES = tuple(-float(token) for token in PROMPT[1:])
REQUEST = GenerateRequest(TokenPrompt(PROMPT), max_tokens=20, prompt_logprobs=1)


@pytest.mark.parametrize("echo", [False, True])
async def test_they_come_with_the_start(echo: bool) -> None:
    started, *events = await Stage().run(replace(REQUEST, echo=echo, n=2))
    assert isinstance(started, Started)
    assert started.prompt_logprobs is not None
    assert started.prompt_logprobs.chosen == SCORES
    assert [row[0][0] for row in started.prompt_logprobs.top] == list(PROMPT[1:])
    for choice in range(2):
        assert ids_of(events, choice) == text_after(PROMPT, 20)
        first = next(event for event in events if isinstance(event, Delta) and event.choice == choice)
        assert (first.ids == ()) == echo


async def test_a_prompt_that_is_only_read_asks_for_no_token() -> None:
    stage = Stage()
    started, delta, finish = await stage.run(replace(REQUEST, max_tokens=0, echo=True))
    assert isinstance(started, Started)
    assert started.prompt_logprobs is not None
    assert text_of([delta]) == "".join(f"{token} " for token in PROMPT)
    assert isinstance(finish, Finish)
    assert (finish.reason, finish.usage.output_tokens, finish.usage.plain_steps) == (FinishReason.LENGTH, 0, 0)
    sent = stage.world.fake_targets[0].sent
    assert not any(isinstance(message, Commit) or getattr(message, "first", None) for message in sent)
    assert not stage.world.fake_drafts[0].sent
    stage.world.clock.run_for(30_000)
    assert not stage.world.fake_targets[0].sessions


async def test_an_echo_alone_asks_nobody() -> None:
    stage = Stage()
    events = await stage.run(GenerateRequest("1 2 3", max_tokens=0, echo=True))
    assert [type(event) for event in events] == [Started, Delta, Finish]
    assert not stage.world.fake_targets[0].sent


@pytest.mark.parametrize("lost_at_us", [7_000, 9_000, 11_000, 60_000, 150_000])
async def test_a_target_that_is_lost_costs_none_and_none_comes_twice(lost_at_us: int) -> None:
    world = World(targets=2)
    stage = Stage(world)
    task = asyncio.create_task(stage.events(REQUEST))
    await asyncio.sleep(0)
    world.clock.call_later(lost_at_us, lambda: next(t for t in world.fake_targets if t.sessions).kill())
    await stage.spin(task)
    started, *events = task.result()
    assert isinstance(started, Started)
    assert started.prompt_logprobs is not None
    assert started.prompt_logprobs.chosen == SCORES
    assert ids_of(events) == text_after(PROMPT, 20)
    opens = [message for target in world.fake_targets for message in target.sent if isinstance(message, TargetOpen)]
    asked = [message.prompt_logprobs for message in opens if len(message.tokens) > len(PROMPT)]
    assert asked in ([], [None]), "nobody who has them asks again"


async def test_a_target_of_an_older_release_is_named() -> None:
    world = World()
    world.fake_targets[0].scored_at_once = 0
    with pytest.raises(Mismatch, match="told no log-probabilities of the prompt"):
        await Stage(world).run(REQUEST)
