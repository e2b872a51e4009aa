"""`foreword bench overhead` over a running stack: what it writes, not what it measures."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.e2e]

QUICK = ("--sessions", "1,3", "--tokens", "96", "--repeats", "1", "--draft-ms", "0.5", "--target-ms", "5")


def test_it_reports_rounds_of_every_number_of_sessions() -> None:
    argv = [sys.executable, "-m", "foreword.cli", "bench", "overhead", *QUICK, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    report = json.loads(done.stdout)
    assert report["settings"]["gamma"] == 4
    one, three = report["figures"]["arms"]
    assert (one["sessions"], three["sessions"]) == (1, 3)
    for arm in (one, three):
        assert 0.0 < arm["share_of_settings"]["median"] <= arm["share"]["median"] * 1.05
        assert 1.0 <= arm["emitted_per_verification"] <= 5.0
        assert arm["parts_ms"]["verify_compute"] >= 5.0
        assert arm["parts_ms"]["draft_compute"] >= 1.9
        assert arm["rounds"] >= 10 * arm["sessions"]
        assert {"client", "target", "target engine", "draft", "draft engine", "orchestrator"} >= set(
            arm["cpu_ms_per_round"]
        )
    bare = report["figures"]["bare"]
    assert bare["share"]["count"] == 1
    assert bare["round_ms"] - bare["added_ms"] >= 4 * 0.5 + 5
    assert [bar["name"] for bar in report["bars"]] == ["share of the formula, 1 session"]
