"""Errors become answers in OpenAI's words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from foreword import errors
from foreword.errors import ForewordError, Full, InvalidField, NotFound, Unavailable
from orchestrator.http.errors import failure, failure_of, incident_failure, too_large, unkeyed
from orchestrator.http.fields import ChatRequest, CompletionRequest
from orchestrator.http.validation import invalid

STATUSES = {
    "InvalidField": 400,
    "Mismatch": 400,
    "Unauthorized": 403,
    "NotFound": 404,
    "Full": 429,
    "Cancelled": 499,
    "Unavailable": 503,
    "DeadlineExceeded": 504,
    "Corrupted": 500,
    "ProtocolFault": 500,
    "EngineFailure": 500,
    "RunnerLost": 500,
}


def made(name: str) -> ForewordError:
    kind = getattr(errors, name)
    return InvalidField("field", 1, "2") if kind is InvalidField else kind("why")


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name != "ForewordError"])
def test_every_error_has_its_status(name: str) -> None:
    assert failure_of(made(name)).status == STATUSES[name]


def test_a_refusal_names_its_field() -> None:
    found = failure_of(InvalidField("n", 0, "a whole number from 1"))
    assert found.body.model_dump() == {
        "error": {
            "message": "n: got 0, wanted a whole number from 1",
            "type": "invalid_request_error",
            "param": "n",
            "code": "invalid_value",
        }
    }


def test_a_model_that_is_not_served_has_openais_code() -> None:
    found = failure_of(NotFound.of("model", "x", "y"))
    assert (found.status, found.body.error.code, found.body.error.param) == (404, "model_not_found", "model")
    assert failure_of(NotFound("a file")).body.error.param is None


@pytest.mark.parametrize(("after_ms", "seconds"), [(500, "1"), (1_001, "2"), (None, "1"), (0, "1")])
@pytest.mark.parametrize("kind", [Full, Unavailable])
def test_who_may_ask_again_is_told_when(kind: type[ForewordError], after_ms: int | None, seconds: str) -> None:
    headers = failure_of(kind("why", retry_after_ms=after_ms)).headers
    assert headers["retry-after"] == seconds
    assert headers["retry-after-ms"] == str(1_000 if after_ms is None else after_ms)
    assert failure_of(NotFound("why")).headers == {}


def test_answers_that_no_error_stands_for() -> None:
    assert (unkeyed(shown=False).status, unkeyed(shown=True).headers) == (401, {"www-authenticate": "Bearer"})
    assert (too_large(5).status, incident_failure("abc").status) == (413, 500)
    assert "abc" in incident_failure("abc").body.error.message


TURN = {"role": "user", "content": "hi"}
WRONG: list[tuple[dict[str, Any], str, str, str]] = [
    ({}, "messages", "missing_required_parameter", "messages: got nothing, wanted a value"),
    ({"messages": "hi"}, "messages", "invalid_type", "messages: got 'hi', wanted a valid list"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "missing_required_parameter", "got nothing"),
    ({"messages": [{"role": 1, "content": ""}]}, "messages[0].role", "invalid_type", "messages[0].role: got 1, wanted"),
    ({"messages": [TURN | {"nam": "x"}]}, "messages[0].nam", "unknown_parameter", "did you mean messages[0].name?"),
    ({"messages": [TURN | {"refusal": "x"}]}, "messages[0].refusal", "unknown_parameter", "messages[0].refusal: got a"),
    (
        {"messages": [TURN], "temprature": 1},
        "temprature",
        "unknown_parameter",
        "temprature: got a field that is not known here; did you mean temperature?",
    ),
    ({"messages": [TURN], "tools": [{}]}, "tools", "unknown_parameter", "tools: got a field that is not known here"),
    ({"messages": [TURN], "temperature": "1"}, "temperature", "invalid_type", "got '1', wanted a valid number"),
    ({"messages": [TURN], "temperature": True}, "temperature", "invalid_type", "got True, wanted a valid number"),
    ({"messages": [TURN], "temperature": 10**400}, "temperature", "invalid_type", "wanted a valid number"),
    ({"messages": [TURN], "temperature": float("nan")}, "temperature", "invalid_type", "wanted a finite number"),
    ({"messages": [TURN], "n": 1.5}, "n", "invalid_type", "n: got 1.5, wanted a valid integer"),
    ({"messages": [TURN], "n": True}, "n", "invalid_type", "n: got True, wanted a valid integer"),
    ({"messages": [TURN], "stop": 5}, "stop", "invalid_type", "stop: got 5, wanted a text or a list of texts"),
    ({"messages": [TURN], "stop_token_ids": [1, "x"]}, "stop_token_ids[1]", "invalid_type", "got 'x', wanted"),
    (
        {"messages": [TURN], "speculative": {"gama": 1}},
        "speculative.gama",
        "unknown_parameter",
        "did you mean speculative.gamma?",
    ),
    (
        {"messages": [TURN], "structured_outputs": {"regexp": "a"}},
        "structured_outputs.regexp",
        "unknown_parameter",
        "did you mean structured_outputs.regex?",
    ),
    ({"messages": [TURN], "speculative": {"rule": "best"}}, "speculative.rule", "invalid_type", "'match'"),
    ({"messages": [TURN], "logit_bias": {"1": "x"}}, "logit_bias.1", "invalid_type", "got 'x', wanted a valid number"),
    ({"messages": [TURN], "response_format": {"type": "xml"}}, "response_format.type", "invalid_type", "'text'"),
]


@pytest.mark.parametrize(("body", "param", "code", "says"), WRONG)
def test_what_is_wrong_with_a_body_is_named(body: dict[str, Any], param: str, code: str, says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ChatRequest.model_validate(body)
    detail = invalid(caught.value.errors(), ChatRequest).body.error
    assert (detail.param, detail.code) == (param, code)
    assert says in detail.message


@pytest.mark.parametrize("name", ["reasoning_effort", "store", "metadata", "functions"])
def test_what_is_far_from_every_name_is_taken_for_none(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ChatRequest.model_validate({"messages": [TURN], name: "x"})
    assert "did you mean" not in invalid(caught.value.errors(), ChatRequest).body.error.message


def test_unknown_fields_that_say_nothing_are_as_if_left_out() -> None:
    turn = {"role": "assistant", "content": None, "refusal": None, "tool_calls": None, "annotations": [], "name": None}
    body = {"messages": [TURN, turn], "tools": [], "functions": None, "speculative": {"gama": None}}
    assert ChatRequest.model_validate(body).messages[1].content is None


def test_a_long_list_that_is_wrong_is_complained_of_once() -> None:
    with pytest.raises(ValidationError) as caught:
        CompletionRequest.model_validate({"prompt": [1.5] * 10_000})
    assert len(caught.value.errors()) < 10
    message = invalid(caught.value.errors(), CompletionRequest).body.error.message
    assert message.endswith("wanted a text, token ids, or a list of either")
    assert len(message) < 300


def test_what_is_no_object_is_about_the_body() -> None:
    json_error = {"type": "json_invalid", "loc": ("body", 1), "ctx": {"error": "Expecting value"}, "input": {}}
    assert invalid([json_error], None).body.error.code == "invalid_json"
    found = invalid([{"type": "model_attributes_type", "loc": ("body",), "msg": "x", "input": [1]}], None).body.error
    assert found.message == "body: got [1], wanted a JSON object, with content-type application/json"
    assert found.param is None


def test_names_that_utf8_cannot_carry_do_not_break_the_answer() -> None:
    with pytest.raises(ValidationError) as caught:
        ChatRequest.model_validate({"messages": [TURN], "\ud800": 1})
    body = invalid(caught.value.errors(), CompletionRequest).body
    assert "UTF-8" in body.error.message
    assert body.json_bytes()
    assert failure(400, "\ud800", param="\ud800").body.error.param == "\\ud800"
