"""The arithmetic of speed-ups: all tokens over all time, bars on the right rows, prompts spread over categories."""

from __future__ import annotations

import pytest

from foreword.errors import InvalidField
from foreword.protocol.info import CostPoint
from loadtest.prompts import dev_prompts
from loadtest.speedup.assisted import Assisted
from loadtest.speedup.command import _spread
from loadtest.speedup.figures import OVERALL, Found, findings_of, rows_of
from loadtest.speedup.plan import LAWS, Plan, spread_over
from loadtest.speedup.texts import Spent, Text, totals


def text(category: str, *, tokens: int, seconds: float, steps: int, drafted: int = 0, kept: int = 0) -> Text:
    spent = Spent(tokens, seconds, 0.9 * seconds, steps, drafted, kept, steps, drafted * 0.001, steps * 0.01)
    return Text(category, spent)


PAIRS = [
    (
        text("edit", tokens=100, seconds=2.0, steps=100),
        text("edit", tokens=100, seconds=1.0, steps=40, drafted=160, kept=60),
    ),
    (text("qa", tokens=50, seconds=1.0, steps=50), text("qa", tokens=60, seconds=1.0, steps=40, drafted=160, kept=20)),
]
PLAN = Plan(dev_prompts()[:2])


def test_speedup_is_all_tokens_over_all_time() -> None:
    edit, qa, overall = rows_of(PAIRS)
    assert (edit.category, qa.category, overall.category) == ("edit", "qa", OVERALL)
    assert edit.speedup == pytest.approx(2.0)
    assert qa.speedup == pytest.approx(1.2)
    assert overall.speedup == pytest.approx((160 / 2.0) / (150 / 3.0))
    assert overall.drafted.acceptance_length == 2.0
    assert overall.drafted.block_length == 4.0
    assert overall.drafted.kept_share == 0.25


def test_share_of_the_formula_is_what_drafting_and_verifying_leave_of_the_time() -> None:
    sums = totals([PAIRS[0][1]])
    emitted, block = sums.acceptance_length, sums.block_length
    formula = emitted / (block * sums.draft_ms / 1e3 + sums.step_ms / 1e3)
    assert sums.share_of_formula == pytest.approx((sums.tokens / sums.decode_s) / formula)


def test_bars_are_held_against_the_rows_that_they_are_for() -> None:
    found = Found(
        dict.fromkeys(LAWS, PAIRS),
        [(PAIRS[0][1], Assisted(tokens=50, seconds=1.0))],
        "the draft",
        [CostPoint(1, 32, 1000), CostPoint(16, 32, 2900)],
    )
    bars = {bar.name: bar for bar in findings_of(PLAN, found).bars}
    assert bars["T 0: speed-up"].value == pytest.approx(1.6)
    assert bars["T 0: speed-up"].bound == 1.5
    assert bars["T 0.7, top-p 0.95: speed-up"].bound == 1.3
    assert bars["T 1: speed-up"].bound == 1.1
    assert bars["T 0: speed-up of edit"].value == pytest.approx(2.0)
    assert bars["T 0: a candidate, in target steps"].value == pytest.approx(0.1)
    assert bars["drafting for 16 sessions over one"].value == pytest.approx(2.9)
    assert bars["T 0: tokens/s over transformers' assisted generation"].value == pytest.approx(2.0)
    assert not bars["T 1: share of the formula"].holds


def test_prompts_are_spread_over_categories() -> None:
    some = spread_over(dev_prompts(), 2)
    assert len(some) == 20
    assert len({prompt.category for prompt in _spread(some, 10)}) == 10
    assert spread_over(dev_prompts(), 0) == dev_prompts()


def test_wrong_plans_are_refused() -> None:
    with pytest.raises(InvalidField, match="gamma: got 0"):
        Plan(dev_prompts(), gamma=0)
    with pytest.raises(InvalidField, match="a model with weights"):
        Plan(dev_prompts(), model="synthetic")
    with pytest.raises(InvalidField, match="draft: got 'nope', wanted embedded"):
        Plan(dev_prompts(), draft="nope")
    with pytest.raises(InvalidField, match="drafter: got 'foo', wanted one of model, mixed"):
        Plan(dev_prompts(), drafter="foo")
    with pytest.raises(InvalidField, match="per_category"):
        spread_over(dev_prompts(), -1)
