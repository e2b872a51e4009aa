"""The HTTP API over real HTTP, with OpenAI's own client and with a plain one, on synthetic models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai
import pytest
import pytest_asyncio
from jsonschema import Draft202012Validator

from foreword.client import AsyncClient
from foreword.protocol.generation import TokenPrompt
from tests.integration.orchestrator.test_service import all_closed, sessions
from tests.integration.orchestrator.web import Web, client_of, events_in, web

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURNS: Any = [{"role": "user", "content": "w3 w1 w4"}]
GREEDY: dict[str, Any] = {"model": "synthetic", "temperature": 0, "max_tokens": 24}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Web]:
    http = {"served_model_names": ("mine",), "cors_origins": ("https://page.example",), "keep_alive_s": 0.01}
    async with web(tmp_path_factory.mktemp("http"), trust=("all",), http=http) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def plain(served: Web) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(served.url) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def client(served: Web, plain: httpx2.AsyncClient) -> AsyncIterator[openai.AsyncOpenAI]:
    yield openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, http_client=plain)


async def test_a_chat_with_openais_client(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(messages=TURNS, **GREEDY)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "synthetic"
    assert answer.system_fingerprint is not None
    (choice,) = answer.choices
    assert choice.finish_reason == "length"
    assert choice.message.role == "assistant"
    assert len((choice.message.content or "").split()) == 24
    usage = answer.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (5, 24, 29)
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.accepted_prediction_tokens is not None


async def test_an_answer_goes_back_as_history(client: openai.AsyncOpenAI) -> None:
    """As OpenAI's client has it: with all that its type knows, nulls included."""
    answer = await client.chat.completions.create(messages=TURNS, **GREEDY)
    message = answer.choices[0].message
    text = {"role": "assistant", "content": message.content}
    texts = []
    for turn in (text, message, message.model_dump(), message.model_dump(exclude_unset=True)):
        again = await client.chat.completions.create(messages=[*TURNS, turn, *TURNS], **GREEDY)
        texts.append(again.choices[0].message.content)
    assert len(set(texts)) == 1
    assert texts[0] != message.content
    named = [{**TURNS[0], "name": "Ann"}, {**text, "content": None}, {**TURNS[0], "role": "tool", "tool_call_id": "1"}]
    assert (await client.chat.completions.create(messages=named, **GREEDY)).usage is not None
    with pytest.raises(openai.BadRequestError, match=r"messages\[0\].content: got None, wanted a text"):
        await client.chat.completions.create(messages=[{**TURNS[0], "content": None}], **GREEDY)


async def test_a_body_says_that_it_is_json(plain: httpx2.AsyncClient) -> None:
    answers = {
        "content-type: got 'text/plain', wanted application/json": {"content-type": "text/plain"},
        "content-type: got nothing, wanted application/json": {},
    }
    for message, headers in answers.items():
        found = await plain.post("/v1/chat/completions", content=b'{"messages": []}', headers=headers)
        assert (found.status_code, found.json()["error"]["message"]) == (400, message)
    empty = await plain.post("/v1/chat/completions", headers={"content-type": "application/json"})
    assert empty.json()["error"]["message"].startswith("body: got nothing, wanted a JSON object")


