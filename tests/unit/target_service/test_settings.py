"""What a target refuses before it loads anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foreword.errors import InvalidField, NotFound
from foreword.models.dtype import Dtype
from foreword.settings.fields import leaves
from target_service.service import run
from target_service.settings import TargetSettings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "synthetic:bogus=3"}, "model: got 'synthetic:bogus=3', wanted for 'bogus=3' NAME=VALUE"),
        ({"model": "synthetic:vocab=abc"}, "model: got 'synthetic:vocab=abc', wanted a whole number as vocab"),
        ({"model": "no such thing"}, "model: got 'no such thing', wanted embedded, a folder"),
        ({"local_drafter": "synthetic:vocab=2"}, "local_drafter: got 'synthetic:vocab=2', wanted"),
        ({"device": "foo"}, "device: got 'foo', wanted auto, cpu, cuda or cuda:N"),
        ({"ray_address": "x"}, "ray_address: got 'x', wanted host:port, or auto"),
        ({"max_tokens": 10}, "max_tokens: got 10, wanted more than page_size, 16"),
    ],
)
def test_what_no_machine_could_serve_is_refused_as_a_setting(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidField, match=f"^{message}"):
        TargetSettings(**given)


def test_a_folder_that_is_elsewhere_is_a_setting_like_any_other() -> None:
    assert TargetSettings(model="/models/somewhere").model == "/models/somewhere"
    assert TargetSettings(model="synthetic", max_tokens=10).max_tokens == 10


@pytest.mark.parametrize("empty", [False, True])
async def test_a_model_that_is_not_there_is_said_before_it_listens(
    empty: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    if empty:
        model.mkdir()
    with pytest.raises(NotFound, match="no config.json" if empty else "no folder"):
        await run(TargetSettings(model=str(model)))
    assert "listening" not in capfd.readouterr().err


def test_a_path_is_looked_at_where_files_are_to_be_there(tmp_path: Path) -> None:
    TargetSettings(model="synthetic").check_files()
    with pytest.raises(NotFound, match=r"^model: no folder /nope"):
        TargetSettings(model="/nope").check_files()
    with pytest.raises(NotFound, match=f"^local_drafter: no config.json in {tmp_path}"):
        TargetSettings(local_drafter=str(tmp_path)).check_files()


def test_formats_that_are_offered_are_those_that_are_taken() -> None:
    offered = next(leaf.wanted for leaf in leaves(TargetSettings) if leaf.name == "dtype")
    assert offered == "one of float32, bfloat16, float16"
    with pytest.raises(InvalidField, match=f"^dtype: got 'int8', wanted {offered}: with rounded weights"):
        TargetSettings(dtype=Dtype.INT8)
