"""`foreword bench regret`: how a cell is judged, and what is told of it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from loadtest.bench.findings import report_json
from loadtest.regret import report
from loadtest.regret.cells import Cell, grid
from loadtest.regret.command import command
from loadtest.regret.drift import Drifted
from loadtest.regret.judge import GAMMAS, judged
from loadtest.regret.load import Loaded

CELL = Cell(0.8, 2, 1, "flat")


def test_the_grid_has_every_combination_once() -> None:
    cells = grid()
    assert len(cells) == len(set(cells)) == 4 * 5 * 2 * 2


def test_only_what_is_near_the_best_is_played_with_all_seeds() -> None:
    played: dict[int | None, list[int]] = {}

    def play(gamma: int | None, seed: int) -> float:
        played.setdefault(gamma, []).append(seed)
        return 97.0 if gamma is None else 100.0 - abs(gamma - 5) + seed

    found = judged(CELL, play, seeds=20)
    assert set(played) == {None, *GAMMAS}
    assert found.best_gamma == 5
    assert sorted(played[5]) == sorted(played[4]) == list(range(20)) == sorted(played[None])
    assert sorted(played[0]) == list(range(20)), "plain decoding is held against the choice in every cell"
    assert sorted(played[16]) == [0, 1, 2]
    assert found.to_best == pytest.approx(97.0 / 109.5)
    assert found.to_plain == pytest.approx(97.0 / 104.5)


def test_what_is_reported_can_be_written_as_json() -> None:
    judgement = judged(CELL, lambda gamma, seed: 50.0 + (gamma or 0), seeds=2)
    drifted = Drifted("RTT", 95.0, 100.0, (4, 0, 4), 90.0, 3, (0.9, 1.0, 0.9))
    loaded = Loaded(4, 380.0, 200.0, 400.0, 3, 0.25, 0.04, ((0.1, 0.2), (1.0, 0.25)), 0.7, 0.3)
    for findings in (report.of_grid([judgement]), report.of_drift([drifted]), report.of_load([loaded])):
        text = json.dumps(report_json({}, {}, findings), allow_nan=False)
        assert '"holds"' in text
        assert all(len(row) == len(table.columns) for table in findings.tables for row in table.rows)


def test_the_bars_are_those_of_the_worst() -> None:
    judgements = [
        judged(CELL, lambda gamma, _, own=own: own if gamma is None else 100.0, seeds=1) for own in (99.0, 91.0)
    ]  # type: ignore[misc]
    bars = {bar.name: bar for bar in report.of_grid(judgements).bars}
    assert bars["mean of all cells, over the best fixed γ"].value == pytest.approx(0.95)
    assert not bars["worst cell, over the best fixed γ"].holds
    assert not bars["worst cell, over γ = 0"].holds


def test_a_part_that_is_unknown_is_refused() -> None:
    result = CliRunner().invoke(command, ["--only", "nothing"])
    assert result.exit_code != 0