async def test_a_stream_tells_the_same_text_as_the_whole(client: openai.AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(messages=TURNS, seed=4, max_tokens=40, model="synthetic")
    stream = await client.chat.completions.create(
        messages=TURNS, seed=4, max_tokens=40, model="synthetic", stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1


async def test_completions_of_several_prompts_and_choices(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(model="mine", prompt=["w1 w2", "w9"], n=2, seed=3, max_tokens=5)
    assert answer.id.startswith("cmpl-")
    assert answer.model == "mine"
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert all(len(choice.text.split()) == 5 for choice in answer.choices)
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 20)
    ids = await client.completions.create(model="mine", prompt=[[1, 2], [9]], n=2, seed=3, max_tokens=5)
    assert [choice.text for choice in ids.choices] == [choice.text for choice in answer.choices]
    one = await client.completions.create(model="mine", prompt=[9], seed=3, max_tokens=5)
    assert one.choices[0].text == answer.choices[2].text
    stream = await client.completions.create(
        model="mine", prompt=["w1 w2", "w9"], n=2, seed=3, max_tokens=5, stream=True
    )
    texts = ["", "", "", ""]
    async for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in answer.choices]


async def test_the_same_text_as_over_grpc(client: openai.AsyncOpenAI, served: Web) -> None:
    over_http = await client.completions.create(model="mine", prompt=[3, 1], seed=8, max_tokens=30, temperature=1)
    async with AsyncClient(served.served.address) as grpc:
        over_grpc = await grpc.generate(TokenPrompt((3, 1)), seed=8, max_tokens=30, temperature=1.0)
    assert over_http.choices[0].text == over_grpc.text


async def test_log_probabilities(client: openai.AsyncOpenAI) -> None:
    chat = await client.chat.completions.create(messages=TURNS, logprobs=True, top_logprobs=3, **GREEDY)
    logprobs = chat.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert len(logprobs.content) == 24
    for one in logprobs.content:
        assert len(one.top_logprobs) == 3
        assert one.logprob == one.top_logprobs[0].logprob <= 0
        assert bytes(one.bytes or ()).decode() == one.token
    text = chat.choices[0].message.content or ""
    assert "".join(one.token for one in logprobs.content) == text
    old = await client.completions.create(prompt="w5", logprobs=2, **GREEDY)
    found = old.choices[0].logprobs
    assert found is not None
    assert found.tokens is not None
    assert found.text_offset is not None
    assert [old.choices[0].text[o:].startswith(t) for o, t in zip(found.text_offset, found.tokens, strict=True)] == [
        True
    ] * 24


async def test_what_stops_an_output(client: openai.AsyncOpenAI) -> None:
    whole = (await client.completions.create(prompt="w5", **GREEDY)).choices[0].text
    word = whole.split()[6]
    before = whole[: whole.index(f" {word}")]
    cut = await client.completions.create(prompt="w5", stop=[f" {word}"], **GREEDY)
    assert (cut.choices[0].text, cut.choices[0].finish_reason) == (before, "stop")
    assert cut.choices[0].model_extra is not None
    assert cut.choices[0].model_extra["stop_reason"] == f" {word}"
    more = {"include_stop_str_in_output": True}
    kept = await client.completions.create(prompt="w5", stop=f" {word}", extra_body=more, **GREEDY)
    assert kept.choices[0].text == f"{before} {word}"
    by_id = await client.completions.create(prompt="w5", extra_body={"stop_token_ids": [int(word[1:])]}, **GREEDY)
    assert by_id.choices[0].model_extra is not None
    assert by_id.choices[0].model_extra["stop_reason"] == int(word[1:])
    assert cut.usage is not None
    assert cut.usage.completion_tokens == len(before.split())


@pytest.mark.parametrize("gamma", [0, 5])
async def test_a_stop_text_ends_all_that_is_told_of_the_output(client: openai.AsyncOpenAI, gamma: int) -> None:
    """Text, ids, sources, log-probabilities and usage end at the same token, streamed and not."""
    fields = GREEDY | {"max_tokens": 60, "prompt": "w5", "logprobs": 2}
    extras: dict[str, Any] = {"return_token_ids": True, "return_token_sources": True, "speculative": {"gamma": gamma}}
    whole = (await client.completions.create(**fields, extra_body=extras)).choices[0].text
    stop = whole[len(whole) // 2 : len(whole) // 2 + 8]
    cut = await client.completions.create(**fields, stop=stop, extra_body=extras)
    (choice,), told = cut.choices, cut.choices[0].model_extra or {}
    assert choice.text == whole[: whole.index(stop)]
    assert choice.logprobs is not None
    assert cut.usage is not None
    count = cut.usage.completion_tokens
    assert count == len(told["token_ids"]) == len(told["token_sources"]) == len(choice.logprobs.tokens or ())
    assert "".join(choice.logprobs.tokens or ())[: len(choice.text)] == choice.text
    assert len("".join(choice.logprobs.tokens[:-1] or ())) < len(choice.text), "the last token is of the text"
    assert ("draft" in told["token_sources"]) == (gamma > 0)
    stream = await client.completions.create(**fields, stop=stop, extra_body=extras, stream=True)
    chunks = [chunk.choices[0] async for chunk in stream]
    assert "".join(chunk.text for chunk in chunks) == choice.text
    assert sum(len(chunk.logprobs.tokens or ()) for chunk in chunks if chunk.logprobs) == count
    assert chunks[-1].finish_reason == choice.finish_reason == "stop"


async def test_speculation_is_the_requests_to_say(client: openai.AsyncOpenAI) -> None:
    asked = {"return_token_ids": True, "return_token_sources": True}
    many = GREEDY | {"max_tokens": 100}
    slow = await client.completions.create(prompt="w5", extra_body=asked | {"speculative": {"enabled": False}}, **many)
    fast = await client.completions.create(prompt="w5", extra_body=asked | {"speculative": {"gamma": 4}}, **many)
    assert slow.choices[0].text == fast.choices[0].text
    extras, timings = (
        [c.choices[0].model_extra or {} for c in (slow, fast)],
        [c.model_extra or {} for c in (slow, fast)],
    )
    assert set(extras[0]["token_sources"]) == {"target"}
    assert "draft" in extras[1]["token_sources"]
    assert extras[0]["token_ids"] == extras[1]["token_ids"]
    assert extras[0]["prompt_token_ids"] == [5]
    assert timings[0]["timings"]["draft_n"] == 0 < timings[1]["timings"]["draft_n_accepted"]
    assert fast.usage is not None
    assert fast.usage.completion_tokens_details is not None
    accepted = fast.usage.completion_tokens_details.accepted_prediction_tokens
    assert accepted == timings[1]["timings"]["draft_n_accepted"]
    assert extras[1]["token_sources"].count("draft") == accepted


async def test_echo(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(prompt="w5 w6", echo=True, **GREEDY)
    bare = await client.completions.create(prompt="w5 w6", **GREEDY)
    assert answer.choices[0].text == f" w5 w6{bare.choices[0].text}"


async def test_one_token_an_event(plain: httpx2.AsyncClient) -> None:
    body = GREEDY | {"messages": TURNS, "stream": True, "one_token_per_event": True, "return_token_ids": True}
    *chunks, done = events_in((await plain.post("/v1/chat/completions", json=body)).text)
    assert done == "[DONE]"
    ids = [c["choices"][0].get("token_ids") for c in chunks]
    assert [len(one) for one in ids if one is not None] == [1] * 24


async def test_errors_with_openais_client(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        await client.chat.completions.create(model="gpt", messages=TURNS)
    assert missing.value.code == "model_not_found"
    for fields, param in (
        ({"temperature": -1}, "temperature"),
        ({"extra_body": {"foo": 1}}, "foo"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"extra_body": {"speculative": {"gamma": 99}}}, "speculative.gamma"),
        ({"extra_body": {"stop_token_ids": [64]}}, "stop_token_ids"),
        ({"logit_bias": {"64": 1}}, "logit_bias"),
        ({"messages": [{"role": "user", "content": "w1 " * 600}]}, "messages"),
        ({"messages": [*TURNS, {"role": "wizard", "content": "w1"}]}, "messages[1].role"),
        ({"n": 17}, "n"),
    ):
        with pytest.raises(openai.BadRequestError) as wrong:
            await client.chat.completions.create(**({"model": "mine", "messages": TURNS} | fields))  # type: ignore[call-overload]
        assert wrong.value.param == param
        assert wrong.value.type == "invalid_request_error"


async def test_errors_come_with_their_status_even_of_streams(plain: httpx2.AsyncClient) -> None:
    body = {"messages": TURNS, "stream": True, "n": 17}
    answer = await plain.post("/v1/chat/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "n")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1/completions", 405),
        ("GET", "/v1/models/other", 404),
        ("GET", "/docs", 404),
    ],
)
async def test_paths_that_there_are_not(plain: httpx2.AsyncClient, method: str, path: str, status: int) -> None:
    answer = await plain.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


NO_BODIES = [
    *(b"{", b"[]", b"", b"\xff", b'"text"', b"null", b'{"messages": [' * 3),
    *(b"[" * 200_000, b'{"n": ' + b"1" * 5_000 + b"}", b'{"messages": [], "seed": 1e999}'),
]


@pytest.mark.parametrize("body", NO_BODIES, ids=range(len(NO_BODIES)))
async def test_bodies_that_are_none(plain: httpx2.AsyncClient, body: bytes) -> None:
    answer = await plain.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_a_body_that_is_too_large(plain: httpx2.AsyncClient) -> None:
    answer = await plain.post("/v1/completions", json={"prompt": "w" * 5_000_000})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")


async def test_what_operators_ask(plain: httpx2.AsyncClient) -> None:
    for path in ("/health", "/ping"):
        assert (await plain.get(path)).json() == {"status": "ok"}
    assert (await plain.get("/version")).json()["version"]
    info = (await plain.get("/info")).json()
    assert (info["model"]["name"], len(info["targets"]), len(info["drafts"])) == ("synthetic", 1, 1)
    metrics = await plain.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert "foreword_requests_total" in metrics.text


@pytest.mark.parametrize("path", ["/health", "/ping", "/version", "/info", "/v1/models", "/openapi.json", "/", "/no"])
async def test_head_answers_as_get_does_without_a_body(plain: httpx2.AsyncClient, path: str) -> None:
    head, get = await plain.head(path), await plain.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    if path != "/info":  # which tells of round trips as they are at the moment
        assert head.headers["content-length"] == str(len(get.content))
    assert (await plain.head("/v1/completions")).headers["allow"] == "POST"


async def test_models(client: openai.AsyncOpenAI) -> None:
    assert [model.id for model in (await client.models.list()).data] == ["mine", "synthetic"]
    assert (await client.models.retrieve("mine")).owned_by == "foreword"


async def test_tokens_there_and_back(plain: httpx2.AsyncClient) -> None:
    found = (await plain.post("/tokenize", json={"prompt": "w5 w6", "return_token_strs": True})).json()
    assert found == {"count": 2, "max_model_len": 512, "tokens": [5, 6], "token_strs": [" w5", " w6"]}
    assert "token_strs" not in (await plain.post("/tokenize", json={"messages": TURNS})).json()
    back = await plain.post("/detokenize", json={"tokens": [5, 6]})
    assert back.json() == {"prompt": " w5 w6"}
    for path, body, param in (
        ("/detokenize", {"tokens": [64]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "\ud800"}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"messages": [{"role": "wizard", "content": "w1"}]}, "messages[0].role"),
        ("/tokenize", {"prompt": "a", "model": "x"}, "model"),
    ):
        answer = await plain.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
        assert answer.status_code in (400, 404)
        assert answer.json()["error"]["param"] == param


