"""All parts once on the embedded model, small: that they run, and what their figures have to be on any machine."""

from __future__ import annotations

import json

import pytest

from foreword.cli.output import stderr
from loadtest.bench.progress import Progress
from loadtest.engine.command import measure
from loadtest.engine.passes import PROFILED
from loadtest.engine.plan import Part, Plan
from loadtest.engine.profile import AROUND, ATTENTION, LINEAR, PASS, REST

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

SMALL = Plan(threads=2, tokens=16, sessions=2, batch_tokens=16, context=64, prefix=256, prompt=512, beside=2, repeats=1)


async def test_all_parts_run() -> None:
    with Progress(stderr()) as progress:
        findings = await measure(SMALL, progress)
    figures = findings.figures
    json.dumps(figures, allow_nan=False)
    assert list(figures) == [part.value for part in Part]
    # In float32 both write the same text; 16 tokens of it have no near-tie.
    assert figures["one"]["common_tokens"]["float32"] == SMALL.tokens
    assert 0.0 < figures["one"]["evidence_ms"]["float32"] < figures["one"]["step_ms"]["float32"]
    for profile in figures["passes"]["float32"]["profiles"]:
        parts = profile["ms"]
        assert parts[PASS] == pytest.approx(sum(parts[name] for name in (LINEAR, ATTENTION, REST, AROUND)))
        assert parts[LINEAR] > parts[PASS] / 4, "the profile has to know the runner's functions by their names"
        assert parts[ATTENTION] > 0.0
    assert len(figures["passes"]["float32"]["profiles"]) == len(PROFILED)
    assert figures["prefix"]["gamma_0"]["skipped"]["median"] >= (256 - 16) / (256 + 24)
    assert figures["prefix"]["gamma_0"]["skipped"] == figures["prefix"]["gamma_4"]["skipped"]
    assert all(way["gaps_during"] > 0 for way in figures["prompt"].values())
