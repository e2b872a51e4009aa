"""Services killed, stopped and cut off while a request runs: nothing is lost, nothing comes twice, drafts come back.

What the text has to be is known from an undisturbed run without drafts: under `match` it is a function of seed, prompt
and target alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from foreword.client import AsyncClient
from foreword.errors import Unavailable
from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Completion, Delta, GenerateRequest, Speculation, TokenPrompt
from foreword.protocol.words import FinishReason, Rule
from foreword.stack.stack import Stack
from foreword.testing.fault_proxy import Direction, FaultProxy
from loadtest.exactness.interruptions import Interruption, generate_interrupted, generate_until_drafted_again
from tests.e2e.kit import drafted, synthetic_stack

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

GREEDY = LawParameters(temperature=0.0)
SAMPLED = LawParameters(temperature=1.0, top_p=0.95, frequency_penalty=0.2)
laws = pytest.mark.parametrize("law", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
LONG = 8000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[Stack]:
    async with Stack(synthetic_stack(target_ms=4.0, draft_ms=0.5, context=LONG + 64)) as running:
        yield running


def request_of(law: LawParameters, *, max_tokens: int = 300, gamma: int = 4) -> GenerateRequest:
    """Return a request under `match`."""
    speculation = Speculation(gamma=gamma, rule=Rule.MATCH)
    return GenerateRequest(
        TokenPrompt((3, 1, 4, 1, 5)), law=law, max_tokens=max_tokens, seed=5, speculation=speculation
    )


async def undisturbed(client: AsyncClient, law: LawParameters, tokens: int) -> tuple[int, ...]:
    """Return the text without drafts."""
    return (await client.generate(request_of(law, max_tokens=tokens, gamma=0))).ids


async def interrupted(client: AsyncClient, request: GenerateRequest, *interruptions: Interruption) -> Completion:
    return await generate_interrupted(client, request, interruptions)


@laws
async def test_speculation_resumes_in_the_request_during_which_the_draft_was_killed(
    stack: Stack, law: LawParameters
) -> None:
    async with AsyncClient(stack.address) as client:
        await stack.serving("draft")
        restarts = stack.restarts("draft")
        kill = Interruption(60, lambda: stack.kill("draft"))
        hurt = await generate_until_drafted_again(
            client, request_of(law, max_tokens=LONG), interruption=kill, drafted=40
        )
        assert stack.restarts("draft") == restarts + 1
        assert hurt.finish.reason is FinishReason.ABORT, "speculation was back before the output ended by itself"
        assert hurt.usage.drafts_used >= 2
        assert hurt.usage.targets_used == 1
        assert hurt.usage.plain_steps > 0
        assert hurt.ids == await undisturbed(client, law, len(hurt.ids))


async def test_the_draft_is_killed_again_and_again(stack: Stack) -> None:
    async with AsyncClient(stack.address) as client:
        await stack.serving("draft")

        def kill() -> None:
            with contextlib.suppress(Unavailable):  # it may not be back yet
                stack.kill("draft")

        hurt = await interrupted(
            client, request_of(SAMPLED, max_tokens=1200), *(Interruption(at, kill) for at in range(50, 1100, 150))
        )
        assert hurt.ids == await undisturbed(client, SAMPLED, 1200)


async def test_the_draft_is_killed_while_its_block_is_verified() -> None:
    # A step takes so long that the block is at the target, and the step has begun, when the signal comes.
    async with (
        Stack(synthetic_stack(target_ms=100.0, draft_ms=0.1)) as stack,
        AsyncClient(stack.address) as client,
    ):
        loop = asyncio.get_running_loop()
        kill = Interruption(12, lambda: loop.call_later(0.05, stack.kill, "draft"))
        hurt = await interrupted(client, request_of(GREEDY, max_tokens=30), kill)
        assert hurt.usage.accepted_tokens > 0
        assert hurt.ids == await undisturbed(client, GREEDY, 30)


@laws
async def test_the_draft_falls_silent_and_goes_on(stack: Stack, law: LawParameters) -> None:
    async with AsyncClient(stack.address) as client:
        await stack.serving("draft")
        stop = Interruption(60, lambda: stack.kill("draft", signal.SIGSTOP))
        go_on = Interruption(120, lambda: stack.kill("draft", signal.SIGCONT))
        hurt = await interrupted(client, request_of(law, max_tokens=600), stop, go_on)
        assert hurt.usage.late_blocks > 0
        assert hurt.ids == await undisturbed(client, law, 600)


async def test_the_draft_is_silent_for_so_long_that_its_link_ends(stack: Stack) -> None:
    async with AsyncClient(stack.address) as client:
        await stack.serving("draft")
        loop = asyncio.get_running_loop()

        def stop() -> None:
            stack.kill("draft", signal.SIGSTOP)
            loop.call_later(6.0, stack.kill, "draft", signal.SIGCONT)

        hurt = await generate_until_drafted_again(
            client, request_of(GREEDY, max_tokens=LONG), interruption=Interruption(60, stop), drafted=40
        )
        assert hurt.finish.reason is FinishReason.ABORT
        assert hurt.ids == await undisturbed(client, GREEDY, len(hurt.ids))


@pytest.mark.parametrize("fault", ["cut", "reset", "half-open"])
async def test_the_link_between_draft_and_target_breaks(fault: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{probe.getsockname()[1]}"
    config = synthetic_stack(target_ms=4.0, draft_ms=0.5, context=LONG + 64)
    config = replace(config, arguments={"target": ("--advertise", place)})
    async with Stack(config) as stack, AsyncClient(stack.address) as client:
        with FaultProxy(stack.address_of("target"), listen=place) as proxy:
            await drafted(client, request_of(GREEDY, max_tokens=60))
            loop = asyncio.get_running_loop()

            def break_it() -> None:
                act = {"cut": proxy.cut, "reset": proxy.reset, "half-open": proxy.half_open}[fault]
                act()
                loop.call_later(1.0, proxy.restore)

            hurt = await generate_until_drafted_again(
                client, request_of(SAMPLED, max_tokens=LONG), interruption=Interruption(60, break_it), drafted=40
            )
            assert proxy.carried_bytes(Direction.TO_UPSTREAM) > 0, "blocks went through the proxy"
            assert hurt.finish.reason is FinishReason.ABORT
            assert hurt.ids == await undisturbed(client, SAMPLED, len(hurt.ids))


async def test_another_orchestrator_goes_on_with_what_was_received(stack: Stack) -> None:
    request = request_of(SAMPLED, max_tokens=400)
    async with AsyncClient(stack.address) as client:
        wanted = await undisturbed(client, SAMPLED, 400)
        received: list[int] = []

        async def read() -> None:
            async with client.stream(request) as events:
                async for event in events:
                    if isinstance(event, Delta):
                        received.extend(event.ids)
                        if len(received) >= 100 and stack.pid("orchestrator"):
                            stack.kill("orchestrator")

        with pytest.raises(Unavailable, match=r"^address: got .*, wanted a server that"):
            await read()
        assert tuple(received) == wanted[: len(received)]
    async with asyncio.timeout(300):
        await stack.serving("orchestrator")
    async with AsyncClient(stack.address) as client:
        rest = await _answered(client, replace(request, resume=tuple(received)))
        assert (*received, *rest.ids) == wanted


async def _answered(client: AsyncClient, request: GenerateRequest) -> Completion:
    """Ask until the restarted orchestrator has found its peers."""
    async with asyncio.timeout(300):
        while True:
            with contextlib.suppress(Unavailable):
                return await client.generate(request)
            await asyncio.sleep(0.1)
