"""What gpu-check does about drafts runs on a CPU too, so that it is known to run at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import gpu_drafts
from tests.unit.draft_service.folder.tiny_target import write_target


def test_distillation_and_drafting_of_gpu_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_drafts, "cache_folder", lambda: tmp_path / "cache")
    target = str(write_target(tmp_path / "target"))
    found = gpu_drafts.distillation(target, "cpu", tokens=3000)
    assert found["refused_after"] < found["refused_before"]
    drafted = gpu_drafts.drafting(target, "cpu", tokens=2000)
    assert drafted["dtype"] == "int4"
    assert set(drafted["step_us"]) == {"1", "2", "4", "8", "16"}
