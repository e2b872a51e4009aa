"""Ranges of sampling parameters."""

import copy
import dataclasses
import math
import pickle
from typing import Any

import pytest

from foreword.engine.pickling import dumps
from foreword.errors import InvalidField
from foreword.laws.parameters import LawParameters
from foreword.values import replace


def test_defaults_and_extremes_are_allowed() -> None:
    assert LawParameters().validate(1) == LawParameters()
    LawParameters(
        temperature=0.0, top_k=1, top_p=1.0, min_p=1.0, bias=((9, -1e9),), banned_ids=(0,), stop_ids=(9,)
    ).validate(10)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", 0),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", math.nan),
        ("repetition_penalty", 1e-38),
        ("repetition_penalty", 1e38),
        ("presence_penalty", 101.0),
        ("frequency_penalty", -math.inf),
        ("min_tokens", -1),
    ],
)
def test_out_of_range(field: str, value: Any) -> None:
    with pytest.raises(InvalidField, match=f"^{field}: got"):
        LawParameters(**{field: value}).validate()


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        (LawParameters(bias=((10, 1.0),)), "logit_bias"),
        (LawParameters(bias=((1, math.inf),)), r"logit_bias\[1\]"),
        (LawParameters(banned_ids=(-1,)), "banned_ids"),
        (LawParameters(stop_ids=(10,)), "stop_ids"),
        (LawParameters(banned_ids=tuple(range(10))), "banned_ids"),
        (LawParameters(banned_ids=tuple(range(9)), stop_ids=(9, 9), min_tokens=1), "banned_ids"),
    ],
)
def test_ids_out_of_the_vocabulary(parameters: LawParameters, field: str) -> None:
    with pytest.raises(InvalidField, match=f"^{field}: got"):
        parameters.validate(10)


def test_one_token_that_may_come_is_enough() -> None:
    LawParameters(banned_ids=(*range(9), 8, 8), stop_ids=(0,), min_tokens=1).validate(10)
    LawParameters(banned_ids=tuple(range(9)), stop_ids=(9,)).validate(10)


def test_what_makes_a_law_depend_on_the_text() -> None:
    assert not LawParameters().penalizes
    assert LawParameters(repetition_penalty=1.1).penalizes
    assert LawParameters(presence_penalty=0.1).penalizes
    assert LawParameters(frequency_penalty=0.1).penalizes
    assert LawParameters(temperature=0.0).greedy
    assert not LawParameters().greedy


def test_ids_are_arrays_once_and_follow_a_copy() -> None:
    law = LawParameters(bias=((4, 1.0), (2, 0.5), (4, -3.0)), banned_ids=(7,), stop_ids=(1, 3))
    ids = law.edited_ids
    assert (ids.biased.tolist(), ids.bias.tolist()) == ([2, 4], [0.5, -2.0])
    assert (ids.banned.tolist(), ids.stops.tolist()) == ([7], [1, 3])
    assert law.edited_ids is ids
    for copied in (replace(law, bias=((5, 1.0),)), dataclasses.replace(law, bias=((5, 1.0),))):
        assert copied.edited_ids.biased.tolist() == [5]
    assert law == LawParameters(bias=law.bias, banned_ids=(7,), stop_ids=(1, 3))
    assert pickle.loads(dumps(law)) == law
    assert copy.deepcopy(law) == law


def test_a_law_without_edits_has_empty_arrays() -> None:
    ids = LawParameters().edited_ids
    assert [len(array) for array in (ids.biased, ids.bias, ids.banned, ids.stops)] == [0, 0, 0, 0]
