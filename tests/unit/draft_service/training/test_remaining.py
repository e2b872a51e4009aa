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
    assert lines[-1] == "3,750 of 3,000 tokens, 0:00:00 left"
