"""What is refused before a stack starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from foreword.cli.starting import check_start
from foreword.errors import NotFound
from foreword.stack.config import StackConfig


def test_a_folder_without_a_draft_is_refused_as_one_without_a_target_is(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=f"^draft: no config.json in {tmp_path}"):
        check_start(StackConfig(target="synthetic", draft=str(tmp_path), port=0))
    with pytest.raises(NotFound, match=f"^target: no config.json in {tmp_path}"):
        check_start(StackConfig(target=str(tmp_path), port=0))
