"""Structured output of the embedded model, with speculation: everything parses and fits its schema."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest
import pytest_asyncio

from foreword.client import AsyncClient
from foreword.laws.parameters import Grammar
from foreword.protocol.generation import Chat, Choice, GenerateRequest, Message
from foreword.protocol.words import FinishReason
from foreword.stack.stack import Stack
from tests.e2e.kit import QUICK, drafted, embedded_folder

pytestmark = [pytest.mark.e2e]

CLOSE = {"whitespace_flexible": False}


def record(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        "x-guidance": CLOSE,
    }


TEXT = {"type": "string", "minLength": 1, "maxLength": 24}
PLACE = {"type": "object", "properties": {"city": TEXT, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "a person": record(name=TEXT, age={"type": "integer", "minimum": 0, "maximum": 120}, member={"type": "boolean"}),
    "a review": record(stars={"enum": [1, 2, 3, 4, 5]}, words={"type": "array", "items": TEXT, "maxItems": 4}),
    "an address": record(place=PLACE | {"required": ["city"], "additionalProperties": False}, street=TEXT),
    "a list of colours": {
        "type": "array",
        "items": {"enum": ["red", "green", "blue", "yellow"]},
        "minItems": 1,
        "maxItems": 6,
        "x-guidance": CLOSE,
    },
    "a measurement": record(
        unit={"enum": ["m", "kg", "s"]},
        value={"type": "number", "minimum": 0, "maximum": 100, "multipleOf": 0.5},
        note={"anyOf": [TEXT, {"type": "null"}]},
    ),
}


@pytest_asyncio.fixture
async def client() -> AsyncIterator[AsyncClient]:
    embedded_folder()
    async with Stack(QUICK) as stack, AsyncClient(stack.address) as connected:
        await drafted(connected, GenerateRequest("Count: one, two, three, one, two, three, one,", max_tokens=24))
        yield connected


def asked(name: str) -> Chat:
    """Return a conversation that asks for a thing."""
    return Chat((Message("user", f"Give me {name} as JSON, and nothing else."),))


async def generations(client: AsyncClient, each: int, *, at_once: int = 4, **fields: Any) -> list[Choice]:
    """Return so many generations of every schema, each of which parses and fits."""
    room = asyncio.Semaphore(at_once)

    async def one(name: str, seed: int) -> Choice:
        async with room:
            done = await client.generate(
                asked(name), grammar=Grammar.json_schema(SCHEMAS[name]), max_tokens=400, seed=seed, **fields
            )
        assert done.finish.reason is FinishReason.STOP, done.text
        jsonschema.validate(json.loads(done.text), SCHEMAS[name])
        return done.choices[0]

    return await asyncio.gather(*(one(name, seed) for name in SCHEMAS for seed in range(each)))


@pytest.mark.timeout(600)
async def test_a_text_is_the_same_with_and_without_speculation(client: AsyncClient) -> None:
    for temperature in (0.0, 1.0):
        plain, fast = [await generations(client, 1, temperature=temperature, gamma=gamma) for gamma in (0, 7)]
        assert [choice.ids for choice in plain] == [choice.ids for choice in fast]


@pytest.mark.full
@pytest.mark.timeout(3600)
async def test_two_hundred_generations_at_temperature_1_fit_their_schemas(client: AsyncClient) -> None:
    choices = await generations(client, 40, temperature=1.0, gamma=4)
    assert len(choices) == 200
    verifications = sum(choice.usage.verifications for choice in choices)
    accepted = sum(choice.usage.accepted_tokens for choice in choices)
    assert verifications > 0
    distinct = len({choice.text for choice in choices})
    sys.stdout.write(
        f"\n{len(choices)} generations, {distinct} distinct, all parse and fit; {verifications} verifications, "
        f"acceptance length {1 + accepted / verifications:.2f}\n"
    )
