"""Time of synthetic passes, on a clock that only sleeping moves."""

from __future__ import annotations

import pytest

from foreword.models.synthetic import SyntheticModel
from foreword.runner.port import Rows
from foreword.testing.synthetic import Pace, Side, SyntheticRunner


class _Clock:
    """Sleeps are late by `late` seconds."""

    def __init__(self, late: float = 0.0) -> None:
        self.time, self.late = 0.0, late

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds + self.late


def step(model: SyntheticModel, rows: list[Rows], clock: _Clock) -> float:
    runner = SyntheticRunner(model, side=Side.TARGET, pace=Pace(clock.now, clock.sleep))
    for entry in rows:
        runner.open(entry.slot)
    runner.forward(rows)
    return clock.time


@pytest.mark.parametrize(("rows", "wanted"), [(1, 20), (16, 20), (17, 21), (40, 44)])
def test_a_pass_takes_base_and_slope(rows, wanted):
    model = SyntheticModel(step_ms=20.0, slope_ms=1.0, knee=16)
    batch = [Rows(slot, (1,), 1) for slot in range(rows)]
    assert step(model, batch, _Clock()) == pytest.approx(wanted / 1000)


def test_rows_without_logits_count_too():
    assert step(SyntheticModel(step_ms=2.0, slope_ms=1.0, knee=0), [Rows(0, (1,) * 5, 0)], _Clock()) == pytest.approx(
        0.007
    )


def test_an_empty_batch_takes_no_time():
    assert step(SyntheticModel(), [], _Clock()) == 0.0


def test_late_timers_do_not_add_up():
    clock = _Clock(late=0.0001)
    runner = SyntheticRunner(SyntheticModel(step_ms=2.0), side=Side.TARGET, pace=Pace(clock.now, clock.sleep))
    runner.open(0)
    for _ in range(100):
        runner.forward([Rows(0, (1,), 1)])
    assert clock.time == pytest.approx(0.2, abs=0.0002)


def test_a_stall_is_not_made_up_for():
    clock = _Clock()
    runner = SyntheticRunner(SyntheticModel(step_ms=2.0), side=Side.TARGET, pace=Pace(clock.now, clock.sleep))
    runner.open(0)
    clock.late = 0.050
    runner.forward([Rows(0, (1,), 1)])
    clock.late, before = 0.0, clock.time
    runner.forward([Rows(0, (1,), 1)])
    assert clock.time - before > 0.0016
