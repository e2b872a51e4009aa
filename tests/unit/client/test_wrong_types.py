"""No field of a request can have a value of the wrong type: keyword or built by hand, it is refused by its name.

The fields are those that the classes have, so a new one is tested as soon as it is there.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from foreword.client.fields import READERS
from foreword.client.request import RequestFields, build_request
from foreword.errors import InvalidField
from foreword.laws.parameters import Grammar, LawParameters
from foreword.protocol.generation import Chat, GenerateRequest, Message, Speculation, TokenPrompt
from foreword.protocol.messages import Trace
from foreword.wire.generation import decode_request, encode_request
from foreword.wire.limits import Limits

PARTS: dict[type, Callable[[Any], GenerateRequest]] = {
    GenerateRequest: lambda value: value,
    LawParameters: lambda value: GenerateRequest("x", law=value),
    Speculation: lambda value: GenerateRequest("x", speculation=value),
    Grammar: lambda value: GenerateRequest("x", law=LawParameters(grammar=value)),
    Trace: lambda value: GenerateRequest("x", trace=value),
    TokenPrompt: GenerateRequest,
    Chat: GenerateRequest,
    Message: lambda value: GenerateRequest(Chat((value,))),
}
"""Every class that a request is made of, and the request around a value of it."""
NEEDED: dict[type, dict[str, Any]] = {
    GenerateRequest: {"prompt": "x"},
    Grammar: {"kind": "regex"},
    TokenPrompt: {"ids": (1,)},
    Chat: {"messages": ()},
    Message: {"role": "user", "content": "x"},
}
MANY_TYPES: tuple[object, ...] = (
    *(1.5, float("nan"), "1", b"1", True, None, -1, 2**70, 10**400, Decimal(1), 1j, object(), "\ud800"),
    *([1.5], (None,), [True], {"a": 1}, {1: "a"}, ((1,),), ((1, "a"),), [["a", 1]], ["\ud800"], len, np.float64(2.5)),
)


def by_hand() -> list[Any]:
    return [
        pytest.param(kind, field.name, id=f"{kind.__name__}.{field.name}")
        for kind in PARTS
        for field in dataclasses.fields(kind)
    ]


def refusal(request: Callable[[], GenerateRequest]) -> str | None:
    """Return why a request cannot be sent, None if it can; errors that name no field come out."""
    try:
        encode_request(request())
    except InvalidField as error:
        return str(error)
    return None


def check(make: Callable[[object], GenerateRequest]) -> None:
    """Send a value of every type: it goes through, or is refused by name."""
    for value in MANY_TYPES:
        text = refusal(functools.partial(make, value))
        assert text is None or re.match(r"[\w.]+: got .*, wanted ", text, re.DOTALL), value


@pytest.mark.parametrize(("kind", "name"), by_hand())
def test_built_by_hand(kind: type, name: str) -> None:
    check(lambda value: build_request(PARTS[kind](kind(**{**NEEDED.get(kind, {}), name: value})), {}))


@pytest.mark.parametrize("name", RequestFields.__annotations__)
def test_as_a_keyword(name: str) -> None:
    check(lambda value: build_request("x", {name: value}))  # type: ignore[misc]


WHOLE = ("max_tokens", "seed", "n", "top_logprobs", "top_k", "min_tokens", "gamma", "gamma_min", "gamma_max")
NUMBERS = ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
NEVER_NONE = ("n", "min_tokens", "temperature", "repetition_penalty", "presence_penalty", "frequency_penalty")


def with_field(name: str, value: object) -> GenerateRequest:
    """Return a request built by hand with one field set, wherever it is."""
    for kind in (GenerateRequest, LawParameters, Speculation):
        if name in {field.name for field in dataclasses.fields(kind)}:
            return PARTS[kind](kind(**{**NEEDED.get(kind, {}), name: value}))
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        *((name, value, "a whole number") for name in WHOLE for value in (1.5, 2.0, "1", True, 1j)),
        *((name, value, "a number") for name in NUMBERS for value in ("1", True, 1j, b"")),
    ],
)
def test_every_number_is_named(name: str, value: object, wanted: str) -> None:
    for build in (lambda: build_request(with_field(name, value), {}), lambda: build_request("x", {name: value})):
        with pytest.raises(InvalidField) as caught:
            build()  # type: ignore[no-untyped-call]
        assert str(caught.value).startswith(f"{name}: got {value!r}, wanted {wanted}")


@pytest.mark.parametrize("name", NEVER_NONE)
def test_a_request_by_hand_has_numbers_where_it_needs_them(name: str) -> None:
    with pytest.raises(InvalidField, match=f"{name}: got None, wanted a"):
        build_request(with_field(name, None), {})


def test_keywords_that_are_none_are_left_to_the_server() -> None:
    nothing: Any = dict.fromkeys(READERS)
    assert build_request("x", nothing) == build_request("x", {})


def test_a_request_by_hand_may_be_as_loose_as_keywords() -> None:
    loose: Any = GenerateRequest(
        np.array([1, 2]),  # type: ignore[arg-type]
        stop="END",  # type: ignore[arg-type]
        max_tokens=np.int64(3),  # type: ignore[arg-type]
        law=LawParameters(temperature=np.float32(0.5), bias=[[np.int32(7), 1]]),  # type: ignore[arg-type]
    )
    assert decode_request(encode_request(build_request(loose, {})), Limits()) == GenerateRequest(
        TokenPrompt((1, 2)), stop=("END",), max_tokens=3, law=LawParameters(temperature=0.5, bias=((7, 1.0),))
    )
