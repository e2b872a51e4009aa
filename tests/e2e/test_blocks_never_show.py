"""Everything that a request gets is the same with blocks and without: text, ids, log-probabilities, stops, counts.

A few prompts by default, all hundred under the marker `full`; real weights, in float32.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

import pytest
import pytest_asyncio

from foreword.client import AsyncClient
from foreword.laws.parameters import LawParameters
from foreword.protocol.generation import Chat, Choice, GenerateRequest, Speculation
from foreword.protocol.words import FinishReason, Rule
from foreword.stack.stack import Stack
from loadtest.exactness.many import at_most
from loadtest.prompts import Prompt, dev_prompts
from tests.e2e.kit import QUICK, embedded_folder

pytestmark = [pytest.mark.e2e]

TOKENS = 48
GAMMA = 7
NEAR = 1e-4
"""How far log-probabilities may be apart: a row's arithmetic may be that of a larger step."""
STOPPED_TOKENS = (1, 3, 9)
"""Tokens that stop texts touch: inside a block, over its ends, and longer than any."""
PENALTIES: dict[str, LawParameters] = {
    "repetition 1.05": LawParameters(temperature=0.0, repetition_penalty=1.05),
    "repetition 1.3": LawParameters(temperature=0.0, repetition_penalty=1.3),
    "repetition 0.9": LawParameters(temperature=0.0, repetition_penalty=0.9),
    "presence 0.8": LawParameters(temperature=0.0, presence_penalty=0.8),
    "presence -0.5": LawParameters(temperature=0.0, presence_penalty=-0.5),
    "frequency 0.7": LawParameters(temperature=0.0, frequency_penalty=0.7),
    "bias": LawParameters(temperature=0.0, bias=((28, 2.0), (30, -3.0), (260, -1.0))),
    "banned": LawParameters(temperature=0.0, banned_ids=(28, 260, 30)),
    "no end before 40": LawParameters(temperature=0.0, stop_ids=(30, 28), min_tokens=40),
    "all": LawParameters(
        temperature=0.0, repetition_penalty=1.1, presence_penalty=0.3, frequency_penalty=0.2, bias=((28, 1.0),)
    ),
}
LEAST_SHARES = (0.02, 0.1, 0.3)


@pytest_asyncio.fixture
async def client() -> AsyncIterator[AsyncClient]:
    embedded_folder()
    async with Stack(replace(QUICK, draft="auto")) as stack, AsyncClient(stack.address) as client:
        yield client


def asked(prompt: Prompt, **fields: object) -> GenerateRequest:
    fields = {"law": LawParameters(temperature=0.0), "top_logprobs": 3, "max_tokens": TOKENS, **fields}
    return GenerateRequest(Chat(prompt.messages), **fields)


def stop_texts(choice: Choice, number: int) -> Iterator[str]:
    """Yield texts from the middle of one that was written, of some tokens and parts of the tokens beside them."""
    text, tokens = choice.text, max(1, len(choice.ids))
    for count, touched in enumerate(STOPPED_TOKENS):
        per_token = len(text) / tokens
        begin = int(per_token * (6 + 3 * count + number % 7))
        found = text[begin : begin + max(2, int(per_token * touched))]
        if len(found) >= 2:
            yield found


async def both(client: AsyncClient, requests: Sequence[GenerateRequest]) -> list[tuple[Choice, Choice]]:
    """Return what each request gets plainly and with blocks."""

    async def one(request: GenerateRequest) -> Choice:
        return (await client.generate(request)).choices[0]

    def at(gamma: int) -> list[GenerateRequest]:
        return [replace(request, speculation=Speculation(gamma=gamma, rule=Rule.MATCH)) for request in requests]

    made = await at_most(8, [*at(0), *at(GAMMA)], one)
    return list(zip(made[: len(requests)], made[len(requests) :], strict=True))


def assert_same(plain: Choice, blocks: Choice) -> None:
    assert (blocks.text, blocks.ids) == (plain.text, plain.ids)
    assert (blocks.finish.reason, blocks.finish.stop) == (plain.finish.reason, plain.finish.stop)
    assert blocks.usage.prompt_tokens == plain.usage.prompt_tokens
    assert blocks.usage.output_tokens == plain.usage.output_tokens == len(plain.ids)
    if plain.logprobs is None or blocks.logprobs is None:
        assert plain.logprobs is blocks.logprobs
        return
    assert blocks.logprobs.chosen == pytest.approx(plain.logprobs.chosen, abs=NEAR)
    assert len(blocks.logprobs.top) == len(plain.logprobs.top) == len(plain.ids)
    for one, other in zip(plain.logprobs.top, blocks.logprobs.top, strict=True):
        assert [value for _, value in other] == pytest.approx([value for _, value in one], abs=NEAR)


async def check_stops(client: AsyncClient, prompts: Sequence[Prompt]) -> None:
    whole = await both(client, [asked(prompt) for prompt in prompts])
    stopped = []
    for number, (prompt, (plain, blocks)) in enumerate(zip(prompts, whole, strict=True)):
        assert_same(plain, blocks)
        for place, stop in enumerate(stop_texts(plain, number)):
            stopped.append((plain, asked(prompt, stop=(stop,), include_stop=place == 1)))
    assert sum(blocks.usage.verifications for _, blocks in whole) > len(prompts)
    assert sum(blocks.usage.accepted_tokens for _, blocks in whole) > len(prompts)
    for (before, request), (plain, blocks) in zip(
        stopped, await both(client, [request for _, request in stopped]), strict=True
    ):
        assert_same(plain, blocks)
        (stop,) = request.stop
        end = before.text.index(stop) + (len(stop) if request.include_stop else 0)
        assert (blocks.finish.reason, blocks.finish.stop) == (FinishReason.STOP, stop)
        assert blocks.text == before.text[:end]


async def check_laws(client: AsyncClient, prompts: Sequence[Prompt], names: Sequence[str]) -> None:
    requests = [asked(prompt, law=PENALTIES[name]) for prompt in prompts for name in names]
    seeded = [
        asked(prompt, law=LawParameters(temperature=0.8, min_p=share), seed=number)
        for number, prompt in enumerate(prompts)
        for share in LEAST_SHARES
    ]
    pairs = await both(client, [*requests, *seeded])
    for plain, blocks in pairs:
        assert_same(plain, blocks)
    assert sum(blocks.usage.verifications for _, blocks in pairs) > len(pairs)
    assert sum(blocks.usage.accepted_tokens for _, blocks in pairs) > len(pairs)
    assert len({plain.ids for plain, _ in pairs[: len(names)]}) > len(names) // 2, "laws change the text"


def few() -> list[Prompt]:
    """Return a prompt whose text is edited, so that blocks are long, and a question."""
    prompts = dev_prompts()
    return [next(prompt for prompt in prompts if prompt.category == name) for name in ("edit", "qa")]


async def test_stops_log_probabilities_and_counts(client: AsyncClient) -> None:
    await check_stops(client, few())


async def test_penalties_bias_and_least_shares(client: AsyncClient) -> None:
    await check_laws(client, few()[:1], ("repetition 1.3", "bias", "all"))


@pytest.mark.full
@pytest.mark.timeout(3600)
async def test_stops_log_probabilities_and_counts_of_all_dev_prompts(client: AsyncClient) -> None:
    prompts = dev_prompts()
    assert len(prompts) == 100
    await check_stops(client, prompts)


@pytest.mark.full
@pytest.mark.timeout(3600)
async def test_penalties_bias_and_least_shares_of_ten_prompts(client: AsyncClient) -> None:
    await check_laws(client, dev_prompts()[::10], tuple(PENALTIES))
