"""A draft's draw from logits is that of the law that it does not make."""

from __future__ import annotations

import numpy as np
import pytest

from foreword.compiled.coupled import draw_coupled
from foreword.laws.parameters import LawParameters
from foreword.laws.sampling import match_led
from tests.unit.compiled.laws import LAWS, rows_of

KEY = bytes(range(16))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("size", [2, 3, 500, 8192])
def test_token_and_lead_are_those_of_the_law(law: LawParameters, size: int) -> None:
    for position, (row, ids, dense) in enumerate(rows_of(law, size, count=25)):
        wanted, margin = match_led(dense, KEY, position)
        found = draw_coupled(row, ids, law, KEY, position)
        assert found is not None
        assert found[0] == wanted
        assert found[1] == pytest.approx(margin, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_without_a_finite_largest_draws_nothing(bad: float) -> None:
    row = np.zeros(8, np.float32)
    for place in (0, 5):
        row[place] = bad
        assert draw_coupled(row, np.arange(8, dtype=np.int32), LawParameters(), KEY, 0) is None
        row[place] = 0.0
    assert draw_coupled(row - np.inf, np.arange(8, dtype=np.int32), LawParameters(), KEY, 0) is None
