"""Log-probabilities of the target law."""

import math

import numpy as np
import pytest

from foreword.laws.logprobs import FLOOR, log_probabilities, logit_margin
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, target_laws

LOGITS = np.log(np.array([[0.1, 0.4, 0.3, 0.2], [0.25, 0.25, 0.4, 0.1]], dtype=np.float32))


def logs(parameters: LawParameters, wanted: list[list[int | None]], top: int):  # type: ignore[no-untyped-def]
    rows = LawRows(parameters, LOGITS, candidates=(1,))
    return log_probabilities(rows, target_laws([rows])[0], wanted, top=top)


def test_they_are_those_of_the_law() -> None:
    candidates, emitted = logs(LawParameters(), [[1], [2, 0]], 2)
    assert candidates.chosen == pytest.approx([math.log(0.4)], abs=1e-6)
    assert emitted.chosen == pytest.approx([math.log(0.3), math.log(0.25)], abs=1e-6)
    assert [[token for token, _ in row] for row in emitted.top] == [[1, 2], [2, 0]]
    assert emitted.top[1][1][1] == pytest.approx(math.log(0.25), abs=1e-6)
    assert candidates.top == emitted.top[:1]


def test_what_is_left_out_has_the_floor_and_every_row_its_alternatives() -> None:
    (result,) = logs(LawParameters(top_k=2), [[0, None]], 3)
    assert result.chosen == (FLOOR, FLOOR)
    assert [token for token, _ in result.top[0]] == [1, 2, 3]
    assert result.top[0][0][1] == pytest.approx(math.log(0.4 / 0.7), abs=1e-6)
    assert result.top[0][2][1] == FLOOR


def test_at_temperature_0_they_are_those_of_temperature_1() -> None:
    (result,) = logs(LawParameters(temperature=0.0, bias=((3, math.log(2)),)), [[1, 2]], 9)
    assert result.chosen == pytest.approx([math.log(0.4 / 1.2), math.log(0.4 / 1.1)], abs=1e-6)
    # Equal values: the lowest id first; the vocabulary has no more than 4.
    assert [token for token, _ in result.top[0]] == [1, 3, 2, 0]


def test_none_wanted() -> None:
    assert logs(LawParameters(), [[1, 2]], 0)[0].top == ()
    assert logs(LawParameters(), [], 5) == []
    assert logs(LawParameters(), [[]], 5)[0].chosen == ()


def test_banned_tokens_have_the_floor_at_temperature_0() -> None:
    (result,) = logs(LawParameters(temperature=0.0, banned_ids=(1,)), [[1]], 4)
    assert result.chosen == (FLOOR,)
    assert result.top[0][-1] == (1, FLOOR)


def test_logit_margin() -> None:
    assert logit_margin(np.array([1.0, 4.0, 3.5], dtype=np.float32)) == 0.5
    assert logit_margin(np.array([1.0], dtype=np.float32)) == math.inf
