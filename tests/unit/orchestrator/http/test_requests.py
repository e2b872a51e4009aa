"""Bodies become requests of the front; what cannot is refused by the body's own names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from foreword.errors import InvalidField, NotFound
from foreword.laws.parameters import Grammar, LawParameters
from foreword.protocol.generation import Chat, GenerateRequest, Message, Speculation, TokenPrompt
from foreword.protocol.messages import Trace
from foreword.protocol.words import Drafter, Rule
from orchestrator.http.door import Door, fingerprint
from orchestrator.http.fields import ChatRequest, CompletionRequest
from orchestrator.http.names import public_name, renamed
from orchestrator.http.requests import Call, chat_requests, check_model, completion_requests
from orchestrator.http.settings import HttpSettings
from tests.unit.orchestrator.test_front import Stage
from tests.unit.orchestrator.world import MODEL

CALL = Call("id", LawParameters(temperature=0.6, top_p=0.9, top_k=40))
TURN = {"role": "user", "content": "hi"}


def chat(**fields: Any) -> GenerateRequest:
    (request,) = chat_requests(ChatRequest.model_validate({"messages": [TURN], **fields}), CALL)
    return request


def completion(prompt: Any = "hi", **fields: Any) -> tuple[GenerateRequest, ...]:
    return completion_requests(CompletionRequest.model_validate({"prompt": prompt, **fields}), CALL)


def refusal(kind: str, **fields: Any) -> InvalidField | NotFound:
    body: ChatRequest | CompletionRequest
    try:
        if kind == "chat":
            body = ChatRequest.model_validate({"messages": [TURN], **fields})
            chat_requests(body, CALL)
        else:
            body = CompletionRequest.model_validate({"prompt": "hi", **fields})
            completion_requests(body, CALL)
    except InvalidField as error:
        return renamed(error, body)
    raise AssertionError("nothing was refused")


def test_a_chat_that_says_nothing_leaves_all_to_the_server() -> None:
    assert chat() == GenerateRequest(Chat((Message("user", "hi"),)), request_id="id", law=CALL.defaults)


def test_what_a_request_says_goes_over_the_defaults() -> None:
    law = chat(temperature=1, top_k=-1, min_p=0.1, min_tokens=3).law
    assert law == LawParameters(temperature=1.0, top_p=0.9, top_k=None, min_p=0.1, min_tokens=3)


def test_every_field_arrives() -> None:
    request = chat(
        max_tokens=5,
        stop=["a", "b"],
        include_stop_str_in_output=True,
        stop_token_ids=[1],
        ignore_eos=True,
        seed=7,
        n=2,
        best_of=2,
        presence_penalty=0.5,
        frequency_penalty=0.25,
        repetition_penalty=1.5,
        logit_bias={"3": 2, "4": -1.5},
        banned_token_ids=[9],
        logprobs=True,
        top_logprobs=4,
        one_token_per_event=True,
        skip_special_tokens=False,
        cache_salt="mine",
        user="me",
        speculative={"gamma_min": 1, "gamma_max": 8, "rule": "match", "drafter": "lookup", "draft": "d"},
    )
    assert request == GenerateRequest(
        Chat((Message("user", "hi"),)),
        request_id="id",
        law=LawParameters(
            temperature=0.6,
            top_p=0.9,
            top_k=40,
            presence_penalty=0.5,
            frequency_penalty=0.25,
            repetition_penalty=1.5,
            bias=((3, 2.0), (4, -1.5)),
            banned_ids=(9,),
            stop_ids=(1,),
        ),
        max_tokens=5,
        stop=("a", "b"),
        include_stop=True,
        ignore_eos=True,
        seed=7,
        n=2,
        top_logprobs=4,
        speculation=Speculation(None, 1, 8, Rule.MATCH, Drafter.LOOKUP, "d"),
        one_token_per_event=True,
        cache_salt=b"mine",
        skip_special_tokens=False,
    )


def test_trace_and_id_come_from_the_call() -> None:
    trace = Trace("00-" + "a" * 32 + "-" + "b" * 16 + "-01", "x=1")
    body = ChatRequest.model_validate({"messages": [TURN]})
    (request,) = chat_requests(body, Call("mine", LawParameters(), trace))
    assert (request.request_id, request.trace) == ("mine", trace)


def test_parts_of_a_message_are_one_text_and_developers_are_systems() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    request = chat(messages=[{"role": "developer", "content": parts}, TURN])
    assert request.prompt == Chat((Message("system", "one two"), Message("user", "hi")))


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [TokenPrompt((1, 2))]),
        ([0], [TokenPrompt((0,))]),
        ([[1, 2], [3]], [TokenPrompt((1, 2)), TokenPrompt((3,))]),
    ],
)
def test_prompts_come_in_four_forms(prompt: Any, found: list[Any]) -> None:
    requests = completion(prompt)
    assert [request.prompt for request in requests] == found
    assert [r.request_id for r in requests] == (["id"] if len(found) == 1 else ["id-0", "id-1"])


def test_a_completion_that_does_not_say_has_sixteen_tokens_as_openai_documents() -> None:
    assert completion()[0].max_tokens == 16
    assert chat().max_tokens is None


def test_speculation_is_off_by_either_word() -> None:
    assert chat(speculative={"enabled": False}).speculation == Speculation(gamma=0)
    assert chat(speculative={"gamma": 0}).speculation == Speculation(gamma=0)
    assert chat(speculative={"enabled": True, "rule": "auto"}).speculation == Speculation()


SCHEMA = {"type": "object"}
GRAMMARS: list[tuple[dict[str, Any], Grammar | None]] = [
    ({"response_format": {"type": "text"}}, None),
    ({"response_format": {"type": "json_object"}}, Grammar("json_object")),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}},
        Grammar("json_schema", '{"type": "object"}'),
    ),
    ({"structured_outputs": {"json": SCHEMA}}, Grammar("json_schema", '{"type": "object"}')),
    ({"structured_outputs": {"json": '{"type":"object"}'}}, Grammar("json_schema", '{"type":"object"}')),
    ({"structured_outputs": {"regex": "a+"}}, Grammar("regex", "a+")),
    ({"structured_outputs": {"choice": ["a", "b"]}}, Grammar("choice", '["a", "b"]')),
    ({"structured_outputs": {"grammar": "start: A"}}, Grammar("lark", "start: A")),
    ({"structured_outputs": {"json_object": True}}, Grammar("json_object")),
    ({"guided_json": SCHEMA}, Grammar("json_schema", '{"type": "object"}')),
    ({"guided_regex": "a+"}, Grammar("regex", "a+")),
    ({"guided_choice": ["a"]}, Grammar("choice", '["a"]')),
    ({"guided_grammar": "start: A"}, Grammar("lark", "start: A")),
]


@pytest.mark.parametrize(("fields", "grammar"), GRAMMARS)
def test_every_way_to_ask_for_a_form_is_one_grammar(fields: dict[str, Any], grammar: Grammar | None) -> None:
    law = chat(**fields).law
    assert law is not None
    assert law.grammar == grammar


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("chat", {"max_tokens": 3, "max_completion_tokens": 4}, "max_completion_tokens"),
    ("chat", {"max_completion_tokens": 0}, "max_completion_tokens"),
    ("chat", {"max_tokens": 0}, "max_tokens"),
    ("chat", {"top_logprobs": 2}, "top_logprobs"),
    ("chat", {"logprobs": True, "top_logprobs": 129}, "top_logprobs"),
    ("chat", {"n": 0}, "n"),
    ("chat", {"best_of": 2}, "best_of"),
    ("chat", {"stream_options": {"include_usage": True}}, "stream_options"),
    ("chat", {"seed": -1}, "seed"),
    ("chat", {"seed": 2**64}, "seed"),
    ("chat", {"stop": ""}, "stop"),
    ("chat", {"stop": ["a"] * 257}, "stop"),
    ("chat", {"temperature": 101}, "temperature"),
    ("chat", {"top_p": 0}, "top_p"),
    ("chat", {"top_k": -2}, "top_k"),
    ("chat", {"logit_bias": {"x": 1}}, "logit_bias"),
    ("chat", {"logit_bias": {"7": 1e40}}, "logit_bias"),
    ("chat", {"stop_token_ids": [-1]}, "stop_token_ids"),
    ("chat", {"banned_token_ids": [2**40]}, "banned_token_ids"),
    ("chat", {"min_tokens": -1}, "min_tokens"),
    ("chat", {"cache_salt": "x" * 257}, "cache_salt"),
    ("chat", {"messages": []}, "messages"),
    ("chat", {"messages": [{"role": "r" * 65, "content": ""}]}, "messages"),
    ("chat", {"messages": [{"role": "user", "content": "\ud800"}]}, "messages"),
    ("chat", {"speculative": {"enabled": False, "gamma": 2}}, "speculative.gamma"),
    ("chat", {"speculative": {"enabled": True, "gamma": 0}}, "speculative.gamma"),
    ("chat", {"speculative": {"gamma": 257}}, "speculative.gamma"),
    ("chat", {"speculative": {"draft": "\ud800"}}, "speculative.draft"),
    ("chat", {"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ("chat", {"response_format": {"type": "text", "json_schema": {"schema": {}}}}, "response_format.type"),
    ("chat", {"response_format": {"type": "json_object"}, "guided_regex": "a"}, "guided_regex"),
    ("chat", {"structured_outputs": {}}, "structured_outputs"),
    ("chat", {"structured_outputs": {"regex": "a", "grammar": "b"}}, "structured_outputs"),
    ("chat", {"guided_regex": "\ud800"}, "guided_regex"),
    ("completion", {"prompt": []}, "prompt"),
    ("completion", {"prompt": ["a"] * 1025}, "prompt"),
    ("completion", {"prompt": [-1]}, "prompt"),
    ("completion", {"prompt": "\ud800"}, "prompt"),
    ("completion", {"logprobs": 129}, "logprobs"),
    ("completion", {"logprobs": -1, "echo": True}, "logprobs"),
    ("completion", {"max_tokens": -1}, "max_tokens"),
]


@pytest.mark.parametrize(("kind", "fields", "param"), REFUSED)
def test_refusals_name_the_field_as_the_body_does(kind: str, fields: dict[str, Any], param: str) -> None:
    error = refusal(kind, **fields)
    assert error.field == param
    assert error.message.startswith(f"{param}: got ")


def test_names_of_the_front_become_those_of_the_body() -> None:
    body = ChatRequest.model_validate({"messages": [TURN], "guided_regex": "a"})
    given = ("law.grammar", "law.min_tokens", "stop_ids", "banned_ids", "logit_bias[7]", "speculation.rule", "prompt")
    wanted = [
        *("guided_regex", "min_tokens", "stop_token_ids", "banned_token_ids", "logit_bias"),
        *("speculative.rule", "messages"),
    ]
    assert [public_name(field, body) for field in given] == wanted
    found = renamed(NotFound.of("speculation.draft", "x", "another"), body)
    assert isinstance(found, NotFound)
    assert found.field == "speculative.draft"


def test_a_model_goes_by_its_names() -> None:
    check_model(None, ("a",))
    check_model("", ("a",))
    check_model("b", ("a", "b"))
    with pytest.raises(NotFound, match="model: got 'c', wanted one that is served: a, b"):
        check_model("c", ("a", "b"))


@pytest.mark.parametrize(("switch", "temperature"), [(True, 0.0), (False, 1.0)])
def test_the_makers_of_a_model_say_how_to_sample_unless_they_may_not(switch: bool, temperature: float) -> None:
    stage = Stage()
    door = Door(
        stage.front, HttpSettings(generation_config=switch), CollectorRegistry(), lambda: 0, since_s=0, new_id=str
    )
    assert door.defaults(stage.front.served()).temperature == temperature


def test_names_begin_with_those_that_are_set() -> None:
    door = Door(
        Stage().front,
        HttpSettings(served_model_names=("mine", "m")),
        CollectorRegistry(),
        lambda: 0,
        since_s=0,
        new_id=str,
    )
    assert door.names(MODEL) == ("mine", "m")
    assert fingerprint(MODEL) != fingerprint(replace(MODEL, dtype="bfloat16"))
