"""What happens before an engine serves: settings, model, warm-up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foreword.errors import InvalidField
from foreword.models.dtype import Dtype
from foreword.models.synthetic import SyntheticModel
from foreword.runner.port import Memory
from foreword.settings.load import load as load_settings
from foreword.testing.synthetic import PAGES, Pace, Side, SyntheticRunner
from target_service.core.budget import Budget
from target_service.core.policy import StepPolicyName
from target_service.engine.models import ModelSettings, load
from target_service.engine.warmup import warm_up
from target_service.service import engine_settings
from target_service.settings import TargetSettings
from tests.unit.target_service.kit import VirtualTime


def model_settings(tmp_path: Path, source: str, **changes: object) -> ModelSettings:
    given = {"name": "", "dtype": Dtype.FLOAT32, "threads": 1, "max_tokens": None, "memory_share": 0.4, **changes}
    return ModelSettings(source=source, cache=tmp_path, **given)  # type: ignore[arg-type]


def test_a_synthetic_model_is_served_under_its_name_and_identity(tmp_path: Path) -> None:
    loaded = load(model_settings(tmp_path, "synthetic:vocab=32,step_ms=0,context=100", name="small"))
    assert (loaded.info.name, loaded.info.vocabulary_size) == ("small", 32)
    assert loaded.runner.longest_context == 100
    assert loaded.runner.memory.pages == PAGES
    other = load(model_settings(tmp_path, "synthetic:vocab=32,step_ms=9", max_tokens=77))
    assert other.runner.memory == Memory(16, 5, 5)
    assert other.info.name == "synthetic"
    assert other.info.tokenizer_digest == loaded.info.tokenizer_digest


def test_a_model_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match="got 'synthetic:vocab=2', wanted a whole number from 8 to 1048576 as vocab"):
        load(model_settings(tmp_path, "synthetic:vocab=2"))


@pytest.mark.parametrize("context", [4096, 20, 9])
def test_the_warm_up_measures_what_fits_and_leaves_nothing(context: int) -> None:
    time = VirtualTime()
    pace = Pace(now=lambda: time.us / 1e6, sleep=time.sleep)
    model = SyntheticModel(step_ms=20.0, slope_ms=1.0, knee=4, context=context)
    runner = SyntheticRunner(model, side=Side.TARGET, pace=pace)
    times = warm_up(runner, now=time.now)
    measured = [(point.rows, point.context, round(point.step_us, -1)) for point in times.curve()]
    short = {4096: 32, 20: 4, 9: 0}[context]
    wanted = [(1, short, 20_000), (2, short, 20_000), (4, short, 20_000), (8, short, 24_000), (16, short, 32_000)]
    if context == 4096:
        wanted += [(64, 32, 80_000), (1, 512, 20_000), (8, 512, 24_000)]
    assert measured == sorted(point for point in wanted if point[0] + short <= context)
    assert times.step_us(1) == 20_000, "every size counts from the start"
    assert runner.resident_tokens == 0


def test_the_warm_up_goes_no_further_than_the_pages() -> None:
    runner = SyntheticRunner(SyntheticModel(step_ms=0.0), side=Side.TARGET, pages=2, page_size=16)
    assert [point.rows for point in warm_up(runner, now=lambda: 0).curve()] == [1, 2, 4, 8, 16]
    assert runner.memory.free == 2


def test_settings_reach_the_engine(tmp_path: Path) -> None:
    flags = {
        ("model",): "synthetic:vocab=32",
        ("step_policy",): "lockstep",
        ("dtype",): "bfloat16",
        ("gamma_max",): "5",
        ("max_step_tokens",): "64",
        ("step_budget_ms",): "50",
        ("cache",): str(tmp_path),
    }
    settings = engine_settings(load_settings(TargetSettings, flags=flags), "me")
    assert settings.instance == "me"
    assert (settings.step_policy, settings.gamma_max) == (StepPolicyName.LOCKSTEP, 5)
    assert settings.budget == Budget(64, 256, 50_000)
    assert (settings.model.source, settings.model.dtype, settings.model.cache) == (
        "synthetic:vocab=32",
        Dtype.BFLOAT16,
        tmp_path,
    )


def test_a_step_has_to_hold_the_longest_block() -> None:
    with pytest.raises(InvalidField, match="max_step_tokens: got 32, wanted more than gamma_max, 32"):
        load_settings(TargetSettings, flags={("max_step_tokens",): "32"})


def test_the_process_that_talks_to_peers_imports_no_torch() -> None:
    code = "import sys, target_service.commands; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    assert done.stdout.strip() == "[]"
