"""Progress of long work where no terminal shows a bar: soon and often at first, then a line a minute."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from draft_service.training import remaining
from draft_service.training.remaining import Remaining


def test_lines_come_at_once_and_then_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(remaining.time, "monotonic", lambda: now)
    text, times = io.StringIO(), []
    with Remaining(Console(file=text, width=200), "token") as bar:
        for second in range(400):
            now, before = float(second), len(text.getvalue())
            bar.at(10 * second, 3_000)
            if len(text.getvalue()) > before:
                times.append(second)
    assert times == [0, 5, 15, 35, 75, 135, 195, 255, 315, 375]
    lines = text.getvalue().splitlines()
    assert lines[:2] == ["0 of 3,000 tokens, ? left", "50 of 3,000 tokens, 0:04:55 left"]
    assert lines[-2:] == ["3,750 tokens, 3,000 were wanted", "3,990 tokens, 3,000 were wanted"]


def test_the_last_state_is_told_once_however_short_the_work_was() -> None:
    text = io.StringIO()
    with Remaining(Console(file=text, width=200), "step") as bar:
        for step in range(1, 11):
            bar.at(step, 10, f"loss {step}")
    assert text.getvalue().splitlines() == ["1 of 10 steps, ? left  loss 1", "10 of 10 steps  loss 10"]
    with Remaining(Console(file=text, width=200), "step") as bar:
        bar.at(3, 3)
    assert text.getvalue().splitlines()[2:] == ["3 of 3 steps"]
