"""What rows take in a step, when the target's own measure was right, and when it was not."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from foreword.protocol.info import CostPoint
from orchestrator.pools.curve import StepCurve

SIZES = (1, 2, 4, 8, 16, 64)


def truth(rows: int) -> float:
    return 6000.0 + 400.0 * (rows - 1)


def measured(wrong: Callable[[int], float]) -> StepCurve:
    return StepCurve(CostPoint(rows=rows, context=32, step_us=round(truth(rows) * wrong(rows))) for rows in SIZES)


def test_what_was_measured_rightly_stays():
    curve = measured(lambda rows: 1.0)
    for rows in (1, 4, 1, 5, 3, 1) * 20:
        curve.took(rows, round(truth(rows)))
    assert curve.added_us(4, 3) == pytest.approx(1200.0, rel=0.01)
    assert curve.added_us(5, 1) == pytest.approx(400.0, rel=0.01)


@pytest.mark.parametrize("wrong", [lambda rows: 1.0 + 0.5 * (rows > 1), lambda rows: 1.0 + 1.0 * (rows == 4)])
def test_what_was_measured_beside_other_work_is_corrected_by_steps(wrong):
    curve = measured(wrong)
    assert curve.added_us(4, 3) > 3000.0
    luck = random.Random(3)
    for number in range(600):
        rows = 1 if number // 10 % 2 else luck.choice((3, 4, 5))
        curve.took(rows, round(truth(rows) * luck.uniform(0.9, 1.1)))
    assert curve.added_us(4, 3) == pytest.approx(1200.0, abs=400.0)


def test_a_machine_that_is_slower_for_a_while_makes_no_row_dearer_than_the_others():
    curve = measured(lambda rows: 1.0)
    for rows in [1] * 50 + [4] * 50 + [1] * 50 + [4] * 50:
        curve.took(rows, round(truth(rows)))
    for rows in (1, 4) * 50:
        curve.took(rows, round(2 * truth(rows)))
    assert curve.added_us(4, 3) == pytest.approx(2 * 1200.0, rel=0.1)


def test_a_step_that_reads_a_prompt_tells_nothing_of_blocks():
    curve = measured(lambda rows: 1.0)
    for _ in range(100):
        curve.took(1024, 90_000_000)
    assert curve.added_us(4, 3) == pytest.approx(1200.0)


def test_of_a_target_that_measured_nothing_nothing_is_known():
    curve = StepCurve()
    curve.took(4, 1000)
    assert curve.added_us(4, 3) == 0.0
