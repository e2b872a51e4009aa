"""What users write becomes a request, or an error that names the field, the value and what is wanted."""

from __future__ import annotations

import numpy as np
import pytest

from foreword.client.fields import READERS
from foreword.client.request import RequestFields, build_request
from foreword.errors import InvalidField
from foreword.laws.parameters import Grammar, LawParameters
from foreword.protocol.generation import Chat, GenerateRequest, Message, Speculation, TokenPrompt
from foreword.protocol.words import Drafter, Rule


def test_every_field_has_a_reader_and_reaches_its_place() -> None:
    assert READERS.keys() == RequestFields.__annotations__.keys()
    fields = RequestFields(
        temperature=1, top_k=5, top_p=0.9, min_p=0.1, repetition_penalty=1.1, presence_penalty=0.5,
        frequency_penalty=0.25, logit_bias={7: -1, 9: 2.5}, banned_ids=[1], stop_ids=range(2, 4), min_tokens=3,
        grammar=Grammar("regex", "a+"), max_tokens=10, stop="END", include_stop=True, ignore_eos=True, seed=0, n=2,
        top_logprobs=0, echo=True, gamma=0, gamma_min=1, gamma_max=8, rule="Match", drafter=Drafter.LOOKUP, draft="d",
        resume=(5, 6), one_token_per_event=True, cache_salt=b"s", skip_special_tokens=False, request_id="r", model="m",
    )  # fmt: skip
    assert build_request("text", fields) == GenerateRequest(
        prompt="text",
        law=LawParameters(
            temperature=1.0, top_k=5, top_p=0.9, min_p=0.1, repetition_penalty=1.1, presence_penalty=0.5,
            frequency_penalty=0.25, bias=((7, -1.0), (9, 2.5)), banned_ids=(1,), stop_ids=(2, 3), min_tokens=3,
            grammar=Grammar("regex", "a+"),
        ),
        speculation=Speculation(gamma=0, gamma_min=1, gamma_max=8, rule=Rule.MATCH, drafter=Drafter.LOOKUP, draft="d"),
        max_tokens=10, stop=("END",), include_stop=True, ignore_eos=True, seed=0, n=2, top_logprobs=0, echo=True,
        resume=(5, 6), one_token_per_event=True, cache_salt=b"s", skip_special_tokens=False, request_id="r", model="m",
    )  # fmt: skip


def test_what_is_left_out_is_the_servers_choice() -> None:
    request = build_request("x", {})
    assert request == GenerateRequest("x")
    assert request.law is None
    assert build_request("x", {"max_tokens": None, "seed": None, "rule": None, "gamma": None}) == request


def test_prompts_of_every_kind() -> None:
    chat = Chat((Message("system", "s"), Message("user", "u")))
    as_dicts = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert build_request(as_dicts, {}).prompt == chat
    assert build_request(chat.messages, {}).prompt == chat
    assert build_request(chat, {}).prompt == chat
    assert build_request(np.array([3, 0], dtype=np.uint32), {}).prompt == TokenPrompt((3, 0))
    assert build_request(iter([3, 0]), {}).prompt == TokenPrompt((3, 0))
    assert build_request("", {}).prompt == ""


def test_a_request_is_taken_as_it_is_or_not_at_all() -> None:
    request = GenerateRequest("x", seed=3)
    assert build_request(request, {}) == request
    with pytest.raises(TypeError, match="got a GenerateRequest and seed, wanted one or the other"):
        build_request(request, {"seed": 4})


def test_a_name_that_is_no_field_is_answered_as_python_does() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'temprature'; did you mean 'temperature'"):
        build_request("x", {"temprature": 1.0})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_tokens": 1.5}, "max_tokens: got 1.5, wanted a whole number"),
        ({"max_tokens": True}, "max_tokens: got True, wanted a whole number"),
        ({"temperature": "hot"}, "temperature: got 'hot', wanted a number"),
        ({"echo": 1}, "echo: got 1, wanted True or False"),
        ({"stop": [1]}, "stop: got 1, wanted a text"),
        ({"stop": b"x"}, "stop: got b'x', wanted a text or a list of texts"),
        ({"stop_ids": "12"}, "stop_ids: got '12', wanted a list of token ids"),
        ({"logit_bias": [(1, 2)]}, "logit_bias: got [(1, 2)], wanted a mapping from token ids to numbers"),
        ({"rule": "tree"}, "rule: got 'tree', wanted one of match, token, block, or None to leave it to the server"),
        ({"drafter": 1}, "drafter: got 1, wanted one of model, lookup, mixed, synthetic"),
        ({"grammar": "a+"}, "grammar: got 'a+', wanted a Grammar"),
        ({"cache_salt": "s"}, "cache_salt: got 's', wanted bytes"),
        ({"request_id": 5}, "request_id: got 5, wanted a text"),
    ],
)
def test_wrong_types_are_named(fields: RequestFields, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        build_request("x", fields)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (b"x", "prompt: got b'x', wanted a text, a list of messages, or a list of token ids"),
        (None, "prompt: got None, wanted a text"),
        ([], "prompt: got [], wanted at least one message or token id"),
        (["a"], "prompt: got 'a', wanted a whole number"),
        ([{"role": "user"}], "messages: got {'role': 'user'}, wanted messages with role and content"),
        ([{"role": "user", "content": "x", "name": "y"}], "messages: got"),
        ([{"role": "user", "content": 1}], "content: got 1, wanted a text"),
    ],
)
def test_what_is_no_prompt_is_named(prompt: object, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        build_request(prompt, {})  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)
