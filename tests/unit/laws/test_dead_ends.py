"""Where nothing may come: an error of the text that comes there, and of no other."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from foreword.compiled.laws import try_compiled_laws
from foreword.errors import EngineFailure, InvalidField
from foreword.laws.logprobs import FLOOR, log_probabilities
from foreword.laws.parameters import LawParameters
from foreword.laws.pipeline import LawRows, dead_end, target_laws, try_target_laws

V = 9
LAWS = [LawParameters(), LawParameters(top_p=0.9), LawParameters(temperature=0.0)]


class NothingAfter:
    """Lets anything come, nothing behind one token, and cannot say what comes behind another."""

    def __init__(self, end: int, unknown: int) -> None:
        self.end, self.unknown = end, unknown

    def allowed(self, output: Sequence[int]) -> NDArray[np.bool_] | None:
        if output and output[-1] == self.unknown:
            raise InvalidField("law.grammar", "x", "one that can be followed further")
        return np.zeros(V, dtype=bool) if output and output[-1] == self.end else None


def rows(parameters: LawParameters, *, output: Sequence[int] = (), candidates: Sequence[int] = ()) -> LawRows:
    """Return rows of rising logits."""
    logits = np.tile(np.arange(V, dtype=np.float32), (len(candidates) + 1, 1))
    return LawRows(
        parameters,
        logits,
        output=output,
        candidates=candidates,
        first_position=len(output),
        mask=NothingAfter(3, 4),
    )


@pytest.mark.parametrize("parameters", LAWS)
@pytest.mark.parametrize("candidate", [3, 4])
def test_behind_a_candidate_it_is_a_law_like_any_other(parameters: LawParameters, candidate: int) -> None:
    one = rows(parameters, candidates=(1, candidate))
    first, second, dead = target_laws([one])[0]
    assert (dead.token_at(0), dead.size, dead.probabilities.tolist()) == (dead_end(one), 1, [1.0])
    assert dead_end(one) == V
    plain = target_laws([rows(parameters, candidates=(1,))])[0]
    for found, wanted in zip((first, second), plain, strict=True):
        assert np.array_equal(found.support, wanted.support)
        assert np.array_equal(found.probabilities, wanted.probabilities)
    (compiled,) = try_compiled_laws([one])
    assert isinstance(compiled, list)
    assert compiled[2].token_at(0) == V
    assert np.allclose(compiled[1].probabilities, second.probabilities, atol=1e-12)


@pytest.mark.parametrize("parameters", LAWS)
def test_where_the_text_stands_it_is_the_requests_error(parameters: LawParameters) -> None:
    good = rows(parameters)
    for laws in (try_target_laws, try_compiled_laws):
        found, dead, unknown = laws([good, rows(parameters, output=(1, 3)), rows(parameters, output=(4,))])
        assert isinstance(found, list)
        assert isinstance(dead, InvalidField)
        assert "no token left at output position 2" in dead.message
        assert isinstance(unknown, InvalidField)
        assert unknown.field == "law.grammar"


def test_logits_that_are_no_numbers_are_an_error_beside_it() -> None:
    one = rows(LawParameters(), candidates=(3, 1))
    one.logits[2] = math.nan
    with pytest.raises(EngineFailure, match="wanted finite numbers"):
        target_laws([one])


@pytest.mark.parametrize("parameters", LAWS)
def test_its_log_probabilities_are_the_floor(parameters: LawParameters) -> None:
    one = rows(parameters, candidates=(3,))
    (found,) = log_probabilities(one, target_laws([one])[0], [(1, None)], top=2)
    assert found.chosen[1] == FLOOR
    assert [value for _, value in found.top[1]] == [FLOOR, FLOOR]