async def test_ids_of_requests_come_in_and_go_out(plain: httpx2.AsyncClient) -> None:
    answer = await plain.get("/version", headers={"x-request-id": "mine"})
    assert answer.headers["x-request-id"] == "mine"
    assert len((await plain.get("/version")).headers["x-request-id"]) == 32


async def test_pages_of_other_origins(plain: httpx2.AsyncClient) -> None:
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    for origin, allowed in (("https://page.example", True), ("https://other.example", False)):
        before = await plain.options("/v1/chat/completions", headers=asks | {"origin": origin})
        assert (before.status_code == 200) is allowed
        answer = await plain.get("/v1/models", headers={"origin": origin})
        assert answer.headers.get("access-control-allow-origin") == (origin if allowed else None)


async def test_a_stream_that_is_silent_says_that_it_lives(plain: httpx2.AsyncClient) -> None:
    body = {"prompt": "w1 " * 400, "max_tokens": 100, "stream": True, "speculative": {"enabled": False}}
    text = (await plain.post("/v1/completions", json=body)).text
    assert text.endswith("data: [DONE]\n\n")
    assert all(line.startswith(("data: ", ": keep-alive")) for line in text.split("\n\n") if line)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_a_client_that_leaves_ends_its_sessions(served: Web, stream: bool, path: str) -> None:
    body: dict[str, Any] = {"max_tokens": 500, "ignore_eos": True, "stream": stream, "temperature": 0}
    body |= {"prompt": ["w1", "w2"]} if path == "/v1/completions" else {"messages": TURNS}
    async with client_of(served.url) as leaving:
        request = asyncio.create_task(leaving.post(path, json=body))
        async with asyncio.timeout(120):
            while (await sessions(served.served))[0] == 0:
                await asyncio.sleep(0.002)
                assert not request.done(), "it was over before it could be left"
        request.cancel()
    await all_closed(served.served)


