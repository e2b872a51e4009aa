"""`bench front` runs as its page says, and its report has what it says; no time is judged here."""

from __future__ import annotations

import json

import pytest

from foreword.cli.app import run

pytestmark = [pytest.mark.e2e]


def test_the_report_has_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "front", "--repeats", "2", "--tokens", "4", "--target-ms", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    figures = report["figures"]
    assert set(figures["first_token_ms"]) == set(figures["tokens_per_s"]) == {"grpc", "http"}
    assert figures["first_token_ms"]["http"]["p50"] > 0
    (bar,) = report["bars"]
    assert bar["value"] == pytest.approx(
        figures["first_token_ms"]["http"]["p50"] - figures["first_token_ms"]["grpc"]["p50"]
    )
