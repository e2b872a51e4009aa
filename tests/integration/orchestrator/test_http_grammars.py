"""Structured output over HTTP with OpenAI's own client, on synthetic models of letters."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import openai
import pytest
import pytest_asyncio
from pydantic import BaseModel, ConfigDict, Field

from tests.integration.orchestrator.test_grammars import COLOUR, MODEL
from tests.integration.orchestrator.web import client_of, web

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED: dict[str, Any] = {
    "model": "",
    "messages": [{"role": "user", "content": "Name a colour."}],
    "max_tokens": 300,
    "temperature": 1,
    "extra_body": {"speculative": {"gamma": 4}},
}
SCHEMA: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {"name": "colour", "description": "A colour.", "schema": COLOUR, "strict": True},
}


class Paint(BaseModel):
    """What `parse` asks for and returns."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"x-guidance": {"whitespace_flexible": False}})

    name: str = Field(min_length=2, max_length=8)
    red: int = Field(ge=0, le=255)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[openai.AsyncOpenAI]:
    folder = tmp_path_factory.mktemp("grammars")
    async with web(folder, model=MODEL, targets=2, trust=("all",)) as running, client_of(running.url) as plain:
        yield openai.AsyncOpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0, http_client=plain)


async def streamed(client: openai.AsyncOpenAI, **asked: Any) -> tuple[str, str | None]:
    """Return the text of a stream, and why it ended."""
    text, reason = "", None
    async for chunk in await client.chat.completions.create(stream=True, **asked):
        text += chunk.choices[0].delta.content or ""
        reason = chunk.choices[0].finish_reason or reason
    return text, reason


async def test_a_schema(client: openai.AsyncOpenAI) -> None:
    texts, kept = set(), 0
    for seed in range(6):
        asked = ASKED | {"seed": seed, "response_format": SCHEMA}
        answer = await client.chat.completions.create(**asked)
        (choice,) = answer.choices
        text = choice.message.content or ""
        assert (choice.finish_reason, choice.message.refusal) == ("stop", None)
        jsonschema.validate(json.loads(text), COLOUR)
        assert await streamed(client, **asked) == (text, "stop")
        texts.add(text)
        kept += (answer.model_extra or {})["timings"]["draft_n_accepted"]
    assert len(texts) == 6
    assert kept > 0


async def test_a_class_of_pydantic(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.parse(response_format=Paint, seed=1, **ASKED)
    whole = answer.choices[0].message
    assert isinstance(whole.parsed, Paint)
    async with client.chat.completions.stream(response_format=Paint, seed=1, **ASKED) as events:
        async for _ in events:
            pass
        assert (await events.get_final_completion()).choices[0].message.parsed == whole.parsed


async def test_any_json_object(client: openai.AsyncOpenAI) -> None:
    ended = 0
    for seed in range(8):
        asked = ASKED | {"seed": seed, "response_format": {"type": "json_object"}}
        (choice,) = (await client.chat.completions.create(**asked)).choices
        text = choice.message.content or ""
        assert text.startswith("{")
        assert await streamed(client, **asked) == (text, choice.finish_reason)
        if choice.finish_reason == "stop":  # letters drawn at random open more than they close
            assert isinstance(json.loads(text), dict)
            ended += 1
    assert ended > 0


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ({"structured_outputs": {"regex": "[a-z]{3}[0-9]"}}, "[a-z]{3}[0-9]"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
        ({"structured_outputs": {"grammar": 'start: "(" start ")" | "x"'}}, r"\(*x\)*"),
        ({"guided_regex": "[a-z]{3}[0-9]"}, "[a-z]{3}[0-9]"),
        ({"guided_choice": ["yes", "no"]}, "yes|no"),
        ({"guided_grammar": 'start: "(" start ")" | "x"'}, r"\(*x\)*"),
    ],
)
async def test_other_forms(client: openai.AsyncOpenAI, form: dict[str, Any], pattern: str) -> None:
    chat = await client.chat.completions.create(**ASKED | {"extra_body": form})
    assert re.fullmatch(pattern, chat.choices[0].message.content or "")
    old = await client.completions.create(model="", prompt="Go on: ", max_tokens=300, extra_body=form)
    assert re.fullmatch(pattern, old.choices[0].text)


async def test_what_cannot_be_followed_is_refused_by_its_field(client: openai.AsyncOpenAI) -> None:
    wrong: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "thing"}}}
    for fields, param, reason in (
        ({"response_format": wrong}, "response_format", "Invalid type: thing"),
        ({"extra_body": {"guided_regex": "(a"}}, "guided_regex", "unclosed group"),
        ({"response_format": SCHEMA, "extra_body": {"guided_regex": "a"}}, "guided_regex", "one form of the output"),
    ):
        with pytest.raises(openai.BadRequestError, match=reason) as refused:
            await client.chat.completions.create(**ASKED | fields)
        assert (refused.value.param, refused.value.code) == (param, "invalid_value")


@pytest.mark.parametrize("speculative", [{"enabled": False}, {"gamma": 4}])
async def test_a_form_that_leaves_no_token_is_told_in_its_name(
    client: openai.AsyncOpenAI, speculative: dict[str, Any]
) -> None:
    form = {"structured_outputs": {"regex": "a{4}"}, "min_tokens": 9, "speculative": speculative}
    with pytest.raises(openai.BadRequestError, match="no token left at output position 4") as refused:
        await client.chat.completions.create(**ASKED | {"extra_body": form})
    assert (refused.value.param, refused.value.code) == ("structured_outputs", "invalid_value")
    with pytest.raises(openai.APIError, match="no token left at output position 4"):
        await streamed(client, **ASKED | {"extra_body": form})
