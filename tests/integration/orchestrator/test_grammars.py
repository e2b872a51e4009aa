"""Structured output over real gRPC: target, draft and orchestrator with synthetic models of letters."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest
import pytest_asyncio

from foreword.client import AsyncClient
from foreword.errors import InvalidField
from foreword.laws.parameters import Grammar
from foreword.models.source import parse_source
from foreword.models.synthetic_tokenizer import synthetic_tokenizer
from foreword.protocol.words import FinishReason, Rule
from tests.integration.orchestrator.services import Deployment, start_draft, start_orchestrator, start_target

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = "synthetic:vocab=400,letters=1,eos=0.001,step_ms=0.5,agreement=0.8,seed=3,context=1024"
PROMPT = "Name a colour."
COLOUR: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 4, "maxLength": 12},
        "red": {"type": "integer", "minimum": 0, "maximum": 255},
        "warm": {"type": "boolean"},
        "tags": {"type": "array", "items": {"enum": ["dark", "light", "grey"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "red", "warm", "tags"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},
}
LIST = {
    "type": "array",
    "items": {"type": "string", "maxLength": 6},
    "minItems": 2,
    "maxItems": 4,
    "x-guidance": {"whitespace_flexible": False},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return tmp_path_factory.mktemp("services")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(folder) -> AsyncIterator[Deployment]:  # type: ignore[no-untyped-def]
    targets = [start_target(folder, f"target{i}", model=MODEL) for i in range(2)]
    draft = start_draft(folder, "draft", model=MODEL)
    running = [*targets, draft]
    try:
        for service in running:
            await service.ready()
        front = start_orchestrator(folder, targets, [draft], trust=("all",))
        running.append(front)
        await front.ready()
        yield Deployment(front, targets, [draft])
    finally:
        for service in reversed(running):
            await service.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def client(served: Deployment) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(served.address) as connected:
        yield connected


@pytest.mark.parametrize(
    "law", [{"temperature": 0.0}, {"temperature": 1.0, "seed": 7}, {"temperature": 0.8, "seed": 8}]
)
async def test_the_text_is_the_same_with_and_without_a_draft(client: AsyncClient, law: dict[str, Any]) -> None:
    asked = {"grammar": Grammar.json_schema(COLOUR), "max_tokens": 300, **law}
    plain = await client.generate(PROMPT, gamma=0, **asked)
    fast = await client.generate(PROMPT, gamma=7, **asked)
    assert plain.ids == fast.ids
    assert plain.finish.reason is fast.finish.reason is FinishReason.STOP
    assert plain.usage.verifications == 0 < fast.usage.verifications
    jsonschema.validate(json.loads(plain.text), COLOUR)


@pytest.mark.parametrize("rule", Rule)
async def test_what_comes_parses_and_fits_the_schema(client: AsyncClient, rule: Rule) -> None:
    for schema in (COLOUR, LIST):
        asked = {"grammar": Grammar.json_schema(schema), "max_tokens": 300, "temperature": 1.0}
        texts, kept = set(), 0
        for _ in range(8):
            done = await client.generate(PROMPT, gamma=4, rule=rule, **asked)
            assert done.finish.reason is FinishReason.STOP
            jsonschema.validate(json.loads(done.text), schema)
            texts.add(done.text)
            kept += done.usage.accepted_tokens
        assert len(texts) > 4
        assert kept > 0


async def test_several_continuations_each_follow_the_grammar(client: AsyncClient) -> None:
    done = await client.generate(PROMPT, grammar=Grammar.choice(["abc", "abd", "x"]), temperature=1.0, n=6, gamma=2)
    assert len(done.choices) == 6
    assert all(choice.text in ("abc", "abd", "x") for choice in done.choices)


async def test_what_is_resumed_goes_on_in_the_grammar(client: AsyncClient) -> None:
    asked = {"grammar": Grammar.regex("[a-z]{8}(-[0-9]{4})?!"), "temperature": 1.0, "seed": 4}
    whole = await client.generate(PROMPT, gamma=0, **asked)
    assert re.fullmatch("[a-z]{8}(-[0-9]{4})?!", whole.text)
    for split in (1, 4, len(whole.ids) - 1):
        rest = await client.generate(PROMPT, resume=whole.ids[:split], gamma=4, **asked)
        assert (*whole.ids[:split], *rest.ids) == whole.ids
    digits = synthetic_tokenizer(parse_source(MODEL).synthetic).encode("12")
    with pytest.raises(InvalidField, match=r"resume: got \d+, wanted tokens that begin a text of the grammar"):
        await client.generate(PROMPT, resume=digits, **asked)


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        (Grammar.regex("(a"), "unclosed group"),
        (Grammar.json_schema({"type": "thing"}), "Invalid type: thing"),
        (Grammar.lark("start: nowhere"), "unknown name"),
        (Grammar("choice", "{}"), "wanted a JSON array"),
    ],
)
async def test_a_bad_grammar_is_refused_with_the_reason(client: AsyncClient, grammar: Grammar, reason: str) -> None:
    with pytest.raises(InvalidField, match=reason) as refused:
        await client.generate(PROMPT, grammar=grammar)
    assert refused.value.message.startswith("law.grammar: got")


async def test_a_grammar_needs_an_end(client: AsyncClient) -> None:
    asked = {"grammar": Grammar.regex("a{3}b*"), "temperature": 0.0, "max_tokens": 12}
    with pytest.raises(InvalidField, match=r"law\.stop_ids: got .*, wanted an id that ends a text"):
        await client.generate(PROMPT, ignore_eos=True, **asked)
    tokenizer = synthetic_tokenizer(parse_source(MODEL).synthetic)
    done = await client.generate(PROMPT, ignore_eos=True, stop_ids=tokenizer.encode("!"), **asked)
    assert re.fullmatch("a{3}b*", done.text)


async def test_nothing_may_come_is_told_with_and_without_candidates(client: AsyncClient) -> None:
    for gamma in (0, 4):
        with pytest.raises(InvalidField, match=r"^law\.grammar: got 'regex', .* no token left at output position 4"):
            await client.generate(PROMPT, grammar=Grammar.regex("a{4}"), min_tokens=9, gamma=gamma, timeout_s=60)
    assert (await client.generate(PROMPT, grammar=Grammar.regex("a{4}"), gamma=4)).text == "aaaa"


async def test_log_probabilities_are_those_of_the_law_with_the_grammar(client: AsyncClient) -> None:
    done = await client.generate(
        PROMPT, grammar=Grammar.choice(["a"]), temperature=1.0, seed=1, gamma=2, top_logprobs=1
    )
    assert done.text == "a"
    assert done.choices[0].logprobs is not None
    assert all(abs(value) < 1e-6 for value in done.choices[0].logprobs.chosen)