async def test_abort_ends_an_answer_in_good_order(served: Web, plain: httpx2.AsyncClient) -> None:
    body = {"prompt": "w1", "max_tokens": 500, "stream": True, "temperature": 0}
    async with plain.stream("POST", "/v1/completions", json=body) as answer, AsyncClient(served.served.address) as grpc:
        text = ""
        async for piece in answer.aiter_text():
            if "data: " in piece and not text:
                (first, *_) = events_in(piece)
                assert await grpc.abort(first["id"])
            text += piece
    *_, last, done = events_in(text)
    assert (last["choices"][0]["finish_reason"], done) == ("abort", "[DONE]")


async def test_the_description_of_the_api_is_one(plain: httpx2.AsyncClient) -> None:
    document = (await plain.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]

    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*map(references, value.values()))
        return set().union(*map(references, value)) if isinstance(value, list) else set()

    assert {place.rpartition("/")[2] for place in references(document)} <= schemas.keys()

    def holds(name: str, value: Any) -> None:
        Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}).validate(
            value
        )

    for path, body, name in (
        ("/v1/chat/completions", {"messages": TURNS, "logprobs": True, "top_logprobs": 1}, "ChatCompletion"),
        ("/v1/completions", {"prompt": "w1", "logprobs": 1, "return_token_ids": True}, "Completion"),
        ("/v1/completions", {"prompt": "w1", "n": 99}, "ErrorBody"),
        ("/tokenize", {"prompt": "w1"}, "Tokenized"),
    ):
        holds(name, (await plain.post(path, json=body)).json())
    for path, name in (("/info", "Info"), ("/v1/models", "ModelList"), ("/health", "Health"), ("/nope", "ErrorBody")):
        holds(name, (await plain.get(path)).json())
    streamed = await plain.post("/v1/chat/completions", json={"messages": TURNS, "stream": True})
    for chunk in events_in(streamed.text)[:-1]:
        holds("ChatCompletionChunk", chunk)
    assert "422" not in document["paths"]["/v1/completions"]["post"]["responses"]
