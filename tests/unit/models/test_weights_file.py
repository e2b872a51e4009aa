"""Weights are for everybody whom the umask lets read them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from foreword.models.weights_file import share_weights, write_whole


@pytest.fixture(params=[(0o022, 0o644), (0o027, 0o640)])
def wanted(request: pytest.FixtureRequest) -> Iterator[int]:
    """Set an umask; gives the mode that files get under it."""
    mask, mode = request.param
    before = os.umask(mask)
    yield mode
    os.umask(before)


def test_a_file_has_the_mode_of_any_new_one_and_is_alone(tmp_path: Path, wanted: int) -> None:
    path, tensors = tmp_path / "a.safetensors", {"a": np.zeros(3, np.float32)}
    for _ in range(2):
        write_whole(path, lambda partial: save_file(tensors, partial))
        assert path.stat().st_mode & 0o777 == wanted
    assert list(tmp_path.iterdir()) == [path]
    assert load_file(path)["a"].tolist() == [0.0] * 3


def test_weights_that_others_wrote_get_it_too(tmp_path: Path, wanted: int) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": np.zeros(3, np.float32)}, path)
    path.chmod(0o600)
    share_weights(tmp_path)
    assert path.stat().st_mode & 0o777 == wanted
    assert list(tmp_path.iterdir()) == [path]
