"""How many tokens of keys and values fit into memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from foreword.errors import InvalidField
from foreword.runner.budget import CacheBudget
from foreword.runner.layers import CacheShape
from foreword.runner.memory import available_bytes


def test_memory_is_what_machine_and_control_group_leave(tmp_path: Path) -> None:
    meminfo, group = tmp_path / "meminfo", tmp_path / "group"
    meminfo.write_text("MemTotal:  2000 kB\nMemAvailable:    1000 kB\n")
    assert available_bytes(meminfo, group) == 1_024_000
    group.mkdir()
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("5\n")
    assert available_bytes(meminfo, group) == 1_024_000
    (group / "memory.max").write_text("600000\n")
    (group / "memory.current").write_text("100000\n")
    assert available_bytes(meminfo, group) == 500_000


def test_pages_are_what_fits_into_a_share_of_the_memory() -> None:
    shape = CacheShape(layers=30, groups=3, size=64)
    assert shape.token_bytes(4) == 2 * 30 * 3 * 64 * 4
    budget = CacheBudget(memory_share=0.5)
    assert budget.pages(shape, itemsize=4, free_bytes=1_000_000_000) == 500_000_000 // (16 * 46_080)
    with pytest.raises(InvalidField, match=r"memory_share: got 0\.5, wanted a share of 1000 free bytes"):
        budget.pages(shape, itemsize=4, free_bytes=1_000)
    assert CacheBudget(100, spare_pages=3).pages(shape, itemsize=4, free_bytes=0) == 7 + 3
