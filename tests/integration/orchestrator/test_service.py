"""The orchestrator over real gRPC, with the real target and draft services on synthetic models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import grpc.aio
import pytest
import pytest_asyncio

from foreword.client import AsyncClient
from foreword.client.stream import AsyncStream
from foreword.errors import DeadlineExceeded, Full, InvalidField, NotFound
from foreword.protocol.generation import Delta, Finish, GenerateRequest, TokenPrompt
from foreword.protocol.words import FinishReason, Rule, TokenSource
from foreword.rpc.calls import call_unary
from foreword.wire.generation import GENERATE, encode_request
from foreword.wire.generation_events import decode_event
from foreword.wire.info import decode_draft_info, decode_target_info
from foreword.wire.limits import Limits
from foreword.wire.methods import DRAFT_GET_INFO, TARGET_GET_INFO
from tests.integration.orchestrator.services import (
    SYNTHETIC,
    Deployment,
    deployment,
    start_draft,
    start_orchestrator,
    start_target,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPT = TokenPrompt((3, 1, 4, 1, 5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return tmp_path_factory.mktemp("services")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(folder) -> AsyncIterator[Deployment]:  # type: ignore[no-untyped-def]
    async with deployment(folder, trust=("all",)) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(served: Deployment) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(served.address) as connected:
        yield connected


async def sessions(served: Deployment) -> tuple[int, int]:
    """How many sessions target and draft have open."""
    limits = Limits()
    async with grpc.aio.insecure_channel(served.targets[0].address) as channel:
        target = await call_unary(channel, TARGET_GET_INFO, decode=lambda data: decode_target_info(data, limits))
    async with grpc.aio.insecure_channel(served.drafts[0].address) as channel:
        draft = await call_unary(channel, DRAFT_GET_INFO, decode=lambda data: decode_draft_info(data, limits))
    return target.sessions, draft.server.sessions


async def tokens_came(stream: AsyncStream, count: int) -> None:
    """Return when so many tokens of a text have come."""
    seen = 0
    async for event in stream:
        seen += len(event.ids) if isinstance(event, Delta) else 0
        if seen >= count:
            return


async def all_closed(served: Deployment) -> None:
    async with asyncio.timeout(120):
        while await sessions(served) != (0, 0):  # noqa: ASYNC110 - it is another process that counts
            await asyncio.sleep(0.05)


async def test_greedy_text_is_the_same_with_and_without_a_draft(client: AsyncClient) -> None:
    plain = await client.generate(PROMPT, temperature=0.0, max_tokens=120, gamma=0)
    fast = await client.generate(PROMPT, temperature=0.0, max_tokens=120, gamma=4)
    assert plain.ids == fast.ids
    assert len(plain.ids) == 120
    assert (plain.usage.verifications, plain.usage.plain_steps) == (0, 120)
    assert fast.usage.verifications > 10
    assert fast.usage.acceptance_length is not None
    assert fast.usage.acceptance_length > 2
    assert fast.finish.rule is Rule.MATCH


@pytest.mark.parametrize("gamma", [1, 3, 8])
async def test_a_seed_makes_the_text_whatever_the_blocks(client: AsyncClient, gamma: int) -> None:
    plain = await client.generate(PROMPT, temperature=1.0, seed=11, max_tokens=60, gamma=0)
    fast = await client.generate(PROMPT, temperature=1.0, seed=11, max_tokens=60, gamma=gamma)
    other = await client.generate(PROMPT, temperature=1.0, seed=12, max_tokens=60, gamma=gamma)
    assert plain.ids == fast.ids != other.ids
    assert plain.usage.verifications == 0 < fast.usage.accepted_tokens


SAMPLING = {
    "temperature": 0.9,
    "top_k": 30,
    "top_p": 0.95,
    "min_p": 0.01,
    "repetition_penalty": 1.05,
    "presence_penalty": 0.2,
    "frequency_penalty": 0.1,
    "logit_bias": {7: 2.0, 9: -4.0},
    "banned_ids": (11, 12),
    "stop_ids": (7,),
    "min_tokens": 40,
}


@pytest.mark.parametrize("left_out", [(), ("stop_ids", "min_tokens"), ("temperature",)])
async def test_every_sampling_parameter_goes_with_a_draft(client: AsyncClient, left_out: tuple[str, ...]) -> None:
    fields = {name: value for name, value in SAMPLING.items() if name not in left_out}
    if "temperature" in left_out:
        fields["temperature"] = 0.0
    plain = await client.generate(PROMPT, seed=8, max_tokens=60, gamma=0, **fields)
    fast = await client.generate(PROMPT, seed=8, max_tokens=60, gamma=4, **fields)
    assert plain.ids == fast.ids
    assert (plain.finish.reason, plain.finish.stop) == (fast.finish.reason, fast.finish.stop)
    assert fast.usage.accepted_tokens > 0
    assert not {11, 12} & set(fast.ids)


async def test_rules_that_trust_accept_more(client: AsyncClient) -> None:
    for rule in (Rule.BLOCK, Rule.TOKEN):
        fast = await client.generate(PROMPT, temperature=1.0, max_tokens=120, gamma=4, rule=rule)
        assert fast.usage.verifications > 5
        assert len(fast.ids) == 120


async def test_auto_takes_block_with_a_trusted_draft(client: AsyncClient) -> None:
    drawn = await client.generate(PROMPT, temperature=1.0, max_tokens=20)
    assert drawn.finish.rule in (Rule.BLOCK, Rule.MATCH)  # match after too many late blocks


async def test_users_with_other_salts_share_no_cache(client: AsyncClient) -> None:
    prompt = TokenPrompt(tuple(7 * i % 64 for i in range(100)))

    async def cached(salt: bytes) -> int:
        done = await client.generate(prompt, temperature=0.0, max_tokens=4, gamma=0, cache_salt=salt)
        return done.usage.cached_tokens

    assert [await cached(salt) for salt in (b"one", b"other", b"")] == [0, 0, 0]
    assert all([await cached(salt) > 64 for salt in (b"one", b"other", b"")])


async def test_resume_goes_on_where_the_text_stood(client: AsyncClient) -> None:
    whole = await client.generate(PROMPT, temperature=1.0, seed=3, max_tokens=50)
    rest = await client.generate(PROMPT, temperature=1.0, seed=3, max_tokens=50, resume=whole.ids[:20])
    assert rest.ids == whole.ids[20:]


async def test_many_at_once_do_not_mix(client: AsyncClient) -> None:
    alone = [await client.generate(PROMPT, temperature=1.0, seed=s, max_tokens=30, gamma=4) for s in range(4)]
    together = await asyncio.gather(
        *(client.generate(PROMPT, temperature=1.0, seed=s % 4, max_tokens=30, gamma=4) for s in range(16))
    )
    assert [c.ids for c in together] == [alone[s % 4].ids for s in range(16)]
    assert min(sum(c.usage.accepted_tokens for c in runs) / len(runs) for runs in (alone, together)) > 2


async def test_choices_differ_and_the_first_is_that_of_one(client: AsyncClient) -> None:
    one = await client.generate(PROMPT, temperature=1.0, seed=9, max_tokens=20, gamma=4)
    three = await client.generate(PROMPT, temperature=1.0, seed=9, max_tokens=20, gamma=4, n=3)
    assert three.choices[0].ids == one.ids
    assert len({choice.ids for choice in three.choices}) == 3
    assert all(choice.finish.usage.verifications > 0 for choice in (*one.choices, *three.choices))


async def test_log_probabilities_are_those_of_plain_decoding(client: AsyncClient) -> None:
    plain = await client.generate(PROMPT, temperature=0.7, seed=4, max_tokens=30, gamma=0, top_logprobs=2)
    fast = await client.generate(PROMPT, temperature=0.7, seed=4, max_tokens=30, gamma=4, top_logprobs=2)
    one, other = plain.choices[0].logprobs, fast.choices[0].logprobs
    assert one is not None
    assert other is not None
    assert one.chosen == pytest.approx(other.chosen, abs=1e-5)
    assert [[t for t, _ in row] for row in one.top] == [[t for t, _ in row] for row in other.top]
    assert len(one.chosen) == len(one.top) == 30
    assert sum(value < -0.01 for value in other.chosen) > 15, "not those of certainties"
    assert fast.usage.accepted_tokens > 0


async def test_a_stop_text_ends_text_ids_and_usage_together(client: AsyncClient) -> None:
    whole = await client.generate(PROMPT, temperature=0.0, max_tokens=60, gamma=0)
    async with client.stream(PROMPT, temperature=0.0, max_tokens=60, gamma=0, one_token_per_event=True) as stream:
        texts = [event.text async for event in stream if isinstance(event, Delta)]
    stop = texts[20] + texts[21]
    cut = await client.generate(PROMPT, temperature=0.0, max_tokens=60, gamma=4, stop=(stop,), top_logprobs=2)
    logprobs = cut.choices[0].logprobs
    assert logprobs is not None
    assert cut.finish.reason is FinishReason.STOP
    assert cut.finish.stop == stop
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.ids == whole.ids[: len(cut.ids)]
    assert cut.usage.output_tokens == len(cut.ids) == len(logprobs.chosen) == len(logprobs.top)
    assert len(cut.ids) == next(n for n in range(60) if stop in "".join(texts[:n])) - 2  # without the stop itself
    assert cut.usage.accepted_tokens > 0


async def test_timings_name_the_parts_of_a_round(client: AsyncClient) -> None:
    fast = await client.generate(PROMPT, temperature=0.0, max_tokens=60, gamma=4)
    parts = {part.name: part for part in fast.timings.parts}
    assert {"draft_compute", "network", "block_lag", "verify_queue", "verify_compute", "host"} <= set(parts)
    assert parts["verify_compute"].p50_us > 1_000
    assert 0 < fast.timings.first_token_us <= fast.timings.total_us


REFUSALS = [
    ({"max_tokens": 0}, InvalidField, "max_tokens"),
    ({"gamma": 17}, InvalidField, "gamma"),
    ({"temperature": -1.0}, InvalidField, "temperature"),
    ({"model": "other"}, NotFound, "other"),
]


@pytest.mark.parametrize(("fields", "error", "named"), REFUSALS)
async def test_refusals_reach_the_client(client: AsyncClient, fields: dict, error: type, named: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(error, match=named):
        await client.generate(PROMPT, **fields)


async def test_a_prompt_that_is_too_long_is_refused(client: AsyncClient) -> None:
    with pytest.raises(InvalidField, match="512"):
        await client.generate(TokenPrompt((1,) * 512))


async def test_the_context_ends_the_output(client: AsyncClient) -> None:
    full = await client.generate(TokenPrompt((1,) * 490), temperature=0.0, max_tokens=100, gamma=4)
    assert full.usage.verifications > 0
    assert len(full.ids) == 512 - 490
    assert full.finish.reason is FinishReason.LENGTH


async def test_leaving_a_stream_closes_the_sessions(served: Deployment, client: AsyncClient) -> None:
    async with client.stream(PROMPT, temperature=0.0, max_tokens=500) as stream:
        async for event in stream:
            if isinstance(event, Delta):
                break
    await all_closed(served)


async def test_a_deadline_closes_the_sessions(served: Deployment, client: AsyncClient) -> None:
    with pytest.raises(DeadlineExceeded):
        await client.generate(PROMPT, temperature=0.0, max_tokens=500, gamma=0, timeout_s=0.2)
    await all_closed(served)


async def test_abort_finishes_the_stream(served: Deployment, client: AsyncClient) -> None:
    async with client.stream(PROMPT, temperature=0.0, max_tokens=500, gamma=0, request_id="mine") as stream:
        events = []
        async for event in stream:
            events.append(event)
            if len(events) == 2:
                assert await client.abort("mine")
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert finish.reason is FinishReason.ABORT
    assert finish.usage.output_tokens == sum(len(e.ids) for e in events if isinstance(e, Delta)) < 500
    assert not await client.abort("mine")
    await all_closed(served)


async def test_a_call_without_a_request_id_goes_by_that_of_its_header(served: Deployment) -> None:
    request = encode_request(GenerateRequest(PROMPT, max_tokens=1))
    async with grpc.aio.insecure_channel(served.address) as channel:
        call = channel.unary_stream(GENERATE)(request, metadata=(("x-request-id", "from-the-header"),))
        events = [decode_event(data, Limits()) async for data in call]
        trailing = dict(await call.trailing_metadata())
    assert events[0].request_id == "from-the-header"
    assert trailing["x-request-id"] == "from-the-header"


async def test_info_names_model_targets_and_drafts(served: Deployment, client: AsyncClient) -> None:
    info = await client.info()
    assert info.model is not None
    assert info.model.vocabulary_size == 64
    assert [(p.address, p.up, p.trusted) for p in info.targets] == [(served.targets[0].address, True, True)]
    assert [(p.address, p.up, p.trusted) for p in info.drafts] == [(served.drafts[0].address, True, True)]
    assert (info.gamma, info.gamma_max) == (4, 16)


async def test_a_draft_that_goes_costs_nothing_but_time(folder, served: Deployment) -> None:  # type: ignore[no-untyped-def]
    draft = await start_draft(folder, "leaving").ready()
    front = await start_orchestrator(folder, served.targets, [draft], "front").ready()
    try:
        async with AsyncClient(front.address) as client:
            plain = await client.generate(PROMPT, temperature=0.0, max_tokens=300, gamma=0)
            async with client.stream(PROMPT, temperature=0.0, max_tokens=300, gamma=4) as stream:
                await tokens_came(stream, 20)
                await draft.stop()
                fast = await stream.completion()
        assert fast.ids == plain.ids
        assert fast.usage.verifications > 0 < fast.usage.plain_steps
    finally:
        await front.stop()


async def test_a_target_that_goes_is_replaced(folder, served: Deployment) -> None:  # type: ignore[no-untyped-def]
    other = await start_target(folder, "other").ready()
    front = await start_orchestrator(folder, [other, *served.targets], served.drafts, "front").ready()
    try:
        async with AsyncClient(front.address) as client:
            plain = await client.generate(PROMPT, temperature=1.0, seed=2, max_tokens=300, gamma=0)
            async with AsyncExitStack() as stack:
                streams = [
                    await stack.enter_async_context(
                        client.stream(PROMPT, temperature=1.0, seed=2, max_tokens=300, gamma=4)
                    )
                    for _ in range(4)
                ]
                await asyncio.gather(*(tokens_came(stream, 20) for stream in streams))
                await other.stop()
                results = await asyncio.gather(*(stream.completion() for stream in streams))
        assert all(result.ids == plain.ids for result in results)
        assert any(result.usage.targets_used == 2 for result in results)
    finally:
        await front.stop()


@pytest.mark.parametrize("targets", [1, 2])
async def test_a_request_that_leaves_no_token_is_told_so_at_once(folder, targets: int) -> None:  # type: ignore[no-untyped-def]
    model = f"{SYNTHETIC.format(step_ms=1.0, seed=1)},eos=0.01"
    async with AsyncExitStack() as stack:
        running = [start_target(folder, f"ends{i}", model=model) for i in range(targets)]
        running.append(start_draft(folder, "ends", model=model))
        for service in running:
            stack.push_async_callback(service.stop)
        for service in running:
            await service.ready()
        front = start_orchestrator(folder, running[:-1], running[-1:], "front")
        stack.push_async_callback(front.stop)
        await front.ready()
        async with AsyncClient(front.address) as client:
            for gamma in (0, 4):
                with pytest.raises(InvalidField, match=r"^law\.banned_ids: got '63 ids', .* at output position 0"):
                    await client.generate(PROMPT, banned_ids=range(63), seed=1, gamma=gamma, timeout_s=60)
            assert len((await client.generate(PROMPT, max_tokens=5, ignore_eos=True)).ids) == 5


async def test_a_draft_with_another_vocabulary_is_named_and_not_used(folder, served: Deployment) -> None:  # type: ignore[no-untyped-def]
    stranger = await start_draft(folder, "stranger", model="synthetic:vocab=32,step_ms=0.2,seed=1").ready()
    front = await start_orchestrator(folder, served.targets, [stranger], "front").ready()
    try:
        async with AsyncClient(front.address) as client:
            done = await client.generate(PROMPT, temperature=0.0, max_tokens=20, gamma=4)
            (peer,) = (await client.info()).drafts
        assert done.usage.verifications == 0
        assert "32 ids" in peer.last_error
        assert "64" in peer.last_error
    finally:
        await front.stop()
        await stranger.stop()


async def test_of_targets_with_other_weights_one_is_named_and_not_used(folder, served: Deployment) -> None:  # type: ignore[no-untyped-def]
    other = await start_target(folder, "other", seed=2).ready()
    front = await start_orchestrator(folder, [*served.targets, other], [], "front").ready()
    try:
        async with AsyncClient(front.address) as client:
            before = await one_is_refused(client)
            texts = [client.generate(PROMPT, temperature=0.0, max_tokens=20, gamma=0) for _ in range(8)]
            assert len({text.ids for text in await asyncio.gather(*texts)}) == 1
            assert await one_is_refused(client) == before
    finally:
        await front.stop()
        await other.stop()


async def one_is_refused(client: AsyncClient) -> str:
    """Return the address of the one target of two that is up, once the other is named for its weights."""
    async with asyncio.timeout(120):
        while True:
            up, down = sorted((await client.info()).targets, key=lambda peer: not peer.up)
            if "weights: the target's 'synthetic' has digest" in down.last_error:
                assert up.up
                assert not down.up
                return up.address
            await asyncio.sleep(0.02)


async def test_beyond_the_drafts_context_the_target_decodes_plainly(folder, served: Deployment) -> None:  # type: ignore[no-untyped-def]
    short = "synthetic:vocab=64,step_ms=0.2,agreement=0.8,seed=1,context=64"
    draft = await start_draft(folder, "short", model=short).ready()
    front = await start_orchestrator(folder, served.targets, [draft], "front").ready()
    try:
        async with AsyncClient(front.address) as client:
            plain = await client.generate(PROMPT, temperature=0.0, max_tokens=150, gamma=0)
            fast = await client.generate(PROMPT, temperature=0.0, max_tokens=150, gamma=4)
            beyond = await client.generate(TokenPrompt((1,) * 80), temperature=0.0, max_tokens=10, gamma=4)
        assert fast.ids == plain.ids
        assert fast.usage.verifications > 0
        # The step that verifies the draft's last candidate gives a token more.
        assert fast.usage.plain_steps >= 150 + len(PROMPT.ids) - 65
        assert all(source is TokenSource.TARGET for source in fast.choices[0].sources[64 - len(PROMPT.ids) :])
        assert (beyond.usage.verifications, beyond.usage.plain_steps) == (0, 10)
    finally:
        await front.stop()
        await draft.stop()


async def test_more_requests_than_allowed_are_told_to_wait(folder, served: Deployment) -> None:  # type: ignore[no-untyped-def]
    front = await start_orchestrator(folder, served.targets, [], "front", max_requests=1).ready()
    try:
        async with AsyncClient(front.address) as client, client.stream(PROMPT, max_tokens=500, gamma=0) as stream:
            await anext(aiter(stream))
            with pytest.raises(Full) as caught:
                await client.generate(PROMPT, max_tokens=1)
            assert caught.value.retry_after_ms
    finally:
        await front.stop()
